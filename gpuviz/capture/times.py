"""From a record's clock to the trace's: what is usable, what is unknown, and null for it.

CUPTI writes 0 where it does not know a time, an id or a count, and all ones where an id does not apply. `known` is
the one place that says so; everything else asks it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from gpuviz.capture.recording import ClockPair
from gpuviz.model import Diagnostics, schema

type Ints = npt.NDArray[np.int64]
type Bools = npt.NDArray[np.bool_]

INVALID_ID = 0xFFFFFFFF  # CUPTI_SYNCHRONIZATION_INVALID_VALUE, CUPTI_INVALID_STREAM_ID
OK, OPEN, INVALID = range(3)
NONE = -1  # in arrays of row numbers: no row

# A record may lie this far outside the capture (work launched before it, delivered late); beyond, its time is garbage.
_SLACK_NS = 24 * 3600 * 10**9


def known(values: npt.NDArray[np.integer]) -> Bools:
    """Where CUPTI wrote a value: neither 0 nor, in 32 bits, all ones."""
    where: Bools = values != 0
    if values.dtype.itemsize == 4:
        where &= values.astype(np.uint32) != INVALID_ID
    return where


def series(values: npt.NDArray[np.generic], dtype: pl.DataType, where: Bools | None = None) -> pl.Series:
    """A column; null where `where` is false."""
    column = pl.Series(values=values)
    if where is not None and not where.all():
        column = pl.select(pl.when(pl.Series(values=where)).then(column)).to_series()
    return column.cast(dtype)


def pick(values: npt.NDArray[np.integer], at: Ints) -> Ints:
    """``values[at]``; NONE where `at` is NONE."""
    found = np.full(len(at), NONE, dtype=np.int64)
    some = at != NONE
    found[some] = values[at[some]]
    return found


@dataclass(frozen=True)
class Times:
    """Starts and ends in Unix ns, one element per record; 0 where `has_start` or `has_end` is false."""

    start: Ints
    end: Ints
    has_start: Bools
    has_end: Bools

    def __len__(self) -> int:
        return len(self.start)

    @property
    def timing(self) -> npt.NDArray[np.uint8]:
        """OK, OPEN or INVALID."""
        whole = self.has_start & self.has_end
        code = np.full(len(self), INVALID, dtype=np.uint8)
        code[whole & (self.start <= self.end)] = OK
        code[self.has_start & ~self.has_end] = OPEN
        return code

    def columns(self, t0_unix_ns: int) -> dict[str, pl.Series]:
        """The columns start_ns, end_ns and timing."""
        names = pl.Series(schema.TIMINGS, dtype=pl.Enum(schema.TIMINGS))
        return {
            "start_ns": series(self.start - t0_unix_ns, pl.Int64(), self.has_start),
            "end_ns": series(self.end - t0_unix_ns, pl.Int64(), self.has_end),
            "timing": names.gather(pl.Series(values=self.timing)),
        }

    @staticmethod
    def of_host(starts: Iterable[int], ends: Iterable[int | None]) -> Times:
        """Times that Python code took; an end of None had not come yet."""
        listed = list(ends)
        start = np.array(list(starts), dtype=np.int64)
        end = np.array([0 if value is None else value for value in listed], dtype=np.int64)
        has_end = np.array([value is not None for value in listed], dtype=np.bool_)
        return Times(start, end, np.ones(len(start), dtype=np.bool_), has_end)

    @staticmethod
    def concatenate(parts: list[Times]) -> Times:
        """All of them, one after the other."""
        return Times(
            np.concatenate([part.start for part in parts]),
            np.concatenate([part.end for part in parts]),
            np.concatenate([part.has_start for part in parts]),
            np.concatenate([part.has_end for part in parts]),
        )


@dataclass(frozen=True)
class Clock:
    """CUPTI's clock in Unix ns: a straight line through the pairs taken at the start and at the end."""

    first: ClockPair
    last: ClockPair

    @property
    def _drift(self) -> float:
        ticks = self.last.cupti_ns - self.first.cupti_ns
        return ((self.last.unix_ns - self.first.unix_ns) - ticks) / ticks if ticks > 0 else 0.0

    def usable(self, ticks: npt.NDArray[np.uint64]) -> Bools:
        """Where a tick lies near the capture; also what keeps the arithmetic below inside 64 bits."""
        low = max(self.first.cupti_ns - _SLACK_NS, 0)
        return (ticks >= np.uint64(low)) & (ticks <= np.uint64(self.last.cupti_ns + _SLACK_NS))

    def to_unix(self, ticks: npt.NDArray[np.uint64], where: Bools) -> Ints:
        """Unix ns of each tick, 0 where `where` is false. Exact where both clocks run at one rate."""
        elapsed = np.where(where, ticks, np.uint64(self.first.cupti_ns)).astype(np.int64) - self.first.cupti_ns
        unix = elapsed + np.rint(elapsed * self._drift).astype(np.int64) + self.first.unix_ns
        return np.where(where, unix, 0)

    def times(
        self,
        start: npt.NDArray[np.uint64],
        end: npt.NDArray[np.uint64],
        diagnostics: Diagnostics,
        describe: Callable[[int], str],
    ) -> Times:
        """The times of some records. Whatever cannot be used is counted, with `describe(index)` as the example."""
        starts_known, ends_known = known(start), known(end)
        has_start = starts_known & self.usable(start)
        has_end = ends_known & self.usable(end)
        absurd = (starts_known & ~has_start) | (ends_known & ~has_end)
        has_start &= ~absurd  # no half of an absurd record is to be trusted
        has_end &= ~absurd
        times = Times(self.to_unix(start, has_start), self.to_unix(end, has_end), has_start, has_end)
        count_cases(diagnostics, "end_absurd", absurd, describe)
        count_cases(diagnostics, "time_not_recorded", ~starts_known, describe)
        count_cases(diagnostics, "end_not_recorded", times.timing == OPEN, describe)
        count_cases(diagnostics, "duration_negative", has_start & has_end & (times.start > times.end), describe)
        return times


def count_cases(diagnostics: Diagnostics, code: str, cases: Bools, describe: Callable[[int], str]) -> None:
    """Count the true elements of `cases` under `code`; the first one is the example."""
    count = int(np.count_nonzero(cases))
    if count:
        diagnostics.add(code, count, describe(int(np.argmax(cases))))
