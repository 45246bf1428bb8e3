"""Time zero, the wall clock, and times that cannot be right."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from gpuviz.formats.kineto import times as kineto
from gpuviz.formats.nsys.times import set_times
from gpuviz.model.diagnostics import Diagnostics
from tests.formats.nsys.exports import call, calls, codes, kernel, kernels, trace_of

START = {"TARGET_INFO_SESSION_START_TIME": [{"utcEpochNs": 1779782330176752435, "utcTime": "2026-05-26T07:58:50"}]}


def test_time_zero_is_the_first_row(tmp_path: Path) -> None:
    meta = trace_of(
        tmp_path,
        kernels(kernel(60_111_541_307, 60_111_730_171, 5)),
        calls(call(60_111_500_000, 60_111_500_500, 5)),
        START,
    ).meta
    assert meta.t0_source_ns == 60_111_500_000
    assert meta.t0_unix_ns == 1779782330176752435 + 60_111_500_000
    assert meta.end_ns == 230_171


def test_no_wall_clock_in_2020(tmp_path: Path) -> None:
    meta = trace_of(tmp_path, kernels(kernel(1000, 2000))).meta
    assert (meta.t0_source_ns, meta.t0_unix_ns) == (1000, None)


def test_times_that_cannot_be_right(tmp_path: Path) -> None:
    rows = [
        kernel(1000, 900),
        kernel(None, 900),
        kernel(0, 0),
        kernel(2000, None),
        kernel(3000, 2**63 - 1),
        kernel(4000, 5000),
    ]
    trace = trace_of(tmp_path, kernels(*rows))  # type: ignore[arg-type]
    assert codes(trace) == {
        "duration_negative": 1,
        "time_missing": 1,
        "time_not_recorded": 1,
        "duration_missing": 1,
        "end_absurd": 1,
        "launch_missing": 6,
    }
    assert trace.kernels.filter(timing="ok").select("start_ns", "end_ns").rows() == [(2000, 3000)]
    assert trace.kernels.height == 6


def test_a_range_that_never_ends(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path, kernels(kernel(1000, 2000)), {"NVTX_EVENTS": [call(900, None, eventType=59, text="open")]}
    )  # type: ignore[arg-type]
    assert trace.ranges.select("name", "end_ns", "timing").rows() == [("open", None, "open")]
    assert codes(trace)["duration_missing"] == 1


def test_zero_width_and_overlap(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        calls(call(10, 10, 1), call(10, 30, 2), call(10, 30, 3), call(20, 40, 4), call(30, 30, 5)),
        kernels(kernel(50, 50, 5)),
    )
    assert trace.api_calls["correlation_id"].to_list() == [2, 3, 1, 4, 5]
    assert trace.api_calls["depth"].to_list() == [0, 1, 2, 2, 0]
    assert codes(trace) == {"bleeding_child": 1}


intervals = st.lists(st.tuples(st.integers(1, 50), st.integers(0, 30)), max_size=12)


@given(host=intervals, work=intervals)
def test_clean_tables_are_judged_as_others_are(host: list[tuple[int, int]], work: list[tuple[int, int]]) -> None:
    """The short way gives what the rules for every row give."""
    tables = {
        name: pl.DataFrame(
            [(start, start + length, f"{name} {row}") for row, (start, length) in enumerate(rows)],
            schema={"start_ns": pl.Int64, "end_ns": pl.Int64, "name": pl.String},
            orient="row",
        )
        for name, rows in (("host", host), ("gpu", work))
    }
    gpu = frozenset({"gpu"})
    short = set_times(tables, gpu, Diagnostics())
    durations = {
        name: table.with_columns(dur_ns=pl.col("end_ns") - pl.col("start_ns")) for name, table in tables.items()
    }
    full = kineto.set_times({name: table.drop("end_ns") for name, table in durations.items()}, gpu, Diagnostics())
    assert (short.t0_ns, short.end_ns) == (full.t0_ns, full.end_ns)
    for name, table in short.tables.items():
        assert table.select("name", "start_ns", "end_ns", "timing").equals(
            full.tables[name].select("name", "start_ns", "end_ns", "timing")
        )
