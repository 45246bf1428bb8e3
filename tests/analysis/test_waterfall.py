"""The launch waterfall on drawn traces: every expected number can be counted in the drawing (a column is 1 µs)."""

from __future__ import annotations

import polars as pl
import pytest

from gpuviz.analysis import (
    first_calls,
    graph_gain,
    launch_bound,
    launch_budget,
    launch_stages,
    launch_tree,
    queue_depth,
    queue_depth_summary,
)
from gpuviz.errors import AnalysisError
from gpuviz.model import Trace
from tests.drawing import trace_from_text, tree_to_text

STEP = """
    thread 1: ffffffffffffffffffffff
    thread 1: ..ooooo..qqqqqqqq.....
    thread 1: ....A.....B..C........
    stream 7: ......AAA...BB..CCC...
    f = python step train.py:12
    o = op aten::mm
    q = op aten::softmax
"""
STAGES = ("lead_ns", "python_ns", "dispatch_ns", "api_ns", "queue_delay_ns", "gpu_ns")


def stages(trace: Trace) -> list[tuple[int | None, ...]]:
    """The stages of each launch in µs."""
    rows = launch_stages(trace).select(STAGES).rows()
    return [tuple(None if value is None else value // 1_000 for value in row) for row in rows]


def test_the_stages_of_a_launch() -> None:
    assert stages(trace_from_text(STEP)) == [
        (4, 2, 2, 1, 1, 3),  # Python since the function began, then the operator
        (3, 2, 1, 1, 1, 2),  # Python since the operator before it ended
        (2, 0, 2, 1, 2, 3),  # the second launch of its operator: dispatch since the call before
    ]


def test_lines_have_one_stage_before_the_call() -> None:
    trace = trace_from_text("thread 1: ..A...B...\nstream 7: ...AA..BB.")
    assert stages(trace) == [(None, None, None, 1, 0, 2), (3, None, None, 1, 0, 2)]


def test_operators_without_python_leave_python_unknown() -> None:
    trace = trace_from_text("thread 1: oooo..oooo\nthread 1: .A.....B..\nstream 7: ...AA...BB\no = op aten::mm")
    assert stages(trace) == [(None, None, 1, 1, 1, 2), (3, None, 1, 1, 0, 2)]


def test_nested_operators_are_one_dispatch() -> None:
    trace = trace_from_text("""
        thread 1: ffffffffff
        thread 1: .oooooooo.
        thread 1: ..pp.qqq..
        thread 1: ......A...
        stream 7: .......A..
        o = op aten::linear
        p = op aten::t
        q = op aten::addmm
    """)
    assert stages(trace) == [(6, 1, 5, 1, 0, 1)]


def test_python_in_an_operator_ends_the_chain() -> None:
    trace = trace_from_text("""
        thread 1: ooooooooo
        thread 1: ..hhhhh..
        thread 1: ....qq...
        thread 1: .....A...
        stream 7: ......A..
        o = op backward
        h = python hook
        q = op aten::mul
    """)
    assert stages(trace) == [(3, 2, 1, 1, 0, 1)]


def test_a_graph_launch_is_delayed_once_and_has_an_envelope() -> None:
    trace = trace_from_text("thread 1: .GG........\nstream 7: ....PP.QQ..\nstream 8: .......RRR.\nG -> PQR")
    (row,) = launch_stages(trace).to_dicts()
    assert (row["name"], row["activities"], row["queue_delay_ns"], row["gpu_ns"]) == ("P", 3, 1_000, 6_000)
    assert (row["start_ns"], row["end_ns"]) == (4_000, 10_000)


def test_a_call_that_never_returned_and_clock_skew() -> None:
    (row,) = launch_stages(trace_from_text("thread 1: .AA~\nstream 7: ..AA")).to_dicts()
    assert (row["api_ns"], row["queue_delay_ns"], row["before_launch"]) == (None, None, False)
    trace = trace_from_text("thread 1: ..A.\nstream 7: AA..")
    assert launch_stages(trace)["before_launch"].to_list() == [True]
    assert launch_tree(trace)["queue_delay_known"][0] == 0, "skewed delays are in no sum"


def test_stages_that_begin_before_the_window_are_unknown() -> None:
    table = launch_stages(trace_from_text(STEP), (8_000, 20_000))
    assert table.select("name", *STAGES[:3]).rows() == [("B", None, None, 1_000), ("C", 2_000, 0, 2_000)]


def test_stages_by_call_path() -> None:
    trace = trace_from_text(STEP)
    text = tree_to_text(trace, launch_tree(trace), "launches", "python_ns", "dispatch_ns", "gpu_ns")
    assert text.splitlines()[:4] == [
        "root | 3 | 4000 | 5000 | 8000",
        "  python step train.py:12 | 3 | 4000 | 5000 | 8000",
        "    op aten::mm | 1 | 2000 | 2000 | 3000",
        "      api cudaLaunchKernel | 1 | 2000 | 2000 | 3000",
    ]


def test_the_budget_of_a_thread_and_a_device() -> None:
    budget = launch_budget(trace_from_text(STEP))
    assert budget.select("side", "bucket", "time_ns").rows() == [
        ("thread", "launch_call", 3_000),
        ("thread", "dispatch", 10_000),
        ("thread", "python", 9_000),
        ("device", "kernel", 8_000),
        ("device", "idle", 14_000),
    ]


def test_every_kind_of_host_work_has_its_bucket() -> None:
    trace = trace_from_text("""
        thread 1: .LL.MM.AA.SS.OO.ppppp..wwww.dddd
        thread 1: .................xx.............
        stream 7: ...LL...........................
        L = api cudaLaunchKernel
        M = api cudaMemcpyAsync
        A = api cudaMalloc
        S = api cudaStreamSynchronize
        O = api cudaFuncSetAttribute
        x = op aten::item
        p = python step
        w = python 'threading.py(323): wait'
        d = python 'torch/utils/data/dataloader.py(703): __next__'
    """)
    budget = launch_budget(trace).filter(side="thread")
    assert dict(budget.select("bucket", "time_ns").rows()) == {
        "launch_call": 2_000,
        "copy_call": 2_000,
        "allocator": 2_000,
        "sync": 2_000,
        "other_call": 2_000,
        "operator": 2_000,
        "python": 3_000,
        "waiting": 4_000,
        "data_loader": 4_000,
        "nothing_recorded": 9_000,
    }
    assert budget["time_ns"].sum() == 32_000


QUEUED = """
    thread 1: ABC.......
    stream 7: ..AABBCCC.
"""


def test_queue_depth() -> None:
    trace = trace_from_text(QUEUED)
    assert queue_depth(trace).select("start_ns", "end_ns", "depth").rows() == [
        (0, 1_000, 1),
        (1_000, 4_000, 2),  # C comes when A begins
        (4_000, 6_000, 1),
        (6_000, 9_000, 0),
    ]
    (row,) = queue_depth_summary(trace).to_dicts()
    assert (row["median_depth"], row["max_depth"], row["empty_ns"]) == (1, 2, 3_000)
    assert row["mean_depth"] == pytest.approx(9 / 9)


def test_queue_depth_of_a_window_knows_what_was_queued_before_it() -> None:
    trace = trace_from_text("thread 1: AB......\nstream 7: ......AB")
    assert queue_depth(trace, (3_000, 5_000))["depth"].to_list() == [2]
    assert queue_depth(trace.window(3_000, 5_000))["depth"].to_list() == [2]


def test_queue_depth_is_unknown_without_host_records() -> None:
    (row,) = queue_depth_summary(trace_from_text("stream 7: KK.K")).to_dicts()
    assert (row["median_depth"], row["without_launch"]) == (None, 2)


@pytest.mark.parametrize(
    ("drawing", "share", "depth", "verdict"),
    [
        ("thread 1: A...B...C..\nstream 7: .A...B...C.", 3 / 9, 0, True),
        ("thread 1: A...B...C..\nstream 7: .AAA.BBB.CC", 8 / 10, 0, False),
        ("thread 1: ABCD.......\nstream 7: ....A.B.C.D", 4 / 7, 2, False),
        ("thread 1: ABCDE.......\nstream 7: .....A..B..C..D..E", 5 / 13, 2, False),
        ("thread 1: A...B...C..\nstream 7: .A...B...C.K", 4 / 11, 0, None),
        ("stream 7: K.......K", 2 / 9, None, None),
    ],
    ids=["launch-bound", "busy", "busy and queued", "queued", "a kernel without a host record", "no host records"],
)
def test_launch_bound(drawing: str, share: float, depth: int | None, verdict: bool | None) -> None:
    (row,) = launch_bound(trace_from_text(drawing)).to_dicts()
    assert row["kernel_share"] == pytest.approx(share)
    assert (row["median_depth"], row["launch_bound"]) == (depth, verdict)


def test_launch_bound_beside_other_tools() -> None:
    trace = trace_from_text("thread 1: AA....B.\nstream 7: ...A...B")
    (row,) = launch_bound(trace).to_dicts()
    assert (row["mean_kernel_ns"], row["nsys_ai_launch_bound"]) == (1_000, False), "fewer than 100 launches"
    assert row["short_kernels"] == 1, "A takes 1 µs, its call 2"
    row_of_code = {"code": "graph_replay_without_kernels", "count": 3, "first_example": None, "effect": ""}
    doubtful = trace.replace(diagnostics=pl.DataFrame([row_of_code], schema=trace.diagnostics.schema))
    assert launch_bound(doubtful)["launch_bound"].to_list() == [None]


def test_first_calls() -> None:
    trace = trace_from_text("""
        thread 1: ..AAAA..B.C.A.A
        thread 1: ...xx..........
        stream 7: ......A..B.C.A.A
        B = kernel A
        C = kernel C
        x = other 'lazy function loading'
    """)
    overhead = pl.when(pl.col("layer") == "other").then(pl.lit("overhead")).cast(pl.Categorical)
    trace = trace.replace(host_calls=trace.host_calls.with_columns(category=overhead))
    first, second = first_calls(trace).to_dicts()
    assert (first["name"], first["launches"], first["first_api_ns"], first["later_api_p50_ns"]) == (
        "A",
        4,
        4_000,
        1_000,
    )
    assert (first["first_overhead_ns"], first["excess_ns"]) == (2_000, 3_000)
    assert (second["name"], second["launches"], second["excess_ns"]) == ("C", 1, None)
    assert launch_stages(trace)["first"].to_list() == [True, False, True, False, False]


LOOP = "thread 1: " + "A...B..." * 9 + "\nstream 7: " + ".A...B.." * 9


def test_the_gain_of_graphs_is_an_estimate() -> None:
    (row,) = graph_gain(trace_from_text(LOOP), node_gap_ns=1_000).to_dicts()
    assert (row["launches"], row["repeating_launches"], row["gaps"], row["gap_ns"]) == (18, 18, 17, 51_000)
    assert (row["estimate_ns"], row["reason"]) == (34_000, None)
    assert row["estimate_share"] == pytest.approx(34 / 69)


def test_the_gap_within_graphs_is_measured_where_there_is_one() -> None:
    graph = "\nthread 1: " + "." * 72 + "G.......\nstream 7: " + "." * 72 + ".P..Q..R\nG -> PQR"
    (row,) = graph_gain(trace_from_text(LOOP + graph)).to_dicts()
    assert (row["node_gap_ns"], row["estimate_ns"]) == (2_000, 17_000)


@pytest.mark.parametrize(
    ("drawing", "reason"),
    [
        (LOOP, "no_graph_to_measure"),
        ("thread 1: A...B...\nstream 7: .A...B..", "nothing_repeats"),
        ("stream 7: AAA..BBB", "nothing_repeats"),
    ],
)
def test_the_gain_of_graphs_abstains(drawing: str, reason: str) -> None:
    (row,) = graph_gain(trace_from_text(drawing)).to_dicts()
    assert (row["estimate_ns"], row["reason"]) == (None, reason)


def test_a_gap_that_waits_for_something_else_is_no_gain() -> None:
    waiting = LOOP.replace("A...B...", "A.S.B...", 1) + "\nS = api cudaStreamSynchronize"
    (row,) = graph_gain(trace_from_text(waiting), node_gap_ns=0).to_dicts()
    assert (row["gaps"], row["estimate_ns"]) == (16, 48_000)


def test_a_negative_gap_is_refused() -> None:
    with pytest.raises(AnalysisError, match="0 or more"):
        graph_gain(trace_from_text(LOOP), node_gap_ns=-1)
