"""What every analysis starts with: a checked window, rows with usable times, columns as NumPy arrays."""

from __future__ import annotations

import operator
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import polars as pl

from gpuviz.analysis.intervals import EMPTY, IntervalSet, Ints, clip, merge
from gpuviz.errors import AnalysisError
from gpuviz.model import Trace, Window, schema

type Mask = npt.NDArray[np.bool_]

KERNEL_TABLES = ("kernels", "graph_runs")
"""What counts as computing: kernels, and graph replays that were recorded without their kernels."""


def resolve_window(trace: Trace, window: Window | None) -> Window | None:
    """The window an analysis uses: the given one, else the one of `Trace.window`, else None for the whole trace.

    `AnalysisError` when the window is not two whole numbers with start < end, or asks for time that the trace does
    not hold: outside the recording, or outside the window that the trace was cut to.
    """
    if window is None:
        return trace.meta.window
    try:
        start, end = window
        start, end = operator.index(start), operator.index(end)
        if max(abs(start), abs(end)) >= 1 << 63:
            raise ValueError("no time of a trace is so large")
    except (TypeError, ValueError):
        raise AnalysisError(
            f"The window {window!r} was asked for: it is not a pair of whole numbers of 64 bits. "
            "Give (start_ns, end_ns) in nanoseconds since the start of the trace, for example (0, trace.meta.end_ns)."
        ) from None
    if start >= end:
        raise AnalysisError(
            f"The window ({start}, {end}) ns was asked for, which is empty. Give an end that is after the start."
        )
    if trace.meta.window is not None:
        first, last = trace.meta.window
        if start < first or end > last:
            raise AnalysisError(
                f"The window ({start}, {end}) ns was asked for, but this trace was cut to ({first}, {last}) ns "
                "and does not hold the rest. Ask for a window inside it, or ask the whole trace."
            )
    elif end <= 0 or start > trace.meta.end_ns:
        raise AnalysisError(
            f"The window ({start}, {end}) ns was asked for, but the trace holds 0 to {trace.meta.end_ns} ns. "
            "Times are nanoseconds since its start (`trace.meta.t0_unix_ns`); give a window that touches it."
        )
    return start, end


def usable(table: pl.DataFrame) -> pl.DataFrame:
    """The rows whose start and end can be used; the others stay out of every number."""
    is_usable = table["timing"] == "ok"
    return table if is_usable.all() else table.filter(is_usable)


def ints(column: pl.Series) -> Ints:
    """An integer column as an int64 array; null as -1. No copy where none is needed."""
    if column.null_count():
        column = column.fill_null(-1)
    return column.to_numpy().astype(np.int64, copy=False)


def times(table: pl.DataFrame) -> IntervalSet:
    """Start and end of usable rows, sorted by start as the tables are."""
    return IntervalSet(ints(table["start_ns"]), ints(table["end_ns"]))


def starts_inside(start: Ints, window: Window | None) -> Mask:
    """Which rows are counted in the window: those that start in it."""
    if window is None:
        return np.ones(len(start), dtype=np.bool_)
    inside: Mask = (start >= window[0]) & (start < window[1])
    return inside


def touching(spans: IntervalSet, window: Window | None) -> Mask:
    """Which rows have time in the window, or start in it."""
    if window is None:
        return np.ones(len(spans.start), dtype=np.bool_)
    overlapping: Mask = (spans.start < window[1]) & (spans.end > window[0])
    return overlapping | starts_inside(spans.start, window)


def device_of_stream(trace: Trace) -> Ints:
    """Device of each stream; the row id of a stream is the index."""
    return ints(trace.streams["device_id"])


class DeviceIntervals:
    """Sorted intervals of some activity tables, device by device, cut to a window."""

    def __init__(self, trace: Trace, window: Window | None) -> None:
        self._devices = device_of_stream(trace)
        self._trace = trace
        self._window = window
        self._tables: dict[str, tuple[IntervalSet, Ints]] = {}

    def of(self, device_id: int, tables: Iterable[str]) -> IntervalSet:
        """Usable intervals of these tables on this device, sorted by start; they may overlap each other."""
        return merge(*(self._one(device_id, name) for name in tables))

    def _one(self, device_id: int, name: str) -> IntervalSet:
        if name not in self._tables:
            table = usable(self._trace.table(name))
            spans = times(table)
            device = self._devices[ints(table["stream_id"])] if table.height else spans.start
            if self._window is not None:
                device = device[(spans.start < self._window[1]) & (spans.end > self._window[0])]
                spans = clip(*spans, self._window)
            self._tables[name] = spans, device
        spans, device = self._tables[name]
        here = device == device_id
        if here.all():
            return spans
        return IntervalSet(spans.start[here], spans.end[here]) if here.any() else EMPTY


def has_gpu_activity(trace: Trace) -> bool:
    """False when the trace says that it recorded no GPU work: GPU times are then unknown, not zero."""
    return "no_gpu_activity" not in trace.diagnostics["code"]


def was_recorded(trace: Trace, device_id: int) -> bool:
    """Whether the trace recorded GPU work of this device: it has a stream there, and no word that it has no GPU work.

    Streams are kept whole by `Trace.window`, so the answer is that of the whole trace.
    """
    return has_gpu_activity(trace) and device_id in trace.streams["device_id"]


def exact_sums(group: Ints, values: Ints, groups: int) -> Ints:
    """Σ values of each group, exact int64; a negative group is left out.

    `numpy.bincount` adds in float64, exact below 2^53; larger totals are added in two halves of 26 and 37 bits.
    """
    if len(group) and group.min() < 0:
        kept = group >= 0
        group, values = group[kept], values[kept]
    if float(np.abs(values).sum(dtype=np.float64)) < 2.0**52:
        return np.bincount(group, weights=values, minlength=groups).astype(np.int64)
    low = np.bincount(group, weights=values & (2**26 - 1), minlength=groups).astype(np.int64)
    high = np.bincount(group, weights=values >> 26, minlength=groups).astype(np.int64)
    return (high << 26) + low


def counts(group: Ints, groups: int) -> Ints:
    """How many rows each group has; a negative group is left out."""
    if len(group) and group.min() < 0:
        group = group[group >= 0]
    return np.bincount(group, minlength=groups)


def grouped(group: Ints, groups: int) -> Ints:
    """Positions of the rows, group by group; the order within a group is not defined.

    NumPy sorts 16-bit numbers by radix, some five times as fast as wider ones.
    """
    if groups <= 2**16:
        return np.argsort(group.astype(np.uint16), kind="stable")
    return np.argsort(group)


ACTIVITY_KIND = pl.Enum(schema.ACTIVITY_TABLES)
"""dtype of the column ``table``: which table an activity is from."""
