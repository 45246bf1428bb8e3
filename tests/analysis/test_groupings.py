"""Groupings of drawn traces: every number can be counted in the drawing."""

from __future__ import annotations

import polars as pl
import pytest

from gpuviz.analysis.busy_share import busy_share
from gpuviz.analysis.by_line import by_line
from gpuviz.analysis.by_range import by_range, by_step
from gpuviz.analysis.groupings import by_kernel, by_module, by_op, by_shape
from gpuviz.model import Trace, schema
from tests.drawing import trace_from_text

STEP = """
    thread 1: ffffffffffffff....
    thread 1: .mmmmmmm.gg.......
    thread 1: ..oooooo..........
    thread 1: ..A.A.>..B........
    stream 7: ....AAAAA.AAAB....
    stream 8: .......>>>>.......
    f = python step train.py:12
    m = module Linear
    o = op aten::mm
    g = python zero torch/optim.py:7
    A = kernel gemm
    B = kernel fill
"""
SUMS = ["activities", "launches", "gpu_ns", "busy_share_ns", "exposed_copy_ns"]


def test_busy_share() -> None:
    trace = trace_from_text("""
        stream 7: KKKKKK....
        stream 8: ..PPPPPP..
        stream 9: ....QQ....
        stream 1/7: ..RR
    """)
    table = busy_share(trace)
    shares = dict(zip(table["activity_id"], table["busy_share_ns"], strict=True))
    # K: two alone, two with P, two with P and Q; P: the same and two alone; Q: two of three
    expected = {0: 2_000 + 1_000 + 2_000 / 3, 1: 1_000 + 2_000 / 3 + 2_000, 2: 2_000.0, 3: 2_000 / 3}
    assert shares == pytest.approx(expected)
    cut = busy_share(trace, (0, 3_000))
    assert cut["busy_share_ns"].to_list() == pytest.approx([2_500, 500, 1_000])


def test_by_kernel() -> None:
    table = by_kernel(trace_from_text(STEP))
    assert table.select("table", "name", *SUMS).rows() == [
        ("kernels", "gemm", 2, 2, 8_000, 6_500.0, 0),
        ("memcpys", "Memcpy HtoD", 1, 1, 4_000, 2_500.0, 1_000),
        ("kernels", "fill", 1, 1, 1_000, 1_000.0, 0),
    ]
    assert table["share"].to_list() == pytest.approx([0.65, 0.25, 0.1])


def test_by_op_and_by_module() -> None:
    trace = trace_from_text(STEP)
    expected = [(12_000, 9_000.0, 0), (1_000, 1_000.0, 0)]
    for table, name in ((by_op(trace), "aten::mm"), (by_module(trace), "Linear")):
        assert table["name"].to_list() == [name, None]
        assert table.select("gpu_ns", "busy_share_ns", "backward_ns").rows() == expected


def test_by_line_prefers_the_code_of_a_person() -> None:
    table = by_line(trace_from_text(STEP))
    assert table.select("file", "line", "function", *SUMS).rows() == [
        ("train.py", 12, "step", 4, 4, 13_000, 10_000.0, 1_000)
    ]
    library = trace_from_text("""
        thread 1: gggg....
        thread 1: .A......
        stream 7: ...AA...
        g = python zero torch/optim.py:7
    """)
    assert by_line(library).select("file", "line").rows() == [("torch/optim.py", 7)], "there is nothing better"
    assert by_line(trace_from_text("stream 7: KK")).select("file", "line").rows() == [(None, None)]


def test_by_line_with_the_idle_time_it_caused() -> None:
    trace = trace_from_text("""
        thread 1: ffffffffhhhhhhhh..
        thread 1: A.............A...
        stream 7: .AAA...........AAA
        f = python step train.py:12
        h = python load data.py:3
    """)
    table = by_line(trace, idle_time=True)
    # gap 4 to 15: step until 8, load until its launch begins and while it lasts
    assert table.select("line", "gpu_ns", "idle_ns").rows() == [(3, 3_000, 7_000), (12, 3_000, 4_000)]
    only = by_line(trace, (9_000, 12_000), idle_time=True)
    assert only.select("line", "activities", "gpu_ns", "share", "idle_ns").rows() == [(3, 0, 0, None, 3_000)]


@pytest.mark.parametrize(
    ("file", "is_own"),
    [
        ("train.py", True),
        ("/home/me/torch/train.py", True),
        ("C:\\work\\train.py", True),
        ("transformers/models/bert.py", True),
        ("/x/site-packages/transformers/bert.py", True),
        ("/x/site-packages/torch/nn/functional.py", False),
        ("torch/nn/functional.py", False),
        ("inspect.py", False),
        ("/usr/lib/python3.12/inspect.py", False),
        ("<string>", False),
    ],
)
def test_whose_code_a_line_is(file: str, is_own: bool) -> None:
    trace = trace_from_text("""
        thread 1: pppp..
        thread 1: .oo...
        thread 1: .A....
        stream 7: ...AA.
        p = python outer outer.py:1
        o = python inner inner.py:2
    """)
    renamed = trace.frames.with_columns(
        pl.when(pl.col("function").cast(pl.String) == "inner")
        .then(pl.lit(file))
        .otherwise(pl.col("file").cast(pl.String))
        .cast(pl.Categorical)
        .alias("file")
    )
    expected = file if is_own else "outer.py"
    assert by_line(trace.replace(frames=renamed))["file"].to_list() == [expected]


def test_backward_work_belongs_to_the_line_of_its_forward_work() -> None:
    trace = trace_from_text("""
        thread 1: ffff........
        thread 1: .A..........
        thread 2: .....bbb....
        thread 2: ......B.....
        stream 7: ..AA...BBB..
        f = python loss train.py:9
        b = op AddmmBackward0
    """)
    forward = trace.kernels["callpath_id"][0]
    kernels = trace.kernels.with_columns(forward_callpath_id=pl.Series([None, forward], dtype=pl.Int32))
    linked = trace.replace(kernels=kernels)
    assert by_line(linked).select("line", "gpu_ns", "backward_ns").rows() == [(9, 5_000, 3_000)]
    assert by_line(trace).select("line", "gpu_ns", "backward_ns").rows() == [(None, 3_000, 0), (9, 2_000, 0)]
    assert by_op(linked).select("name", "backward_ns").rows() == [("AddmmBackward0", 3_000), (None, 0)]


def with_kinds(trace: Trace, kind: str) -> Trace:
    kinds = pl.Series([kind] * trace.ranges.height, dtype=pl.Enum(schema.RANGE_KINDS))
    return trace.replace(ranges=trace.ranges.with_columns(kind=kinds))


STEPS = """
    range 1: ssss.tttt...
    thread 1: .A...B...C..
    thread 2: ......D.....
    stream 7: ...AAA.BBBC.
    stream 8: ........DD..
"""


def test_work_belongs_to_the_step_of_its_launch() -> None:
    table = by_step(with_kinds(trace_from_text(STEPS), "step"))
    assert table.select("name", "start_ns", "end_ns", "launches", "gpu_ns").rows() == [
        ("s", 0, 4_000, 1, 3_000),
        ("t", 5_000, 9_000, 2, 5_000),
        (None, None, None, 1, 1_000),
    ]


def test_without_steps_all_is_one_step() -> None:
    table = by_step(trace_from_text(STEPS))
    assert table.select("range_id", "launches", "gpu_ns").rows() == [(None, 4, 9_000)]


def test_by_range_counts_nested_ranges_once_per_name() -> None:
    trace = trace_from_text("""
        range 1: aaaaaaaa....
        range 1: .bbb.aa.....
        thread 1: ..A..B...C..
        thread 2: ..D.........
        stream 7: ...AA.BB..C.
        stream 8: ....D.......
    """)
    assert by_range(trace).select("name", "ranges", "launches", "gpu_ns").rows() == [
        ("a", 2, 2, 4_000),
        ("b", 1, 1, 2_000),
        (None, None, 2, 2_000),
    ]
    assert by_range(trace_from_text("stream 7: KK")).height == 0


def test_by_shape() -> None:
    trace = trace_from_text("""
        thread 1: oooo.oooo.oooo..
        thread 1: .ww...A....B....
        thread 1: .A..............
        stream 7: ...AA..AAA..BB..
        o = op aten::mm
        w = other wrapper
    """)
    assert by_shape(trace).height == 0, "no shapes were recorded"
    shapes = {"aten::mm": ["[[2, 2]]", "[[3, 3]]", None]}["aten::mm"]
    operators = trace.host_calls["layer"] == "op"
    column = [shapes.pop(0) if one else None for one in operators.to_list()]
    host_calls = trace.host_calls.with_columns(input_shapes=pl.Series(column).cast(pl.Categorical))
    assert by_shape(trace.replace(host_calls=host_calls)).select("name", "input_shapes", "gpu_ns").rows() == [
        ("aten::mm", "[[3, 3]]", 3_000),
        ("aten::mm", "[[2, 2]]", 2_000),
        ("aten::mm", None, 2_000),
    ]


@pytest.mark.parametrize("analyse", [by_kernel, by_op, by_module, by_line, by_step, by_range, by_shape])
def test_a_trace_without_gpu_work_has_no_groups(analyse: object) -> None:
    assert callable(analyse)
    assert analyse(trace_from_text("range 1: rrr\nthread 1: ooo\no = op aten::mm")).height == 0
