"""GPU work by line of source."""

from __future__ import annotations

import sys

import numpy as np
import polars as pl

from gpuviz.analysis.grouping import SUMS, Amounts
from gpuviz.analysis.groupings import backward_sums
from gpuviz.analysis.idle import idle
from gpuviz.analysis.intervals import Ints
from gpuviz.analysis.selection import Mask, ints
from gpuviz.analysis.work import nearest
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


def by_line(trace: Trace, window: Window | None = None, *, idle_time: bool = False) -> pl.DataFrame:
    """GPU work by the line that launched it: one row per (cell_id, file, line, function), most GPU time first.

    The line is the innermost on the call path that is not of the standard library or of `LIBRARIES`; where there is
    only such code, the innermost at all; null where the path has no line. Backward work, which the autograd engine
    launches from a thread without Python, belongs to the line of its forward work where that is known;
    ``backward_ns`` is that part of ``gpu_ns``. The line is the one that the source recorded: of PyTorch's profiler
    that is where the function begins. The other columns, and errors, as in `gpuviz.analysis.by_kernel`.

    `idle_time` adds ``idle_ns``: the idle time of all devices while the host was at the line, by the causes of
    `gpuviz.analysis.idle`, and rows for lines that launched nothing. It takes as long as that analysis.
    """
    amounts = Amounts(trace, window)
    work = amounts.work
    node = line_nodes(amounts.trace, work.callpath, work.forward)
    distinct, place = np.unique(node, return_inverse=True)
    rows = places_of(amounts.trace, distinct).with_row_index("row")
    keys = rows.group_by("cell_id", "file", "line", "function", maintain_order=True).agg("row")
    number = np.empty(len(distinct), dtype=np.int64)
    members = keys["row"].list.len().to_numpy()
    rows_of_keys = [row for rows_of_key in keys["row"].to_list() for row in rows_of_key]
    number[rows_of_keys] = np.repeat(np.arange(keys.height), members)
    group = number[place]
    others = {"backward_ns": backward_sums(amounts, group, keys.height)}
    table = amounts.table(keys.drop("row"), group, others).select(SCHEMA.names())
    return _with_idle_time(table, amounts.trace, amounts.work.window) if idle_time else table


def _with_idle_time(table: pl.DataFrame, trace: Trace, window: Window | None) -> pl.DataFrame:
    """The table with the column ``idle_ns``, and rows for lines that only have that."""
    pieces = idle(trace, window)
    keys = ["cell_id", "file", "line", "function"]
    callpath = ints(pieces["callpath_id"])
    places = places_of(trace, line_nodes(trace, callpath, np.full(len(callpath), -1)))
    idle_ns = places.hstack([pieces["duration_ns"].alias("idle_ns")]).group_by(keys).agg(pl.col("idle_ns").sum())
    joined = table.join(idle_ns, on=keys, how="full", coalesce=True, nulls_equal=True)
    known = table.height > 0 and table["share"].null_count() == 0
    sums = [name for name in (*SUMS, "backward_ns", "idle_ns") if name != "share" or known]
    joined = joined.with_columns(pl.col(sums).fill_null(0))
    order = [pl.col("cell_id"), pl.col("file").cast(pl.String), pl.col("line"), pl.col("function").cast(pl.String)]
    descending = [True, True, *[False] * len(order)]
    return joined.sort("gpu_ns", "idle_ns", *order, descending=descending, nulls_last=True)


def line_nodes(trace: Trace, callpath: Ints, forward: Ints) -> Ints:
    """The call path of the line of each activity, as `by_line` chooses it; -1 where there is none.

    `callpath`, `forward`: its own call path and that of its forward work, -1 for none.
    """
    own, any_line = own_lines(trace)
    frame = ints(trace.callpaths["frame_id"])
    result = np.full(len(callpath), -1, dtype=np.int64)
    for wanted in (any_line, own):
        found = nearest(trace, wanted[frame] if len(frame) else np.empty(0, dtype=np.bool_))
        for paths in (callpath, forward):
            result = np.where(found[paths] >= 0, found[paths], result)
    return result


def places_of(trace: Trace, node: Ints) -> pl.DataFrame:
    """cell_id, file, line and function of each call path; nulls for -1."""
    frame = np.append(ints(trace.callpaths["frame_id"]), -1)[node]
    index = pl.Series(frame, dtype=pl.Int64).replace(-1, None).cast(pl.UInt32)
    return trace.frames.select(pl.col("cell_id", "file", "line", "function").gather(index))


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
