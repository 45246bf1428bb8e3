"""Copies that a kernel of the same stream had to wait for."""

from __future__ import annotations

import numpy as np
import polars as pl

from gpuviz.analysis.copies import copies
from gpuviz.analysis.copy_neighbours import launches_of
from gpuviz.analysis.intervals import Ints
from gpuviz.analysis.selection import KERNEL_TABLES, Mask
from gpuviz.analysis.work import Work, work_in
from gpuviz.model import Trace, Window, schema

SCHEMA = pl.Schema(
    {
        "copy_activity_id": pl.Int32(),
        "kernel_activity_id": pl.Int32(),
        "device_id": pl.Int32(),
        "stream_id": pl.Int32(),
        "copy_kind": pl.Enum(schema.COPY_KINDS),
        "copy_ns": pl.Int64(),
        "exposed_ns": pl.Int64(),
        "gap_ns": pl.Int64(),
        "held_back": pl.Boolean(),
    }
)


def serialized_copies(trace: Trace, window: Window | None = None) -> pl.DataFrame:
    """Pairs of a copy and the kernel (or graph replay) right behind it on the same stream, by start of the copy.

    One row per usable copy whose next activity on its stream is a kernel that starts at or after the copy's end, both
    in the window. ``copy_ns`` and ``exposed_ns`` are those of `gpuviz.analysis.copies`; ``gap_ns`` is start of the
    kernel − end of the copy. ``held_back``: the kernel was launched before the copy ended, so that only the order of
    the stream kept it waiting (a stream of its own for the copy, and an event, would not help a kernel that needs the
    data, but lets other work go on); null where the launch of the kernel is not known. Raises `AnalysisError` for an
    impossible window.
    """
    work = work_in(trace, window)
    copied, computed = _pairs(work)
    launches = launches_of(work.trace, int(work.api.max(initial=-1)))
    held = pl.Series(launches.start[work.api[computed]] < work.end[copied])
    known = pl.Series(launches.known[work.api[computed]])
    first = work.rows_of("memcpys").start
    table = copies(work.trace, work.window)[copied - first]
    columns = {
        "copy_activity_id": table["activity_id"],
        "kernel_activity_id": work.activity_id[computed],
        "device_id": table["device_id"],
        "stream_id": table["stream_id"],
        "copy_kind": table["copy_kind"],
        "copy_ns": table["duration_ns"],
        "exposed_ns": table["exposed_ns"],
        "gap_ns": work.start[computed] - work.end[copied],
        "held_back": pl.select(pl.when(known).then(held)).to_series(),
    }
    return pl.DataFrame(columns).cast({n: SCHEMA[n] for n in SCHEMA})


def _pairs(work: Work) -> tuple[Ints, Ints]:
    """Rows of `work`: copies, and the kernel that follows each on its stream."""
    stream = work.stream[work.order]
    if work.trace.streams.height <= 2**16:
        stream = stream.astype(np.uint16)  # sorted by radix, some five times as fast
    by_stream = work.order[np.argsort(stream, kind="stable")]
    before, after = by_stream[:-1], by_stream[1:]
    fits: Mask = _of(work, before, ("memcpys",)) & _of(work, after, KERNEL_TABLES)
    fits &= (work.stream[before] == work.stream[after]) & (work.start[after] >= work.end[before])
    before, after = before[fits], after[fits]
    by_start = np.argsort(before)
    return before[by_start], after[by_start]


def _of(work: Work, rows: Ints, tables: tuple[str, ...]) -> Mask:
    """Which rows of `work` are of these tables."""
    inside = np.zeros(len(rows), dtype=np.bool_)
    for name in tables:
        bounds = work.rows_of(name)
        inside |= (rows >= bounds.start) & (rows < bounds.stop)
    return inside
