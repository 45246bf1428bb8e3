"""Every analysis gives the numbers of its brute-force twin, with and without a window, and keeps the laws."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from gpuviz import analysis
from gpuviz.analysis import copies, device_time, gpu_time, launches, top_kernels
from gpuviz.model import Trace, Window
from tests.analysis import brute_force
from tests.analysis.random_traces import partitions, traces, traces_and_windows

type Analysis = Callable[[Trace, Window | None], pl.DataFrame]

ANALYSES: dict[str, Analysis] = {
    name: getattr(analysis, name) for name in analysis.__all__ if hasattr(brute_force, name)
}
"""Those with a twin in `brute_force`; the others keep the same laws in files of their own (``test_*_laws.py``)."""


def assert_rows(found: pl.DataFrame, expected: list[dict[str, Any]]) -> None:
    """The table has these rows; a column that an expected row lacks is null. Floats may differ in the last digits."""
    rows = found.to_dicts()
    assert len(rows) == len(expected)
    for row, wanted in zip(rows, expected, strict=True):
        assert wanted.keys() <= row.keys()
        for column, value in row.items():
            want = wanted.get(column)
            if isinstance(value, float) and isinstance(want, float):
                assert math.isclose(value, want, rel_tol=1e-12), (column, row, wanted)
            else:
                assert value == want, (column, row, wanted)


@given(traces_and_windows())
def test_with_a_window(drawn: tuple[Trace, Window]) -> None:
    trace, window = drawn
    for name, analyse in ANALYSES.items():
        assert_rows(analyse(trace, window), getattr(brute_force, name)(trace, window))


@given(traces())
def test_of_the_whole_trace(trace: Trace) -> None:
    trace.validate()
    for name, analyse in ANALYSES.items():
        assert_rows(analyse(trace, None), getattr(brute_force, name)(trace, None))


@given(traces_and_windows())
def test_a_cut_trace_gives_what_the_whole_gives_for_that_window(drawn: tuple[Trace, Window]) -> None:
    trace, window = drawn
    cut = trace.window(*window).validate()
    for name, analyse in ANALYSES.items():
        of_the_whole = analyse(trace, window)
        assert analyse(cut, None).equals(of_the_whole), name
        assert analyse(cut, window).equals(of_the_whole), name
        assert analyse(cut, None).schema == analyse(trace, None).schema, name


@given(traces())
def test_the_window_of_the_whole_trace_gives_the_whole(trace: Trace) -> None:
    for name, analyse in ANALYSES.items():
        whole, windowed = analyse(trace, None), analyse(trace, (0, trace.meta.end_ns + 1))
        if name == "device_time":  # without a window the span is that of the activities; what it holds is the same
            recorded = whole["span_ns"].is_not_null()
            whole, windowed = (table.drop("span_ns", "idle_ns").filter(recorded) for table in (whole, windowed))
        assert windowed.equals(whole), name


ADDITIVE = {
    "device_time": (["device_id"], "_ns"),
    "copy_time": (["device_id", "copy_kind"], "_ns"),
    "gpu_time": (["callpath_id"], "clusive_ns"),
    "top_kernels": (["table", "name"], "total_ns"),
    "launch_summary": (["device_id"], "launches"),
    "cpu_time": (["callpath_id"], "inclusive_ns"),  # exclusive is kept at 0 or more, which does not add up
}


COUNTS = ("copies", "size_unknown", "calls", "activities", "without_launch", "before_launch")


@given(st.data())
def test_disjoint_windows_add_up(data: st.DataObject) -> None:
    assert_windows_add_up(data, data.draw(traces()), [name for name in ADDITIVE if name != "cpu_time"])


@given(st.data())
def test_host_time_of_disjoint_windows_adds_up_where_children_lie_in_their_parents(data: st.DataObject) -> None:
    assert_windows_add_up(data, data.draw(traces(all_usable=True)), ["cpu_time"])


def assert_windows_add_up(data: st.DataObject, trace: Trace, names: list[str]) -> None:
    windows = data.draw(partitions(trace))
    for name in names:
        keys, suffix = ADDITIVE[name]
        whole = ANALYSES[name](trace, (0, trace.meta.end_ns + 1))
        sums = [column for column in whole.columns if column.endswith(suffix) or column in COUNTS]
        parts = pl.concat([ANALYSES[name](trace, window) for window in windows])
        total = [pl.when(pl.col(column).null_count() == 0).then(pl.col(column).sum()).alias(column) for column in sums]
        added = parts.group_by(keys).agg(total).sort(keys)
        assert added.equals(whole.select(*keys, *sums).sort(keys)), name


@given(traces_and_windows())
def test_device_time_adds_up_to_the_nanosecond(drawn: tuple[Trace, Window]) -> None:
    trace, window = drawn
    for table in (device_time(trace), device_time(trace, window)):
        for row in table.drop_nulls().iter_rows(named=True):
            parts = row["kernel_ns"] + row["exposed_copy_ns"] + row["exposed_memset_ns"]
            assert parts == row["busy_ns"]
            assert parts + row["idle_ns"] == row["span_ns"]
            assert row["hidden_copy_ns"] + row["exposed_copy_ns"] == row["copy_ns"]
            assert min(row[column] for column in row if column.endswith("_ns")) >= 0


@given(traces_and_windows())
def test_the_tree_adds_up(drawn: tuple[Trace, Window]) -> None:
    trace, window = drawn
    if "no_gpu_activity" in trace.diagnostics["code"]:
        return
    table = gpu_time(trace, window)
    below = table.group_by("parent_id").agg(pl.col("inclusive_ns").sum().alias("children"))
    joined = table.join(below, left_on="callpath_id", right_on="parent_id", how="left").fill_null(0)
    assert (joined["inclusive_ns"] == joined["exclusive_ns"] + joined["children"]).all()
    durations = sum(brute_force.clipped(row, window) for row in brute_force.activities(trace))
    assert table["inclusive_ns"][0] == table["exclusive_ns"].sum() == durations


@given(traces())
def test_latency_is_api_time_and_queue_delay_after_the_call(trace: Trace) -> None:
    table = (
        launches(trace).drop_nulls(["api_ns", "queue_delay_ns"]).filter(pl.col("start_ns") >= pl.col("launch_end_ns"))
    )
    assert (table["launch_latency_ns"] == table["api_ns"] + table["queue_delay_ns"]).all()


@given(traces_and_windows())
def test_each_copy_is_hidden_or_exposed(drawn: tuple[Trace, Window]) -> None:
    table = copies(*drawn)
    assert (table["hidden_ns"] + table["exposed_ns"] == table["duration_ns"]).all()
    unions = device_time(*drawn).select("device_id", "copy_ns", "hidden_copy_ns", "exposed_copy_ns")
    sums = table.group_by("device_id").agg(pl.col("duration_ns", "hidden_ns", "exposed_ns").sum())
    joined = unions.join(sums, on="device_id")
    for union, total in (
        ("copy_ns", "duration_ns"),
        ("hidden_copy_ns", "hidden_ns"),
        ("exposed_copy_ns", "exposed_ns"),
    ):
        assert (joined[union] <= joined[total]).all()


@given(traces(all_usable=True))
def test_shares_and_limits(trace: Trace) -> None:
    table = top_kernels(trace)
    assert table["share"].sum() <= 1 + 1e-9
    assert table["total_ns"].is_sorted(descending=True)
    assert top_kernels(trace, limit=2).equals(table.head(2))


@given(traces())
def test_without_distributions_the_rest_is_the_same(trace: Trace) -> None:
    for analyse in (analysis.gpu_time, analysis.cpu_time):
        short = analyse(trace, distributions=False)
        assert short.equals(analyse(trace).select(short.columns))
        assert "p99_ns" not in short.columns
