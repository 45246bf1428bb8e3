"""LineRecord: asks the stamps of a finished capture which line was running."""

from __future__ import annotations

import linecache
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from gpuviz.capture.backend import CellSource
from gpuviz.capture.lineclock.history import NO_NODE, Ints, PathTree, ThreadHistory, build_history
from gpuviz.capture.lineclock.stamps import Stamps
from gpuviz.capture.lineclock.usercode import FUNCTION, CodePlace
from gpuviz.capture.recording import Stack, StackFrame

type ThreadNumbers = Literal["cupti", "native"]
"""How threads are numbered. ``cupti``: the low 32 bits of `threading.get_ident()`, as in CUPTI's records and
`ranges.thread_key`; ``native``: `threading.get_native_id()`, as in Kineto's and Nsight's files."""

_THREAD_MASK = 0xFFFFFFFF


@dataclass(frozen=True)
class ShortPlace:
    """A line, or a whole function (`line` is None), that was found too short to hold a launch and was not seen for (up
    to) 50 ms, `times` times. What runs there nevertheless counts for the line before it, or for the line that called
    the function. `file` may be that of a cell."""

    function: str
    file: str
    line: int | None
    times: int


@dataclass(frozen=True)
class LineIntervals:
    """[start_ns, end_ns) in which `stack_id` was running in `thread` (CUPTI's number), in order of thread and time;
    one row per stamp, so that a line that runs again is a row again. `line_start_ns`: when its line had begun."""

    thread: Ints
    start_ns: Ints
    end_ns: Ints
    stack_id: Ints
    line_start_ns: Ints


@dataclass(frozen=True)
class ClockedThread:
    """A thread that ran user code: CUPTI's number, the system's, its name, its stamps."""

    thread: int
    native_id: int | None
    name: str
    stamps: int


class LineRecord:
    """What a `LineClock` has seen.

    A stack id is a number of this record, -1 for "no user code was running, or it is not known". `cells`: key in the
    frames of the stacks (the ``co_filename``) → cell. `short_places`: lines and functions that were switched off for
    some time.
    `lost_stamps`: those that only were counted because the memory was full. `problem`: why there are no lines at all.
    """

    def __init__(
        self,
        stamps: Stamps,
        places: Sequence[CodePlace],
        cells: Mapping[str, CellSource],
        short_places: Sequence[ShortPlace],
        problem: str | None,
    ) -> None:
        self._logs = list(stamps.logs)
        self._mutes = sorted(stamps.mutes)
        self._width = width = stamps.width
        self._places = places
        self._stacks: dict[int, Stack] = {NO_NODE: ()}
        self._lines: dict[str, list[str]] = {}
        self.cells = cells
        self.short_places = list(short_places)
        self.problem = problem
        self.lost_stamps = sum(log.lost for log in self._logs)
        self.stamps = sum(len(log.stamps) // width for log in self._logs)
        self.threads = [
            ClockedThread(log.ident & _THREAD_MASK, log.native_id, log.name, len(log.stamps) // width)
            for log in self._logs
        ]

    def stack_ids(
        self,
        threads: npt.ArrayLike,
        times_ns: npt.ArrayLike,
        *,
        numbers: ThreadNumbers = "cupti",
        fallback_thread: int | None = None,
    ) -> npt.NDArray[np.int32]:
        """The stack that was running in each thread at each time (Unix ns).

        `fallback_thread` answers where the thread itself runs no user code: autograd's threads have no Python frames,
        and what they do belongs to the line of the main thread that waits for them (``loss.backward()``).
        """
        threads, times = np.broadcast_arrays(np.asarray(threads, np.int64), np.asarray(times_ns, np.int64))
        found = self._as_of(threads, times, numbers, "node")
        if fallback_thread is not None and (found == NO_NODE).any():
            missing = found == NO_NODE
            there = np.full(int(missing.sum()), fallback_thread, dtype=np.int64)
            found[missing] = self._as_of(there, times[missing], numbers, "node")
        return found.astype(np.int32)

    def line_start_ns(
        self, threads: npt.ArrayLike, times_ns: npt.ArrayLike, *, numbers: ThreadNumbers = "cupti"
    ) -> Ints:
        """When the line that was running at each time had begun, this time round; -1 where `stack_ids` says -1."""
        threads, times = np.broadcast_arrays(np.asarray(threads, np.int64), np.asarray(times_ns, np.int64))
        return self._as_of(threads, times, numbers, "line_start_ns")

    def forward_stack_of(
        self, sequence_numbers: npt.ArrayLike, thread: int | None = None, *, numbers: ThreadNumbers = "cupti"
    ) -> npt.NDArray[np.int32]:
        """The forward line that made the autograd node of each sequence number; -1 where it is not known.

        A node is made between two stamps: it belongs to the last stamp whose next number is not above its own. Each
        thread counts for itself: `thread` is the one that ran the forward pass; None is the one that made the most
        nodes while the clock ran. Nodes without a number (AccumulateGrad) have no forward line.
        """
        wanted = np.asarray(sequence_numbers, dtype=np.int64)
        history = self._forward_history(thread, numbers)
        if history is None or history.sequence is None or not len(history.sequence):
            return np.full(wanted.shape, NO_NODE, dtype=np.int32)
        index = np.searchsorted(history.sequence, wanted, side="right") - 1
        known = index >= 0
        if history.final_sequence is not None:
            known &= wanted < history.final_sequence
        return np.where(known, history.node[np.maximum(index, 0)], NO_NODE).astype(np.int32)

    def intervals(self) -> LineIntervals:
        """Everything that ran, as intervals. What still runs when the stamps end has the end of the last stamp."""
        columns: list[tuple[Ints, ...]] = []
        for thread, history in sorted(self._histories["cupti"].items()):
            end = history.time_ns[-1:] if history.end_ns is None else np.array([history.end_ns])
            rows = (
                np.full(len(history.time_ns), thread, dtype=np.int64),
                history.time_ns,
                np.concatenate((history.time_ns[1:], end[: len(history.time_ns)])),
                history.node,
                history.line_start_ns,
            )
            columns.append(tuple(column[history.node != NO_NODE] for column in rows))
        empty = np.empty(0, dtype=np.int64)
        return LineIntervals(*(np.concatenate((empty, *parts)) for parts in zip(*columns, strict=True))) if columns \
            else LineIntervals(empty, empty, empty, empty, empty)  # fmt: skip

    def stack(self, stack_id: int) -> Stack:
        """The frames of a stack, outermost first; none for -1."""
        tree = self._tree
        pending: list[int] = []
        node = stack_id
        while node not in self._stacks:
            pending.append(node)
            node = tree.parent[node]
        stack = self._stacks[node]
        for node in reversed(pending):
            stack = stack + self._frames(node)
        if pending:
            self._stacks[stack_id] = stack
        return stack

    def compact(self, stack_ids: npt.ArrayLike) -> tuple[npt.NDArray[np.int32], list[Stack]]:
        """The same ids as places in a list of just the stacks that occur (-1 stays -1): `Recording.stacks`."""
        ids = np.asarray(stack_ids, dtype=np.int64)
        unique, inverse = np.unique(ids, return_inverse=True)
        known = unique[unique >= 0]
        places = np.concatenate((np.full(len(unique) - len(known), NO_NODE), np.arange(len(known))))
        found = places[inverse.reshape(-1)] if len(unique) else ids.reshape(-1)
        return found.reshape(ids.shape).astype(np.int32), [self.stack(stack_id) for stack_id in known.tolist()]

    @property
    def stack_count(self) -> int:
        """Stack ids are smaller than this."""
        self._histories  # noqa: B018  (the tree grows when the histories are built)
        return len(self._tree.parent)

    @cached_property
    def _tree(self) -> PathTree:
        return PathTree()

    @cached_property
    def _histories(self) -> dict[ThreadNumbers, dict[int, ThreadHistory]]:
        """Thread → its history, by either number. Threads that had the same number one after another are joined."""
        pairs = [(log, build_history(log, self._width, self._mutes, self._places, self._tree)) for log in self._logs]
        by_cupti: dict[int, list[ThreadHistory]] = {}
        by_native: dict[int, list[ThreadHistory]] = {}
        for log, history in pairs:
            by_cupti.setdefault(log.ident & _THREAD_MASK, []).append(history)
            if log.native_id is not None:
                by_native.setdefault(log.native_id, []).append(history)
        return {
            "cupti": {thread: _join(histories) for thread, histories in by_cupti.items()},
            "native": {thread: _join(histories) for thread, histories in by_native.items()},
        }

    def _as_of(
        self, threads: Ints, times: Ints, numbers: ThreadNumbers, column: Literal["node", "line_start_ns"]
    ) -> Ints:
        found = np.full(threads.shape, NO_NODE, dtype=np.int64)
        histories = self._histories[numbers]
        for thread in np.unique(threads).tolist():
            history = histories.get(thread)
            if history is None or not len(history.time_ns):
                continue
            asked = threads == thread
            index = np.searchsorted(history.time_ns, times[asked], side="right") - 1
            known = index >= 0
            if history.end_ns is not None:
                known &= times[asked] < history.end_ns
            index = np.maximum(index, 0)
            known &= history.node[index] != NO_NODE
            found[asked] = np.where(known, getattr(history, column)[index], NO_NODE)
        return found

    def _forward_history(self, thread: int | None, numbers: ThreadNumbers) -> ThreadHistory | None:
        histories = self._histories[numbers]
        if thread is not None:
            return histories.get(thread)
        counted = [history for history in histories.values() if history.sequence is not None and len(history.sequence)]
        return max(counted, key=_nodes_made, default=None)

    def _frames(self, node: int) -> Stack:
        """What one node adds to a stack: its function and its line."""
        place = self._places[self._tree.code[node]]
        line = self._tree.line[node]
        file = None if place.cell is not None else place.file
        if place.level == FUNCTION:
            layer, name = ("module", place.name.rpartition(".")[0]) if place.is_method else ("python", place.name)
            return (StackFrame(layer, name, file, place.cell, place.first_line),)
        if place.cell is not None and place.is_top_level:
            function = StackFrame("cell", _cell_label(self.cells[place.cell]), cell=place.cell)
        else:
            function = StackFrame("python", place.name, file, place.cell, place.first_line)
        return (function, StackFrame("line", self._text(place, line), file, place.cell, line))

    def _text(self, place: CodePlace, line: int) -> str:
        if place.cell is not None:
            lines = self._lines.get(place.cell)
            if lines is None:
                lines = self._lines[place.cell] = self.cells[place.cell].source.splitlines()
            text = lines[line - 1].strip() if 0 < line <= len(lines) else ""
        else:
            text = linecache.getline(place.file, line).strip()
        return text or f"line {line}"


def _cell_label(cell: CellSource) -> str:
    return "In [ ]" if cell.execution_count is None else f"In [{cell.execution_count}]"


def _nodes_made(history: ThreadHistory) -> int:
    assert history.sequence is not None
    last = history.sequence[-1] if history.final_sequence is None else history.final_sequence
    return int(last - history.sequence[0])


def _join(histories: list[ThreadHistory]) -> ThreadHistory:
    """Threads that had one number, one after another."""
    if len(histories) == 1:
        return histories[0]
    ordered = sorted((history for history in histories if len(history.time_ns)), key=lambda each: int(each.time_ns[0]))
    if not ordered:
        return ThreadHistory.empty()
    times = np.concatenate([history.time_ns for history in ordered])
    order = np.argsort(times, kind="stable")
    # Their autograd numbers are of different counts; the last thread's could be told from none of the others'.
    return ThreadHistory(
        time_ns=times[order],
        node=np.concatenate([history.node for history in ordered])[order],
        line_start_ns=np.concatenate([history.line_start_ns for history in ordered])[order],
        sequence=None,
        end_ns=ordered[-1].end_ns,
        final_sequence=None,
    )
