"""Stacks → the calling context tree.

The tree is a trie stored as a table. Parents come before children (ids are preorder numbers), so that inclusive time
is one backward pass and a layout one forward pass; every node stores the last id below it, so that "all work below
this frame" is one range test, the same in Polars, NumPy and JavaScript. GPU activities are leaves of the same tree:
one space of ids serves the tables, the analyses and the views.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from gpuviz.model import schema

ROOT_ID = 0

type Ints = npt.NDArray[np.int64]


@dataclass
class FrameTable:
    """Collects frames, one row per distinct (layer, function, file, cell, line)."""

    _ids: dict[tuple[str, str, str | None, int | None, int | None], int] = field(default_factory=dict)

    def add(
        self,
        layer: str,
        function: str,
        file: str | None = None,
        cell_id: int | None = None,
        line: int | None = None,
    ) -> int:
        """The id of this frame; the same frame always gives the same id."""
        return self._ids.setdefault((layer, function, file, cell_id, line), len(self._ids))

    def frames(self) -> pl.DataFrame:
        """The table `frames`."""
        layers, functions, files, cells, lines = zip(*self._ids, strict=True) if self._ids else ((),) * 5
        columns = {
            "frame_id": range(len(self._ids)),
            "layer": layers,
            "function": functions,
            "file": files,
            "cell_id": cells,
            "line": lines,
        }
        return pl.DataFrame(columns, schema=schema.TABLES["frames"].polars_schema)


@dataclass(frozen=True)
class CallTree:
    """The table `callpaths`, and the node of each row that `build_call_tree` was given."""

    callpaths: pl.DataFrame
    node: npt.NDArray[np.int32]


def build_call_tree(
    parent: npt.NDArray[np.integer],
    frame_id: npt.NDArray[np.integer],
    frames: pl.DataFrame,
    cell_keys: Mapping[int, str] | None = None,
) -> CallTree:
    """Merge rows that were called by the same path into one node each.

    `parent[i]` is the row that called row i, -1 for none, in any order but without cycles; `frame_id[i]` is its frame
    in `frames`, which must hold a frame of layer ``root``. Children of a node are ordered by their first row. Empty
    input gives the root alone. `cell_keys`: cell_id → what names that cell in another run too; with it `path_key`
    depends neither on the order in which cells ran nor on their execution counts.
    """
    parents: Ints = np.asarray(parent, dtype=np.int64)
    frame_ids: Ints = np.asarray(frame_id, dtype=np.int64)
    root_frame = int(frames.filter(pl.col("layer") == "root")["frame_id"][0])
    node_of_row, node_parent, node_frame = _merge(parents, frame_ids, frames.height)
    node_parent = np.concatenate(([-1], node_parent))
    node_frame = np.concatenate(([root_frame], node_frame))
    preorder, depth, last = _preorder(node_parent)
    order = np.argsort(preorder)
    renumbered_parent = np.where(node_parent >= 0, preorder[np.maximum(node_parent, 0)], -1)[order]
    frame_of_node = node_frame[order]
    keys = _path_keys(renumbered_parent, depth[order], _frame_keys(frames, cell_keys or {})[frame_of_node])
    callpaths = pl.DataFrame(
        {
            "callpath_id": np.arange(len(order), dtype=np.int32),
            "parent_id": pl.Series(renumbered_parent, dtype=pl.Int32).replace(-1, None),
            "last_id": last[order].astype(np.int32),
            "frame_id": frame_of_node.astype(np.int32),
            "depth": depth[order].astype(np.int32),
            "path_key": keys,
        },
        schema=schema.TABLES["callpaths"].polars_schema,
    )
    return CallTree(callpaths, preorder[node_of_row + 1].astype(np.int32))


def _children_of(parent: Ints) -> tuple[Ints, Ints]:
    """Rows grouped by parent: (rows in the order of their parents, offset of each parent's group), roots first."""
    rows = np.argsort(parent, kind="stable")
    offsets = np.searchsorted(parent[rows], np.arange(-1, len(parent) + 1))
    return rows, offsets


def _expand(rows: Ints, offsets: Ints, parents: Ints) -> Ints:
    """All children of `parents` (an index of -1 stands for the roots)."""
    begin, end = offsets[parents + 1], offsets[parents + 2]
    lengths = end - begin
    offset_of_group = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    children: Ints = rows[np.repeat(begin - offset_of_group, lengths) + np.arange(lengths.sum())]
    return children


def _merge(parent: Ints, frame_id: Ints, frame_count: int) -> tuple[Ints, Ints, Ints]:
    """Level by level, one node per (node of the parent, frame); nodes of a level are numbered by their first row."""
    rows, offsets = _children_of(parent)
    node_of_row = np.full(len(parent), -1, dtype=np.int64)
    node_parents: list[Ints] = []
    node_frames: list[Ints] = []
    count = 0
    frontier = _expand(rows, offsets, np.array([-1])) if len(parent) else np.empty(0, dtype=np.int64)
    while len(frontier):
        frontier = np.sort(frontier)
        above = np.where(parent[frontier] >= 0, node_of_row[np.maximum(parent[frontier], 0)], -1)
        key = (above + 1) * frame_count + frame_id[frontier]
        _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
        by_first_row = np.argsort(first)
        rank = np.empty(len(first), dtype=np.int64)
        rank[by_first_row] = np.arange(len(first))
        node_of_row[frontier] = count + rank[inverse]
        node_parents.append(above[first[by_first_row]] + 1)
        node_frames.append(frame_id[frontier][first[by_first_row]])
        count += len(first)
        frontier = _expand(rows, offsets, frontier)
    if not node_parents:
        return node_of_row, np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    return node_of_row, np.concatenate(node_parents), np.concatenate(node_frames)


def _preorder(parent: Ints) -> tuple[Ints, Ints, Ints]:
    """Preorder number, depth, and last preorder number below, for nodes whose parents have smaller indices."""
    count = len(parent)
    parents = parent.tolist()
    size = [1] * count
    for node in range(count - 1, 0, -1):
        size[parents[node]] += size[node]
    preorder = [0] * count
    depth = [0] * count
    next_free = [1] * count
    for node in range(1, count):
        above = parents[node]
        preorder[node] = next_free[above]
        next_free[above] += size[node]
        next_free[node] = preorder[node] + 1
        depth[node] = depth[above] + 1
    numbers = np.array(preorder, dtype=np.int64)
    return numbers, np.array(depth, dtype=np.int64), numbers + np.array(size, dtype=np.int64) - 1


def _frame_keys(frames: pl.DataFrame, cell_keys: Mapping[int, str]) -> npt.NDArray[np.uint64]:
    """A hash of each frame without its line, stable over runs and machines."""
    places = frames.select(pl.col("layer", "function", "file").cast(pl.String), "cell_id").iter_rows()
    keys = [_stable_hash(_stable_place(*place, cell_keys=cell_keys)) for place in places]
    return np.array(keys, dtype=np.uint64)


def _stable_place(
    layer: str, function: str, file: str | None, cell_id: int | None, *, cell_keys: Mapping[int, str]
) -> tuple[object, ...]:
    """The parts of a frame that do not change between runs. A cell's own name, ``In [3]``, does."""
    key = None if cell_id is None else cell_keys.get(cell_id)
    if key is None:
        return layer, function, file, cell_id
    return layer, None if layer == "cell" else function, file, key


def _stable_hash(place: tuple[object, ...]) -> int:
    text = "\x1f".join("" if part is None else str(part) for part in place)
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


_MIX = np.uint64(0x9E3779B97F4A7C15)


def _path_keys(parent: Ints, depth: Ints, frame_key: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Fold the frames' hashes from the root down, one level at a time (splitmix64's finaliser as the mixer)."""
    keys = frame_key.copy()
    by_depth = np.argsort(depth, kind="stable")
    levels = np.split(by_depth, np.cumsum(np.bincount(depth))[:-1])
    for nodes in levels[1:]:
        mixed = (keys[parent[nodes]] + _MIX) ^ frame_key[nodes]
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        keys[nodes] = mixed ^ (mixed >> np.uint64(31))
    return keys


def ancestors(callpaths: pl.DataFrame, callpath_id: int) -> list[int]:
    """The path from the root to this node, both included."""
    parents = callpaths["parent_id"]
    path = [callpath_id]
    while (above := parents[path[-1]]) is not None:
        path.append(above)
    return path[::-1]
