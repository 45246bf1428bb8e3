"""What rules ask of a trace, each computed once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from gpuviz.analysis.by_line import line_nodes, places_of
from gpuviz.analysis.copy_reasons import copy_verdicts
from gpuviz.analysis.device_time import device_time
from gpuviz.analysis.findings.rule import Hit
from gpuviz.analysis.grouping import Amounts
from gpuviz.analysis.idle import idle
from gpuviz.analysis.intervals import EMPTY, IntervalSet, Ints, clip, merge, overlap_length, union
from gpuviz.analysis.selection import KERNEL_TABLES, DeviceIntervals, device_of_stream, has_gpu_activity, ints
from gpuviz.analysis.text import duration_text, share_text
from gpuviz.analysis.work import Work, cut
from gpuviz.model import Trace, Window, schema

LOST = ("records_dropped", "records_undecoded", "file_truncated", "event_unreadable", "several_writers")
"""Diagnostics that say that activities are missing: every verdict would be from a part of the truth."""

UNUSABLE_SHARE = 0.01
"""So many GPU records may lack usable times before no verdict is given."""

MOST_LINES = 5
MOST_EVIDENCE = 10_000
"""Ids that a finding carries at most; of more, the first."""


class Device(NamedTuple):
    """A device that was recorded."""

    device_id: int
    name: str
    """As in "GPU 0"."""
    span: Window
    span_ns: int


class Facts:
    """A trace, cut to its window, and the analyses of it that rules share."""

    def __init__(self, trace: Trace, window: Window | None) -> None:
        self.trace, self.window = cut(trace, window)

    @cached_property
    def missing(self) -> dict[str, str | None]:
        """What a rule may need → what is missing of it, in words; None where it is there."""
        trace = self.trace
        gpu = has_gpu_activity(trace) and self.devices
        calls = trace.api_calls.height
        host = calls or trace.host_calls.height
        operators = (trace.host_calls["layer"] == "op").any()
        return {
            "gpu": None if gpu else "no GPU work was recorded",
            "complete": self._incomplete(),
            "api_calls": None if calls else "no CUDA calls were recorded",
            "host": None if host else "nothing was recorded of the host",
            "operators": None if operators else "no framework operators were recorded",
        }

    def _incomplete(self) -> str | None:
        codes = self.trace.diagnostics["code"].to_list()
        lost = [code for code in LOST if code in codes]
        if self.trace.meta.dropped_records and "records_dropped" not in lost:
            lost.append("records_dropped")
        if "graph_replay_without_kernels" in codes:
            lost.append("graph_replay_without_kernels")
        if lost:
            return f"the recording is incomplete ({', '.join(lost)})"
        tables = [self.trace.table(name)["timing"] for name in schema.ACTIVITY_TABLES]
        rows, odd = sum(len(one) for one in tables), sum(int((one != "ok").sum()) for one in tables)
        if odd > UNUSABLE_SHARE * rows:
            return f"{odd:,} of {rows:,} GPU records have no usable times"
        return None

    @cached_property
    def devices(self) -> list[Device]:
        """The devices with activity, and the time that shares are of: the window, or first to last activity."""
        found = []
        for row in device_time(self.trace, self.window).drop_nulls("busy_ns").iter_rows(named=True):
            device = row["device_id"]
            running = self.intervals.of(device, schema.ACTIVITY_TABLES)
            if len(running.start):
                span = self.window or (int(running.start[0]), int(running.end.max()))
                found.append(Device(device, f"GPU {row['ordinal']}", span, row["span_ns"]))
        return [device for device in found if device.span_ns > 0]

    @cached_property
    def intervals(self) -> DeviceIntervals:
        """Intervals of the tables, by device."""
        return DeviceIntervals(self.trace, self.window)

    @cached_property
    def times(self) -> dict[int, dict[str, Any]]:
        """The row of `device_time` of each device."""
        return {row["device_id"]: row for row in device_time(self.trace, self.window).iter_rows(named=True)}

    @cached_property
    def verdicts(self) -> pl.DataFrame:
        """`gpuviz.analysis.copy_verdicts`."""
        return copy_verdicts(self.trace, self.window)

    @cached_property
    def idle_causes(self) -> pl.DataFrame:
        """`gpuviz.analysis.idle`."""
        return idle(self.trace, self.window)

    @cached_property
    def amounts(self) -> Amounts:
        """All GPU work."""
        return Amounts(self.trace, self.window)

    def kernels(self, device_id: int) -> IntervalSet:
        """When kernels of a device run."""
        return union(*self.intervals.of(device_id, KERNEL_TABLES))

    def idle(self, device: Device) -> IntervalSet:
        """When nothing runs on a device, inside its span."""
        busy = union(*self.intervals.of(device.device_id, schema.ACTIVITY_TABLES))
        edges = np.concatenate(([device.span[0]], np.stack((busy.start, busy.end), axis=1).ravel(), [device.span[1]]))
        start, end = edges[0::2].astype(np.int64), edges[1::2].astype(np.int64)
        lasting = end > start
        return IntervalSet(start[lasting], end[lasting])

    def main_cause(self, device: Device) -> str | None:
        """What most of the idle time of a device has as its cause; None where it was not idle."""
        sums = self.idle_causes.filter(device_id=device.device_id).group_by("cause").agg(pl.col("duration_ns").sum())
        return sums.sort("duration_ns", "cause")["cause"][-1] if sums.height else None

    def is_on(self, rows: pl.DataFrame, device: Device) -> pl.Series:
        """Which rows of an activity table ran on a device."""
        return pl.Series(device_of_stream(self.trace)[ints(rows["stream_id"])] == device.device_id)

    def idle_during(self, device: Device, start: Ints, end: Ints) -> int:
        """How long a device was idle while any of these intervals (by start) lasted, ns."""
        return overlap_length(self.idle(device), union(*clip(start, end, device.span)))

    def clipped(self, work: Work, rows: Ints) -> IntervalSet:
        """These rows of one table of `work`, cut to the window."""
        return clip(work.start[rows], work.end[rows], self.window)

    def exposed(self, device_id: int, start: Ints, end: Ints) -> int:
        """Union of these intervals (by start) without the kernels of the device, ns; cut to the window."""
        covered = union(*clip(start, end, self.window))
        return covered.length - overlap_length(self.kernels(device_id), covered)

    def hit(
        self,
        device: Device,
        sentence: str,
        time_ns: int,
        rows: pl.DataFrame,
        table: str,
        weights: pl.Series | None = None,
    ) -> Hit:
        """A hit whose evidence are these rows of a table, with the lines they come from, heaviest first."""
        id_column = schema.ROW_IDS.get(table, "activity_id")
        weight = ints(rows["end_ns"] - rows["start_ns"]) if weights is None else weights.to_numpy()
        lines, paths = self.lines(rows, weight)
        at = f" Look at {lines[0]}." if lines else ""
        return Hit(
            sentence=f"{sentence}.{at}",
            time_ns=time_ns,
            share=time_ns / device.span_ns,
            device_id=device.device_id,
            evidence_table=table,
            evidence_ids=tuple(rows[id_column].head(MOST_EVIDENCE).to_list()),
            start_ns=rows["start_ns"].min(),  # type: ignore[arg-type]
            end_ns=rows["end_ns"].max(),  # type: ignore[arg-type]
            lines=lines,
            callpath_ids=paths,
        )

    def lines(self, rows: pl.DataFrame, weight: Ints) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """The lines of some rows with call paths, most weight first, at most `MOST_LINES`."""
        node = self.nodes(rows)
        places = places_of(self.trace, node).with_columns(node=pl.Series(node), weight=pl.Series(weight))
        places = places.filter(pl.col("node") >= 0)
        top = places.group_by("cell_id", "file", "line", maintain_order=True).agg(
            pl.col("function").first(), pl.col("node").first(), pl.col("weight").sum()
        )
        top = top.sort("weight", descending=True, maintain_order=True).head(MOST_LINES)
        names = tuple(place_text(self.trace, row) for row in top.iter_rows(named=True))
        return names, tuple(top["node"].to_list())

    def nodes(self, rows: pl.DataFrame) -> Ints:
        """The call path of the line of each row; -1 where there is none."""
        forward = rows["forward_callpath_id"] if "forward_callpath_id" in rows.columns else None
        own = ints(rows["callpath_id"])
        return line_nodes(self.trace, own, np.full(len(own), -1) if forward is None else ints(forward))


def place_text(trace: Trace, row: dict[str, Any]) -> str:
    """ "train.py:12 (step)", "cell [3] line 2"; `row` has cell_id, file, line and function."""
    if row["cell_id"] is not None:
        count = trace.cells["execution_count"][row["cell_id"]] if row["cell_id"] < trace.cells.height else None
        return f"cell [{'?' if count is None else count}] line {row['line']}"
    return f"{row['file']}:{row['line']} ({row['function']})"


def of_span(time_ns: float, device: Device) -> str:
    """ "1.2 ms (3.4 % of 35 ms)"."""
    share = share_text(time_ns, device.span_ns)
    return f"{duration_text(time_ns)} ({share} of {duration_text(device.span_ns)})"


def spans_of(rows: pl.DataFrame) -> IntervalSet:
    """Starts and ends of usable rows, by start."""
    if not rows.height:
        return EMPTY
    return merge(IntervalSet(ints(rows["start_ns"]), ints(rows["end_ns"])))


def each_device(facts: Facts) -> Iterator[Device]:
    """The devices that were recorded."""
    yield from facts.devices
