"""The gaps between the busy intervals of each device, cut by what the host was doing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from gpuviz.analysis.host_kinds import HOST_KINDS
from gpuviz.analysis.host_states import HostRows, HostStates, host_states, threads_of_device
from gpuviz.analysis.intervals import IntervalSet, Ints, covered_in, union
from gpuviz.analysis.launched import UNKNOWN, Launched, launched
from gpuviz.analysis.selection import DeviceIntervals, device_of_stream, was_recorded
from gpuviz.model import Trace, Window, schema

CAUSES = (
    *("queued", "overhead", "launching", "copy_call", "allocator", "collective", "sync", "data_loader", "other_call"),
    *("operator", "python", "waiting", "nothing_recorded"),
)
POSITIONS = ("between", "before_first", "after_last", "no_activity")
_CAUSE_OF_KIND = np.array(
    [CAUSES.index("launching" if kind in ("launch_call", "dispatch") else kind) for kind in HOST_KINDS]
)
_NOTHING = CAUSES.index("nothing_recorded")


class Pieces(NamedTuple):
    """Parts of gaps; `row` is one of `HostRows`, `call` one of `api_calls` (`UNKNOWN`: none)."""

    start: Ints
    end: Ints
    cause: Ints
    row: Ints
    call: Ints


class DeviceIdle(NamedTuple):
    """The idle time of one device: its gaps, their pieces, and the place of the gap of each piece."""

    device_id: int
    span: Window
    gaps: IntervalSet
    pieces: Pieces
    gap: Ints
    position: Ints
    """Of each gap, a place in `POSITIONS`."""


def idle_pieces(trace: Trace, window: Window | None, rows: HostRows) -> Iterator[DeviceIdle]:
    """The idle time of each device that has a span as in `device_time`; `rows` are the host rows of that window."""
    intervals = DeviceIntervals(trace, window)
    states = host_states(rows)
    in_flight = launched(trace, window, in_flight=True)
    for device_id in trace.devices["device_id"].to_list():
        activities = intervals.of(device_id, schema.ACTIVITY_TABLES)
        if not (len(activities.start) if window is None else was_recorded(trace, device_id)):
            continue
        busy = union(*activities)
        span = window if window is not None else (int(activities.start[0]), int(activities.end.max()))
        gaps = _complement(busy, span)
        own = device_of_stream(trace)[in_flight.stream] == device_id
        queue = in_flight if own.all() else Launched(*(column[own] for column in in_flight))
        here = threads_of_device(trace, device_id)[rows.thread[states.row]]
        seen = states if here.all() else HostStates(*(column[here] for column in states))
        pieces = _pieces(gaps, queue, rows, seen)
        gap = np.searchsorted(gaps.start, pieces.start, side="right") - 1
        yield DeviceIdle(device_id, span, gaps, pieces, gap, _positions(gaps, busy))


def _positions(gaps: IntervalSet, busy: IntervalSet) -> Ints:
    position = np.zeros(len(gaps.start), dtype=np.int64)
    if not len(busy.start):
        position[:] = POSITIONS.index("no_activity")
    else:
        position[gaps.end <= busy.start[0]] = POSITIONS.index("before_first")
        position[gaps.start >= busy.end[-1]] = POSITIONS.index("after_last")
    return position


def _piece(spans: IntervalSet, cause: Ints | int, row: Ints | int = UNKNOWN, call: Ints | int = UNKNOWN) -> Pieces:
    shape = len(spans.start)
    return Pieces(*spans, *(np.broadcast_to(np.asarray(column), shape) for column in (cause, row, call)))


def _pieces(gaps: IntervalSet, queue: Launched, rows: HostRows, states: HostStates) -> Pieces:
    """The gaps, cut by cause, sorted."""
    waits = (queue.launch_end != UNKNOWN) & (queue.launch_end < queue.gpu_start)
    by_start = np.argsort(queue.gpu_start[waits], kind="stable")
    starts, calls = queue.gpu_start[waits][by_start], queue.call[waits][by_start]
    returned = np.flatnonzero(waits)[np.argsort(queue.launch_end[waits], kind="stable")]
    on_their_way = union(queue.launch_end[returned], queue.gpu_start[returned])
    _, _, *queued = _overlaps(gaps, on_their_way)
    _, _, *left = _overlaps(gaps, _outside(on_their_way))
    parts = [
        _piece(IntervalSet(*queued), 0, call=calls[np.searchsorted(starts, queued[1])] if len(starts) else UNKNOWN)
    ]
    parts += _by_host(IntervalSet(*left), rows, states)
    joined = [np.concatenate(columns) for columns in zip(*parts, strict=True)]
    order = np.argsort(joined[0], kind="stable")
    return Pieces(*(column[order] for column in joined))


def _by_host(left: IntervalSet, rows: HostRows, states: HostStates) -> list[Pieces]:
    """What is left of the gaps, by what the threads were doing."""
    touched = np.flatnonzero(covered_in(left, states.start, states.end) > 0)
    touched = touched[np.argsort(states.start[touched], kind="stable")]
    row, start, end = (column[touched] for column in states)
    cause, thread = _CAUSE_OF_KIND[rows.kind[row]], rows.thread[row]
    parts = []
    one_thread = not len(thread) or thread.min() == thread.max()
    # The intervals of one thread are disjoint. Of several threads, the first cause takes its time before the next.
    threads = int(thread.max(initial=0)) + 1
    rank = np.zeros_like(thread) if one_thread else rows.kind[row].astype(np.int64) * threads + thread
    for group in np.flatnonzero(np.bincount(rank)).tolist():
        here = np.flatnonzero(rank == group)
        own = IntervalSet(start[here], end[here])
        _, which, *spans = _overlaps(left, own)
        chosen = here[which]
        parts.append(_piece(IntervalSet(*spans), cause[chosen], row[chosen]))
        _, _, *rest = _overlaps(left, _outside(own))
        left = IntervalSet(*rest)
    parts.append(_piece(left, _NOTHING))
    return parts


def _overlaps(first: IntervalSet, second: IntervalSet) -> tuple[Ints, Ints, Ints, Ints]:
    """All overlaps of two sorted sets without overlaps of their own: places in both, start, end."""
    if not len(first.start) or not len(second.start):
        return (np.empty(0, dtype=np.int64),) * 4
    begin = np.searchsorted(second.end, first.start, side="right")
    stop = np.searchsorted(second.start, first.end, side="left")
    counts = np.maximum(stop - begin, 0)
    left = np.repeat(np.arange(len(first.start)), counts)
    right = np.arange(len(left)) - np.repeat(np.cumsum(counts) - counts - begin, counts)
    start, end = np.maximum(first.start[left], second.start[right]), np.minimum(first.end[left], second.end[right])
    return left, right, start, end


def _outside(spans: IntervalSet) -> IntervalSet:
    """All time that a sorted set without overlaps does not cover, as far as int64 goes; touching leaves no gap."""
    limits = np.iinfo(np.int64)
    start, end = np.append(limits.min, spans.end), np.append(spans.start, limits.max)
    lasting = end > start
    return IntervalSet(start[lasting], end[lasting])


def _complement(busy: IntervalSet, span: Window) -> IntervalSet:
    start, end = np.append(span[0], busy.end), np.append(busy.start, span[1])
    lasting = end > start
    return IntervalSet(start[lasting], end[lasting])
