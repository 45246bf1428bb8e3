"""Calls that nobody counted are unknown, not zero."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from gpuviz.analysis import cpu_time, gpu_time
from gpuviz.model.trace import FRAMES_WITHOUT_CALLS
from tests.drawing import trace_from_text


def test_frames_from_call_stacks_have_no_count_of_calls() -> None:
    trace = trace_from_text("thread 1: fff\nthread 1: .A.\nstream 7: ..A\nf = module Linear\nA = kernel gemm")
    meta = replace(trace.meta, properties={FRAMES_WITHOUT_CALLS: "python, module"})
    without = trace.replace({"host_calls": trace.host_calls.clear()}, meta=meta)
    for analysis in (gpu_time, cpu_time):
        calls = dict(analysis(without).select(pl.col("layer").cast(pl.String), "calls").iter_rows())
        assert calls["module"] is None
        assert calls["api"] == 1
        assert dict(analysis(trace).select(pl.col("layer").cast(pl.String), "calls").iter_rows())["module"] == 1
