"""Percentiles and histograms of overlapping ranges, against one range at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuviz.analysis import distribution
from tests.analysis import brute_force

DURATIONS = st.lists(st.integers(0, 10**12) | st.integers(0, 20) | st.sampled_from([1_000, 10_001]), max_size=60)


@st.composite
def durations_and_ranges(draw: st.DrawFn) -> tuple[list[int], list[tuple[int, int]]]:
    durations = draw(DURATIONS)
    place = st.integers(0, len(durations))
    pairs = draw(st.lists(st.tuples(place, place), min_size=1, max_size=20))
    return durations, [(min(pair), max(pair)) for pair in pairs]


def described(durations: list[int], ranges: list[tuple[int, int]]) -> list[dict[str, Any]]:
    begin, stop = np.array(ranges, dtype=np.int64).T
    columns = distribution.describe(np.array(durations, dtype=np.int64), begin, stop).columns()
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


@pytest.mark.parametrize("small_range", [256, 3, 0], ids=["by sorting", "both", "by bits"])
@given(drawn=durations_and_ranges())
def test_against_one_range_at_a_time(small_range: int, drawn: tuple[list[int], list[tuple[int, int]]]) -> None:
    durations, ranges = drawn
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distribution, "SMALL_RANGE", small_range)
        patch.setattr(distribution, "SORTED_AT_MOST", 0)
        rows = described(durations, ranges)
    for row, (begin, stop) in zip(rows, ranges, strict=True):
        expected = brute_force.statistics(durations[begin:stop])
        bins, wanted_bins = row.pop("histogram"), expected.pop("histogram")
        assert row == expected
        assert (bins is None and wanted_bins is None) or bins.to_list() == wanted_bins


def test_numbers_by_eye() -> None:
    (row,) = described([100, 1, 10, 1000], [(0, 4)])
    assert (row["min_ns"], row["p50_ns"], row["p99_ns"], row["max_ns"]) == (1, 10, 1000, 1000)
    assert row["mean_ns"] == 277.75
    # 24 · ln(10) / ln(1000.1) = 7.9999: each decade begins a hair below bins 8, 16 and 24
    assert [place for place, count in enumerate(row["histogram"]) if count] == [0, 7, 15, 23]


def test_equal_durations_fall_into_the_first_bin() -> None:
    (row,) = described([7] * 5, [(0, 5)])
    assert row["histogram"].to_list() == [5] + [0] * 23


@pytest.mark.parametrize(("count", "p50", "p99"), [(1, 0, 0), (2, 0, 1), (3, 1, 2), (100, 49, 98), (101, 50, 99)])
def test_nearest_rank(count: int, p50: int, p99: int) -> None:
    assert distribution.nearest_rank(np.array(count), 0.5) == p50
    assert distribution.nearest_rank(np.array(count), 0.99) == p99
