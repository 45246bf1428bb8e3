"""Which windows an analysis takes, and what it says about the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuviz import analysis
from gpuviz.errors import AnalysisError
from gpuviz.model import Trace
from tests.drawing import trace_from_text

ALL = [getattr(analysis, name) for name in analysis.__all__]


@pytest.fixture(scope="module")
def trace() -> Trace:
    return trace_from_text("""
        thread 1: A.......
        stream 7: .AAA.>>>
    """)


@pytest.mark.parametrize("analyse", ALL, ids=analysis.__all__)
@pytest.mark.parametrize(
    ("window", "said"),
    [
        ((5, 5), "empty"),
        ((6_000, 2_000), "empty"),
        ((0.5, 2.5), "whole numbers"),
        ((0, 1, 2), "whole numbers"),
        ("ab", "whole numbers"),
        (7, "whole numbers"),
        ((None, 5), "whole numbers"),
        ((0, 10**30), "64 bits"),
        ((9_000, 9_500), "holds 0 to 8000 ns"),
        ((-10, 0), "holds 0 to 8000 ns"),
    ],
)
def test_an_impossible_window_is_refused(analyse: Any, trace: Trace, window: Any, said: str) -> None:
    with pytest.raises(AnalysisError, match=said):
        analyse(trace, window)


@pytest.mark.parametrize("analyse", ALL, ids=analysis.__all__)
def test_a_cut_trace_is_not_asked_for_what_it_lacks(analyse: Any, trace: Trace) -> None:
    cut = trace.window(1_000, 4_000)
    with pytest.raises(AnalysisError, match="was cut to"):
        analyse(cut, (0, 4_000))
    assert analyse(cut, (2_000, 3_000)).equals(analyse(trace, (2_000, 3_000)))


def test_a_window_may_stick_out_and_may_be_numpy(trace: Trace) -> None:
    wide = analysis.device_time(trace, (np.int64(-2_000), np.int64(10_000)))  # type: ignore[arg-type]
    assert wide.select("span_ns", "busy_ns", "idle_ns").rows() == [(12_000, 6_000, 6_000)]


def test_an_empty_trace_has_tables_without_rows() -> None:
    for analyse in ALL:
        empty, full = analyse(Trace({})), analyse(trace_from_text("stream 7: K>"))
        assert empty.height == 0 or set(empty["status"]) == {"abstained"}
        assert empty.schema == full.schema


@pytest.mark.parametrize("limit", [0, -3])
def test_a_limit_below_one_is_refused(trace: Trace, limit: int) -> None:
    with pytest.raises(AnalysisError, match="at least 1"):
        analysis.top_kernels(trace, limit=limit)
