"""The waterfall and idle analyses give the numbers of their brute-force twins, and keep their laws."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuviz.analysis import device_time
from gpuviz.analysis.first_calls import first_calls
from gpuviz.analysis.graph_gain import graph_gain
from gpuviz.analysis.idle import idle, idle_summary
from gpuviz.analysis.launch_bound import launch_bound
from gpuviz.analysis.launch_budget import launch_budget
from gpuviz.analysis.launch_tree import launch_tree
from gpuviz.analysis.queue_depth import queue_depth, queue_depth_summary
from gpuviz.analysis.waterfall import launch_stages
from gpuviz.model import Trace, Window
from tests.analysis import brute_force_idle, brute_force_waterfall
from tests.analysis.random_traces import GPU_MEANINGS, STREAMS, THREADS, intervals, partitions, windows_of
from tests.analysis.test_against_brute_force import assert_rows
from tests.drawing import Interval, trace_from_intervals

type Analysis = Callable[[Trace, Window | None], pl.DataFrame]

TWINS: dict[Analysis, Any] = {
    launch_stages: brute_force_waterfall.launch_stages,
    launch_tree: brute_force_waterfall.launch_tree,
    launch_budget: brute_force_waterfall.launch_budget,
    queue_depth: brute_force_waterfall.queue_depth,
    queue_depth_summary: brute_force_waterfall.queue_depth_summary,
    launch_bound: brute_force_waterfall.launch_bound,
    first_calls: brute_force_waterfall.first_calls,
    idle: brute_force_idle.idle,
    idle_summary: brute_force_idle.idle_summary,
    graph_gain: brute_force_idle.graph_gain,
}
HOST = (
    ["python", "step", "train.py:3"],
    ["python", "torch/utils/data/dataloader.py(703): __next__", "dataloader.py:703"],
    ["python", "threading.py(323): wait"],
    ["module", "Linear"],
    ["op", "aten::mm"],
    ["op", "c10d::wait"],
    ["other", "unknown"],
    ["api", "cudaLaunchKernel"],
    ["api", "cudaLaunchKernel"],
    ["driver", "cuLaunchKernel"],
    ["api", "cudaMemcpyAsync"],
    ["api", "cudaMalloc"],
    ["api", "cudaStreamSynchronize"],
    ["api", "cudaFuncSetAttribute"],
)
RANGES = (["range", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"], ["range", "ProfilerStep#1"])


@st.composite
def busy_traces(draw: st.DrawFn) -> Trace:
    """Host rows of every kind, some recorded as overhead; half the launches just before their activity."""
    host = draw(st.lists(intervals("thread", THREADS, HOST), max_size=14))
    gpu = draw(st.lists(intervals("stream", STREAMS, GPU_MEANINGS), max_size=10))
    named = draw(st.lists(intervals("range", THREADS[:1], RANGES), max_size=2))
    for activity in gpu:
        if draw(st.booleans()):
            begin = max(0, activity.start - draw(st.integers(0, 6)))
            length = draw(st.integers(0, 4))
            activity.launch = Interval("thread", "1", "x", begin, begin + length, "ok", "api", ["cudaLaunchKernel"])
            host.append(activity.launch)
        else:
            activity.launch = draw(st.sampled_from([None, *(row for row in host if row.kind in ("api", "driver"))]))
    trace = trace_from_intervals([*host, *gpu, *named])
    if draw(st.booleans()):
        is_overhead = pl.col("layer") == "other"
        category = pl.when(is_overhead).then(pl.lit("overhead")).cast(pl.Categorical)
        trace = trace.replace(host_calls=trace.host_calls.with_columns(category=category))
    return trace.validate()


@st.composite
def busy_traces_and_windows(draw: st.DrawFn) -> tuple[Trace, Window]:
    trace = draw(busy_traces())
    return trace, draw(windows_of(trace))


each = pytest.mark.parametrize("analyse", TWINS, ids=lambda analyse: analyse.__name__)


@each
@given(drawn=busy_traces_and_windows())
def test_with_a_window(analyse: Analysis, drawn: tuple[Trace, Window]) -> None:
    trace, window = drawn
    assert_rows(analyse(trace, window), TWINS[analyse](trace, window))


@each
@given(trace=busy_traces())
def test_of_the_whole_trace(analyse: Analysis, trace: Trace) -> None:
    assert_rows(analyse(trace, None), TWINS[analyse](trace, None))


@each
@given(drawn=busy_traces_and_windows())
def test_a_cut_trace_gives_what_the_whole_gives(analyse: Analysis, drawn: tuple[Trace, Window]) -> None:
    trace, window = drawn
    assert analyse(trace.window(*window).validate(), None).equals(analyse(trace, window))


@given(busy_traces_and_windows())
def test_as_hta(drawn: tuple[Trace, Window]) -> None:
    trace, window = drawn
    for where in (None, window):
        assert_rows(idle(trace, where, "hta"), brute_force_idle.idle(trace, where, "hta"))
        assert_rows(idle_summary(trace, where, "hta"), brute_force_idle.idle_summary(trace, where, "hta"))


@given(st.data())
def test_repeating_launches(data: st.DataObject) -> None:
    """The same with runs of two, so that small traces repeat something."""
    trace = data.draw(busy_traces())
    window = data.draw(st.none() | windows_of(trace))
    gap = data.draw(st.none() | st.integers(0, 3))
    with pytest.MonkeyPatch.context() as patch:
        # The package's attribute of this name is the function, which hides its module.
        patch.setattr(sys.modules["gpuviz.analysis.graph_gain"], "RUN_LENGTH", 2)
        found = graph_gain(trace, window, node_gap_ns=gap)
    assert_rows(found, brute_force_idle.graph_gain(trace, window, run_length=2, node_gap_ns=gap))
    assert (found["estimate_ns"].fill_null(0) <= found["gap_ns"].fill_null(0)).all()


@given(busy_traces_and_windows())
def test_causes_add_up_to_idle(drawn: tuple[Trace, Window]) -> None:
    trace, window = drawn
    for where in (None, window):
        known = device_time(trace, where).select("device_id", "idle_ns").filter(pl.col("idle_ns") > 0)
        for table, column in ((idle(trace, where), "duration_ns"), (idle_summary(trace, where), "time_ns")):
            sums = table.group_by("device_id").agg(idle_ns=pl.col(column).sum()).sort("device_id")
            assert sums.equals(known)


@given(busy_traces_and_windows())
def test_the_budget_is_the_window(drawn: tuple[Trace, Window]) -> None:
    trace, window = drawn
    for where in (None, window):
        sums = launch_budget(trace, where).group_by("side", "thread_id", "device_id").agg(pl.col("time_ns").sum())
        length = trace.meta.end_ns if where is None else window[1] - window[0]
        assert (sums["time_ns"] == length).all()


@given(st.data())
def test_disjoint_windows_add_up(data: st.DataObject) -> None:
    trace = data.draw(busy_traces())
    windows = data.draw(partitions(trace))
    for analyse, keys, column in (
        (idle_summary, ["device_id", "cause"], "time_ns"),
        (launch_tree, ["callpath_id"], "launches"),
    ):
        whole = analyse(trace, (0, trace.meta.end_ns + 1)).group_by(keys).agg(pl.col(column).sum()).sort(keys)
        parts = pl.concat([analyse(trace, window) for window in windows])
        assert parts.group_by(keys).agg(pl.col(column).sum()).sort(keys).equals(whole)


@given(busy_traces())
def test_stages_follow_each_other(trace: Trace) -> None:
    table = launch_stages(trace)
    both = table.filter(pl.col("python_ns").is_not_null())
    assert (both["python_ns"] + both["dispatch_ns"] == both["lead_ns"]).all()
    assert (table.select(pl.min_horizontal("lead_ns", "python_ns", "dispatch_ns", "gpu_ns")).to_series() >= 0).all()
    later = table.filter(pl.col("start_ns") >= pl.col("launch_end_ns"))
    reached = later["launch_start_ns"] + later["api_ns"] + later["queue_delay_ns"]
    assert (reached == later["start_ns"]).all()
