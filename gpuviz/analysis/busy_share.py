"""Each device's busy time, shared out among what ran."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from gpuviz.analysis.intervals import Ints
from gpuviz.analysis.selection import ACTIVITY_KIND
from gpuviz.analysis.work import Work, work_in
from gpuviz.model import Trace, Window

type Floats = npt.NDArray[np.float64]

SCHEMA = pl.Schema(
    {
        "table": ACTIVITY_KIND,
        "activity_id": pl.Int32(),
        "device_id": pl.Int32(),
        "start_ns": pl.Int64(),
        "duration_ns": pl.Int64(),
        "busy_share_ns": pl.Float64(),
    }
)


def busy_share(trace: Trace, window: Window | None = None) -> pl.DataFrame:
    """One row per usable GPU activity that has time in the window or starts in it, by start.

    ``duration_ns`` is its time in the window. ``busy_share_ns`` is ∫ dt / r(t) over that time, r(t) the number of
    activities (kernels, copies, fills, whole graph replays) that run on its device at t: at each instant the device's
    time is shared equally among what runs. So the shares of a device sum to its busy union, and windows that lie side
    by side add up; the share of what ran alone is its duration. A float, because thirds of a nanosecond are not whole;
    it is exact where at most one activity runs, and within 1e-9 of its value elsewhere. Raises `AnalysisError` for an
    impossible window.
    """
    work = work_in(trace, window)
    columns = {
        "table": work.tables(),
        "activity_id": work.activity_id,
        "device_id": work.device,
        "start_ns": work.start,
        "duration_ns": work.clipped,
        "busy_share_ns": shares(work),
    }
    return pl.DataFrame(columns)[work.order].cast({name: SCHEMA[name] for name in SCHEMA})


def shares(work: Work) -> Floats:
    """∫ dt / r(t) of each activity over its time in the window, ns; row for row."""
    result = work.clipped.astype(np.float64)
    start = np.maximum(work.start, work.window[0]) if work.window else work.start
    end = start + work.clipped
    for device_id in np.unique(work.device).tolist():
        here = work.order[work.device[work.order] == device_id]
        _share(start, end, here, result)
    return result


def _share(start: Ints, end: Ints, rows: Ints, result: Floats) -> None:
    """Put the shares of these rows of one device, given in order of start, into `result`.

    With G(t) the integral of 1 / r up to t, a share is G(end) − G(start). G is kept in two parts, whole nanoseconds
    (exact) and a rest below 1 ns per step, so that nothing is lost in large numbers. Only rows that meet others are
    computed: all others keep their duration.
    """
    starts, ends = start[rows], end[rows]
    latest = np.maximum.accumulate(ends)
    begins = np.empty(len(rows), dtype=np.bool_)
    begins[:1] = True
    np.greater_equal(starts[1:], latest[:-1], out=begins[1:])
    alone = begins.copy()
    alone[:-1] &= begins[1:]
    if alone.all():
        return
    rows, starts, ends = rows[~alone], starts[~alone], ends[~alone]
    count = len(rows)
    by_end = np.argsort(ends, kind="stable")
    times = np.concatenate((starts, ends[by_end]))
    order = np.argsort(times, kind="stable")  # two sorted runs are merged, not sorted again
    running = np.cumsum(np.where(order < count, 1, -1))
    steps = np.diff(times[order], append=times[order[-1]])
    whole, rest = np.divmod(steps, np.maximum(running, 1))
    whole[running == 0] = 0
    rest[running == 0] = 0
    place = np.empty(2 * count, dtype=np.int64)
    place[order] = np.arange(2 * count)
    before_whole = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(whole)))
    before_rest = np.concatenate((np.zeros(1), np.cumsum(rest / np.maximum(running, 1))))
    first, last = place[:count], np.empty(count, dtype=np.int64)
    last[by_end] = place[count:]
    result[rows] = (before_whole[last] - before_whole[first]) + (before_rest[last] - before_rest[first])
