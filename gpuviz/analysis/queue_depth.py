"""How many launches are on their way to each stream, over time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import polars as pl

from gpuviz.analysis.intervals import Ints
from gpuviz.analysis.launched import launched
from gpuviz.analysis.selection import device_of_stream, exact_sums, has_gpu_activity, ints, resolve_window, usable
from gpuviz.model import Trace, Window, schema

SCHEMA = pl.Schema(
    {
        "device_id": pl.Int32(),
        "stream_id": pl.Int32(),
        "start_ns": pl.Int64(),
        "end_ns": pl.Int64(),
        "depth": pl.Int32(),
    }
)
SUMMARY_SCHEMA = pl.Schema(
    {
        "device_id": pl.Int32(),
        "stream_id": pl.Int32(),
        "median_depth": pl.Int32(),
        "mean_depth": pl.Float64(),
        "max_depth": pl.Int32(),
        "empty_ns": pl.Int64(),
        "without_launch": pl.Int64(),
    }
)


class Steps(NamedTuple):
    """Intervals of one depth: group by group, by time, each group covering the window without gaps."""

    group: Ints
    start: Ints
    end: Ints
    depth: Ints


def queue_depth(trace: Trace, window: Window | None = None) -> pl.DataFrame:
    """How many launches are on their way to each stream: one row per stream and interval of one depth, by time.

    +1 at the start of each launch (the API call), −1 at the start of its first activity; a graph launch counts once.
    The rows of a stream cover the window without gaps; neighbours differ in depth. Without a window it is the whole
    trace, 0 to `meta.end_ns`. Launches whose activity starts before the call does (clock skew) do not count, nor do
    activities without a host record, so that depths are lower bounds where `queue_depth_summary` counts such.
    A trace without GPU work has no rows. Raises `AnalysisError` for an impossible window.
    """
    window = resolve_window(trace, window)
    if not has_gpu_activity(trace):
        return pl.DataFrame(schema=SCHEMA)
    streams = trace.streams
    steps = depth_steps(trace, window, np.arange(streams.height), streams.height)
    columns = {
        "device_id": device_of_stream(trace)[steps.group],
        "stream_id": steps.group,
        "start_ns": steps.start,
        "end_ns": steps.end,
        "depth": steps.depth,
    }
    return pl.DataFrame(columns).cast(SCHEMA)


def depth_steps(trace: Trace, window: Window | None, group_of_stream: Ints, groups: int) -> Steps:
    """The depth over time of groups of streams (-1: of none)."""
    begin, end = window if window is not None else (0, trace.meta.end_ns)
    found = launched(trace, window, in_flight=True)
    group = group_of_stream[found.stream]
    kept = group >= 0
    group = group[kept]
    up, down = found.launch_start[kept], found.gpu_start[kept]
    if end <= begin:
        return Steps(*(np.empty(0, dtype=np.int64) for _ in range(4)))
    up, down = np.clip(up, begin, end), np.clip(down, begin, end)
    by_end = np.argsort(down, kind="stable")
    time = np.concatenate((np.full(groups, begin), up, down[by_end]))
    change = np.concatenate((np.zeros(groups, dtype=np.int64), np.ones(len(up), dtype=np.int64), -np.ones_like(down)))
    who = np.concatenate((np.arange(groups), group, group[by_end]))
    order = np.argsort(time, kind="stable")
    by_group = np.argsort(who[order].astype(np.uint16) if groups <= 2**16 else who[order], kind="stable")
    order = order[by_group]
    time, who = time[order], who[order]
    depth = np.cumsum(change[order])  # each group goes back to 0, so that the next one starts there
    last = np.append(who[1:] != who[:-1], True)
    stop = np.where(last, end, np.append(time[1:], end))
    lasting = np.flatnonzero(stop > time)
    time, who, depth, stop = time[lasting], who[lasting], depth[lasting], stop[lasting]
    changes = np.append(True, (who[1:] != who[:-1]) | (depth[1:] != depth[:-1])) if len(who) else np.empty(0, bool)
    begins = np.flatnonzero(changes)
    ends = np.append(begins[1:], len(who)) - 1
    return Steps(who[begins], time[begins], stop[ends], depth[begins])


def queue_depth_summary(trace: Trace, window: Window | None = None) -> pl.DataFrame:
    """The depths of `queue_depth` in numbers: one row per stream.

    Weighted by time: ``median_depth`` is the smallest depth that is not exceeded for at least half of the window,
    ``mean_depth`` the mean, ``max_depth`` the largest, ``empty_ns`` the time without a launch on its way.
    ``without_launch``: usable activities that start in the window and have no host record.

    Null: the depths of a stream without linked launches in the window whose activities there have no host record; in
    a trace without GPU work there are no rows. Raises `AnalysisError` for an impossible window.
    """
    window = resolve_window(trace, window)
    if not has_gpu_activity(trace):
        return pl.DataFrame(schema=SUMMARY_SCHEMA)
    streams = trace.streams.height
    steps = depth_steps(trace, window, np.arange(streams), streams)
    unlinked = unlinked_activities(trace, window)
    device = device_of_stream(trace)
    rows = []
    for stream_id in range(streams):
        here = steps.group == stream_id
        row: dict[str, Any] = {"device_id": int(device[stream_id]), "stream_id": stream_id}
        row["without_launch"] = int(unlinked[stream_id])
        depth, length = steps.depth[here], (steps.end - steps.start)[here]
        if len(depth) and (depth.any() or not unlinked[stream_id]):
            row |= {
                "median_depth": time_weighted_median(depth, length),
                "mean_depth": int((depth * length).sum()) / int(length.sum()),
                "max_depth": int(depth.max()),
                "empty_ns": int(length[depth == 0].sum()),
            }
        rows.append(row)
    return pl.DataFrame(rows, schema=SUMMARY_SCHEMA)


def unlinked_activities(trace: Trace, window: Window | None) -> Ints:
    """Usable activities that start in the window and have no host record: (streams,)."""
    total = np.zeros(trace.streams.height, dtype=np.int64)
    for name in schema.ACTIVITY_TABLES:
        table = usable(trace.table(name))
        if window is not None:
            first, stop = np.searchsorted(ints(table["start_ns"]), window)
            table = table.slice(first, stop - first)
        if table["api_id"].null_count():
            alone = table.filter(pl.col("api_id").is_null())
            total += np.bincount(ints(alone["stream_id"]), minlength=len(total))
    return total


def time_weighted_median(depth: Ints, length: Ints) -> int:
    """The smallest depth that is not exceeded for at least half of the time."""
    at_depth = exact_sums(depth, length, int(depth.max()) + 1)
    return int(np.searchsorted(2 * np.cumsum(at_depth), at_depth.sum()))
