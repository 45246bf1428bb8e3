"""Where the time of the launching threads and of the devices went: every nanosecond in exactly one bucket."""

from __future__ import annotations

import numpy as np
import polars as pl

from gpuviz.analysis.device_time import device_time
from gpuviz.analysis.host_kinds import HOST_KINDS
from gpuviz.analysis.host_states import clip_states, host_rows, host_states
from gpuviz.analysis.launched import launched
from gpuviz.analysis.selection import exact_sums, resolve_window
from gpuviz.model import Trace, Window

DEVICE_BUCKETS = ("kernel", "exposed_copy", "exposed_memset", "idle")
NOTHING = "nothing_recorded"
BUCKETS = (*HOST_KINDS, NOTHING, *DEVICE_BUCKETS)

SCHEMA = pl.Schema(
    {
        "side": pl.Enum(["thread", "device"]),
        "thread_id": pl.Int32(),
        "device_id": pl.Int32(),
        "bucket": pl.Enum(BUCKETS),
        "time_ns": pl.Int64(),
        "share": pl.Float64(),
    }
)


def launch_budget(trace: Trace, window: Window | None = None) -> pl.DataFrame:
    """The time of the window, once for each thread that launches in it and once for each device: a row per bucket.

    Of a thread (a thread with a launch that is on its way in the window): at each instant the innermost recorded row,
    by kind (`gpuviz.analysis.host_kinds.HOST_KINDS`), or ``nothing_recorded``. Of a device: ``kernel``,
    ``exposed_copy``, ``exposed_memset`` and ``idle`` as in `device_time`. So Σ ``time_ns`` of a thread, and of a
    device, is the window, to the nanosecond. ``share`` is ``time_ns`` over the window. Without a window it is the
    whole trace, 0 to `meta.end_ns`. A bucket without time has no row.

    Null: ``bucket`` is never null; a device that was not recorded has no rows. Raises `AnalysisError` for an
    impossible window.
    """
    window = resolve_window(trace, window)
    span = window if window is not None else (0, trace.meta.end_ns)
    length = span[1] - span[0]
    rows: list[dict[str, object]] = []
    if length <= 0:
        return pl.DataFrame(schema=SCHEMA)
    for (thread_id, bucket), time in _thread_times(trace, window, span).items():
        rows.append({"side": "thread", "thread_id": thread_id, "bucket": bucket, "time_ns": time})
    for device in device_time(trace, window if window is not None else _whole(trace)).iter_rows(named=True):
        if device["idle_ns"] is None:
            continue
        idle = length - device["busy_ns"]
        times = (device["kernel_ns"], device["exposed_copy_ns"], device["exposed_memset_ns"], idle)
        for bucket, time in zip(DEVICE_BUCKETS, times, strict=True):
            if time:
                rows.append({"side": "device", "device_id": device["device_id"], "bucket": bucket, "time_ns": time})
    return pl.DataFrame(rows, schema=SCHEMA).with_columns(share=pl.col("time_ns") / length)


def _whole(trace: Trace) -> Window:
    return 0, trace.meta.end_ns


def _thread_times(trace: Trace, window: Window | None, span: Window) -> dict[tuple[int, str], int]:
    """(thread, bucket) → ns, in the order of threads and buckets."""
    launching = np.zeros(trace.threads.height, dtype=np.bool_)
    thread_of_call = trace.api_calls["thread_id"].to_numpy()
    launching[thread_of_call[launched(trace, window).call]] = True
    if window is not None:
        launching[thread_of_call[launched(trace, window, in_flight=True).call]] = True
    rows = host_rows(trace, span)
    states = host_states(rows)
    start, end = clip_states(states, span)
    threads, kinds = trace.threads.height, len(HOST_KINDS)
    group = rows.thread[states.row] * kinds + rows.kind[states.row]
    sums = exact_sums(group, np.maximum(end - start, 0), threads * kinds).reshape(threads, kinds)
    times: dict[tuple[int, str], int] = {}
    for thread_id in np.flatnonzero(launching).tolist():
        own = dict(zip(HOST_KINDS, sums[thread_id].tolist(), strict=True))
        own[NOTHING] = span[1] - span[0] - sum(own.values())
        times |= {(thread_id, bucket): time for bucket, time in own.items() if time}
    return times
