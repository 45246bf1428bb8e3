"""Percentiles and histograms of many overlapping groups of durations at once.

The groups are ranges of one array: after sorting activities by the preorder number of their call path, the work below
any node is one range. Nodes in a chain share a range, so only distinct ranges are computed. The elements of all
ranges are laid out behind each other and sorted by (range, duration) in one sort of int64 keys.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from gpuviz.analysis.intervals import Ints

BINS = 24
PERCENTILES = (0.5, 0.99)
ELEMENTS_AT_ONCE = 1 << 22
"""Ranges are worked through in batches of about so many elements (a range is never split): bounds the memory."""

SCHEMA = pl.Schema(
    {
        "mean_ns": pl.Float64(),
        "min_ns": pl.Int64(),
        "p50_ns": pl.Int64(),
        "p99_ns": pl.Int64(),
        "max_ns": pl.Int64(),
        "histogram": pl.List(pl.UInt32()),
    }
)


class Distribution(NamedTuple):
    """Per range: mean, exact extremes and percentiles in ns, and a histogram (ranges × 24 counts)."""

    size: Ints
    mean: npt.NDArray[np.float64]
    minimum: Ints
    p50: Ints
    p99: Ints
    maximum: Ints
    histogram: npt.NDArray[np.uint32]

    def columns(self) -> dict[str, pl.Series]:
        """The columns of `SCHEMA`; null for empty ranges."""
        empty = pl.Series(self.size == 0)
        data: tuple[npt.NDArray[Any], ...] = (self.mean, self.minimum, self.p50, self.p99, self.maximum, self.histogram)
        columns = {}
        for name, values in zip(SCHEMA, data, strict=True):
            column = pl.Series(name, values).cast(SCHEMA[name])
            columns[name] = column.zip_with(~empty, column.clear(1)) if empty.any() else column
        return columns


def nearest_rank(count: Ints, percentile: float) -> Ints:
    """Index of a percentile in `count` sorted values: ceil(p · n) − 1, in whole numbers (p in hundredths)."""
    hundredths = round(percentile * 100)
    index: Ints = -(-count * hundredths // 100) - 1
    return index


def describe(durations: Ints, begin: Ints, stop: Ints) -> Distribution:
    """Describe ``durations[begin[i]:stop[i]]`` for every i; ranges may overlap, be equal, or be empty.

    Percentiles are nearest ranks, sorted[ceil(p · n) − 1]. The histogram has 24 bins of equal width on a
    logarithmic axis from the range's minimum to just over its maximum: with d, min and max at least 1 ns,
    bin = min(23, floor(24 · ln(d / min) / ln(max · 1.0001 / min))). Values of empty ranges are 0.
    """
    keys = begin * (len(durations) + 1) + stop
    distinct, back = np.unique(keys, return_inverse=True)
    low, high = np.divmod(distinct, len(durations) + 1)
    high = np.maximum(low, high)
    size = high - low
    numbers = np.zeros((4, len(distinct)), dtype=np.int64)
    histogram = np.zeros((len(distinct), BINS), dtype=np.uint32)
    by_duration = np.argsort(durations)
    rank = np.empty(len(durations), dtype=np.int64)
    rank[by_duration] = np.arange(len(durations))
    ascending = durations[by_duration]
    for batch in _batches(size):
        _describe_batch(rank, ascending, low[batch], size[batch], numbers[:, batch], histogram[batch])
    total = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(durations)))
    mean = (total[high] - total[low]) / np.maximum(size, 1)
    minimum, p50, p99, maximum = numbers[:, back]
    return Distribution(size[back], mean[back], minimum, p50, p99, maximum, histogram[back])


def _batches(size: Ints) -> list[slice]:
    """Slices of the ranges, each of about `ELEMENTS_AT_ONCE` elements."""
    batch = np.cumsum(size) // ELEMENTS_AT_ONCE
    cuts = [0, *(np.flatnonzero(np.diff(batch)) + 1).tolist(), len(size)]
    return [slice(first, last) for first, last in pairwise(cuts) if last > first]


def _describe_batch(
    rank: Ints,
    ascending: Ints,
    low: Ints,
    size: Ints,
    numbers: Ints,
    histogram: npt.NDArray[np.uint32],
) -> None:
    """Fill `numbers` (minimum, p50, p99, maximum) and `histogram` of a batch of ranges."""
    offset = np.cumsum(size) - size
    owner = np.repeat(np.arange(len(size)), size)
    elements = np.arange(len(owner)) + np.repeat(low - offset, size)
    keys = rank[elements]
    keys += owner * len(rank)
    keys.sort()
    keys -= owner * len(rank)
    values = ascending[keys]
    filled = np.flatnonzero(size)
    sizes = size[filled]
    ranks = [np.zeros_like(sizes), *(nearest_rank(sizes, percentile) for percentile in PERCENTILES), sizes - 1]
    for row, index in enumerate(ranks):
        numbers[row, filled] = values[offset[filled] + index]
    least = np.maximum(numbers[0], 1)
    width = np.log(np.maximum(numbers[3], 1) * 1.0001 / least)
    bins = np.log(np.maximum(values, 1) / least[owner])
    bins *= BINS
    bins /= width[owner]
    slots = np.minimum(bins.astype(np.int64), BINS - 1)
    slots += owner * BINS
    histogram[:] = np.bincount(slots, minlength=len(size) * BINS).reshape(-1, BINS)
