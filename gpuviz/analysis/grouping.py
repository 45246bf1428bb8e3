"""What every grouping of GPU work counts: one way to sum, whatever the groups are."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import polars as pl

from gpuviz.analysis.busy_share import Floats, shares
from gpuviz.analysis.intervals import IntervalSet, Ints, covered_in, union
from gpuviz.analysis.selection import KERNEL_TABLES, DeviceIntervals, counts, exact_sums, has_gpu_activity
from gpuviz.analysis.work import Work, work_in
from gpuviz.model import Trace, Window

SUMS = pl.Schema(
    {
        "activities": pl.Int64(),
        "launches": pl.Int64(),
        "gpu_ns": pl.Int64(),
        "busy_share_ns": pl.Float64(),
        "share": pl.Float64(),
        "exposed_copy_ns": pl.Int64(),
    }
)
"""The columns that all groupings share."""


class Amounts:
    """The GPU work of a window, ready to be summed by any grouping."""

    def __init__(self, trace: Trace, window: Window | None) -> None:
        self.work: Work = work_in(trace, window)
        self.trace = self.work.trace
        self.recorded = has_gpu_activity(self.trace)

    @cached_property
    def busy_share(self) -> Floats:
        """`gpuviz.analysis.busy_share` of each activity, ns."""
        return shares(self.work)

    @cached_property
    def exposed(self) -> Ints:
        """Per copy (the rows of table memcpys): its time in the window with no kernel running on its device, ns."""
        work = self.work
        rows = work.rows_of("memcpys")
        device, clipped = work.device[rows], work.clipped[rows]
        spans = IntervalSet(work.start[rows], work.end[rows])
        hidden = np.zeros(len(device), dtype=np.int64)
        intervals = DeviceIntervals(self.trace, work.window)
        for device_id in np.unique(device).tolist():
            here = np.flatnonzero(device == device_id)
            running = union(*intervals.of(device_id, KERNEL_TABLES))
            hidden[here] = covered_in(running, spans.start[here], spans.end[here])
        return clipped - hidden

    def sums(self, group: Ints, groups: int) -> dict[str, pl.Series]:
        """The columns of `SUMS` for the groups 0 … `groups` − 1; `group` has one number per activity, -1 for none."""
        work = self.work
        total = float(self.busy_share.sum())
        kept = group if not len(group) or group.min() >= 0 else np.where(group < 0, groups, group)
        busy = np.bincount(kept, weights=self.busy_share, minlength=groups)[:groups].astype(np.float64)
        copies = work.rows_of("memcpys")
        return {
            "activities": pl.Series(counts(np.where(work.counted, group, -1), groups)),
            "launches": pl.Series(counts(np.where(work.counted & work.first, group, -1), groups)),
            "gpu_ns": pl.Series(exact_sums(group, work.clipped, groups)),
            "busy_share_ns": pl.Series(busy),
            "share": pl.Series(busy / total) if total else pl.Series([None] * groups, dtype=pl.Float64),
            "exposed_copy_ns": pl.Series(exact_sums(group[copies], self.exposed, groups)),
        }

    def table(self, keys: pl.DataFrame, group: Ints, others: dict[str, pl.Series] | None = None) -> pl.DataFrame:
        """The groups that have work in the window, most GPU time first, then by their keys.

        `keys` has a row per group, in any order; its columns and the `others` (per group too) stand before and behind
        the sums.
        """
        if not self.recorded:
            group = np.full(len(group), -1, dtype=np.int64)
        present = counts(group, keys.height) > 0
        table = keys.with_columns(**self.sums(group, keys.height), **(others or {})).filter(pl.Series(present))
        names = [pl.col(name).cast(pl.String) if keys[name].dtype == pl.Categorical else name for name in keys.columns]
        descending = [True] + [False] * len(names)
        return table.sort("gpu_ns", *names, descending=descending, nulls_last=True)


def codes(column: pl.Series) -> Ints:
    """Whole numbers that are equal where the values are; -1 for null."""
    numbers = column.to_physical()
    if numbers.null_count():
        return numbers.cast(pl.Int64).fill_null(-1).to_numpy()
    return numbers.to_numpy().astype(np.int64)


def compact(keys: Ints, highest: int) -> tuple[Ints, Ints]:
    """Numbers from -1 to `highest` as (the distinct ones in order, the place of each among them)."""
    present = np.zeros(highest + 2, dtype=np.bool_)
    present[keys + 1] = True
    distinct = np.flatnonzero(present)
    place = np.zeros(highest + 2, dtype=np.int64)
    place[distinct] = np.arange(len(distinct))
    return distinct - 1, place[keys + 1]
