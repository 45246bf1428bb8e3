"""Small SQLite exports of Nsight Systems, made for one test each."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuviz.formats.nsys import read
from gpuviz.model.trace import Trace

type Row = Mapping[str, Any]

MACHINE = 1 << 48
PID = 4242
ADBC_AND_STDLIB = ("adbc", "stdlib")

# Inherited by every row of these tables that does not say otherwise.
DEFAULTS: Mapping[str, Row] = {
    "CUPTI_ACTIVITY_KIND_KERNEL": {"deviceId": 0, "contextId": 1, "streamId": 7, "demangledName": 1},
    "CUPTI_ACTIVITY_KIND_MEMCPY": {"deviceId": 0, "contextId": 1, "streamId": 7, "copyKind": 1, "bytes": 64},
    "CUPTI_ACTIVITY_KIND_MEMSET": {"deviceId": 0, "contextId": 1, "streamId": 7, "bytes": 64, "value": 0},
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": {"deviceId": 0, "contextId": 1, "streamId": 7, "graphId": 1},
    "CUPTI_ACTIVITY_KIND_RUNTIME": {"eventClass": 0, "nameId": 3, "returnValue": 0},
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": {
        "deviceId": 0,
        "contextId": 1,
        "streamId": 7,
        "syncType": 3,
        "eventId": None,
    },
    "NVTX_EVENTS": {"end": None, "eventType": 59, "text": None, "textId": None, "domainId": 0, "category": None},
}
STRINGS = {1: "void k<float>(float*)", 2: "k", 3: "cudaLaunchKernel_v7000", 4: "cudaMemcpyAsync_v3020"}


def pid(number: int = PID, machine: int = MACHINE) -> int:
    """globalPid."""
    return machine | (number << 24)


def tid(number: int = 1, process: int = PID, machine: int = MACHINE) -> int:
    """globalTid."""
    return pid(process, machine) | number


def kernel(start: int, end: int, correlation: int | None = None, **more: Any) -> dict[str, Any]:
    return {"start": start, "end": end, "correlationId": correlation, "globalPid": pid(), **more}


def call(start: int, end: int, correlation: int | None = None, **more: Any) -> dict[str, Any]:
    return {"start": start, "end": end, "correlationId": correlation, "globalTid": tid(), **more}


def kernels(*rows: Row) -> dict[str, Sequence[Row]]:
    return {"CUPTI_ACTIVITY_KIND_KERNEL": rows}


def calls(*rows: Row) -> dict[str, Sequence[Row]]:
    return {"CUPTI_ACTIVITY_KIND_RUNTIME": rows}


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def write(
    path: Path, tables: Mapping[str, Sequence[Row]], strings: Mapping[int, Any] = STRINGS, types: str = ""
) -> Path:
    """An export with these tables; a table has the columns that its rows have. `types`: the declared type of all."""
    connection = sqlite3.connect(path)
    for table, rows in tables.items():
        full = [{**DEFAULTS.get(table, {}), **row} for row in rows]
        columns = list(dict.fromkeys(name for row in full for name in row))
        listed = ", ".join(f"{quoted(name)} {types}" for name in columns)
        connection.execute(f"CREATE TABLE {quoted(table)} ({listed})")
        values = [[row.get(name) for name in columns] for row in full]
        connection.executemany(f"INSERT INTO {quoted(table)} VALUES ({', '.join('?' * len(columns))})", values)
    if "StringIds" not in tables:
        connection.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        connection.executemany("INSERT INTO StringIds VALUES (?, ?)", list(strings.items()))
    connection.commit()
    connection.close()
    return path


def load_both(path: Path) -> Trace:
    """The trace, which is the same through both readers, and keeps the laws."""
    fast, exact = (read(path, reader=reader).validate() for reader in ADBC_AND_STDLIB)
    assert_same(fast, exact)
    return fast


def assert_same(one: Trace, other: Trace) -> None:
    assert one.meta == other.meta
    for table, rows in one.tables.items():
        assert rows.equals(other.table(table)), table


def trace_of(folder: Path, *tables: Mapping[str, Sequence[Row]], strings: Mapping[int, Any] = STRINGS) -> Trace:
    """Write these tables and load them through both readers."""
    merged: dict[str, Sequence[Row]] = {}
    for some in tables:
        for name, rows in some.items():
            merged[name] = [*merged.get(name, ()), *rows]
    return load_both(write(folder / f"{len(list(folder.iterdir()))}.sqlite", merged, strings))


def codes(trace: Trace) -> dict[str, int]:
    """Diagnostic → how often."""
    return dict(trace.diagnostics.select("code", "count").iter_rows())


def names(trace: Trace, table: str) -> list[str]:
    return [str(name) for name in trace.table(table)["name"].to_list()]


def leaf_parents(trace: Trace) -> list[tuple[str, str]]:
    """(name of the activity, function of the node that it hangs below), by start."""
    functions = trace.frames["function"].to_list()
    nodes = trace.callpaths
    work = trace.activities()
    found = []
    for name, node in work.select("name", "callpath_id").iter_rows():
        above = nodes["parent_id"][node]
        found.append((str(name), str(functions[nodes["frame_id"][above]])))
    return found
