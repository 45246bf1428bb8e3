"""Launches and what they put on a stream: which activity came first, how many there were, when the last ended."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from gpuviz.analysis.intervals import Ints
from gpuviz.analysis.selection import Mask, ints, usable
from gpuviz.model import Trace, Window, schema

UNKNOWN = -1
"""Stands for a time or a row that is not known; times are never negative."""


class Launched(NamedTuple):
    """API calls that launched usable activities, one element each, by their start (rows of `api_calls`).

    Times are ns since t0. `table` is a place in `schema.ACTIVITY_TABLES`, `row` a row of that table's usable rows:
    the activity that started first. `gpu_end` is the latest end of all `activities` of the call.
    """

    call: Ints
    launch_start: Ints
    launch_end: Ints
    """`UNKNOWN` where the call never returned."""
    table: Ints
    row: Ints
    gpu_start: Ints
    gpu_end: Ints
    stream: Ints
    activities: Ints


class _Activities(NamedTuple):
    api_id: Ints
    start: Ints
    end: Ints
    stream: Ints
    table: Ints
    row: Ints


def launched(trace: Trace, window: Window | None, *, in_flight: bool = False) -> Launched:
    """The launches that start in the window.

    `in_flight`: instead all whose way from the start of the call to the start of the first activity has time in the
    window; where the activity starts before its call (clock skew) there is no way, and no row.
    """
    calls = trace.api_calls
    position = np.flatnonzero((calls["timing"] != "invalid").to_numpy())
    ids, start, end = (ints(calls[column].gather(position)) for column in ("api_id", "start_ns", "end_ns"))
    highest = int(ids.max(initial=-1))
    place = np.full(highest + 2, UNKNOWN, dtype=np.int64)  # the last one is that of activities without a call
    place[ids] = np.arange(len(ids))
    first, stop = (0, len(ids)) if window is None else np.searchsorted(start, window)
    if window is not None and in_flight:
        begun = (place >= 0) & (place < stop)
        wanted = _with_activity_after(trace, begun, window[0])
    else:
        wanted = (place >= first) & (place < stop)
    rows = _first_activities(_activities(trace, wanted), wanted)
    call = place[rows.first.api_id]
    found = Launched(
        position[call],
        start[call],
        end[call],
        rows.first.table,
        rows.first.row,
        rows.first.start,
        rows.last_end,
        rows.first.stream,
        rows.count,
    )
    if not in_flight:
        return found
    kept = found.gpu_start > found.launch_start
    if window is not None:
        kept &= found.gpu_start > window[0]
    return Launched(*(column[kept] for column in found))


def _with_activity_after(trace: Trace, calls: Mask, time_ns: int) -> Mask:
    """Those of the calls (by api_id) that launched an activity that starts after this time."""
    wanted = np.zeros(len(calls), dtype=np.bool_)
    for name in schema.ACTIVITY_TABLES:
        table = usable(trace.table(name))
        after = int(np.searchsorted(ints(table["start_ns"]), time_ns, side="right"))
        wanted[_api_ids(table.slice(after), len(calls))] = True
    wanted &= calls
    return wanted


def _api_ids(table: pl.DataFrame, limit: int) -> Ints:
    """The launch of each row; the last place below the limit where there is none."""
    api_id = ints(table["api_id"])
    if len(api_id) and api_id.max() >= limit - 1:
        api_id = np.where(api_id >= limit - 1, -1, api_id)
    return api_id


def _activities(trace: Trace, wanted: Mask) -> _Activities:
    """The usable activities of these calls, table by table."""
    parts = []
    for number, name in enumerate(schema.ACTIVITY_TABLES):
        table = usable(trace.table(name))
        if not table.height:
            continue
        api_id = _api_ids(table, len(wanted))
        rows = np.flatnonzero(wanted[api_id])
        columns = (api_id, *(ints(table[column]) for column in ("start_ns", "end_ns", "stream_id")))
        chosen = columns if len(rows) == table.height else tuple(column[rows] for column in columns)
        parts.append((*chosen, np.full(len(rows), number), rows))
    if not parts:
        return _Activities(*(np.empty(0, dtype=np.int64) for _ in range(6)))
    return _Activities(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


class _FirstActivities(NamedTuple):
    first: _Activities
    last_end: Ints
    count: Ints


def _first_activities(rows: _Activities, wanted: Mask) -> _FirstActivities:
    """Of each call, by api_id: its first activity (equal starts: the first table's), its latest end, its count."""
    count = np.bincount(rows.api_id, minlength=len(wanted))
    first = np.full(len(wanted), UNKNOWN, dtype=np.int64)
    first[rows.api_id] = np.arange(len(rows.api_id))
    last_end = np.zeros(len(wanted), dtype=np.int64)
    last_end[rows.api_id] = rows.end
    shared = np.flatnonzero(count[rows.api_id] > 1) if count.max(initial=0) > 1 else np.empty(0, dtype=np.int64)
    if len(shared):
        shared = shared[np.lexsort((rows.start[shared], rows.api_id[shared]))]
        api_id = rows.api_id[shared]
        begin = np.flatnonzero(np.concatenate(([True], api_id[1:] != api_id[:-1])))
        first[api_id[begin]] = shared[begin]
        last_end[api_id[begin]] = np.maximum.reduceat(rows.end[shared], begin)
    calls = np.flatnonzero(count)
    return _FirstActivities(_Activities(*(column[first[calls]] for column in rows)), last_end[calls], count[calls])


def null_unless(known: Mask, values: Ints) -> pl.Series:
    """A column that is null where it is not known."""
    series = pl.Series(values)
    return series if known.all() else pl.select(pl.when(pl.Series(known)).then(series)).to_series()
