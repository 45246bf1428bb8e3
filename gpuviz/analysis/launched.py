"""Launches and what they put on a stream: which activity came first, how many there were, when the last ended."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from gpuviz.analysis.intervals import Ints
from gpuviz.analysis.selection import Mask, ints, usable
from gpuviz.model import Trace, Window, schema

type Small = npt.NDArray[np.int32]

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
    """Rows of activity tables; `call` is the place of the launch among the calls that are looked at."""

    call: Ints
    start: Ints
    end: Ints
    stream: Ints
    table: Ints
    row: Ints


class _Calls(NamedTuple):
    """API calls with a usable start, by start and so by id."""

    position: Ints | None
    """Rows of `api_calls`; None: all of them."""
    ids: Small
    start: Ints
    end: Ints

    def place(self, api_id: Small) -> Ints:
        """Where the calls with these ids are; `UNKNOWN` for ids that are not here."""
        if not len(self.ids):
            return np.full(len(api_id), UNKNOWN, dtype=np.int64)
        if int(self.ids[-1]) - int(self.ids[0]) + 1 == len(self.ids):
            place = api_id.astype(np.int64) - int(self.ids[0])
            return np.where((place >= 0) & (place < len(self.ids)), place, UNKNOWN)
        place = np.minimum(np.searchsorted(self.ids, api_id), len(self.ids) - 1)
        return np.where(self.ids[place] == api_id, place, UNKNOWN)


def launched(trace: Trace, window: Window | None, *, in_flight: bool = False) -> Launched:
    """The launches that start in the window.

    `in_flight`: instead all whose way from the start of the call to the start of the first activity has time in the
    window; where the activity starts before its call (clock skew) there is no way, and no row.
    """
    calls = _calls(trace)
    first, stop = (0, len(calls.ids)) if window is None else map(int, np.searchsorted(calls.start, window))
    if window is not None and in_flight:
        wanted = _with_activity_after(trace, calls, stop, window[0])
        first, stop = (int(wanted.min()), int(wanted.max()) + 1) if len(wanted) else (0, 0)
        mask = np.zeros(stop - first, dtype=np.bool_)
        mask[wanted - first] = True
    else:
        mask = None
    rows = _activities(trace, calls, first, stop)
    if mask is not None:
        kept = mask[rows.call - first]
        rows = _Activities(*(column[kept] for column in rows))
    activities, last_end, count = _first_activities(rows, first, stop)
    call = activities.call
    found = Launched(
        call if calls.position is None else calls.position[call],
        calls.start[call],
        calls.end[call],
        activities.table,
        activities.row,
        activities.start,
        last_end,
        activities.stream,
        count,
    )
    if not in_flight:
        return found
    on_its_way = found.gpu_start > found.launch_start
    if window is not None:
        on_its_way &= found.gpu_start > window[0]
    return found if on_its_way.all() else Launched(*(column[on_its_way] for column in found))


def _calls(trace: Trace) -> _Calls:
    table = trace.api_calls.select("api_id", "start_ns", "end_ns", "timing")
    valid = table["timing"] != "invalid"
    position = None
    if not valid.all():
        position = np.flatnonzero(valid.to_numpy())
        table = table.filter(valid)
    return _Calls(position, _small(table["api_id"]), ints(table["start_ns"]), ints(table["end_ns"]))


def _small(column: pl.Series) -> Small:
    """Ids as they are stored; -1 for null."""
    return (column.fill_null(-1) if column.null_count() else column).to_numpy()


def _with_activity_after(trace: Trace, calls: _Calls, stop: int, time_ns: int) -> Ints:
    """Places of calls before `stop` that launched an activity that starts after this time."""
    found = [np.empty(0, dtype=np.int64)]
    if stop:
        for name in schema.ACTIVITY_TABLES:
            table = usable(trace.table(name))
            after = int(np.searchsorted(ints(table["start_ns"]), time_ns, side="right"))
            api_id = _small(table["api_id"].slice(after))
            place = calls.place(api_id[(api_id >= calls.ids[0]) & (api_id <= calls.ids[stop - 1])])
            found.append(place[place >= 0])
    return np.concatenate(found)


def _activities(trace: Trace, calls: _Calls, first: int, stop: int) -> _Activities:
    """The usable activities of the calls at these places, table by table."""
    parts = []
    for number, name in enumerate(schema.ACTIVITY_TABLES):
        table = usable(trace.table(name))
        if not table.height or stop <= first:
            continue
        api_id = _small(table["api_id"])
        inside = (api_id >= calls.ids[first]) & (api_id <= calls.ids[stop - 1])
        columns = [ints(table[column]) for column in ("start_ns", "end_ns")]
        stream = _small(table["stream_id"])
        if inside.all():
            rows = np.arange(table.height)
        else:
            rows = np.flatnonzero(inside)
            api_id, stream, columns = api_id[rows], stream[rows], [column[rows] for column in columns]
        place = calls.place(api_id)
        part = (place, *columns, stream.astype(np.int64), np.full(len(rows), number), rows)
        if len(place) and place.min() < 0:
            part = tuple(column[place >= 0] for column in part)
        parts.append(part)
    if not parts:
        return _Activities(*(np.empty(0, dtype=np.int64) for _ in range(6)))
    if len(parts) == 1:
        return _Activities(*parts[0])
    return _Activities(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _first_activities(rows: _Activities, begin: int, stop: int) -> tuple[_Activities, Ints, Ints]:
    """Of each call: its first activity (equal starts: the first table's), its latest end, its number of activities."""
    call = rows.call - begin
    count = np.bincount(call, minlength=stop - begin)
    first = np.full(stop - begin, UNKNOWN, dtype=np.int64)
    first[call] = np.arange(len(call))
    calls = np.flatnonzero(count)
    shared = np.flatnonzero(count[call] > 1) if len(calls) < len(call) else np.empty(0, dtype=np.int64)
    if len(shared):
        shared = shared[np.lexsort((rows.start[shared], call[shared]))]
        starts = np.flatnonzero(np.append(True, call[shared][1:] != call[shared][:-1]))
        first[call[shared[starts]]] = shared[starts]
    activities = _Activities(*(column[first[calls]] for column in rows))
    last_end = activities.end.copy()
    if len(shared):
        last_end[np.searchsorted(calls, call[shared[starts]])] = np.maximum.reduceat(rows.end[shared], starts)
    return activities, last_end, count[calls]


def null_unless(known: Mask, values: Ints) -> pl.Series:
    """A column that is null where it is not known."""
    series = pl.Series(values)
    return series if known.all() else pl.select(pl.when(pl.Series(known)).then(series)).to_series()
