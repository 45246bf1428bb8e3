"""Exports from real GPUs against SQL over the same file, to the nanosecond."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from gpuviz.formats import load
from gpuviz.model.trace import Trace
from tests.formats.nsys import reports
from tests.formats.nsys.exports import assert_same, codes, load_both

pytestmark = pytest.mark.shared

FILES = ("a100_saxpy_2022_2", "h100_2gpu_after", "h100_2gpu_before", "rtx3080_tiny_2026_1")

# Diagnostics of each file: nothing is lost silently, and nothing is made up.
KNOWN_LOSSES = {
    "a100_saxpy_2022_2": {"record_kind_ignored": 5451},
    "h100_2gpu_after": {"launched_before_window": 16},
    "h100_2gpu_before": {"launched_before_window": 31},
    "rtx3080_tiny_2026_1": {},
}
ACTIVITIES = {"kernels": "KERNEL", "memcpys": "MEMCPY", "memsets": "MEMSET"}
INTERVALS = {
    **{table: f"CUPTI_ACTIVITY_KIND_{kind}" for table, kind in ACTIVITIES.items()},
    "api_calls": "CUPTI_ACTIVITY_KIND_RUNTIME",
    "syncs": "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
}

type Query = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture(scope="module")
def opened(shared_traces: Path) -> Callable[[str], Trace]:
    return cache(lambda name: load_both(shared_traces / "nsys" / f"{name}.sqlite"))


@pytest.fixture(params=FILES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def trace(name: str, opened: Callable[[str], Trace]) -> Trace:
    return opened(name)


@pytest.fixture
def query(name: str, shared_traces: Path) -> Query:
    """Rows of a query over the file; none where it has no such table."""

    def ask(sql: str) -> list[tuple[Any, ...]]:
        uri = (shared_traces / "nsys" / f"{name}.sqlite").as_uri()
        with closing(sqlite3.connect(f"{uri}?mode=ro&immutable=1", uri=True)) as connection:
            tables = {table for (table,) in connection.execute("SELECT name FROM sqlite_master")}
            asked = set(re.findall(r"(?:FROM|JOIN) (\w+)", sql))
            return connection.execute(sql).fetchall() if asked <= tables else []

    return ask


@pytest.mark.parametrize("table", list(INTERVALS))
def test_every_row_with_its_times(trace: Trace, query: Query, table: str) -> None:
    expected = query(f"SELECT start, end FROM {INTERVALS[table]} ORDER BY start, end")
    first = trace.meta.t0_source_ns or 0
    found = trace.table(table).select(pl.col("start_ns", "end_ns") + first).sort("start_ns", "end_ns")
    assert found.rows() == expected


@pytest.mark.parametrize("table", list(ACTIVITIES))
def test_work_per_stream(trace: Trace, query: Query, table: str) -> None:
    expected = query(
        "SELECT globalPid >> 24 & 16777215, deviceId, contextId, streamId, count(*), sum(end - start) "
        f"FROM {INTERVALS[table]} GROUP BY 1, 2, 3, 4"
    )
    places = trace.streams.join(trace.devices.select("device_id", "ordinal"), on="device_id")
    places = places.join(trace.processes.select("process_id", "pid"), on="process_id")
    rows = trace.table(table).join(places, on="stream_id").group_by("pid", "ordinal", "context", "number")
    found = rows.agg(pl.len(), (pl.col("end_ns") - pl.col("start_ns")).sum()).rows()
    assert sorted(found) == sorted(expected)


def test_sizes_of_copies(trace: Trace, query: Query) -> None:
    expected = dict(query("SELECT copyKind, sum(bytes) FROM CUPTI_ACTIVITY_KIND_MEMCPY GROUP BY 1"))
    kinds = {kind: reports.OPERATIONS[kind] for kind in expected}
    found = dict(trace.memcpys.group_by(pl.col("copy_kind").cast(pl.String)).agg(pl.col("size_bytes").sum()).rows())
    assert found == {kinds[kind]: size for kind, size in expected.items()}


def test_links_are_those_of_process_and_id(trace: Trace, query: Query) -> None:
    """Joined by correlation id alone, 131 kernels of h100_2gpu_before would start before their launch."""
    expected = query(
        "SELECT k.start, min(r.start) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN CUPTI_ACTIVITY_KIND_RUNTIME r "
        "ON r.globalTid >> 24 = k.globalPid >> 24 AND r.correlationId = k.correlationId "
        "GROUP BY k.rowid ORDER BY k.start, 2"
    )
    launches = trace.api_calls.select("api_id", launch_ns="start_ns")
    first = trace.meta.t0_source_ns or 0
    linked = trace.kernels.join(launches, on="api_id").select(pl.col("start_ns", "launch_ns") + first)
    assert linked.sort("start_ns", "launch_ns").rows() == expected
    assert (linked["start_ns"] >= linked["launch_ns"]).all()


def test_ranges(trace: Trace, query: Query) -> None:
    expected = query(
        "SELECT coalesce(n.text, s.value), n.start, n.end, n.globalTid & 16777215 FROM NVTX_EVENTS n "
        "LEFT JOIN StringIds s ON s.id = n.textId WHERE eventType IN (59, 60, 34)"
    )
    first = trace.meta.t0_source_ns or 0
    rows = trace.ranges.join(trace.threads.select("thread_id", "native_id"), on="thread_id")
    found = rows.select(pl.col("name").cast(pl.String), pl.col("start_ns", "end_ns") + first, "native_id").rows()
    assert sorted(found) == sorted(expected)


def test_ranges_nest_within_their_threads(trace: Trace) -> None:
    ranges = trace.ranges
    above = ranges.select(parent_id="range_id", outer_ns="start_ns", until_ns="end_ns", outer_thread="thread_id")
    inside = ranges.join(above, on="parent_id")
    assert (inside["outer_thread"] == inside["thread_id"]).all()
    assert (inside["outer_ns"] <= inside["start_ns"]).all()


def test_facts(trace: Trace, query: Query) -> None:
    (start,) = query("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME")[0]
    tables = ("META_DATA_EXPORT", "EXPORT_META_DATA")
    versions = [query(f"SELECT value FROM {table} WHERE name = 'EXPORT_SCHEMA_VERSION'") for table in tables]
    gpus = query("SELECT name, smCount, totalMemory, computeMajor || '.' || computeMinor FROM TARGET_INFO_GPU")
    assert trace.meta.t0_unix_ns == start + (trace.meta.t0_source_ns or 0)
    assert [(trace.meta.versions["nsys_schema"],)] in versions
    found = trace.devices.select("name", "sm_count", "memory_bytes", "compute_capability").rows()
    assert found == (gpus or [(None,) * 4] * trace.devices.height)
    told = " ".join([*trace.meta.properties, *trace.meta.properties.values()])
    for private in ("TOKEN", "/home", "PATH=", "ocankur", "rich-wsl"):
        assert private not in told


def test_diagnostics(trace: Trace, name: str) -> None:
    assert codes(trace) == KNOWN_LOSSES[name]


def test_reports_of_nsight(trace: Trace, name: str, shared_traces: Path) -> None:
    expected = reports.by_sql(shared_traces / "nsys" / f"{name}.sqlite")
    found = reports.documented(trace)
    assert found == expected
    assert found["cuda_kern_exec_sum"]


def test_saved_and_opened_again(trace: Trace, tmp_path: Path) -> None:
    assert_same(load(trace.save(tmp_path / "trace.gpuviz")), trace)


def test_two_gpus_of_two_processes(opened: Callable[[str], Trace]) -> None:
    trace = opened("h100_2gpu_before")
    assert trace.processes["pid"].to_list() == [144, 145]
    assert trace.devices["ordinal"].to_list() == [0, 1]
    waits = trace.syncs.join(trace.api_calls.select("api_id", "thread_id"), on="api_id")
    places = waits.join(trace.threads.select("thread_id", "process_id"), on="thread_id")
    assert (places["device_id"] == places["process_id"]).all()  # the file says device 0 for all of them


# The small files that each show one pitfall.


def pitfall(shared_traces: Path, name: str) -> Trace:
    return load_both(shared_traces / "malformed" / f"{name}.sqlite")


def test_correlation_per_process(shared_traces: Path) -> None:
    trace = pitfall(shared_traces, "p50_correlation_per_process")
    launches = trace.kernels.join(trace.api_calls.select("api_id", launch_ns="start_ns"), on="api_id")
    assert (launches["start_ns"] - launches["launch_ns"]).to_list() == [100, 100]


def test_old_schema_and_texts(shared_traces: Path) -> None:
    trace = pitfall(shared_traces, "p52_old_schema_text_nvtx")
    found = trace.ranges.select("kind", pl.col("name").cast(pl.String), "thread_id").rows()
    assert found == [("nvtx", "void k_short<float>(float*)", 0), ("nvtx", "startend", None), ("mark", "mark", 0)]


def test_whole_graphs_are_busy_time(shared_traces: Path) -> None:
    trace = pitfall(shared_traces, "p53_graph_mode_whole")
    work = trace.activities()
    assert (work["end_ns"] - work["start_ns"]).sum() == 4001
    assert (trace.kernels.height, trace.graph_runs.height) == (1, 1)
    assert codes(trace) == {"launch_missing": 1, "graph_replay_without_kernels": 1}
