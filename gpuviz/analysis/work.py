"""The GPU activities of a window as arrays, and where each was launched: what the groupings start with."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import polars as pl

from gpuviz.analysis.intervals import Ints, clipped_durations
from gpuviz.analysis.selection import (
    ACTIVITY_KIND,
    Mask,
    device_of_stream,
    ints,
    resolve_window,
    starts_inside,
    times,
    touching,
    usable,
)
from gpuviz.model import Trace, Window, schema
from gpuviz.model.nesting import nest

_COLUMNS = ("activity_id", "stream_id", "api_id", "callpath_id", "forward_callpath_id")


class Work(NamedTuple):
    """Usable GPU activities that touch a window, table after table in the order of `ACTIVITY_TABLES`; -1 is null."""

    trace: Trace
    """The trace, cut to the window."""
    window: Window | None
    heights: dict[str, int]
    """How many rows are of each table."""
    activity_id: Ints
    stream: Ints
    api: Ints
    callpath: Ints
    forward: Ints
    """Call path of the forward work that backward work belongs to."""
    start: Ints
    end: Ints
    device: Ints
    clipped: Ints
    """Time in the window, ns."""
    counted: Mask
    """Starts in the window."""
    first: Mask
    """The first activity of its API call, among those of the whole trace."""
    order: Ints
    """Positions by start; equal starts keep the order of the tables."""

    def tables(self) -> pl.Series:
        """The table of each row."""
        codes = np.repeat(np.arange(len(self.heights)), list(self.heights.values()))
        return pl.Series(list(self.heights), dtype=ACTIVITY_KIND).gather(codes)

    def rows_of(self, *tables: str) -> slice:
        """The rows of one table, or of some that follow each other."""
        bounds = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(list(self.heights.values()))))
        places = [list(self.heights).index(name) for name in tables]
        return slice(int(bounds[min(places)]), int(bounds[max(places) + 1]))


def cut(trace: Trace, window: Window | None) -> tuple[Trace, Window | None]:
    """The trace cut to the window that an analysis uses, and that window.

    Whoever looks at neighbours (the wait before a copy, the step around a launch) starts with this: what lies outside
    of the window is not looked at, so that a trace that was cut before gives the same answer.
    """
    window = resolve_window(trace, window)
    return (trace if window is None or window == trace.meta.window else trace.window(*window)), window


def work_in(trace: Trace, window: Window | None) -> Work:
    """The usable GPU activities that have time in the window or start in it."""
    trace, window = cut(trace, window)
    parts = {name: usable(trace.table(name)) for name in schema.ACTIVITY_TABLES}
    columns = {name: np.concatenate([ints(part[name]) for part in parts.values()]) for name in _COLUMNS}
    spans = [times(part) for part in parts.values()]
    start, end = (np.concatenate(side) for side in zip(*spans, strict=True))
    order = np.argsort(start, kind="stable")
    first = _first_of_call(columns["api_id"], order)
    heights = {name: part.height for name, part in parts.items()}
    if window is not None:
        inside = [touching(one, window) for one in spans]
        heights = {name: int(mask.sum()) for name, mask in zip(parts, inside, strict=True)}
        kept = np.flatnonzero(np.concatenate(inside))
        columns = {name: values[kept] for name, values in columns.items()}
        start, end, first = start[kept], end[kept], first[kept]
        order = np.argsort(start, kind="stable")
    return Work(
        trace=trace,
        window=window,
        heights=heights,
        activity_id=columns["activity_id"],
        stream=columns["stream_id"],
        api=columns["api_id"],
        callpath=columns["callpath_id"],
        forward=columns["forward_callpath_id"],
        start=start,
        end=end,
        device=device_of_stream(trace)[columns["stream_id"]],
        clipped=clipped_durations(start, end, window),
        counted=starts_inside(start, window),
        first=first,
        order=order,
    )


def _first_of_call(api: Ints, order: Ints) -> Mask:
    """Which activities are the first of their API call, by `order`; none without a call."""
    place = np.full(int(api.max(initial=-1)) + 2, -1, dtype=np.int64)
    backwards = order[::-1]
    place[api[backwards]] = backwards  # of one call, the earliest is written last
    first: Mask = (place[api] == np.arange(len(api))) & (api >= 0)
    return first


class LaunchPlaces(NamedTuple):
    """Thread and start of the launch of each activity; -1, and start 0, where they are not known."""

    thread: Ints
    start: Ints


def launch_places(work: Work) -> LaunchPlaces:
    """Where and when the work was launched."""
    calls = work.trace.api_calls
    calls = calls.filter((pl.col("timing") != "invalid") & pl.col("start_ns").is_not_null())
    highest = int(work.api.max(initial=-1))
    ids = ints(calls["api_id"])
    known = ids <= highest
    thread, start = np.full(highest + 2, -1, dtype=np.int64), np.zeros(highest + 2, dtype=np.int64)
    thread[ids[known]] = ints(calls["thread_id"])[known]
    start[ids[known]] = ints(calls["start_ns"])[known]
    return LaunchPlaces(thread[work.api], start[work.api])


def containing(lane: Ints, start: Ints, end: Ints, query_lane: Ints, query_time: Ints) -> list[Ints]:
    """Which intervals hold each query: one array per depth, outermost first, with positions of intervals or -1.

    Intervals of one lane may nest and cross; each depth holds intervals that do not overlap (`nest`), so one search
    per depth finds the only one that can hold a query.
    """
    if not len(start):
        return []
    by_lane = np.lexsort((-end, start, lane))
    depth = nest(lane[by_lane], start[by_lane], end[by_lane], tolerance_ns=0).depth
    levels = []
    for level in range(int(depth.max()) + 1):
        rows = by_lane[depth == level]
        found = np.full(len(query_time), -1, dtype=np.int64)
        for one in np.unique(lane[rows]).tolist():
            of_lane = rows[lane[rows] == one]
            asked = np.flatnonzero(query_lane == one)
            place = np.searchsorted(start[of_lane], query_time[asked], side="right") - 1
            candidate = of_lane[np.maximum(place, 0)]
            inside = (place >= 0) & (query_time[asked] < end[candidate])
            found[asked] = np.where(inside, candidate, -1)
        levels.append(found)
    return levels


def nearest(trace: Trace, wanted: Mask) -> Ints:
    """The innermost call path at or above each call path that is `wanted`; -1 where none is. One more at the end: -1.

    So ``nearest(...)[callpath]`` answers for activities without a call path (-1) too.
    """
    paths = trace.callpaths
    found = np.where(wanted, np.arange(paths.height), -1)
    parent, depth = ints(paths["parent_id"]), ints(paths["depth"])
    by_depth = np.argsort(depth, kind="stable")
    for level in np.split(by_depth, np.cumsum(np.bincount(depth))[:-1])[1:] if paths.height else []:
        open_ = level[found[level] < 0]
        found[open_] = found[parent[open_]]
    return np.append(found, -1)


def by_name(names: pl.Series, holds: Callable[[str], bool]) -> Mask:
    """What holds for the lower-case name of each row; asked once per name. False for null."""
    distinct = names.unique().drop_nulls()
    codes = distinct.to_physical().to_numpy().astype(np.int64)
    answers = np.zeros(int(codes.max(initial=-1)) + 2, dtype=np.bool_)
    answers[codes] = [holds(name.lower()) for name in distinct.cast(pl.String).to_list()]
    numbers = names.to_physical()
    of_row: Mask = answers[ints(numbers.cast(pl.Int64) if numbers.null_count() else numbers)]
    return of_row
