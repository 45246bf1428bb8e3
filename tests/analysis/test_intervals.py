"""Interval algebra against sets of instants."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuviz.analysis import intervals
from gpuviz.analysis.intervals import EMPTY, IntervalSet
from gpuviz.analysis.selection import exact_sums

PAIRS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)), max_size=20)
WINDOWS = st.tuples(st.integers(-5, 70), st.integers(1, 40)).map(lambda pair: (pair[0], pair[0] + pair[1]))


def interval_set(pairs: list[tuple[int, int]]) -> IntervalSet:
    """Intervals of (start, length), sorted by start."""
    start, length = np.array(sorted(pairs, key=lambda pair: pair[0]), dtype=np.int64).reshape(-1, 2).T
    return IntervalSet(start, start + length)


def instants(one: IntervalSet) -> set[int]:
    return {t for start, end in zip(one.start.tolist(), one.end.tolist(), strict=True) for t in range(start, end)}


SETS = PAIRS.map(interval_set)
DISJOINT = SETS.map(lambda one: intervals.union(*one))


@given(SETS)
def test_union(one: IntervalSet) -> None:
    merged = intervals.union(*one)
    assert instants(merged) == instants(one)
    assert merged.length == intervals.union_length(*one) == len(instants(one))
    assert (merged.start < merged.end).all()
    assert (merged.start[1:] > merged.end[:-1]).all(), "touching intervals are one"


@given(DISJOINT, DISJOINT)
def test_overlap(first: IntervalSet, second: IntervalSet) -> None:
    both = instants(first) & instants(second)
    assert intervals.overlap_length(first, second) == len(both)
    common = intervals.intersection(first, second)
    assert instants(common) == both
    assert common.length == len(both)
    assert intervals.union_length(*intervals.merge(first, second)) == first.length + second.length - len(both)


@given(st.lists(SETS, max_size=3))
def test_merge_keeps_every_interval_and_sorts_by_start(sets: list[IntervalSet]) -> None:
    merged = intervals.merge(*sets)
    assert (np.diff(merged.start) >= 0).all()
    pairs = [pair for one in sets for pair in zip(*one, strict=True)]
    assert sorted(zip(*merged, strict=True)) == sorted(pairs)


@given(DISJOINT, SETS)
def test_busy_time_before_an_instant_and_in_an_interval(busy: IntervalSet, queries: IntervalSet) -> None:
    covered = instants(busy)
    before = intervals.busy_before(busy, queries.start)
    assert before.tolist() == [sum(t < start for t in covered) for start in queries.start.tolist()]
    expected = [len(covered & set(range(start, end))) for start, end in zip(*queries, strict=True)]
    assert intervals.covered_in(busy, *queries).tolist() == expected


@given(SETS, WINDOWS)
def test_clipping(one: IntervalSet, window: tuple[int, int]) -> None:
    inside = set(range(*window))
    cut = intervals.clip(*one, window)
    assert instants(cut) == instants(one) & inside
    assert (np.diff(cut.start) >= 0).all()
    durations = intervals.clipped_durations(*one, window)
    assert durations.tolist() == [len(set(range(start, end)) & inside) for start, end in zip(*one, strict=True)]
    assert intervals.clipped_durations(*one, None).tolist() == (one.end - one.start).tolist()


def test_nothing() -> None:
    assert intervals.union(*EMPTY) == EMPTY
    assert intervals.union_length(*EMPTY) == EMPTY.length == 0
    assert intervals.overlap_length(EMPTY, interval_set([(0, 5)])) == 0
    assert intervals.covered_in(EMPTY, *interval_set([(0, 5)])).tolist() == [0]


def test_inputs_are_left_as_they_were() -> None:
    one, other = interval_set([(0, 5), (3, 9)]), interval_set([(4, 2)])
    before = [values.copy() for values in (*one, *other)]
    intervals.union_length(*one)
    intervals.overlap_length(intervals.union(*one), other)
    intervals.clip(*one, (1, 4))
    assert all((now == then).all() for now, then in zip((*one, *other), before, strict=True))


@pytest.mark.parametrize("offset", [0, 2**53 + 1, 2**62])
def test_exact_beyond_float64(offset: int) -> None:
    one = interval_set([(offset, 3), (offset + 1, 4), (offset + 10, 1)])
    assert intervals.union_length(*one) == 6
    assert intervals.busy_before(intervals.union(*one), np.array([offset + 4])).tolist() == [4]


@given(st.lists(st.tuples(st.integers(-1, 3), st.integers(0, 2**58)), max_size=12))
def test_sums_are_exact_at_any_size(rows: list[tuple[int, int]]) -> None:
    group, values = np.array(rows, dtype=np.int64).reshape(-1, 2).T
    expected = [sum(value for owner, value in rows if owner == one) for one in range(4)]
    assert exact_sums(group, values, 4).tolist() == expected
