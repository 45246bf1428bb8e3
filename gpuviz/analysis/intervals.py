"""Interval algebra over sorted starts: unions, overlaps, busy time before an instant. NumPy only, int64 ns, exact.

An interval set is two int64 arrays of one length, ``start`` and ``end``, half-open ``[start, end)`` with
``start <= end``. *Sorted* means ascending starts, as the tables of a trace are; ends may be in any order.
*Disjoint* means sorted, not empty, and neither overlapping nor touching: what `union` returns. Intervals of no
length add nothing to any length.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

type Ints = npt.NDArray[np.int64]


class IntervalSet(NamedTuple):
    """``start`` and ``end`` of each interval, ns."""

    start: Ints
    end: Ints

    @property
    def length(self) -> int:
        """The sum of all durations, ns; of a disjoint set, the time that it covers."""
        return int((self.end - self.start).sum())


EMPTY = IntervalSet(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


def union_length(start: Ints, end: Ints) -> int:
    """The time covered by sorted intervals, ns: Σ max(0, end − max(start, latest end before)), in one pass."""
    if not len(start):
        return 0
    covered_until = np.empty_like(end)
    covered_until[0] = start[0]
    np.maximum.accumulate(end[:-1], out=covered_until[1:])
    np.maximum(covered_until, start, out=covered_until)
    np.subtract(end, covered_until, out=covered_until)
    return int(np.maximum(covered_until, 0, out=covered_until).sum())


def union(start: Ints, end: Ints) -> IntervalSet:
    """Sorted intervals as the disjoint intervals that cover the same time."""
    if not len(start):
        return EMPTY
    covered_until = np.maximum.accumulate(end)
    first = np.empty(len(start), dtype=np.bool_)
    first[0] = True
    np.greater(start[1:], covered_until[:-1], out=first[1:])
    starts_at = np.flatnonzero(first)
    last = np.append(starts_at[1:], len(start)) - 1
    merged = IntervalSet(start[starts_at], covered_until[last])
    lasting = merged.end > merged.start
    return merged if lasting.all() else IntervalSet(merged.start[lasting], merged.end[lasting])


def merge(*sets: IntervalSet) -> IntervalSet:
    """All intervals of some sorted sets as one sorted set; equal starts keep the order of the arguments."""
    filled = [one for one in sets if len(one.start)]
    if len(filled) <= 1:
        return filled[0] if filled else EMPTY
    start = np.concatenate([one.start for one in filled])
    order = np.argsort(start, kind="stable")  # sorted runs are merged, not sorted again
    return IntervalSet(start[order], np.concatenate([one.end for one in filled])[order])


def overlap_length(first: IntervalSet, second: IntervalSet) -> int:
    """The time, ns, that two disjoint sets both cover.

    With all starts and all ends sorted by themselves, Σ max(0, end[i] − start[i + 1]) is the integral of
    (intervals running − 1) where any runs; of two disjoint sets at most two run at once, so it is their overlap.
    """
    if not len(first.start) or not len(second.start):
        return 0
    starts = np.sort(np.concatenate((first.start, second.start)), kind="stable")
    ends = np.sort(np.concatenate((first.end, second.end)), kind="stable")
    both = np.subtract(ends[:-1], starts[1:], out=starts[1:])
    return int(np.maximum(both, 0, out=both).sum())


def intersection(first: IntervalSet, second: IntervalSet) -> IntervalSet:
    """The time that two disjoint sets both cover, as a disjoint set."""
    if not len(first.start) or not len(second.start):
        return EMPTY
    begin = np.searchsorted(second.end, first.start, side="right")
    stop = np.searchsorted(second.start, first.end, side="left")
    counts = np.maximum(stop - begin, 0)
    left = np.repeat(np.arange(len(first.start)), counts)
    right = np.arange(len(left)) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(begin, counts)
    start = np.maximum(first.start[left], second.start[right])
    return IntervalSet(start, np.minimum(first.end[left], second.end[right]))


def busy_before(busy: IntervalSet, times: Ints) -> Ints:
    """F(t): how much of the disjoint set lies before each time t, ns.

    The covered time in ``[a, b)`` is F(b) − F(a), for any number of intervals at once.
    """
    if not len(busy.start):
        return np.zeros(len(times), dtype=np.int64)
    covered = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(busy.end - busy.start)))
    began = np.searchsorted(busy.start, times, side="right")
    rest = np.maximum(busy.end[np.maximum(began - 1, 0)] - times, 0)
    before: Ints = covered[began] - np.where(began > 0, rest, 0)
    return before


def covered_in(busy: IntervalSet, start: Ints, end: Ints) -> Ints:
    """How much of each interval ``[start, end)`` the disjoint set covers, ns; 0 where end <= start."""
    covered: Ints = np.maximum(busy_before(busy, end) - busy_before(busy, start), 0)
    return covered


def clip(start: Ints, end: Ints, window: tuple[int, int] | None) -> IntervalSet:
    """The parts of sorted intervals inside the window, sorted; what lies outside is left out."""
    if window is None:
        return IntervalSet(start, end)
    inside = (start < window[1]) & (end > window[0])
    if not inside.all():
        start, end = start[inside], end[inside]
    return IntervalSet(np.maximum(start, window[0]), np.minimum(end, window[1]))


def clipped_durations(start: Ints, end: Ints, window: tuple[int, int] | None) -> Ints:
    """How much of each interval lies inside the window, ns; row for row, 0 outside."""
    if window is None:
        return end - start
    durations: Ints = np.minimum(end, window[1]) - np.maximum(start, window[0])
    return np.maximum(durations, 0, out=durations)
