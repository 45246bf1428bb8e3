"""The language of drawn traces, as its docstring shows it."""

from __future__ import annotations

import pytest

from tests import drawing
from tests.drawing import trace_from_text, tree_to_text


def test_the_example_of_the_docstring() -> None:
    text = (drawing.__doc__ or "").partition("'''")[2].partition("'''")[0]
    trace = trace_from_text(text)
    assert tree_to_text(trace).splitlines() == [
        "root",
        "  python step train.py:12",
        "    op aten::mm",
        "      api cudaLaunchKernel",
        "        kernel gemm",
        "      api cudaMemcpyAsync",
        "        memcpy Memcpy HtoD",
        "  api cudaDeviceSynchronize",
    ]
    assert trace.kernels.select("start_ns", "end_ns", "api_id").rows() == [(4_000, 9_000, 0)]
    copy = trace.memcpys.select("copy_kind", "src_kind", "dst_kind", "size_bytes", "api_id")
    assert copy.rows() == [("HtoD", "pageable", "device", 4_096, 1)]


def test_marks_after_a_run() -> None:
    trace = trace_from_text("stream 7: AA~.BB!.CC")
    assert trace.kernels.select("name", "end_ns", "timing").rows() == [
        ("A", None, "open"),
        ("B", None, "invalid"),
        ("C", 10_000, "ok"),
    ]


def test_a_call_can_launch_many_and_calls_take_turns() -> None:
    trace = trace_from_text("""
        thread 1: G.G.......
        stream 7: .AABB.CCDD
        G -> PQ
        A = kernel p
    """)
    assert trace.kernels["api_id"].to_list() == [None] * 4, "characters link, not names"
    trace = trace_from_text("thread 1: G.G...\nstream 7: .PQ.PQ\nG -> PQ")
    assert trace.kernels["api_id"].to_list() == [0, 0, 1, 1]


def test_a_line_that_is_neither_lane_nor_meaning_is_refused() -> None:
    with pytest.raises(ValueError, match="neither"):
        trace_from_text("strem 7: AA")
