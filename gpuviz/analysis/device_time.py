"""How each device spent its time: computing, copying, filling, idle."""

from __future__ import annotations

from typing import Any

import polars as pl

from gpuviz.analysis.intervals import merge, overlap_length, union
from gpuviz.analysis.selection import KERNEL_TABLES, DeviceIntervals, resolve_window, was_recorded
from gpuviz.model import Trace, Window, schema

SCHEMA = pl.Schema(
    {
        "device_id": pl.Int32(),
        "ordinal": pl.Int32(),
        "span_ns": pl.Int64(),
        "busy_ns": pl.Int64(),
        "kernel_ns": pl.Int64(),
        "copy_ns": pl.Int64(),
        "memset_ns": pl.Int64(),
        "hidden_copy_ns": pl.Int64(),
        "exposed_copy_ns": pl.Int64(),
        "exposed_memset_ns": pl.Int64(),
        "idle_ns": pl.Int64(),
        "reliable": pl.Boolean(),
    }
)


def device_time(trace: Trace, window: Window | None = None) -> pl.DataFrame:
    """How each device spent its time: one row per row of `trace.devices`.

    With K, C, M the unions of kernels (and graph replays recorded whole), copies and fills over all streams of a
    device, each cut to the window: kernel = |K| (its compute time), copy = |C|, memset = |M|, busy = |K ∪ C ∪ M|,
    hidden copy = |K ∩ C|, exposed copy = |K ∪ C| − |K|, exposed memset = busy − |K ∪ C|, idle = span − busy. So
    kernel + exposed copy + exposed memset + idle = span. Unions, never sums over streams; waits are never busy.

    `window` is ``(start_ns, end_ns)``, ns since t0; the span is then the window. Without one it is the window of
    the trace (`Trace.window`), and for a whole trace, device by device, first start to last end of its activities:
    idle before the first and after the last activity is then not counted.

    Null: nothing is known. Without a window that is a device without usable activity, which has no span. With a
    window it is a device that was not recorded at all; one that was recorded and has nothing in the window was idle.
    `reliable` is false when graph replays lack their kernel records (diagnostic ``graph_replay_without_kernels``):
    busy is then a lower bound and idle an upper one; null where nothing is known. Raises `AnalysisError` for an
    impossible window.
    """
    window = resolve_window(trace, window)
    intervals = DeviceIntervals(trace, window)
    reliable = "graph_replay_without_kernels" not in trace.diagnostics["code"]
    rows = []
    for device_id, ordinal in trace.devices.select("device_id", "ordinal").iter_rows():
        times = _times(trace, device_id, intervals, window)
        rows.append({"device_id": device_id, "ordinal": ordinal, "reliable": reliable if times else None} | times)
    return pl.DataFrame(rows, schema=SCHEMA)


def _times(trace: Trace, device_id: int, intervals: DeviceIntervals, window: Window | None) -> dict[str, Any]:
    """The columns ``*_ns`` of one device; empty where nothing is known."""
    if window is None:
        everything = intervals.of(device_id, schema.ACTIVITY_TABLES)
        if not len(everything.start):
            return {}
        span = int(everything.end.max()) - int(everything.start[0])
    elif was_recorded(trace, device_id):
        span = window[1] - window[0]
    else:
        return {}
    kernels = union(*intervals.of(device_id, KERNEL_TABLES))
    copies = union(*intervals.of(device_id, ["memcpys"]))
    memsets = union(*intervals.of(device_id, ["memsets"]))
    hidden = overlap_length(kernels, copies)
    exposed_copy = copies.length - hidden
    exposed_memset = memsets.length
    if memsets.length:
        exposed_memset -= overlap_length(union(*merge(kernels, copies)), memsets)
    busy = kernels.length + exposed_copy + exposed_memset
    return {
        "span_ns": span,
        "busy_ns": busy,
        "kernel_ns": kernels.length,
        "copy_ns": copies.length,
        "memset_ns": memsets.length,
        "hidden_copy_ns": hidden,
        "exposed_copy_ns": exposed_copy,
        "exposed_memset_ns": exposed_memset,
        "idle_ns": span - busy,
    }
