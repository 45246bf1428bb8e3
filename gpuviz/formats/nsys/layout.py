"""What is read of an export: tables, their columns, and what each cannot do without.

NVIDIA changes the schema between releases and writes tables only where something was recorded: a table that is absent
is a feature that is absent. Five schemas of 2020 to 2026 have the columns below; a column that a version lacks reads
as null, unless a row means nothing without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import polars as pl

from gpuviz.formats.nsys.database import Database, Selection
from gpuviz.formats.nsys.header import refusal


@dataclass(frozen=True)
class Wanted:
    """The columns of one table. `needed`: of each group, one must be there. `texts` holds text, all others numbers."""

    table: str
    needed: tuple[tuple[str, ...], ...]
    optional: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()

    @property
    def numbers(self) -> tuple[str, ...]:
        """All columns of whole numbers."""
        named = [column for group in self.needed for column in group]
        return tuple(column for column in (*named, *self.optional) if column not in self.texts)


_SPAN = (("start",), ("end",))
_ON_GPU = (*_SPAN, ("deviceId",), ("streamId",))
_OF_GPU = ("contextId", "correlationId", "globalPid")
_GRAPH = ("graphId", "graphNodeId")
_ON_THREAD = (*_SPAN, ("globalTid",))

KERNELS, MEMCPYS, MEMSETS, GRAPH_RUNS = "kernels", "memcpys", "memsets", "graph_runs"
API, SYNCS, CUDA_EVENTS = "api", "syncs", "cuda_events"
NVTX, CUPTI_OVERHEAD, PROFILER_OVERHEAD = "nvtx", "cupti_overhead", "profiler_overhead"
SCHEDULING, SAMPLES, MEMORY_USE, GPU_METRICS = "scheduling", "samples", "memory_use", "gpu_metrics"

GPU_WORK = (KERNELS, MEMCPYS, MEMSETS, GRAPH_RUNS)

WANTED: Mapping[str, Wanted] = MappingProxyType(
    {
        KERNELS: Wanted(
            "CUPTI_ACTIVITY_KIND_KERNEL",
            (*_ON_GPU, ("demangledName", "mangledName", "shortName")),
            (
                *_OF_GPU,
                *_GRAPH,
                *("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"),
                *("registersPerThread", "staticSharedMemory", "dynamicSharedMemory"),
            ),
        ),
        MEMCPYS: Wanted(
            "CUPTI_ACTIVITY_KIND_MEMCPY",
            (*_ON_GPU, ("copyKind",)),
            (*_OF_GPU, *_GRAPH, "bytes", "srcKind", "dstKind", "srcDeviceId", "dstDeviceId"),
        ),
        MEMSETS: Wanted("CUPTI_ACTIVITY_KIND_MEMSET", _ON_GPU, (*_OF_GPU, *_GRAPH, "bytes", "value", "memKind")),
        GRAPH_RUNS: Wanted("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", _ON_GPU, (*_OF_GPU, "graphId", "graphExecId")),
        API: Wanted(
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            (*_ON_THREAD, ("nameId",)),
            ("correlationId", "eventClass", "returnValue"),
        ),
        SYNCS: Wanted(
            "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
            (*_SPAN, ("syncType",)),
            (*_OF_GPU, "deviceId", "streamId", "eventId", "eventSyncId"),
        ),
        CUDA_EVENTS: Wanted("CUPTI_ACTIVITY_KIND_CUDA_EVENT", (("streamId",),), (*_OF_GPU, "deviceId", "eventSyncId")),
        NVTX: Wanted(
            "NVTX_EVENTS",
            (("start",), ("eventType",), ("text", "textId")),
            ("end", "globalTid", "domainId", "category"),
            ("text",),
        ),
        CUPTI_OVERHEAD: Wanted("CUPTI_ACTIVITY_KIND_OVERHEAD", _SPAN, ("globalTid", "nameId", "overheadType")),
        PROFILER_OVERHEAD: Wanted("PROFILER_OVERHEAD", _SPAN, ("globalTid", "nameId")),
        SCHEDULING: Wanted("SCHED_EVENTS", (("start",), ("isSchedIn",), ("globalTid",)), ()),
        SAMPLES: Wanted("COMPOSITE_EVENTS", (("start",),), ("globalTid",)),
        MEMORY_USE: Wanted(
            "CUDA_GPU_MEMORY_USAGE_EVENTS",
            (("start",), ("deviceId",), ("bytes",), ("memoryOperationType",)),
            ("globalPid", "memKind"),
        ),
        GPU_METRICS: Wanted("GPU_METRICS", (("timestamp",), ("typeId",), ("metricId",), ("value",))),
    }
)

CALL_PREFIX = "call:"
"""Begins the key of a table that is not in `WANTED` but holds calls of host threads, such as OSRT_API."""

_NAME_OF_CALL = ("nameId", "textId")
# Creation of graphs and their nodes: moments inside API calls, which are read already.
_NO_CALLS = ("CUDA_GRAPH",)
# Facts and texts, not events: what is of use in them is read by name.
_NO_EVENTS = ("ENUM_", "TARGET_INFO_", "META_DATA_", "EXPORT_META_DATA", "ANALYSIS_", "NVTX_PAYLOAD", "sqlite_")


def selections(database: Database, schema_version: str) -> dict[str, Selection]:
    """What to read: every table of `WANTED` that has rows, and the tables that hold other calls.

    `TraceFileError` that names every column that is missing, where a table with rows lacks one that it needs.
    """
    chosen: dict[str, Selection] = {}
    missing: list[str] = []
    for key, wanted in WANTED.items():
        table = database.find(wanted.table)
        if table is None or not database.has_rows(table):
            continue
        columns = database.tables[table]
        missing += [
            f"{table}.{' or '.join(group)}" for group in wanted.needed if not any(column in columns for column in group)
        ]
        chosen[key] = Selection(
            table,
            tuple(column for column in wanted.numbers if column in columns),
            tuple(column for column in wanted.texts if column in columns),
        )
    if "StringIds" not in database.tables:
        missing.append("StringIds")
    else:
        missing += [f"StringIds.{column}" for column in ("id", "value") if column not in database.tables["StringIds"]]
    if missing:
        _refuse(database.path, missing, schema_version)
    return chosen | _other_calls(database, {selection.table for selection in chosen.values()})


def _refuse(path: Path, missing: list[str], schema_version: str) -> None:
    listed = ", ".join(missing)
    raise refusal(
        path,
        f"an export of schema {schema_version} without {listed}",
        "Export the report again with nsys export --type sqlite; if that does not help, this schema is not known yet.",
    )


def _other_calls(database: Database, taken: set[str]) -> dict[str, Selection]:
    known = {wanted.table for wanted in WANTED.values()}
    found = {}
    for table, columns in database.tables.items():
        name = next((column for column in _NAME_OF_CALL if column in columns), None)
        is_call = name is not None and {"start", "end", "globalTid"} <= set(columns)
        is_new = table not in taken | known and not table.startswith(_NO_CALLS)
        if name and is_call and is_new and database.find(table) == table and database.has_rows(table):
            found[CALL_PREFIX + table] = Selection(table, ("start", "end", "globalTid", name))
    return found


def unread_events(database: Database, chosen: Mapping[str, Selection]) -> dict[str, int]:
    """Tables of events that the tables of a trace cannot hold, and how many rows each has."""
    read = {selection.table for selection in chosen.values()}
    events = [
        table
        for table, columns in database.tables.items()
        if table not in read
        and not table.startswith(_NO_EVENTS)
        and {"start", "timestamp", "rawTimestamp"} & set(columns)
    ]
    counts = {table: database.count(table) for table in events if table != "DIAGNOSTIC_EVENT"}
    return {table: count for table, count in counts.items() if count}


def column(table: pl.DataFrame, name: str, dtype: pl.DataType | None = None) -> pl.Series:
    """A column, null where this version of the schema does not have it."""
    if name in table.columns:
        return table[name]
    return pl.Series(name, [None], dtype=dtype or pl.Int64()).new_from_index(0, table.height)
