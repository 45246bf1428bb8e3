"""Groupings, busy shares, copy verdicts: the numbers of their brute-force twins, and the laws."""

from __future__ import annotations

import inspect
import math

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from gpuviz.analysis.busy_share import busy_share
from gpuviz.analysis.by_line import by_line
from gpuviz.analysis.by_range import by_range, by_step
from gpuviz.analysis.copy_reasons import copy_verdicts
from gpuviz.analysis.device_time import device_time
from gpuviz.analysis.findings import findings
from gpuviz.analysis.groupings import by_kernel, by_module, by_op, by_shape
from gpuviz.analysis.serialized_copies import serialized_copies
from gpuviz.model import Trace, Window
from tests.analysis import brute_force_copies, brute_force_groupings
from tests.analysis.random_reasons import traces, traces_and_windows
from tests.analysis.random_traces import partitions
from tests.analysis.test_against_brute_force import Analysis, assert_rows

GROUPINGS: list[Analysis] = [by_kernel, by_op, by_module, by_line, by_step]
ALL: list[Analysis] = [*GROUPINGS, by_range, by_shape, busy_share, copy_verdicts, serialized_copies]
EMPTY = {analyse.__name__: analyse(Trace({}), None) for analyse in [*ALL, findings]}
TWINS = dict(inspect.getmembers(brute_force_groupings)) | dict(inspect.getmembers(brute_force_copies))


@given(traces_and_windows())
def test_the_numbers_are_those_of_the_twins(drawn: tuple[Trace, Window | None]) -> None:
    trace, window = drawn
    for analyse in ALL:
        assert_rows(analyse(trace, window), TWINS[analyse.__name__](trace, window))


@given(traces_and_windows())
def test_a_cut_trace_gives_what_the_whole_gives(drawn: tuple[Trace, Window | None]) -> None:
    trace, window = drawn
    window = window or (0, trace.meta.end_ns + 1)
    cut = trace.window(*window)
    for analyse in [*ALL, findings]:
        whole = analyse(trace, window)
        assert analyse(cut, None).equals(whole), analyse.__name__
        assert analyse(cut, window).equals(whole), analyse.__name__
        assert whole.schema == EMPTY[analyse.__name__].schema


@given(traces_and_windows())
def test_groups_hold_all_work_once(drawn: tuple[Trace, Window | None]) -> None:
    trace, window = drawn
    busy = device_time(trace, window)["busy_ns"].sum()
    time_ns = busy_share(trace, window)["duration_ns"].sum()
    for analyse in GROUPINGS:
        table = analyse(trace, window)
        assert math.isclose(table["busy_share_ns"].sum(), busy, rel_tol=1e-9)
        assert table["gpu_ns"].sum() == time_ns
        assert busy == 0 or math.isclose(table["share"].sum(), 1, rel_tol=1e-9)


@given(st.data())
def test_busy_shares_of_windows_add_up(data: st.DataObject) -> None:
    trace = data.draw(traces())
    parts = pl.concat([busy_share(trace, window) for window in data.draw(partitions(trace))])
    added = parts.group_by("activity_id").agg(pl.col("busy_share_ns", "duration_ns").sum()).sort("activity_id")
    whole = busy_share(trace, (0, trace.meta.end_ns + 1)).sort("activity_id")
    assert added["duration_ns"].equals(whole["duration_ns"])
    for one, other in zip(added["busy_share_ns"], whole["busy_share_ns"], strict=True):
        assert math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)


@given(traces_and_windows())
def test_busy_shares_are_at_most_the_time_and_sum_to_the_union(drawn: tuple[Trace, Window | None]) -> None:
    trace, window = drawn
    table = busy_share(trace, window)
    assert (table["busy_share_ns"] <= table["duration_ns"] + 1e-9).all()
    per_device = table.group_by("device_id").agg(pl.col("busy_share_ns").sum())
    busy = dict(device_time(trace, window).select("device_id", "busy_ns").iter_rows())
    for device_id, share in per_device.iter_rows():
        assert math.isclose(share, busy[device_id], rel_tol=1e-9)


@given(traces_and_windows())
def test_a_saving_is_bounded(drawn: tuple[Trace, Window | None]) -> None:
    trace, window = drawn
    table = copy_verdicts(trace, window)
    times = device_time(trace, window).select("device_id", free=pl.col("kernel_ns") - pl.col("hidden_copy_ns"))
    joined = table.join(times, on="device_id", maintain_order="left")
    assert (joined["saving_ns"] <= joined["exposed_ns"]).all()
    assert (joined["saving_ns"] <= joined["free"]).all()
    assert (joined["reason"].is_null() == (joined["exposed_ns"] == 0)).all()
