"""A trace too large for one output shows less, and says what."""

from __future__ import annotations

import pytest

from gpuviz.analysis import device_time
from gpuviz.model import Trace, schema
from gpuviz.view.budget import within_budget
from tests.drawing import trace_from_text


@pytest.fixture
def trace() -> Trace:
    return trace_from_text(
        """
        thread 1: fffffffffffffffffff
        thread 1: .oo.ppp.q.rrrrr....
        thread 1: .A..A....A...A.....
        stream 7: ..AAA.AA..AA..AAAAA
        f = python step train.py:12
        o = op one
        p = op two
        q = op three
        r = op four
        A = kernel gemm
        """
    )


def intervals(trace: Trace) -> int:
    return sum(trace.table(name).height for name in schema.INTERVAL_TABLES)


def test_a_small_trace_is_shown_as_it_is(trace: Trace) -> None:
    shown, left_out = within_budget(trace, intervals(trace))
    assert left_out is None
    assert shown is trace


def test_the_shortest_host_calls_go_first_and_gpu_times_stay(trace: Trace) -> None:
    shown, left_out = within_budget(trace, 11)
    assert left_out == (
        "only the 3 longest of 5 host calls are shown, so that CPU times and call counts are lower bounds; "
        "GPU times are exact"
    )
    assert set(shown.host_calls["name"].to_list()) == {"step", "two", "four"}
    assert device_time(shown).equals(device_time(trace))


def test_too_much_gpu_work_cuts_the_end_off_and_says_where(trace: Trace) -> None:
    shown, left_out = within_budget(trace, 4)
    assert left_out is not None
    assert left_out.startswith("only the first 10.00 µs of 19.00 µs are shown (2 of 4 GPU activities); ")
    assert shown.kernels["start_ns"].to_list() == [2_000, 6_000]
    assert device_time(shown).equals(device_time(trace, (0, 10_000)))
