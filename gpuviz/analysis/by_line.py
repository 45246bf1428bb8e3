"""GPU work by line of source."""

from __future__ import annotations

import sys

import numpy as np
import polars as pl

from gpuviz.analysis.grouping import SUMS, Amounts
from gpuviz.analysis.groupings import backward_sums, nodes_of_work
from gpuviz.analysis.selection import Mask, ints
from gpuviz.model import Trace, Window

LIBRARIES = frozenset({"numpy", "torch", "triton"})
"""Packages whose lines are never the answer while a line of another package is on the path."""

SCHEMA = pl.Schema(
    {
        "cell_id": pl.Int32(),
        "file": pl.Categorical(),
        "line": pl.Int32(),
        "function": pl.Categorical(),
        **SUMS,
        "backward_ns": pl.Int64(),
    }
)
_PLACES = ("site-packages/", "dist-packages/")


def by_line(trace: Trace, window: Window | None = None) -> pl.DataFrame:
    """GPU work by the line that launched it: one row per (cell_id, file, line, function), most GPU time first.

    The line is the innermost on the call path that is not of the standard library or of `LIBRARIES`; where there is
    only such code, the innermost at all; null where the path has no line. Backward work, which the autograd engine
    launches from a thread without Python, belongs to the line of its forward work where that is known;
    ``backward_ns`` is that part of ``gpu_ns``. The line is the one that the source recorded: of PyTorch's profiler
    that is where the function begins. The other columns, and errors, as in `gpuviz.analysis.by_kernel`.
    """
    amounts = Amounts(trace, window)
    frames = amounts.trace.frames
    node = line_of_work(amounts)
    frame = np.append(ints(amounts.trace.callpaths["frame_id"]), -1)[node]
    places = frames.select("cell_id", "file", "line", "function")
    distinct, place = np.unique(frame, return_inverse=True)
    keys = places.select(pl.all().gather(pl.Series(distinct).replace(-1, None).cast(pl.UInt32)))
    rows = keys.with_row_index("row").group_by("cell_id", "file", "line", "function", maintain_order=True)
    first = rows.agg(pl.col("row"))
    number = np.empty(len(distinct), dtype=np.int64)
    lists = first["row"].explode(empty_as_null=True).to_numpy()
    number[lists] = np.repeat(np.arange(first.height), first["row"].list.len().to_numpy())
    group = number[place]
    others = {"backward_ns": backward_sums(amounts, group, first.height)}
    return amounts.table(first.drop("row"), group, others).select(SCHEMA.names())


def line_of_work(amounts: Amounts) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The call path of the line of each activity, as `by_line` chooses it; -1 where there is none."""
    own, any_line = own_lines(amounts.trace)
    best = nodes_of_work(amounts, own, forward=True)
    return np.where(best >= 0, best, nodes_of_work(amounts, any_line, forward=True))


def own_lines(trace: Trace) -> tuple[Mask, Mask]:
    """Which frames are lines of a person's own code, and which are lines at all."""
    frames = trace.frames
    has_line = (
        frames["line"].is_not_null() & (frames["file"].is_not_null() | frames["cell_id"].is_not_null())
    ).to_numpy()
    files = frames["file"].cast(pl.String)
    is_library = {file: _of_a_library(file) for file in files.drop_nulls().unique().to_list()}
    library = np.array([file is not None and is_library[file] for file in files.to_list()], dtype=np.bool_)
    return has_line & ~library, has_line


def _of_a_library(file: str) -> bool:
    """Whether a file is of the standard library, of `LIBRARIES`, or made up (``<string>``)."""
    path = file.replace("\\", "/")
    if path.startswith("<"):
        return True
    for place in _PLACES:
        _, found, rest = path.rpartition(place)
        if found:
            return rest.split("/")[0].removesuffix(".py") in LIBRARIES
    if "/lib/python3" in path:
        return True
    if path.startswith("/") or path[1:3] == ":/":
        return False
    top = path.split("/")[0].removesuffix(".py")
    return top in LIBRARIES or top in sys.stdlib_module_names
