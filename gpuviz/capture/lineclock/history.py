"""Stamps → what ran: the call path of each stamp as a node of a tree.

Functions are followed one by one (a Python loop, robust against whatever is missing: a function that ran before the
clock did, an exception between two stamps). Lines, which are most of the stamps, are followed in bulk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from gpuviz.capture.lineclock.stamps import UNKNOWN_NUMBER, ThreadLog, decode, left, offset_of
from gpuviz.capture.lineclock.usercode import CodePlace

NO_NODE = -1

type Ints = npt.NDArray[np.int64]


@dataclass
class PathTree:
    """Call paths as a tree: the parent of each node, the code that runs there, and its line. Parents come first."""

    parent: list[int] = field(default_factory=list)
    code: list[int] = field(default_factory=list)
    line: list[int] = field(default_factory=list)
    _ids: dict[tuple[int, int, int], int] = field(default_factory=dict, repr=False)

    def add(self, parent: int, code: int, line: int) -> int:
        """The node of this line of this code, called from `parent`."""
        node = self._ids.setdefault((parent, code, line), len(self.parent))
        if node == len(self.parent):
            self.parent.append(parent)
            self.code.append(code)
            self.line.append(line)
        return node


@dataclass(frozen=True)
class ThreadHistory:
    """One row per stamp of one thread. From its `time_ns` on `node` was running (`NO_NODE`: nothing that is
    recorded), whose line had begun at `line_start_ns`. `sequence`: the next autograd number of the thread at that
    time."""

    time_ns: Ints
    node: Ints
    line_start_ns: Ints
    sequence: Ints | None
    end_ns: int | None
    final_sequence: int | None

    @classmethod
    def empty(cls) -> ThreadHistory:
        nothing = np.empty(0, dtype=np.int64)
        return cls(nothing, nothing, nothing, None, None, None)


def build_history(
    log: ThreadLog, width: int, mutes: Sequence[tuple[int, int]], places: Sequence[CodePlace], tree: PathTree
) -> ThreadHistory:
    """Follow one thread. `mutes`: when a function was switched off, (time, code index) in order of time."""
    stamps = np.frombuffer(log.stamps, dtype=np.int64).reshape(-1, width) if log.stamps else np.empty((0, width), int)
    stamps = _leave_muted(stamps, mutes)
    # The wall clock may be set back; an as-of join needs times in order.
    times = np.maximum.accumulate(stamps[:, 0])
    what = stamps[:, 1]
    calls = _follow_functions(what)
    call = calls.at_stamp
    lines = np.where(what >= 0, what, _lines_of_entries(what, places))
    source = _latest_line(what, call)
    node = np.full(len(what), NO_NODE, dtype=np.int64)
    line = lines[source]
    depth = calls.depth[call]
    by_depth = np.argsort(depth, kind="stable")
    levels = np.split(by_depth, np.cumsum(np.bincount(depth))[:-1]) if len(what) else []
    for level in levels[1:]:
        before = calls.before[call[level]]
        above = np.where(before >= 0, node[before], NO_NODE)
        node[level] = _nodes(above, calls.code[call[level]], line[level], tree)
    return ThreadHistory(
        time_ns=times,
        node=node,
        line_start_ns=times[source],
        sequence=_sequence(stamps[:, 2]) if width > 2 else None,
        end_ns=log.full_at_ns,
        final_sequence=log.final_sequence,
    )


def _sequence(numbers: Ints) -> Ints | None:
    """Autograd's next number at each stamp. Those that were unknown at the start were at most the first known one."""
    known = np.flatnonzero(numbers != UNKNOWN_NUMBER)
    if not len(known):
        return None
    return np.maximum.accumulate(np.where(np.arange(len(numbers)) < known[0], numbers[known[0]], numbers))


def _lines_of_entries(what: Ints, places: Sequence[CodePlace]) -> Ints:
    """For each stamp of a function that was entered or resumed, its line at that moment; 0 for all others."""
    lines = np.zeros(len(what), dtype=np.int64)
    entries = np.flatnonzero((what < 0) & (what % 2 == 0))
    unique, inverse = np.unique(what[entries], return_inverse=True)
    of_unique = [places[decode(stamp)[0]].line_at(offset_of(stamp)) for stamp in unique.tolist()]
    lines[entries] = np.array(of_unique, dtype=np.int64)[inverse]
    return lines


def _leave_muted(stamps: Ints, mutes: Sequence[tuple[int, int]]) -> Ints:
    """A function that was switched off while it ran has not stamped its end: it ends there and then."""
    if not mutes or not len(stamps):
        return stamps
    ends = np.zeros((len(mutes), stamps.shape[1]), dtype=np.int64)
    ends[:, 0] = [time for time, _ in mutes]
    ends[:, 1] = [left(code_index) for _, code_index in mutes]
    return np.insert(stamps, np.searchsorted(stamps[:, 0], ends[:, 0], side="right"), ends, axis=0)


@dataclass(frozen=True)
class _Calls:
    """Functions that were entered: their code, how deep, the stamp before they were entered (-1: none); and the
    innermost call at each stamp. Call 0 stands for none."""

    code: Ints
    depth: Ints
    before: Ints
    at_stamp: Ints


def _follow_functions(what: Ints) -> _Calls:
    code: list[int] = [-1]
    depth: list[int] = [0]
    before: list[int] = [-1]
    stack: list[int] = []
    current: list[int] = [0]
    events = np.flatnonzero(what < 0)
    for stamp, event in zip(events.tolist(), what[events].tolist(), strict=True):
        index, is_entered = decode(event)
        if is_entered:
            before.append(stamp - 1 if stack else -1)
            code.append(index)
            stack.append(len(code) - 1)
            depth.append(len(stack))
        elif stack and code[stack[-1]] == index:
            stack.pop()
        else:
            _leave_further_out(stack, code, index)
        current.append(stack[-1] if stack else 0)
    at_stamp = np.array(current, dtype=np.int64)[np.cumsum(what < 0)]
    return _Calls(np.array(code), np.array(depth), np.array(before), at_stamp)


def _leave_further_out(stack: list[int], code: list[int], index: int) -> None:
    """A function is left that is not the innermost: those inside it ended without a stamp. One that is not there
    began before the clock did."""
    for position in range(len(stack) - 1, -1, -1):
        if code[stack[position]] == index:
            del stack[position:]
            return


def _latest_line(what: Ints, call: Ints) -> Ints:
    """For each stamp, the latest stamp of the same call that says its line: one of a line, else that of its entry."""
    order = np.argsort(call, kind="stable")
    ordered_call = call[order]
    is_first = np.ones(len(order), dtype=bool)
    is_first[1:] = ordered_call[1:] != ordered_call[:-1]
    says = np.where((what[order] >= 0) | is_first, np.arange(len(order)), 0)
    source = np.empty(len(order), dtype=np.int64)
    source[order] = order[np.maximum.accumulate(says)]
    return source


def _nodes(above: Ints, code: Ints, line: Ints, tree: PathTree) -> Ints:
    """The node of each (node above, code, line)."""
    rows = np.stack((above, code, line))
    # One number per row, where it fits: sorting rows of three is ten times slower.
    spans = rows.max(axis=1) - rows.min(axis=1) + 1
    if float(np.prod(spans.astype(float))) < 2**62:
        low = rows.min(axis=1)
        keys = ((above - low[0]) * spans[1] + (code - low[1])) * spans[2] + (line - low[2])
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    else:
        _, first, inverse = np.unique(rows, axis=1, return_index=True, return_inverse=True)
    by_first = first.argsort()
    nodes = np.empty(len(first), dtype=np.int64)
    nodes[by_first] = [tree.add(*row) for row in rows[:, first[by_first]].T.tolist()]
    return nodes[inverse.reshape(-1)]
