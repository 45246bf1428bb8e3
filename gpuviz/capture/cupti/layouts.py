"""How CUPTI lays out its activity records, as data.

A buffer is a plain sequence of records; the first word of a record is its kind, and nothing but the kind tells how
long it is. The structs only ever grow at their end, so one dtype per kind (the fields of CUDA 12.8, the oldest version
that we read) fits every later version too; what differs is the distance to the next record.

The figures were taken from the sizes and offsets of the structs in NVIDIA's headers of CUDA 12.8, 12.9 and 13.0 to
13.5 (x86-64), and are checked in the tests against the libcupti of 13.0. Names are ours; ``_address`` is a pointer of
the process that recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType

import numpy as np

from gpuviz.errors import CaptureError


class Kind(IntEnum):
    """CUPTI's activity kinds, as far as the length of their records is known."""

    MEMCPY = 1
    MEMSET = 2
    KERNEL = 3
    DRIVER = 4
    RUNTIME = 5
    DEVICE = 8
    CONTEXT = 9
    CONCURRENT_KERNEL = 10
    NAME = 11
    MARKER = 12
    MARKER_DATA = 13
    OVERHEAD = 17
    MEMCPY2 = 22
    CUDA_EVENT = 36
    STREAM = 37
    SYNCHRONIZATION = 38
    EXTERNAL_CORRELATION = 39
    INTERNAL_LAUNCH = 48
    MEMORY2 = 49
    MEMORY_POOL = 50
    GRAPH_TRACE = 51
    JIT = 52


KERNEL_KINDS = (Kind.KERNEL, Kind.CONCURRENT_KERNEL)
API_KINDS = (Kind.RUNTIME, Kind.DRIVER, Kind.INTERNAL_LAUNCH)

type _Fields = Mapping[str, tuple[int, str]]


def _layout(size: int, fields: _Fields) -> np.dtype[np.void]:
    """A little-endian record of `size` bytes; `fields` is name → (offset, format)."""
    return np.dtype(
        {
            "names": ["kind", *fields],
            "offsets": [0, *(offset for offset, _ in fields.values())],
            "formats": ["<u4", *(code for _, code in fields.values())],
            "itemsize": size,
        }
    )


_API = _layout(
    40,
    {
        "callback_id": (4, "<u4"),
        "start": (8, "<u8"),
        "end": (16, "<u8"),
        "process_id": (24, "<u4"),
        "thread_id": (28, "<u4"),
        "correlation_id": (32, "<u4"),
        "return_value": (36, "<i4"),
    },
)
_KERNEL = _layout(
    208,
    {
        "registers_per_thread": (6, "<u2"),
        "start": (16, "<u8"),
        "end": (24, "<u8"),
        "completed": (32, "<u8"),
        "device_id": (40, "<u4"),
        "context_id": (44, "<u4"),
        "stream_id": (48, "<u4"),
        "grid_x": (52, "<i4"),
        "grid_y": (56, "<i4"),
        "grid_z": (60, "<i4"),
        "block_x": (64, "<i4"),
        "block_y": (68, "<i4"),
        "block_z": (72, "<i4"),
        "static_shared_memory": (76, "<i4"),
        "dynamic_shared_memory": (80, "<i4"),
        "local_memory_per_thread": (84, "<u4"),
        "correlation_id": (92, "<u4"),
        "grid_id": (96, "<i8"),
        "name_address": (104, "<u8"),
        "queued": (120, "<u8"),
        "submitted": (128, "<u8"),
        "launch_type": (136, "u1"),
        "shared_memory_executed": (140, "<u4"),
        "graph_node_id": (144, "<u8"),
        "graph_id": (156, "<u4"),
        "channel_id": (168, "<u4"),
        "channel_type": (172, "<u4"),
        "cluster_x": (176, "<u4"),
        "cluster_y": (180, "<u4"),
        "cluster_z": (184, "<u4"),
    },
)

DTYPES: Mapping[int, np.dtype[np.void]] = MappingProxyType(
    {
        Kind.RUNTIME: _API,
        Kind.DRIVER: _API,
        Kind.INTERNAL_LAUNCH: _API,
        Kind.KERNEL: _KERNEL,
        Kind.CONCURRENT_KERNEL: _KERNEL,
        Kind.MEMCPY: _layout(
            96,
            {
                "copy_kind": (4, "u1"),
                "source_kind": (5, "u1"),
                "destination_kind": (6, "u1"),
                "flags": (7, "u1"),
                "bytes": (8, "<u8"),
                "start": (16, "<u8"),
                "end": (24, "<u8"),
                "device_id": (32, "<u4"),
                "context_id": (36, "<u4"),
                "stream_id": (40, "<u4"),
                "correlation_id": (44, "<u4"),
                "runtime_correlation_id": (48, "<u4"),
                "graph_node_id": (64, "<u8"),
                "graph_id": (72, "<u4"),
                "channel_id": (76, "<u4"),
                "channel_type": (80, "<u4"),
                "copy_count": (88, "<u8"),
            },
        ),
        Kind.MEMCPY2: _layout(
            96,
            {
                "copy_kind": (4, "u1"),
                "source_kind": (5, "u1"),
                "destination_kind": (6, "u1"),
                "flags": (7, "u1"),
                "bytes": (8, "<u8"),
                "start": (16, "<u8"),
                "end": (24, "<u8"),
                "device_id": (32, "<u4"),
                "context_id": (36, "<u4"),
                "stream_id": (40, "<u4"),
                "source_device_id": (44, "<u4"),
                "source_context_id": (48, "<u4"),
                "destination_device_id": (52, "<u4"),
                "destination_context_id": (56, "<u4"),
                "correlation_id": (60, "<u4"),
                "graph_node_id": (72, "<u8"),
                "graph_id": (80, "<u4"),
                "channel_id": (84, "<u4"),
                "channel_type": (88, "<u4"),
            },
        ),
        Kind.MEMSET: _layout(
            88,
            {
                "value": (4, "<u4"),
                "bytes": (8, "<u8"),
                "start": (16, "<u8"),
                "end": (24, "<u8"),
                "device_id": (32, "<u4"),
                "context_id": (36, "<u4"),
                "stream_id": (40, "<u4"),
                "correlation_id": (44, "<u4"),
                "flags": (48, "<u2"),
                "memory_kind": (50, "<u2"),
                "graph_node_id": (64, "<u8"),
                "graph_id": (72, "<u4"),
                "channel_id": (76, "<u4"),
                "channel_type": (80, "<u4"),
            },
        ),
        Kind.GRAPH_TRACE: _layout(
            56,
            {
                "correlation_id": (4, "<u4"),
                "start": (8, "<u8"),
                "end": (16, "<u8"),
                "device_id": (24, "<u4"),
                "graph_id": (28, "<u4"),
                "context_id": (32, "<u4"),
                "stream_id": (36, "<u4"),
            },
        ),
        Kind.SYNCHRONIZATION: _layout(
            56,
            {
                "synchronization_type": (4, "<u4"),
                "start": (8, "<u8"),
                "end": (16, "<u8"),
                "correlation_id": (24, "<u4"),
                "context_id": (28, "<u4"),
                "stream_id": (32, "<u4"),
                "event_id": (36, "<u4"),
                "event_synchronization_id": (40, "<u8"),
                "return_value": (48, "<i4"),
            },
        ),
        # The object of an overhead is a process and a thread, or a device, a context and a stream; the same bytes.
        Kind.OVERHEAD: _layout(
            56,
            {
                "overhead_kind": (4, "<u4"),
                "object_kind": (8, "<u4"),
                "process_id": (12, "<u4"),
                "thread_id": (16, "<u4"),
                "start": (24, "<u8"),
                "end": (32, "<u8"),
                "correlation_id": (40, "<u4"),
            },
        ),
        Kind.EXTERNAL_CORRELATION: _layout(
            24,
            {"external_kind": (4, "<u4"), "external_id": (8, "<u8"), "correlation_id": (16, "<u4")},
        ),
        Kind.DEVICE: _layout(
            184,
            {
                "global_memory_bandwidth": (8, "<u8"),
                "global_memory_size": (16, "<u8"),
                "threads_per_warp": (32, "<u4"),
                "copy_engine_count": (40, "<u4"),
                "multiprocessor_count": (44, "<u4"),
                "max_warps_per_multiprocessor": (52, "<u4"),
                "max_shared_memory_per_multiprocessor": (60, "<u4"),
                "max_registers_per_multiprocessor": (64, "<u4"),
                "compute_capability_major": (104, "<u4"),
                "compute_capability_minor": (108, "<u4"),
                "device_id": (112, "<u4"),
                "uuid": (120, "(16,)u1"),
                "name_address": (136, "<u8"),
            },
        ),
        Kind.CONTEXT: _layout(
            32,
            {
                "context_id": (4, "<u4"),
                "device_id": (8, "<u4"),
                "compute_api": (12, "<u2"),
                "null_stream_id": (14, "<u2"),
            },
        ),
        Kind.STREAM: _layout(
            24,
            {
                "context_id": (4, "<u4"),
                "stream_id": (8, "<u4"),
                "priority": (12, "<u4"),
                "flag": (16, "<u4"),
                "correlation_id": (20, "<u4"),
            },
        ),
    }
)
"""Kind → the fields of its record that gpuviz reads. Kinds of `strides` that are not here are walked over."""

OLDEST_VERSION = 26
NEWEST_MINOR = 1305

# Bytes of the kinds that have no dtype above.
_WALKED_ONLY = {
    Kind.NAME: 32,
    Kind.MARKER: 56,
    Kind.MARKER_DATA: 32,
    Kind.CUDA_EVENT: 56,
    Kind.MEMORY2: 128,
    Kind.MEMORY_POOL: 72,
    Kind.JIT: 72,
}
# (first version, what grew in it); versions of 13 and later are major * 10000 + minor * 100 + update.
_GROWTH: tuple[tuple[int, Mapping[int, int]], ...] = (
    (
        130000,
        {Kind.KERNEL: 216, Kind.CONCURRENT_KERNEL: 216, Kind.MARKER_DATA: 40, Kind.MEMORY_POOL: 80},
    ),
    (130100, {Kind.KERNEL: 224, Kind.CONCURRENT_KERNEL: 224, Kind.CONTEXT: 40}),
    (130200, {Kind.DEVICE: 192}),
    (130300, {Kind.KERNEL: 232, Kind.CONCURRENT_KERNEL: 232}),
    (130400, {Kind.KERNEL: 248, Kind.CONCURRENT_KERNEL: 248, Kind.MEMCPY: 112, Kind.MEMSET: 104}),
    (130500, {Kind.CUDA_EVENT: 80}),
)


def strides(api_version: int) -> dict[int, int]:
    """Kind → bytes from one record to the next, for what ``cuptiGetVersion`` answered (28: 12.9, 130001: 13.0).

    Raises `CaptureError` for a version whose records nobody has measured: to guess a length is to read garbage.
    """
    if api_version < OLDEST_VERSION or api_version // 100 > NEWEST_MINOR:
        raise CaptureError(
            f"Tried to read records of CUPTI version {api_version}; gpuviz knows the lengths of records from "
            f"{OLDEST_VERSION} (CUDA 12.8) to {NEWEST_MINOR}xx (CUDA 13.5). "
            "Install a CUPTI of that range, or a newer gpuviz."
        )
    sizes: dict[int, int] = {kind: dtype.itemsize for kind, dtype in DTYPES.items()} | _WALKED_ONLY
    for version, grown in _GROWTH:
        if api_version >= version:
            sizes.update(grown)
    return sizes
