"""The call tree: calls as they nest, and the GPU work as leaves below what launched it.

A trace of millions of calls has few distinct paths, so rows that were called by the same path are merged, level by
level, before the tree is built. NVTX ranges are lanes and no levels. Work without a record of its launch hangs below a
group of its own under the root.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from gpuviz.formats.kineto.calls import Calls, Ints
from gpuviz.formats.nsys.calls import OVERHEAD
from gpuviz.formats.nsys.links import ORPHANS
from gpuviz.formats.nsys.lookup import numbered
from gpuviz.model.callpaths import FrameTable, build_call_tree

_NONE = -1


@dataclass(frozen=True)
class Tree:
    """The tables `frames` and `callpaths`, and the node of each row; null where a row is not in the tree."""

    frames: pl.DataFrame
    callpaths: pl.DataFrame
    host: pl.Series
    api: pl.Series
    work: Mapping[str, pl.Series]


@dataclass
class _Paths:
    """Distinct paths: parent and frame of each, parents first."""

    parent: list[Ints] = field(default_factory=list)
    frame: list[Ints] = field(default_factory=list)
    count: int = 0

    def add(self, parent: Ints, frame: Ints) -> Ints:
        """The path of each (parent, frame); paths are numbered in the order of their first row."""
        frames = int(frame.max()) + 1 if len(frame) else 1
        numbers, first = numbered((parent + 1) * frames + frame)
        self.parent.append(parent[first])
        self.frame.append(frame[first])
        paths = numbers + self.count
        self.count += len(first)
        return paths


def build_tree(host: pl.DataFrame, api: pl.DataFrame, work: Mapping[str, pl.DataFrame], calls: Calls) -> Tree:
    """One tree over all rows: host (layer, name, category), api (name), work (name, launch, how)."""
    frames = FrameTable()
    frames.add("root", "all")
    frame = np.concatenate([_frames(host["name"], "other", frames), _frames(api["name"], "api", frames)])
    in_tree = np.ones(len(frame), dtype=bool)
    in_tree[: host.height] = (host["category"].cast(pl.String) != OVERHEAD).fill_null(True).to_numpy()
    paths = _Paths()
    path = _call_paths(frame, in_tree, calls, paths, _by_start(host, api))
    leaves = {}
    groups: dict[str, int] = {}
    for table, rows in work.items():
        parent = np.full(rows.height, _NONE, dtype=np.int64)
        launch = rows["launch"]
        if launch.null_count() < len(launch):
            of_api = path[calls.hosts :]
            parent = np.where(launch.is_not_null().to_numpy(), of_api[launch.fill_null(0).to_numpy()], _NONE)
        if launch.null_count():
            how = rows["how"].cast(pl.String)
            for name in ORPHANS:
                where = (how == name).to_numpy()
                if where.any():
                    if name not in groups:
                        frame_id = np.array([frames.add("group", name)])
                        groups[name] = int(paths.add(np.array([_NONE]), frame_id)[0])
                    parent[where] = groups[name]
        layer = table.removesuffix("s")  # the layer of a kernel is "kernel", and so on
        leaves[table] = paths.add(parent, _frames(rows["name"], layer, frames))
    table_of_frames = frames.frames()
    tree = build_call_tree(_joined(paths.parent), _joined(paths.frame), table_of_frames)
    nodes = np.append(tree.node, _NONE).astype(np.int32)  # the last one serves rows without a path

    def of(rows: Ints) -> pl.Series:
        found = pl.Series(nodes[rows])
        return found.set(found == _NONE, None)

    return Tree(
        frames=table_of_frames,
        callpaths=tree.callpaths,
        host=of(path[: calls.hosts]),
        api=of(path[calls.hosts :]),
        work={table: of(rows) for table, rows in leaves.items()},
    )


def _by_start(host: pl.DataFrame, api: pl.DataFrame) -> Ints | None:
    """The rows of both tables in the order of their starts; None where one table alone is in order already."""
    if not host.height or not api.height:
        return None
    starts = pl.concat([host["start_ns"], api["start_ns"]])
    order: Ints = starts.arg_sort(nulls_last=True).to_numpy().astype(np.int64)
    return order


def _call_paths(frame: Ints, in_tree: npt.NDArray[np.bool_], calls: Calls, paths: _Paths, order: Ints | None) -> Ints:
    """The path of each call, level by level, because a path needs that of its caller."""
    path = np.full(len(frame), _NONE, dtype=np.int64)
    pending = np.arange(len(frame)) if order is None else order
    pending = pending[in_tree[pending]]
    done = np.zeros(len(frame) + 1, dtype=bool)
    done[_NONE] = True
    while len(pending):
        ready = done[calls.parent[pending]]
        rows = pending[ready]
        above = calls.parent[rows]
        path[rows] = paths.add(np.where(above >= 0, path[above], _NONE), frame[rows])
        done[rows] = True
        pending = pending[~ready]
    return path


def _frames(names: pl.Series, layer: str, frames: FrameTable) -> Ints:
    """The frame of each row, by its name."""
    numbers, first = numbered(names.to_physical().to_numpy().astype(np.int64))
    ids = [frames.add(layer, name) for name in names.gather(first).to_list()]
    return np.array(ids, dtype=np.int64)[numbers]


def _joined(parts: list[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
