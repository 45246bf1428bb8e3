"""Is the GPU waiting for launches?"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from gpuviz.analysis.device_time import device_time
from gpuviz.analysis.launched import UNKNOWN, launched
from gpuviz.analysis.queue_depth import depth_steps, time_weighted_median, unlinked_activities
from gpuviz.analysis.selection import (
    DeviceIntervals,
    device_of_stream,
    ints,
    resolve_window,
    starts_inside,
    times,
    usable,
)
from gpuviz.model import Trace, Window, schema

KERNEL_SHARE = 0.5
DEPTH = 1
NSYS_AI_KERNEL_NS = 10_000
NSYS_AI_LAUNCHES = 100

SCHEMA = pl.Schema(
    {
        "device_id": pl.Int32(),
        "ordinal": pl.Int32(),
        "span_ns": pl.Int64(),
        "kernel_ns": pl.Int64(),
        "kernel_share": pl.Float64(),
        "median_depth": pl.Int32(),
        "launches": pl.Int64(),
        "without_launch": pl.Int64(),
        "launch_bound": pl.Boolean(),
        "kernels": pl.Int64(),
        "mean_kernel_ns": pl.Float64(),
        "nsys_ai_launch_bound": pl.Boolean(),
        "short_kernels": pl.Int64(),
    }
)


def launch_bound(trace: Trace, window: Window | None = None) -> pl.DataFrame:
    """Whether each device waits for launches: one row per row of `trace.devices`.

    ``launch_bound``: ``kernel_share`` (the union of its kernels over the window) is below 0.5 and ``median_depth``
    (time-weighted, of the launches on their way to all its streams together, as in `queue_depth`) is at most 1.
    Without a window the span is first start to last end of the device's activities, as in `device_time`.

    What other tools ask, for comparison: ``nsys_ai_launch_bound``: ``mean_kernel_ns`` of the ``kernels`` that start
    in the window is below 10 µs, and at least 100 ``launches`` start in it. HTA counts ``short_kernels``: launches of
    kernels whose GPU time is below the time of their API call.

    Null: everything of a device that was not recorded or has no span; ``median_depth`` without a linked launch;
    ``launch_bound`` where the evidence could turn it over: the kernel share is below 0.5 but replays lack their
    kernels (diagnostic ``graph_replay_without_kernels``), or the depth is at most 1 but ``without_launch`` activities
    have no host record, so that more may have been queued. Raises `AnalysisError` for an impossible window.
    """
    window = resolve_window(trace, window)
    stages = launched(trace, window)
    device = device_of_stream(trace)
    unlinked = unlinked_activities(trace, window)
    intervals = DeviceIntervals(trace, window)
    rows = []
    for known in device_time(trace, window).iter_rows(named=True):
        device_id = known["device_id"]
        row: dict[str, Any] = {column: known[column] for column in ("device_id", "ordinal", "span_ns", "kernel_ns")}
        rows.append(row)
        if not known["span_ns"]:
            continue
        here = device[stages.stream] == device_id
        api = np.where(stages.launch_end == UNKNOWN, 0, stages.launch_end - stages.launch_start)
        is_kernel = stages.table == schema.ACTIVITY_TABLES.index("kernels")
        short = here & is_kernel & (stages.gpu_end - stages.gpu_start < api)
        durations = _kernel_durations(trace, window, device, device_id)
        row |= {
            "kernel_share": known["kernel_ns"] / known["span_ns"],
            "launches": int(here.sum()),
            "without_launch": int(unlinked[device == device_id].sum()),
            "kernels": len(durations),
            "mean_kernel_ns": int(durations.sum()) / len(durations) if len(durations) else None,
            "short_kernels": int(short.sum()),
        }
        if len(durations):
            row["nsys_ai_launch_bound"] = (
                row["mean_kernel_ns"] < NSYS_AI_KERNEL_NS and row["launches"] >= NSYS_AI_LAUNCHES
            )
        span = window
        if span is None:
            everything = intervals.of(device_id, schema.ACTIVITY_TABLES)
            span = int(everything.start[0]), int(everything.end.max())
        row["median_depth"] = _median_depth(trace, span, device == device_id)
        row["launch_bound"] = _verdict(row, reliable=known["reliable"])
    return pl.DataFrame(rows, schema=SCHEMA)


def _median_depth(trace: Trace, span: Window, streams: np.ndarray) -> int | None:
    """The median over time of the launches on their way to these streams; None where there are none."""
    steps = depth_steps(trace, span, np.where(streams, 0, -1), 1)
    if not steps.depth.any():
        return None
    return time_weighted_median(steps.depth, steps.end - steps.start)


def _verdict(row: dict[str, Any], *, reliable: bool) -> bool | None:
    if row["kernel_share"] >= KERNEL_SHARE or (row["median_depth"] or 0) > DEPTH:
        return False
    if not reliable or row["without_launch"] or row["median_depth"] is None:
        return None
    return True


def _kernel_durations(trace: Trace, window: Window | None, device: np.ndarray, device_id: int) -> np.ndarray:
    table = usable(trace.kernels)
    spans = times(table)
    counted = starts_inside(spans.start, window) & (device[ints(table["stream_id"])] == device_id)
    durations: np.ndarray = (spans.end - spans.start)[counted]
    return durations
