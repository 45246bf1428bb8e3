"""`Trace`: what the constructor checks, tables at first use, windows."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given

from gpuviz.errors import TraceError
from gpuviz.model import Trace, TraceMeta, Window, schema
from tests.analysis.random_traces import traces_and_windows
from tests.drawing import trace_from_text

DRAWN = """
    thread 1: ffffffffff
    thread 1: .A..B.C...
    stream 7: ..AAAA....
    stream 8: ......BB.C
"""


def test_a_table_that_is_not_given_is_empty() -> None:
    trace = Trace({})
    for name in schema.TABLES:
        assert getattr(trace, name).equals(schema.empty(name))
    assert repr(trace) == "<Trace 'trace': empty>"


def test_an_unknown_table_is_refused() -> None:
    with pytest.raises(TraceError, match="'kernel', which the data model does not have") as caught:
        Trace({"kernel": pl.DataFrame()})
    assert caught.value.table == "kernel"


@pytest.mark.parametrize(
    ("change", "column"),
    [
        (lambda table: table.drop("name"), "name"),
        (lambda table: table.with_columns(pl.col("start_ns").cast(pl.Float64)), "start_ns"),
        (lambda table: table.with_columns(colour=pl.lit("red")), "colour"),
        (lambda table: table.select(table.columns[::-1]), None),
    ],
    ids=["missing", "another dtype", "too many", "another order"],
)
def test_names_and_dtypes_are_checked(change: object, column: str | None) -> None:
    table = change(schema.empty("kernels"))  # type: ignore[operator]
    with pytest.raises(TraceError) as caught:
        Trace({"kernels": table})
    assert (caught.value.table, caught.value.column) == ("kernels", column)


def test_a_table_is_read_when_it_is_first_used_and_only_then() -> None:
    reads = []

    def read() -> pl.DataFrame:
        reads.append(1)
        return schema.empty("kernels")

    trace = Trace({"kernels": read})
    assert not reads
    assert trace.kernels.equals(trace.kernels)
    assert len(reads) == 1
    wrong = Trace({"kernels": pl.DataFrame})
    with pytest.raises(TraceError, match="activity_id"):
        _ = wrong.kernels


def test_tables_belong_to_a_trace() -> None:
    with pytest.raises(AttributeError, match="of a trace, not of the class"):
        _ = Trace.kernels
    with pytest.raises(TypeError):
        Trace({}).tables["kernels"] = pl.DataFrame()  # type: ignore[index]


def test_activities_are_all_gpu_work_by_start() -> None:
    table = trace_from_text("stream 1/7: ..KK.0\nstream 8: >>.*").activities()
    assert table["table"].to_list() == ["memcpys", "kernels", "graph_runs", "memsets"]
    assert table["device_id"].to_list() == [0, 1, 0, 1]
    assert table["start_ns"].is_sorted()


def test_replace_exchanges_some_tables() -> None:
    trace = trace_from_text(DRAWN)
    other = trace.replace(meta=TraceMeta(title="other"), ranges=schema.empty("ranges"))
    assert other.meta.title == "other"
    assert other.kernels is trace.kernels


def test_a_window_keeps_rows_uncut_and_launches_of_what_it_keeps() -> None:
    trace = trace_from_text(DRAWN)
    cut = trace.window(5_000, 6_500)
    assert cut.meta.window == (5_000, 6_500)
    kept = [("A", 2_000, 6_000), ("B", 6_000, 8_000), ("C", 9_000, 10_000)]
    assert cut.kernels.select("name", "start_ns", "end_ns").rows() == kept, "A and B run, C is queued"
    assert cut.api_calls["api_id"].to_list() == [0, 1, 2], "launches of A and B, and the call that runs at 6 µs"
    assert cut.streams.equals(trace.streams)
    assert cut.callpaths.equals(trace.callpaths)
    assert cut.validate() is cut


def test_a_window_keeps_all_activities_of_a_graph_launch() -> None:
    trace = trace_from_text("thread 1: G.....H\nstream 7: .AABBC.D\nG -> ABC\nH -> D")
    assert trace.window(4_000, 5_000).kernels["name"].to_list() == ["A", "B", "C"]
    assert trace.window(6_000, 7_000).kernels["name"].to_list() == ["D"]


def test_a_window_keeps_what_is_queued_throughout() -> None:
    cut = trace_from_text("thread 1: A..B....\nstream 7: ......AB").window(3_000, 5_000)
    assert cut.kernels["name"].to_list() == ["A", "B"]
    assert cut.window(1_000 + 3_000, 5_000).api_calls["api_id"].to_list() == [0, 1]


@pytest.mark.parametrize("window", [(3_000, 3_000), (4_000, 1_000)])
def test_an_empty_window_is_refused(window: Window) -> None:
    with pytest.raises(TraceError, match="which is empty"):
        trace_from_text(DRAWN).window(*window)


def test_a_cut_trace_cannot_grow_again() -> None:
    cut = trace_from_text(DRAWN).window(2_000, 5_000)
    assert cut.window(3_000, 4_000).meta.window == (3_000, 4_000)
    with pytest.raises(TraceError, match="was cut to"):
        cut.window(3_000, 6_000)


@given(traces_and_windows())
def test_a_window_has_every_row_that_touches_it(drawn: tuple[Trace, Window]) -> None:
    trace, (first, last) = drawn
    cut = trace.window(first, last).validate()
    for name in schema.INTERVAL_TABLES:
        row_id = schema.TABLES[name].columns[0].name
        kept = set(cut.table(name)[row_id])
        for row in trace.table(name).iter_rows(named=True):
            end = trace.meta.end_ns if row["end_ns"] is None else row["end_ns"]
            runs = row["start_ns"] < last and end > first
            if runs or (row["start_ns"] == end and first <= end < last):
                assert row[row_id] in kept
            elif name in ("host_calls", "ranges", "syncs"):
                assert row[row_id] not in kept
