"""Percentiles and histograms of many overlapping groups of durations at once.

The groups are ranges of one array: after sorting activities by the preorder number of their call path, the work below
any node is one range. Nodes in a chain share a range, so only distinct ranges are computed. A deep tree has many
ranges that are nearly the whole array, so the work must not grow with the sum of their sizes:

- small ranges, and all where they hardly overlap, are laid out behind each other and sorted by (range, duration) in
  one sort of int64 keys;
- large ranges are otherwise answered by a wavelet matrix: the ranks of the durations are split by their bits from
  the highest down, and each question ("the k-th smallest of this range", "how many of this range are below r")
  follows the split with two look-ups a bit (Claude, Navarro, Ordóñez: The wavelet matrix, 2015). Only one level is
  in memory at once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from gpuviz.analysis.intervals import Ints

BINS = 24
PERCENTILES = (0.5, 0.99)
SMALL_RANGE = 256
"""Ranges of at most so many elements are sorted; above, some 25 questions are cheaper. Both give the same numbers."""

SORTED_AT_MOST = 8
"""All ranges are sorted when their sizes add up to at most so many times the array."""

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
    keys = begin * (len(durations) + 1) + np.maximum(begin, stop)
    distinct, back = np.unique(keys, return_inverse=True)
    low, high = np.divmod(distinct, len(durations) + 1)
    size = high - low
    numbers = np.zeros((4, len(distinct)), dtype=np.int64)
    histogram = np.zeros((len(distinct), BINS), dtype=np.uint32)
    by_duration = np.argsort(durations)
    rank = np.empty(len(durations), dtype=np.int64)
    rank[by_duration] = np.arange(len(durations))
    ranked = _Ranked(rank, durations[by_duration])
    limit = SMALL_RANGE if size.sum() > SORTED_AT_MOST * len(durations) else len(durations)
    small, large = np.flatnonzero((size > 0) & (size <= limit)), np.flatnonzero(size > limit)
    for rows, describe_rows in ((small, _describe_by_sorting), (large, _describe_by_bits)):
        if len(rows):
            numbers[:, rows], histogram[rows] = describe_rows(ranked, low[rows], high[rows])
    total = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(durations)))
    mean = (total[high] - total[low]) / np.maximum(size, 1)
    minimum, p50, p99, maximum = numbers[:, back]
    return Distribution(size[back], mean[back], minimum, p50, p99, maximum, histogram[back])


class _Ranked(NamedTuple):
    """The durations as ranks (a permutation), and all durations ascending."""

    rank: Ints
    ascending: Ints


def _bins(durations: Ints, least: Ints, most: Ints) -> Ints:
    """The histogram bin of each duration in a range from `least` to `most`."""
    least, most = np.maximum(least, 1), np.maximum(most, 1)
    place = BINS * np.log(np.maximum(durations, 1) / least) / np.log(most * 1.0001 / least)
    bins: Ints = np.minimum(place.astype(np.int64), BINS - 1)
    return bins


def _describe_by_sorting(ranked: _Ranked, low: Ints, high: Ints) -> tuple[Ints, npt.NDArray[np.uint32]]:
    """Minimum, p50, p99 and maximum (4 × ranges), and the histograms (ranges × 24), of ranges that are not empty."""
    size = high - low
    offset = np.cumsum(size) - size
    owner = np.repeat(np.arange(len(size)), size)
    keys = ranked.rank[np.arange(len(owner)) + np.repeat(low - offset, size)]
    keys += owner * len(ranked.rank)
    keys.sort()
    keys -= owner * len(ranked.rank)
    values = ranked.ascending[keys]
    middle = [nearest_rank(size, percentile) for percentile in PERCENTILES]
    numbers = np.stack([values[offset + index] for index in (np.zeros_like(size), *middle, size - 1)])
    slots = _bins(values, numbers[0][owner], numbers[3][owner])
    slots += owner * BINS
    histogram = np.bincount(slots, minlength=len(size) * BINS).reshape(-1, BINS)
    return numbers, histogram.astype(np.uint32)


def _describe_by_bits(ranked: _Ranked, low: Ints, high: Ints) -> tuple[Ints, npt.NDArray[np.uint32]]:
    """The same as `_describe_by_sorting`."""
    pairs = np.stack((low, high), axis=1).ravel()
    ranks = np.append(ranked.rank, 0)  # a range may end at the end of the array
    first, last = np.minimum.reduceat(ranks, pairs)[::2], np.maximum.reduceat(ranks, pairs)[::2]
    least, most = ranked.ascending[first], ranked.ascending[last]
    below = np.searchsorted(ranked.ascending, _bin_edges(least, most))
    places = np.stack([nearest_rank(high - low, percentile) for percentile in PERCENTILES])
    at_place, counts = _follow_bits(ranked.rank, low, high, places, below)
    numbers = np.stack((least, *ranked.ascending[at_place], most))
    cumulated = np.concatenate((np.zeros((1, len(low)), dtype=np.int64), counts, (high - low)[None]))
    return numbers, np.diff(cumulated, axis=0).T.astype(np.uint32)


def _bin_edges(least: Ints, most: Ints) -> Ints:
    """The smallest duration of bins 1 to 23 (23 × ranges): by the inverse of `_bins`, corrected to its rounding."""
    bins = np.arange(1, BINS)[:, None]
    start = np.maximum(least, 1)
    width = np.log(np.maximum(most, 1) * 1.0001 / start)
    edges = np.ceil(start * np.exp(bins * width / BINS)).astype(np.int64)
    edges -= _bins(edges - 1, least, most) >= bins
    edges += _bins(edges, least, most) < bins
    return edges


def _follow_bits(rank: Ints, low: Ints, high: Ints, places: Ints, below: Ints) -> tuple[Ints, Ints]:
    """Questions about ranges of a permutation: (questions × ranges) in, the same shape out.

    `places`: the value at this place of the sorted range. `below`: how many values of the range are smaller.
    """
    index = np.int32  # activity ids are 32 bits wide; half the memory traffic of 64
    level, low32, high32, place_left, asked = (part.astype(index) for part in (rank, low, high, places, below))
    values = np.zeros_like(place_left)
    place_low, place_high = (np.broadcast_to(side, places.shape) for side in (low32, high32))
    everything = asked == len(rank)
    counts = np.where(everything, high32 - low32, index(0))
    count_low, count_high = (np.broadcast_to(side, below.shape) for side in (low32, high32))
    for bit in range(int(len(rank) - 1).bit_length() - 1, -1, -1):
        is_one = (level >> bit) & 1
        zeros = np.zeros(len(level) + 1, dtype=index)
        np.cumsum(1 - is_one, out=zeros[1:])
        split = zeros[-1]
        zeros_low, zeros_high = zeros[place_low], zeros[place_high]
        up = place_left >= zeros_high - zeros_low
        place_left -= np.where(up, zeros_high - zeros_low, index(0))
        place_low = np.where(up, split + place_low - zeros_low, zeros_low)
        place_high = np.where(up, split + place_high - zeros_high, zeros_high)
        values |= up.astype(index) << bit
        zeros_low, zeros_high = zeros[count_low], zeros[count_high]
        up = (asked >> bit) & 1 == 1
        counts += np.where(up & ~everything, zeros_high - zeros_low, index(0))
        count_low = np.where(up, split + count_low - zeros_low, zeros_low)
        count_high = np.where(up, split + count_high - zeros_high, zeros_high)
        level = np.concatenate((level[is_one == 0], level[is_one == 1]))
    return values.astype(np.int64), counts.astype(np.int64)
