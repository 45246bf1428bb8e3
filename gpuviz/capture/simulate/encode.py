"""The rows of a timeline → activity buffers, byte for byte as CUPTI would have delivered them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from gpuviz.capture.cupti.callback_names import RUNTIME_CALLS
from gpuviz.capture.cupti.layouts import Kind
from gpuviz.capture.cupti.records import Records, blank, encode
from gpuviz.capture.simulate.gpus import Gpu
from gpuviz.capture.simulate.timeline import (
    DEFAULT_STREAM,
    DEVICE,
    ApiRow,
    CopyRow,
    FillRow,
    KernelRow,
    SyncRow,
    Timeline,
)

CUPTI_VERSION = 130001  # what cuptiGetVersion of CUDA 13.0 answers
CONTEXT = 1

_CALLBACK_IDS = {name: number for number, name in RUNTIME_CALLS.items()}
_FIRST_NAME = 0x7F00_0000_0000  # names are pointers; these look like some and point nowhere
_ROWS_OF_A_BUFFER = 16_384
_COMPUTE_API_CUDA = 1  # CUPTI_ACTIVITY_COMPUTE_API_CUDA


class Names:
    """Pointers for names: the same name has the same pointer, as CUPTI's interned names do."""

    def __init__(self) -> None:
        self._pointers: dict[str, int] = {}

    def pointer(self, name: str) -> int:
        """The pointer of this name."""
        return self._pointers.setdefault(name, _FIRST_NAME + 64 * len(self._pointers))

    def table(self) -> dict[int, str]:
        """Pointer → name."""
        return {pointer: name for name, pointer in self._pointers.items()}


type _Values = Mapping[str, Sequence[int]]


def _runtime(rows: Sequence[ApiRow], names: Names, process_id: int) -> _Values:
    return {
        "callback_id": [_CALLBACK_IDS[row.name] for row in rows],
        "start": [row.start for row in rows],
        "end": [row.end for row in rows],
        "process_id": [process_id] * len(rows),
        "thread_id": [row.thread for row in rows],
        "correlation_id": [row.correlation for row in rows],
    }


def _kernels(rows: Sequence[KernelRow], names: Names, process_id: int) -> _Values:
    return {
        "start": [row.start for row in rows],
        "end": [row.end for row in rows],
        "completed": [row.end for row in rows],
        "context_id": [CONTEXT] * len(rows),
        "stream_id": [row.stream for row in rows],
        "correlation_id": [row.correlation for row in rows],
        "grid_id": [row.correlation for row in rows],
        "name_address": [names.pointer(row.name) for row in rows],
        "registers_per_thread": [row.registers for row in rows],
        "dynamic_shared_memory": [row.shared_memory for row in rows],
        **{f"grid_{axis}": [row.grid[i] for row in rows] for i, axis in enumerate("xyz")},
        **{f"block_{axis}": [row.block[i] for row in rows] for i, axis in enumerate("xyz")},
    }


def _copies(rows: Sequence[CopyRow], names: Names, process_id: int) -> _Values:
    return {
        "copy_kind": [row.kind for row in rows],
        "source_kind": [row.source for row in rows],
        "destination_kind": [row.destination for row in rows],
        "flags": [1] * len(rows),  # CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC
        "bytes": [row.size for row in rows],
        "start": [row.start for row in rows],
        "end": [row.end for row in rows],
        "context_id": [CONTEXT] * len(rows),
        "stream_id": [row.stream for row in rows],
        "correlation_id": [row.correlation for row in rows],
        "copy_count": [1] * len(rows),
    }


def _fills(rows: Sequence[FillRow], names: Names, process_id: int) -> _Values:
    return {
        "value": [row.value for row in rows],
        "bytes": [row.size for row in rows],
        "start": [row.start for row in rows],
        "end": [row.end for row in rows],
        "context_id": [CONTEXT] * len(rows),
        "stream_id": [row.stream for row in rows],
        "correlation_id": [row.correlation for row in rows],
        "memory_kind": [DEVICE] * len(rows),
    }


def _syncs(rows: Sequence[SyncRow], names: Names, process_id: int) -> _Values:
    return {
        "synchronization_type": [row.kind for row in rows],
        "start": [row.start for row in rows],
        "end": [row.end for row in rows],
        "correlation_id": [row.correlation for row in rows],
        "context_id": [CONTEXT] * len(rows),
        "stream_id": [row.stream for row in rows],
        "event_id": [row.event for row in rows],
    }


_TABLES: Mapping[type, tuple[Kind, Callable[..., _Values]]] = {
    ApiRow: (Kind.RUNTIME, _runtime),
    KernelRow: (Kind.CONCURRENT_KERNEL, _kernels),
    CopyRow: (Kind.MEMCPY, _copies),
    FillRow: (Kind.MEMSET, _fills),
    SyncRow: (Kind.SYNCHRONIZATION, _syncs),
}


def buffers(timeline: Timeline, process_id: int) -> tuple[list[bytes], dict[int, str]]:
    """All buffers of this capture in the order of delivery, and the names that their pointers stand for."""
    names = Names()
    made = [_header(timeline.gpu, names)]
    made.extend(_encoded(timeline, names, process_id))
    return made, names.table()


def _encoded(timeline: Timeline, names: Names, process_id: int) -> Iterator[bytes]:
    index_of = {row_type: index for index, row_type in enumerate(_TABLES)}
    for begin in range(0, len(timeline.rows), _ROWS_OF_A_BUFFER):
        rows = timeline.rows[begin : begin + _ROWS_OF_A_BUFFER]
        tables: list[Records] = []
        for row_type, (kind, columns) in _TABLES.items():
            chosen = [row for row in rows if type(row) is row_type]
            records = blank(kind, len(chosen))
            for name, values in columns(chosen, names, process_id).items():
                records[name] = values
            tables.append(records)
        yield encode(tables, CUPTI_VERSION, [index_of[type(row)] for row in rows]).tobytes()


def _header(gpu: Gpu, names: Names) -> bytes:
    """The device and its context, which CUPTI delivers first."""
    device = blank(Kind.DEVICE, 1)
    device["global_memory_bandwidth"] = gpu.memory_bytes_per_s // 1_000  # CUPTI writes kB/s
    device["global_memory_size"] = gpu.memory_bytes
    device["threads_per_warp"] = gpu.warp_size
    device["copy_engine_count"] = 2
    device["multiprocessor_count"] = gpu.sm_count
    device["max_warps_per_multiprocessor"] = gpu.max_threads_per_sm // gpu.warp_size
    device["max_shared_memory_per_multiprocessor"] = gpu.shared_memory_per_sm_bytes
    device["max_registers_per_multiprocessor"] = gpu.registers_per_sm
    device["compute_capability_major"], device["compute_capability_minor"] = gpu.compute_capability
    device["uuid"] = np.frombuffer(f"gpuviz-sim-{gpu.key}".encode().ljust(16, b"\0")[:16], dtype=np.uint8)
    device["name_address"] = names.pointer(gpu.name)
    context = blank(Kind.CONTEXT, 1)
    context["context_id"] = CONTEXT
    context["compute_api"] = _COMPUTE_API_CUDA
    context["null_stream_id"] = DEFAULT_STREAM
    return encode([device, context], CUPTI_VERSION).tobytes()
