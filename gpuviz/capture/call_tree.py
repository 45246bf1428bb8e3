"""The call path of every call and activity: cell → line → function → module → operator → API call → kernel.

A call has a caller (what lay around it in time) or none, and may have a stack (the Python frames around it). A call
without a caller hangs below its stack. A call with a caller hangs below the caller; where its stack goes further than
the caller's, the frames in between come in between, so that a line inside `forward` lies below the module that was
called.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from gpuviz.capture.activities import Activities
from gpuviz.capture.host_calls import OVERHEAD, Calls
from gpuviz.capture.places import Cells
from gpuviz.capture.recording import Stack
from gpuviz.capture.times import NONE, Ints, pick
from gpuviz.model.callpaths import CallTree, FrameTable, build_call_tree

BEFORE_WINDOW = "launched before the window"
NO_LAUNCH = "no host record"


@dataclass(frozen=True)
class CallPaths:
    """`tree` and `frames` are the tables; `of_call` and `of_activity` the nodes of their rows (NONE: not in it)."""

    frames: pl.DataFrame
    callpaths: pl.DataFrame
    of_call: Ints
    of_activity: list[Ints]


def build_call_paths(
    calls: Calls,
    stacks: Sequence[Stack],
    cells: Cells,
    activities: list[Activities],
    launch: list[Ints],
    before_window: list[npt.NDArray[np.bool_]],
) -> CallPaths:
    """Build the tree. `launch` has the row of `calls` that launched each activity, NONE where there is none;
    `before_window` tells for those whether the launch lies before the recording."""
    frames = FrameTable()
    frames.add("root", "all")
    rows = _Rows()
    trie = _StackTrie(stacks, cells, frames, rows)
    row_of_call = _add_calls(calls, trie, frames, rows)
    of_activity: list[Ints] = []
    groups: dict[str, int] = {}
    for part, launched_by, before in zip(activities, launch, before_window, strict=True):
        parent = pick(row_of_call, launched_by)
        orphan = launched_by == NONE
        for name, where in ((BEFORE_WINDOW, orphan & before), (NO_LAUNCH, orphan & ~before)):
            if where.any():
                if name not in groups:
                    groups[name] = rows.add(NONE, frames.add("group", name))
                parent[where] = groups[name]
        layer = part.table.removesuffix("s")  # the layer of a kernel is "kernel", and so on
        of_activity.append(rows.extend(parent, _name_frames(part.name, layer, frames)))
    tree: CallTree = build_call_tree(*rows.arrays(), frames.frames(), cells.stable_keys)
    node = tree.node.astype(np.int64)
    return CallPaths(frames.frames(), tree.callpaths, pick(node, row_of_call), [node[part] for part in of_activity])


class _Rows:
    """Rows for `build_call_tree`: parent and frame, appended one by one or many at a time."""

    def __init__(self) -> None:
        self._parts: list[tuple[Ints, Ints]] = []
        self._single: tuple[list[int], list[int]] = ([], [])
        self._count = 0

    def add(self, parent: int, frame: int) -> int:
        """Append one row; returns its number."""
        self._single[0].append(parent)
        self._single[1].append(frame)
        self._count += 1
        return self._count - 1

    def extend(self, parent: Ints, frame: Ints) -> Ints:
        """Append many rows; returns their numbers."""
        self._flush()
        self._parts.append((parent, frame))
        first = self._count
        self._count += len(parent)
        return np.arange(first, self._count)

    def arrays(self) -> tuple[Ints, Ints]:
        """All parents and all frames."""
        self._flush()
        if not self._parts:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        return (
            np.concatenate([parent for parent, _ in self._parts]),
            np.concatenate([frame for _, frame in self._parts]),
        )

    def _flush(self) -> None:
        if self._single[0]:
            parent, frame = self._single
            self._parts.append((np.array(parent, dtype=np.int64), np.array(frame, dtype=np.int64)))
            self._single = ([], [])


class _StackTrie:
    """The distinct stacks as a trie of frames, one row each."""

    def __init__(self, stacks: Sequence[Stack], cells: Cells, frames: FrameTable, rows: _Rows) -> None:
        self.node_of_stack: list[int] = []
        self.row_of_node: list[int] = []
        self._frame: list[int] = []
        self._label: list[tuple[str, str]] = []
        self._parent: list[int] = []
        self._between: dict[tuple[int, int], list[int] | None] = {}
        children: dict[tuple[int, int], int] = {}
        for stack in stacks:
            node = NONE
            for place in stack:
                cell_id = None if place.cell is None else cells.rows[place.cell]
                frame = frames.add(place.layer, place.function, place.file, cell_id, place.line)
                below = children.get((node, frame))
                if below is None:
                    below = children[node, frame] = len(self._frame)
                    self._frame.append(frame)
                    self._label.append((place.layer, place.function))
                    self._parent.append(node)
                    self.row_of_node.append(rows.add(self.row_of_node[node] if node != NONE else NONE, frame))
                node = below
            self.node_of_stack.append(node)

    def frames_between(self, above: int, below: int, caller: tuple[str, str]) -> list[int]:
        """The frames from the node `above` (excluded) down to `below`; none where it does not lie below.

        A module that was called is a call and a frame of what runs inside it; the frame is then left out.
        """
        nodes = self._nodes_between(above, below)
        if not nodes:
            return []
        if self._label[nodes[0]] == caller:
            nodes = nodes[1:]
        return [self._frame[node] for node in nodes]

    def _nodes_between(self, above: int, below: int) -> list[int] | None:
        key = (above, below)
        if key not in self._between:
            path: list[int] = []
            node = below
            while node not in (above, NONE):
                path.append(node)
                node = self._parent[node]
            self._between[key] = path[::-1] if node == above else None
        return self._between[key]


def _add_calls(calls: Calls, trie: _StackTrie, frames: FrameTable, rows: _Rows) -> Ints:
    """One row per host and API call, level by level, because a row needs its caller's; overhead has none."""
    count = len(calls.kind)
    row_of_call = np.full(count, NONE, dtype=np.int64)
    in_tree = calls.kind != OVERHEAD
    frame = _call_frames(calls, frames, in_tree)
    node_of_stack = np.array([*trie.node_of_stack, NONE], dtype=np.int64)  # the last one serves stack NONE
    own_node = node_of_stack[calls.stack_id]
    node = own_node.copy()
    row_of_node = np.array([*trie.row_of_node, NONE], dtype=np.int64)
    for level in range(int(calls.level[in_tree].max()) + 1 if in_tree.any() else 0):
        at = np.flatnonzero(in_tree & (calls.level == level))
        at = at[np.argsort(calls.times.start[at], kind="stable")]
        caller = calls.caller[at]
        has_caller = caller != NONE
        above = pick(node, caller)
        parent = np.where(has_caller, row_of_call[np.maximum(caller, 0)], row_of_node[own_node[at]])
        node[at] = np.where(own_node[at] != NONE, own_node[at], above)
        further = np.flatnonzero(has_caller & (above != NONE) & (node[at] != above))
        if len(further):
            parent[further] = _rows_between(
                calls, trie, rows, caller[further], above[further], node[at[further]], parent[further]
            )
        row_of_call[at] = rows.extend(parent, frame[at])
    return row_of_call


def _rows_between(
    calls: Calls, trie: _StackTrie, rows: _Rows, caller: Ints, above: Ints, below: Ints, parent: Ints
) -> Ints:
    """The row that each call hangs below when its stack goes further than its caller's."""
    pairs, first, index = np.unique(np.stack((caller, below), axis=1), axis=0, return_index=True, return_inverse=True)
    layers = calls.layer.gather(pl.Series(values=pairs[:, 0])).cast(pl.String).to_list()
    names = calls.name.gather(pl.Series(values=pairs[:, 0])).cast(pl.String).to_list()
    ends = np.empty(len(pairs), dtype=np.int64)
    for number, label in enumerate(zip(layers, names, strict=True)):
        one = first[number]
        row = int(parent[one])
        for frame in trie.frames_between(int(above[one]), int(below[one]), label):
            row = rows.add(row, frame)
        ends[number] = row
    return ends[index.reshape(-1)]


def _call_frames(calls: Calls, frames: FrameTable, in_tree: npt.NDArray[np.bool_]) -> Ints:
    """The frame of each call; 0 (the root's) for rows that are not in the tree."""
    table = pl.DataFrame({"layer": calls.layer, "name": calls.name, "in_tree": pl.Series(values=in_tree)})
    distinct = table.filter("in_tree").select("layer", "name").unique(maintain_order=True)
    ids = [frames.add(layer, name) for layer, name in distinct.iter_rows()]
    numbered = distinct.with_columns(pl.Series("frame", ids, dtype=pl.Int64))
    joined = table.join(numbered, on=["layer", "name"], how="left", maintain_order="left")
    return joined["frame"].fill_null(0).to_numpy().astype(np.int64)


def _name_frames(names: pl.Series, layer: str, frames: FrameTable) -> Ints:
    """The frame of each activity, by its name."""
    distinct = names.unique(maintain_order=True)
    ids = pl.Series([frames.add(layer, name) for name in distinct.to_list()], dtype=pl.Int64)
    joined = pl.DataFrame({"name": names}).join(
        pl.DataFrame({"name": distinct, "frame": ids}), on="name", how="left", maintain_order="left"
    )
    return joined["frame"].to_numpy().astype(np.int64)
