"""What each host thread was doing at each instant: the innermost recorded row, and what kind of work it is."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from gpuviz.analysis.host_kinds import (
    COLLECTIVE,
    COPY_CALL,
    DATA_LOADER,
    DISPATCH,
    LAUNCH_CALL,
    OPERATOR,
    OTHER_CALL,
    OVERHEAD,
    PYTHON,
    SYNC,
    WAITING,
    Kinds,
    api_kinds,
    special_kinds,
)
from gpuviz.analysis.intervals import IntervalSet, Ints
from gpuviz.analysis.selection import Mask, ints, times, touching, usable
from gpuviz.model import Trace, Window, schema
from gpuviz.model.nesting import nest

_HOST, _API, _RANGE = range(3)
_NAMES = pl.Categorical()


class HostRows(NamedTuple):
    """Host calls, API calls and waits named by ranges that have time in the window: thread by thread, outer before
    inner. Rows of no length hold no instant and are left out."""

    thread: Ints
    start: Ints
    end: Ints
    parent: Ints
    """The row around it in the same thread; -1 for none."""
    kind: Kinds
    """A place in `HOST_KINDS`."""
    callpath: Ints
    """-1 where it has none."""
    name: pl.Series


class HostStates(NamedTuple):
    """Intervals in which one row is the innermost of its thread; intervals of one thread are disjoint.

    Together they cover exactly the instants at which a row of the thread runs. In no particular order.
    """

    row: Ints
    """A row of `HostRows`."""
    start: Ints
    end: Ints


class _Part(NamedTuple):
    source: int
    thread: Ints
    start: Ints
    end: Ints
    kind: Kinds
    callpath: Ints
    name: pl.Series


def host_rows(trace: Trace, window: Window | None) -> HostRows:
    """All rows of host threads that have time in the window, uncut, nested by time, each with its kind."""
    parts = [_ranges(trace, window), _host_calls(trace, window), _api_calls(trace, window)]
    source = np.concatenate([np.full(len(part.start), part.source) for part in parts])
    thread, start, end, kind, callpath = (
        np.concatenate([part[column] for part in parts]) for column in range(1, len(_Part._fields) - 1)
    )
    name = pl.concat([part.name.cast(_NAMES) for part in parts])
    order = _preorder(thread, start, end)
    if order is not None:
        source, thread, start, end, kind, callpath = (
            column[order] for column in (source, thread, start, end, kind, callpath)
        )
        name = name.gather(order)
    parent = nest(thread, start, end, tolerance_ns=0).parent.astype(np.int64)
    return HostRows(thread, start, end, parent, _with_context(kind, source, parent), callpath, name)


def host_states(rows: HostRows) -> HostStates:
    """The intervals in which each row is the innermost one of its thread: that of the open rows that began last.

    Every row opens one interval at its start. Where a row ends as the innermost one, the innermost of those still
    open goes on, up to the next start.
    """
    count = len(rows.start)
    base = rows.thread * (int(rows.end.max(initial=0)) + 1)
    start, end = rows.start + base, rows.end + base
    following = np.append(start[1:], np.iinfo(np.int64).max)
    after = np.arange(1, count + 1)
    inner = np.flatnonzero(following < end)  # rows in which others begin
    after[inner] = np.searchsorted(start, end[inner])
    innermost = np.ones(count, dtype=np.bool_)  # when it ends
    innermost[inner] = _open_at(end, rows.parent, after[inner] - 1, end[inner], including=True) == inner
    ending = np.flatnonzero(innermost & (rows.parent >= 0))
    going_on = _open_at(end, rows.parent, rows.parent[ending], end[ending], including=False)
    ending, going_on = ending[going_on >= 0], going_on[going_on >= 0]
    stop = np.minimum(np.append(start, np.iinfo(np.int64).max)[after[ending]], end[going_on])
    row = np.concatenate((np.arange(count), going_on))
    begins = np.concatenate((rows.start, rows.end[ending]))
    ends = np.concatenate((np.minimum(following, end), stop)) - base[row]
    lasting = ends > begins
    return HostStates(row[lasting], begins[lasting], ends[lasting])


def _open_at(end: Ints, parent: Ints, row: Ints, time: Ints, *, including: bool) -> Ints:
    """The first of a row and the rows around it that has not ended at the time; -1 for none.

    `including`: a row that ends just then counts as open.
    """
    row = row.copy()
    pending = np.flatnonzero(row >= 0)
    while len(pending):
        ends = end[row[pending]]
        over = ends < time[pending] if including else ends <= time[pending]
        pending = pending[over]
        row[pending] = parent[row[pending]]
        pending = pending[row[pending] >= 0]
    return row


def _lasting(table: pl.DataFrame, window: Window | None) -> pl.DataFrame:
    """Usable rows that have time in the window."""
    table = usable(table)
    spans = times(table)
    kept = spans.end > spans.start
    if window is not None:
        kept &= touching(spans, window)
    return table if kept.all() else table.filter(pl.Series(kept))


def _part(source: int, table: pl.DataFrame, kind: Kinds) -> _Part:
    spans = times(table)
    callpath = ints(table["callpath_id"]) if "callpath_id" in table.columns else np.full(table.height, -1)
    return _Part(source, ints(table["thread_id"]), *spans, kind, callpath, table["name"])


def _ranges(trace: Trace, window: Window | None) -> _Part:
    """Only those that name a wait: for the next batch, or for a collective operation."""
    table = _lasting(trace.ranges.filter(pl.col("thread_id").is_not_null()), window)
    kind = special_kinds(table["name"])
    wait = (kind == DATA_LOADER) | (kind == COLLECTIVE)
    return _part(_RANGE, table.filter(pl.Series(wait)), kind[wait])


def _host_calls(trace: Trace, window: Window | None) -> _Part:
    table = _lasting(trace.host_calls, window)
    layer = table["layer"].to_physical().to_numpy()
    kind = special_kinds(table["name"])
    python = np.isin(layer, [schema.HOST_LAYERS.index("python"), schema.HOST_LAYERS.index("module")])
    plain = (kind == PYTHON) | (kind == WAITING)
    kind[plain & (layer == schema.HOST_LAYERS.index("op"))] = OPERATOR
    kind[plain & ~python & (layer == schema.HOST_LAYERS.index("other"))] = OTHER_CALL
    kind[is_overhead(table)] = OVERHEAD
    return _part(_HOST, table, kind)


def is_overhead(host_calls: pl.DataFrame) -> Mask:
    """Which host calls are records of overhead: (rows,)."""
    mask: Mask = (host_calls["category"].cast(pl.String) == "overhead").fill_null(False).to_numpy()
    return mask


def _api_calls(trace: Trace, window: Window | None) -> _Part:
    table = _lasting(trace.api_calls, window)
    return _part(_API, table, api_kinds(table["name"]))


def _preorder(thread: Ints, start: Ints, end: Ints) -> Ints | None:
    """Order by thread, start, longest first, then as given; None where that is the order already."""
    if len(start) < 2:
        return None
    order = None
    if (start[1:] < start[:-1]).any():
        order = np.argsort(start, kind="stable")
        thread, start, end = thread[order], start[order], end[order]
    if (thread[1:] < thread[:-1]).any():
        by_thread = np.argsort(thread.astype(np.uint16) if thread.max() < 2**16 else thread, kind="stable")
        order = by_thread if order is None else order[by_thread]
        thread, start, end = thread[by_thread], start[by_thread], end[by_thread]
    equal = (thread[1:] == thread[:-1]) & (start[1:] == start[:-1])
    if (equal & (end[1:] > end[:-1])).any():
        order = np.arange(len(start)) if order is None else order
        tied = np.flatnonzero(np.append(equal, False) | np.append(False, equal))
        group = np.cumsum(np.append(True, ~equal))[tied]
        order[tied] = order[tied][np.lexsort((-end[tied], group))]
    return order


def _with_context(kind: Kinds, source: Ints, parent: Ints) -> Kinds:
    """What surrounds a row can change its kind.

    - An operator, or another call in it, is ``dispatch`` where the operators around it and in it launch something:
      of a chain of operators without Python in between, the outermost one decides.
    - What lies in a wait for the next batch or for a collective belongs to that wait, except for launches, copies and
      allocations; in a wait for a collective so does the API call that waits.
    """
    if not len(kind) or parent.max() < 0:
        return kind
    kind = kind.copy()
    chained = (kind == OPERATOR) | (source == _API)
    around = np.maximum(parent, 0)
    outermost = follow(np.where(chained & (parent >= 0) & chained[around], parent, np.arange(len(kind))))
    launching = np.zeros(len(kind), dtype=np.bool_)
    launching[outermost[((kind == LAUNCH_CALL) | (kind == COPY_CALL)) & (source == _API)]] = True
    launching &= source != _API
    dispatching = launching[outermost] & ((kind == OPERATOR) | (kind == OTHER_CALL))
    special = (kind == DATA_LOADER) | (kind == COLLECTIVE)
    kind[dispatching] = DISPATCH
    if special.any():
        nearest = follow(np.where(special | (parent < 0), np.arange(len(kind)), parent))
        of_wait = np.where(special[nearest], kind[nearest], PYTHON)
        idle = np.isin(kind, (PYTHON, WAITING, OPERATOR, OTHER_CALL))
        inside = special[nearest] & (idle | ((kind == SYNC) & (of_wait == COLLECTIVE)))
        kind[inside] = of_wait[inside]
    return kind


def follow(link: Ints) -> Ints:
    """Where each row ends up when links are followed to a row that links to itself: (rows,)."""
    while True:
        further = link[link]
        if (further == link).all():
            return link
        link = further


def threads_of_device(trace: Trace, device_id: int) -> Mask:
    """Which threads belong to the processes that use the device: by thread_id; all where that is not known."""
    processes = trace.streams.filter(pl.col("device_id") == device_id)["process_id"]
    if processes.null_count() or not len(processes):
        return np.ones(trace.threads.height, dtype=np.bool_)
    mask: Mask = trace.threads["process_id"].is_in(processes.unique().implode()).to_numpy()
    return mask


def clip_states(states: HostStates, window: Window) -> IntervalSet:
    """Their parts in the window; empty ones have end <= start."""
    return IntervalSet(np.maximum(states.start, window[0]), np.minimum(states.end, window[1]))
