"""The tables of a trace: names, dtypes, units and meaning, written once.

Conventions. Times are int64 nanoseconds relative to `TraceMeta.t0_unix_ns`, in columns that end in ``_ns``;
intervals are half-open ``[start_ns, end_ns)``. Sizes end in ``_bytes``, ids in ``_id``. An id is a row id of the
trace, never an id of the operating system or of CUDA, so that processes, ranks and devices cannot collide; ids of the
source say so (``pid``, ``native_id``, ``correlation_id``, ``graph_id``). Absent is null. Rows are sorted by
``start_ns``, null last.

`docs/data-model.md` is generated from this file by `tools/write_data_model.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import polars as pl

SCHEMA_VERSION = 1

TIMINGS = ("ok", "open", "invalid")
FRAME_LAYERS = (
    *("root", "group", "cell", "line", "python", "module", "op", "other", "api"),
    *("kernel", "memcpy", "memset", "graph_run"),
)
HOST_LAYERS = ("python", "module", "op", "other")
APIS = ("runtime", "driver")
STREAM_KINDS = ("legacy", "per_thread", "blocking", "non_blocking", "unknown")
COPY_KINDS = ("HtoD", "DtoH", "DtoD", "HtoH", "PtoP", "other")
MEMORY_KINDS = ("pageable", "pinned", "device", "array", "managed", "unknown")
SYNC_KINDS = ("event", "stream_wait_event", "stream", "context", "unknown")
RANGE_KINDS = ("step", "annotation", "gpu_annotation", "nvtx", "region", "mark", "profiler")


@dataclass(frozen=True)
class Column:
    """One column: its name, dtype, meaning, and whether a value can be absent."""

    name: str
    dtype: pl.DataType
    meaning: str
    nullable: bool = False


@dataclass(frozen=True)
class Table:
    """One table: what a row is, and its columns in order."""

    name: str
    row: str
    columns: tuple[Column, ...]

    @property
    def polars_schema(self) -> pl.Schema:
        """Names and dtypes as Polars writes them."""
        return pl.Schema({column.name: column.dtype for column in self.columns})

    @property
    def is_interval(self) -> bool:
        """True when a row has a start, an end and a `timing`."""
        return any(column.name == "timing" for column in self.columns)


_ID = pl.Int32()
_NS = pl.Int64()
_NAME = pl.Categorical()
_TEXT = pl.String()


def _required(name: str, dtype: pl.DataType, meaning: str) -> Column:
    return Column(name, dtype, meaning)


def _optional(name: str, dtype: pl.DataType, meaning: str) -> Column:
    return Column(name, dtype, meaning, nullable=True)


_INTERVAL = (
    _optional("start_ns", _NS, "start, ns since t0; null where the record has no usable start"),
    _optional("end_ns", _NS, "end (exclusive), ns since t0; null where the record has no usable end"),
    _required(
        "timing",
        pl.Enum(TIMINGS),
        "ok: start and end are usable; open: it began and its end was never recorded; "
        "invalid: kept and counted, out of every sum and axis",
    ),
)
_LAUNCHED = (
    _optional("correlation_id", pl.Int64(), "joins to the API call, per process, 1:n; as in the source"),
    _optional("api_id", _ID, "the launch: the outermost API call with this correlation id"),
)
_GPU = (
    _required("stream_id", _ID, "the stream it ran on"),
    _optional("graph_id", pl.Int64(), "CUDA graph it was part of; as in the source"),
    _optional("graph_node_id", pl.Int64(), "node of that graph; as in the source"),
    _optional("callpath_id", _ID, "its own leaf in the call tree; the parent is what launched it"),
    _optional("forward_callpath_id", _ID, "the forward work that this backward work belongs to"),
)
_ACTIVITY_ID = _required("activity_id", _ID, "unique over kernels, memcpys, memsets and graph_runs")

_TABLES = (
    Table(
        "processes",
        "a process",
        (
            _required("process_id", _ID, "row id"),
            _optional("pid", pl.Int64(), "id of the operating system"),
            _optional("host", _TEXT, "machine name"),
            _optional("rank", pl.Int32(), "rank in a distributed job"),
        ),
    ),
    Table(
        "threads",
        "a host thread",
        (
            _required("thread_id", _ID, "row id"),
            _required("process_id", _ID, "its process"),
            _optional("native_id", pl.Int64(), "id of the operating system, or as in the source"),
            _required("name", _TEXT, "name, or a text made from the native id"),
        ),
    ),
    Table(
        "devices",
        "a GPU",
        (
            _required("device_id", _ID, "row id"),
            _optional("process_id", _ID, "the process that numbered it, where known"),
            _required("ordinal", pl.Int32(), "index the source gave it"),
            _optional("uuid", _TEXT, "UUID (MIG devices differ only here)"),
            _optional("name", _TEXT, "marketing name"),
            _optional("compute_capability", _TEXT, "as major.minor"),
            _optional("sm_count", pl.Int32(), "streaming multiprocessors, or compute units"),
            _optional("memory_bytes", pl.Int64(), "device memory"),
            _optional("warp_size", pl.Int32(), "threads in a warp"),
            _optional("max_threads_per_sm", pl.Int32(), "resident threads a multiprocessor can hold"),
            _optional("registers_per_sm", pl.Int32(), "32-bit registers of a multiprocessor"),
            _optional("shared_memory_per_sm_bytes", pl.Int64(), "shared memory of a multiprocessor"),
            _optional("link_bytes_per_s", pl.Int64(), "peak of the host link in one direction"),
        ),
    ),
    Table(
        "streams",
        "a stream of a device",
        (
            _required("stream_id", _ID, "row id"),
            _required("device_id", _ID, "its device"),
            _optional("process_id", _ID, "its process, where known"),
            _optional("context", pl.Int64(), "CUDA context; as in the source"),
            _required("label", _TEXT, "as in the source; any text"),
            _optional("number", pl.Int64(), "the label as a number, where it is one"),
            _required("kind", pl.Enum(STREAM_KINDS), "how it synchronises with the default stream"),
        ),
    ),
    Table(
        "cells",
        "a notebook cell that ran",
        (
            _required("cell_id", _ID, "row id"),
            _optional("jupyter_cell_id", _TEXT, "id in the notebook file"),
            _optional("execution_count", pl.Int32(), "the number in In [n]"),
            _required("source", _TEXT, "the text that ran"),
            _required("source_hash", _TEXT, "SHA-256 of the text, hexadecimal"),
        ),
    ),
    Table(
        "frames",
        "a source place, or the name of something that was called",
        (
            _required("frame_id", _ID, "row id"),
            _required("layer", pl.Enum(FRAME_LAYERS), "what kind of place it is"),
            _required("function", _NAME, "function, operator, API call, kernel or group name"),
            _optional("file", _NAME, "source file"),
            _optional("cell_id", _ID, "notebook cell, instead of a file"),
            _optional("line", pl.Int32(), "line number, 1-based"),
        ),
    ),
    Table(
        "callpaths",
        "a node of the calling context tree, in preorder",
        (
            _required("callpath_id", _ID, "row id and preorder number; 0 is the root"),
            _optional("parent_id", _ID, "node above; smaller than callpath_id; null for the root"),
            _required("last_id", _ID, "largest callpath_id in the subtree"),
            _required("frame_id", _ID, "its frame"),
            _required("depth", pl.Int32(), "distance from the root"),
            _required(
                "path_key",
                pl.UInt64(),
                "hash of layer, function and file or cell from the root down, without line numbers: joins two traces",
            ),
        ),
    ),
    Table(
        "host_calls",
        "an interval on a host thread that is not a CUDA call",
        (
            _required("host_call_id", _ID, "row id"),
            _optional("parent_id", _ID, "host call around it, in the same thread"),
            _required("depth", pl.Int32(), "drawing row within the thread; overlapping rows differ"),
            _required("layer", pl.Enum(HOST_LAYERS), "Python function, nn.Module, operator, or anything else"),
            _optional("category", _NAME, "category as in the source"),
            _required("name", _NAME, "name as in the source"),
            *_INTERVAL,
            _required("thread_id", _ID, "its thread"),
            _optional("sequence_number", pl.Int64(), "autograd sequence number"),
            _optional("input_shapes", _NAME, "shapes of the inputs, as in the source"),
            _optional("callpath_id", _ID, "its node in the call tree"),
            _optional("forward_callpath_id", _ID, "the forward call that this backward call belongs to"),
        ),
    ),
    Table(
        "api_calls",
        "one CUDA (or HIP) runtime or driver call",
        (
            _required("api_id", _ID, "row id"),
            _optional("parent_api_id", _ID, "API call around it, in the same thread"),
            _optional("host_call_id", _ID, "innermost host call around it, in the same thread"),
            _required("depth", pl.Int32(), "drawing row within the thread, shared with host_calls"),
            _optional("correlation_id", pl.Int64(), "joins to GPU activities, per process"),
            _required("api", pl.Enum(APIS), "runtime or driver"),
            _required("name", _NAME, "function name"),
            *_INTERVAL,
            _required("thread_id", _ID, "the calling thread"),
            _optional("return_value", pl.Int32(), "status that the call returned"),
            _optional("callpath_id", _ID, "its node in the call tree"),
        ),
    ),
    Table(
        "kernels",
        "one execution of a kernel",
        (
            _ACTIVITY_ID,
            *_LAUNCHED,
            _required("name", _NAME, "full name"),
            *_INTERVAL,
            _optional("queued_ns", _NS, "entered the command buffer, ns since t0"),
            _optional("submitted_ns", _NS, "submitted to the GPU, ns since t0"),
            *_GPU[:1],
            _optional("grid_x", pl.Int32(), "blocks"),
            _optional("grid_y", pl.Int32(), "blocks"),
            _optional("grid_z", pl.Int32(), "blocks"),
            _optional("block_x", pl.Int32(), "threads"),
            _optional("block_y", pl.Int32(), "threads"),
            _optional("block_z", pl.Int32(), "threads"),
            _optional("registers_per_thread", pl.Int32(), "32-bit registers"),
            _optional("shared_memory_bytes", pl.Int64(), "static and dynamic, per block"),
            *_GPU[1:],
        ),
    ),
    Table(
        "memcpys",
        "one copy",
        (
            _ACTIVITY_ID,
            *_LAUNCHED,
            _required("name", _NAME, "name as in the source"),
            *_INTERVAL,
            *_GPU[:1],
            _required("copy_kind", pl.Enum(COPY_KINDS), "direction"),
            _required("src_kind", pl.Enum(MEMORY_KINDS), "memory that is read"),
            _required("dst_kind", pl.Enum(MEMORY_KINDS), "memory that is written"),
            _optional("src_device_id", _ID, "device that is read, where it is not the stream's"),
            _optional("dst_device_id", _ID, "device that is written, where it is not the stream's"),
            _optional("channel_id", pl.Int64(), "hardware channel (copy engine) where recorded"),
            _optional("size_bytes", pl.Int64(), "bytes copied"),
            *_GPU[1:],
        ),
    ),
    Table(
        "memsets",
        "one fill",
        (
            _ACTIVITY_ID,
            *_LAUNCHED,
            _required("name", _NAME, "name as in the source"),
            *_INTERVAL,
            *_GPU[:1],
            _optional("value", pl.Int64(), "value written"),
            _optional("size_bytes", pl.Int64(), "bytes written"),
            *_GPU[1:],
        ),
    ),
    Table(
        "graph_runs",
        "a whole graph replay recorded without its kernels: busy, but not a kernel",
        (
            _ACTIVITY_ID,
            *_LAUNCHED,
            _required("name", _NAME, "name as in the source"),
            *_INTERVAL,
            *_GPU,
        ),
    ),
    Table(
        "syncs",
        "one wait, of the host or of a stream: never busy time",
        (
            _required("sync_id", _ID, "row id"),
            *_LAUNCHED,
            _required("name", _NAME, "name as in the source"),
            *_INTERVAL,
            _required("sync_kind", pl.Enum(SYNC_KINDS), "what is waited for"),
            _optional("device_id", _ID, "the device"),
            _optional("thread_id", _ID, "the waiting thread, where a thread waits"),
            _optional("stream_id", _ID, "the waiting stream; null is the whole device"),
            _optional("event_id", pl.Int64(), "CUDA event; as in the source"),
            _optional("waited_stream_id", _ID, "the stream that is waited for"),
            _optional("waited_correlation_id", pl.Int64(), "the call that is waited for"),
        ),
    ),
    Table(
        "ranges",
        "a named interval: a step, an annotation, an NVTX range; never a level of the call tree",
        (
            _required("range_id", _ID, "row id"),
            _optional("parent_id", _ID, "range around it, in the same lane"),
            _required("depth", pl.Int32(), "drawing row within its lane"),
            _required("kind", pl.Enum(RANGE_KINDS), "where it comes from"),
            _optional("domain", _NAME, "NVTX domain, or category as in the source"),
            _required("name", _NAME, "its text"),
            *_INTERVAL,
            _optional("thread_id", _ID, "the thread it lies on"),
            _optional("stream_id", _ID, "the stream it lies on (annotations projected to the GPU)"),
        ),
    ),
    Table(
        "counters",
        "one sampled value",
        (
            _required("series", _NAME, "what was sampled"),
            _required("unit", _NAME, "unit of the value"),
            _required("time_ns", _NS, "ns since t0"),
            _optional("value", pl.Float64(), "the value"),
            _optional("device_id", _ID, "the device"),
            _optional("process_id", _ID, "the process"),
        ),
    ),
    Table(
        "diagnostics",
        "something lost, repaired, or impossible to know",
        (
            _required("code", _TEXT, "stable short name; see gpuviz.model.diagnostics"),
            _required("count", pl.Int64(), "how often"),
            _optional("first_example", _TEXT, "the first one, in words"),
            _required("effect", _TEXT, "which numbers it touches, and how"),
        ),
    ),
)

TABLES: Mapping[str, Table] = MappingProxyType({table.name: table for table in _TABLES})
ACTIVITY_TABLES = ("kernels", "memcpys", "memsets", "graph_runs")
INTERVAL_TABLES = tuple(name for name, table in TABLES.items() if table.is_interval)

REFERENCES: Mapping[str, str] = MappingProxyType(
    {
        "process_id": "processes",
        "thread_id": "threads",
        "device_id": "devices",
        "src_device_id": "devices",
        "dst_device_id": "devices",
        "stream_id": "streams",
        "waited_stream_id": "streams",
        "cell_id": "cells",
        "frame_id": "frames",
        "callpath_id": "callpaths",
        "forward_callpath_id": "callpaths",
        "host_call_id": "host_calls",
        "api_id": "api_calls",
        "parent_api_id": "api_calls",
    }
)
"""Column name → the table whose row id it holds. ``parent_id`` always refers to its own table."""

ROW_IDS: Mapping[str, str] = MappingProxyType(
    {
        "processes": "process_id",
        "threads": "thread_id",
        "devices": "device_id",
        "streams": "stream_id",
        "cells": "cell_id",
        "frames": "frame_id",
        "callpaths": "callpath_id",
        "host_calls": "host_call_id",
        "api_calls": "api_id",
        "syncs": "sync_id",
        "ranges": "range_id",
    }
)
"""Table → the column that holds its row id."""


def empty(table: str) -> pl.DataFrame:
    """A table of the given name without rows."""
    return pl.DataFrame(schema=TABLES[table].polars_schema)
