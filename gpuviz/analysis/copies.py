"""Copies, and how much of them hides under running kernels."""

from __future__ import annotations

import numpy as np
import polars as pl

from gpuviz.analysis.intervals import IntervalSet, Ints, clipped_durations, covered_in, overlap_length, union
from gpuviz.analysis.selection import (
    KERNEL_TABLES,
    DeviceIntervals,
    device_of_stream,
    ints,
    resolve_window,
    starts_inside,
    times,
    touching,
    usable,
)
from gpuviz.model import Trace, Window, schema

_COPY_KIND = pl.Enum(schema.COPY_KINDS)
_MEMORY_KIND = pl.Enum(schema.MEMORY_KINDS)

SCHEMA = pl.Schema(
    {
        "activity_id": pl.Int32(),
        "device_id": pl.Int32(),
        "stream_id": pl.Int32(),
        "copy_kind": _COPY_KIND,
        "src_kind": _MEMORY_KIND,
        "dst_kind": _MEMORY_KIND,
        "size_bytes": pl.Int64(),
        "start_ns": pl.Int64(),
        "end_ns": pl.Int64(),
        "duration_ns": pl.Int64(),
        "hidden_ns": pl.Int64(),
        "exposed_ns": pl.Int64(),
        "bytes_per_s": pl.Float64(),
    }
)
TIME_SCHEMA = pl.Schema(
    {
        "device_id": pl.Int32(),
        "ordinal": pl.Int32(),
        "copy_kind": _COPY_KIND,
        "copies": pl.Int64(),
        "size_bytes": pl.Int64(),
        "size_unknown": pl.Int64(),
        "copy_ns": pl.Int64(),
        "hidden_ns": pl.Int64(),
        "exposed_ns": pl.Int64(),
    }
)


def copies(trace: Trace, window: Window | None = None) -> pl.DataFrame:
    """One row per usable copy that has time in the window or starts in it, by start.

    ``start_ns``, ``end_ns`` and ``size_bytes`` are of the whole copy. ``duration_ns`` is its time in the window,
    ``hidden_ns`` the part of that under a running kernel (or graph replay) of its device, ``exposed_ns`` the rest:
    F(end) − F(start) with F(t) the device's kernel time before t. They are per copy: copies that run at once count
    each, so sums may exceed the unions of `copy_time` and `device_time`. ``bytes_per_s`` is size over duration of
    the whole copy; null for an unknown size or a duration of 0. Raises `AnalysisError` for an impossible window.
    """
    window = resolve_window(trace, window)
    table, spans, device = _touching_copies(trace, window)
    duration = clipped_durations(*spans, window)
    hidden = np.zeros(len(duration), dtype=np.int64)
    kernels = DeviceIntervals(trace, window)
    for device_id in np.unique(device).tolist():
        here = np.flatnonzero(device == device_id)
        running = union(*kernels.of(device_id, KERNEL_TABLES))
        hidden[here] = covered_in(running, spans.start[here], spans.end[here])
    whole = pl.Series(spans.end - spans.start)
    columns: dict[str, pl.Series | pl.Expr] = {
        "device_id": pl.Series(device, dtype=pl.Int32),
        "duration_ns": pl.Series(duration),
        "hidden_ns": pl.Series(hidden),
        "exposed_ns": pl.Series(duration - hidden),
        "bytes_per_s": pl.when(whole > 0).then(pl.col("size_bytes") * 1e9 / whole),
    }
    return table.with_columns(**columns).select(SCHEMA.names())


def copy_time(trace: Trace, window: Window | None = None) -> pl.DataFrame:
    """Copy time per device and direction: one row per (device, copy_kind) that has a row in `copies`.

    With K the union of the device's kernels and C that of its copies of this kind, each cut to the window: copy =
    |C|, hidden = |K ∩ C|, exposed = |C| − |K ∩ C|. Kinds that run at once overlap, so that their sum may exceed the
    device's copy time. ``copies`` and ``size_bytes`` count copies that start in the window; ``size_bytes`` is null
    when any of them has no known size, ``size_unknown`` says how many. Raises `AnalysisError` for an impossible
    window.
    """
    window = resolve_window(trace, window)
    table, spans, device = _touching_copies(trace, window)
    counted = starts_inside(spans.start, window)
    kind = table["copy_kind"].to_physical().to_numpy()
    intervals = DeviceIntervals(trace, window)
    rows = []
    for device_id, ordinal in trace.devices.select("device_id", "ordinal").iter_rows():
        kernels = union(*intervals.of(device_id, KERNEL_TABLES))
        for code, copy_kind in enumerate(schema.COPY_KINDS):
            here = np.flatnonzero((device == device_id) & (kind == code))
            if not len(here):
                continue
            sizes = table["size_bytes"].gather(here[counted[here]])
            covered = union(*_cut(spans, here, window))
            hidden = overlap_length(kernels, covered)
            rows.append(
                {
                    "device_id": device_id,
                    "ordinal": ordinal,
                    "copy_kind": copy_kind,
                    "copies": len(sizes),
                    "size_bytes": None if sizes.null_count() else sizes.sum(),
                    "size_unknown": sizes.null_count(),
                    "copy_ns": covered.length,
                    "hidden_ns": hidden,
                    "exposed_ns": covered.length - hidden,
                }
            )
    return pl.DataFrame(rows, schema=TIME_SCHEMA)


def _touching_copies(trace: Trace, window: Window | None) -> tuple[pl.DataFrame, IntervalSet, Ints]:
    """The copies of the window, their times, and their devices."""
    table = usable(trace.memcpys)
    table = table.filter(pl.Series(touching(times(table), window)))
    device = device_of_stream(trace)[ints(table["stream_id"])]
    return table, times(table), device


def _cut(spans: IntervalSet, rows: Ints, window: Window | None) -> IntervalSet:
    start, end = spans.start[rows], spans.end[rows]
    return (
        IntervalSet(start, end) if window is None else IntervalSet(*(np.clip(side, *window) for side in (start, end)))
    )
