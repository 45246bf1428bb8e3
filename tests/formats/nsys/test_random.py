"""Exports that nobody would think of, against a reader that is slow and plain."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuviz.formats import load
from gpuviz.model.trace import Trace
from tests.formats.nsys import reports
from tests.formats.nsys.exports import assert_same, codes, load_both, pid, tid, write

PIDS = (7, 4242)
START = st.integers(1, 40)
LENGTH = st.integers(0, 12)
ID = st.sampled_from([None, -1, 0, 1, 2, 3, 4, 2**32 - 1, 2**40])


def rows(draw: st.DrawFn, most: int, unit: int, **columns: st.SearchStrategy[Any]) -> list[dict[str, Any]]:
    found = []
    for _ in range(draw(st.integers(0, most))):
        start = draw(START) * unit
        row = {"start": start, "end": start + draw(LENGTH) * unit}
        found.append(row | {name: draw(values) for name, values in columns.items()})
    return found


@st.composite
def exports(draw: st.DrawFn) -> dict[str, list[dict[str, Any]]]:
    on_gpu = {
        "deviceId": st.integers(0, 1),
        "contextId": st.integers(1, 2),
        "streamId": st.sampled_from([7, 13]),
        "correlationId": ID,
        "globalPid": st.sampled_from(PIDS).map(pid),
    }
    # Within a microsecond a child may stick out of its parent, so both small and large times are tried.
    unit = draw(st.sampled_from([1, 10_000]))
    threads = st.sampled_from([tid(1, 7), tid(1), tid(2)])
    tables = {
        "CUPTI_ACTIVITY_KIND_KERNEL": rows(draw, 8, unit, **on_gpu, demangledName=st.integers(1, 2)),
        "CUPTI_ACTIVITY_KIND_MEMCPY": rows(
            draw, 4, unit, **on_gpu, copyKind=st.integers(0, 13), bytes=st.integers(0, 9)
        ),
        "CUPTI_ACTIVITY_KIND_MEMSET": rows(draw, 2, unit, **on_gpu, bytes=st.integers(0, 9)),
        "CUPTI_ACTIVITY_KIND_RUNTIME": rows(
            draw, 8, unit, globalTid=threads, correlationId=ID, nameId=st.integers(3, 4), eventClass=st.integers(0, 1)
        ),
        "OSRT_API": rows(draw, 3, unit, globalTid=threads, nameId=st.integers(1, 2)),
        "NVTX_EVENTS": rows(
            draw,
            6,
            unit,
            globalTid=threads,
            eventType=st.sampled_from([59, 60, 34]),
            text=st.sampled_from(["a", "b", None]),
            textId=st.sampled_from([None, 2]),
            domainId=st.integers(0, 1),
        ),
    }
    return {table: found for table, found in tables.items() if found}


type Launches = set[int] | None


def naive_launches(path: Path, *, nests: bool) -> list[tuple[int, int, Launches]]:
    """(start, end, starts of what may be the launch) of each kernel: the calls of its process with its id.

    Where all calls nest properly, only those that lie in no other of them.
    """
    with closing(sqlite3.connect(path)) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        if "CUPTI_ACTIVITY_KIND_KERNEL" not in tables:
            return []
        columns = "start, end, globalPid >> 24, correlationId"
        kernels = connection.execute(f"SELECT {columns} FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchall()
        calls: list[tuple[int, int, int, int]] = []
        if "CUPTI_ACTIVITY_KIND_RUNTIME" in tables:
            columns = "start, end, globalTid, correlationId"
            calls = connection.execute(f"SELECT {columns} FROM CUPTI_ACTIVITY_KIND_RUNTIME").fetchall()
    found = []
    for start, end, process, number in kernels:
        same = [call for call in calls if (call[2] >> 24, call[3]) == (process, number)]
        if number in (None, 0, -1, 2**32 - 1):
            same = []
        if nests:
            same = [call for call in same if not any(holds(other, call) for other in same)]
        found.append((start, end, {call[0] for call in same} or None))
    return found


def holds(outer: tuple[int, int, int, int], inner: tuple[int, int, int, int]) -> bool:
    lies_in = outer[0] <= inner[0] and inner[1] <= outer[1] and outer[2] == inner[2]
    return lies_in and outer[:2] != inner[:2]


def check_links(trace: Trace, path: Path) -> None:
    expected = naive_launches(path, nests=not {"crossing_call", "bleeding_child"} & codes(trace).keys())
    first = trace.meta.t0_source_ns or 0
    starts = trace.api_calls["start_ns"].to_list()
    found = trace.kernels.select("start_ns", "end_ns", "api_id").rows()
    shown = [(start + first, end + first, None if api is None else starts[api] + first) for start, end, api in found]
    assert sorted(row[:2] for row in shown) == sorted(row[:2] for row in expected)
    possible: dict[tuple[int, int], list[Launches]] = {}
    for start, end, launches in expected:
        possible.setdefault((start, end), []).append(launches)
    for start, end, launch in shown:
        assert any(launch is None if some is None else launch in some for some in possible[start, end])


@settings(max_examples=60)
@given(tables=exports())
def test_any_export(tables: dict[str, list[dict[str, Any]]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / "export.sqlite", tables)
        if not tables:
            return  # then it is no export
        trace = load_both(path)
        check_links(trace, path)
        for table, name in (
            ("kernels", "KERNEL"),
            ("memcpys", "MEMCPY"),
            ("memsets", "MEMSET"),
            ("api_calls", "RUNTIME"),
        ):
            rows_of_table = tables.get(f"CUPTI_ACTIVITY_KIND_{name}", [])
            assert trace.table(table).height == len(rows_of_table)
            total = trace.table(table).select((pl.col("end_ns") - pl.col("start_ns")).sum()).item()
            assert total == sum(row["end"] - row["start"] for row in rows_of_table)
        assert trace.ranges.height == len(tables.get("NVTX_EVENTS", []))
        assert trace.host_calls.height == len(tables.get("OSRT_API", []))
        leaves = trace.activities()["callpath_id"]
        assert leaves.null_count() == 0
        sums = reports.by_sql(path)
        told = reports.documented(trace)
        for name in ("cuda_gpu_kern_sum", "cuda_gpu_mem_time_sum", "cuda_api_sum"):
            assert told[name] == sums[name]
        assert_same(load(trace.save(Path(folder) / "trace.gpuviz")), trace)
