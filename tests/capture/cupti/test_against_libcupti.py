"""The real libcupti reads our hand-made buffers as we do. It needs no driver for that up to version 13.1; later ones
crash or refuse without one, and are left alone.
"""

from __future__ import annotations

import ctypes
from importlib import metadata

import numpy as np
import pytest

from gpuviz.capture.cupti.layouts import DTYPES, Kind, strides
from gpuviz.capture.cupti.records import encode
from tests.capture.cupti.records_by_hand import random_records, random_tables

SUCCESS, MAX_LIMIT_REACHED = 0, 12
PACKAGE = "nvidia-cuda-cupti"

# Kind → cupti-python's dtype of such a record (activity_..._dtype), and its words where they differ from ours.
_DIRECTIONS = {"source_kind": "src_kind", "destination_kind": "dst_kind", "flags": "flags_"}
_PEERS = {
    f"{ours}_{what}_id": f"{theirs}_{what}_id"
    for ours, theirs in (("source", "src"), ("destination", "dst"))
    for what in ("device", "context")
}
_ADDRESS = {"name_address": "name"}
VIEWS: dict[int, tuple[str, dict[str, str]]] = {
    Kind.RUNTIME: ("api", {"callback_id": "cbid"}),
    Kind.DRIVER: ("api", {"callback_id": "cbid"}),
    Kind.INTERNAL_LAUNCH: ("api", {"callback_id": "cbid"}),
    Kind.KERNEL: ("kernel10", {}),
    Kind.CONCURRENT_KERNEL: ("kernel10", {}),
    Kind.MEMCPY: ("memcpy6", _DIRECTIONS),
    Kind.MEMCPY2: ("memcpy_pto_p4", _DIRECTIONS | _PEERS),
    Kind.MEMSET: ("memset4", {"flags": "flags_"}),
    Kind.GRAPH_TRACE: ("graph_trace2", {}),
    Kind.SYNCHRONIZATION: (
        "synchronization2",
        {
            "synchronization_type": "type",
            "event_id": "cuda_event_id",
            "event_synchronization_id": "cuda_event_sync_id",
        },
    ),
    Kind.OVERHEAD: ("overhead3", {}),
    Kind.EXTERNAL_CORRELATION: ("external_correlation", {}),
    Kind.DEVICE: (
        "device5",
        {
            "threads_per_warp": "num_threads_per_warp",
            "copy_engine_count": "num_memcpy_engines",
            "multiprocessor_count": "num_multiprocessors",
            "device_id": "id",
        },
    ),
    Kind.CONTEXT: ("context3", {"compute_api": "compute_api_kind"}),
    Kind.STREAM: ("stream", {}),
}


@pytest.fixture(scope="module")
def libcupti() -> ctypes.CDLL:
    """libcupti of the wheel; only a version that parses buffers without a driver."""
    try:
        files = metadata.files(PACKAGE) or []
    except metadata.PackageNotFoundError:
        pytest.skip(f"the real libcupti is not installed (pip install {PACKAGE}==13.0.85)")
    path = next(file for file in files if file.name.startswith("libcupti.so"))
    library = ctypes.CDLL(str(path.locate()))
    version = ctypes.c_uint32()
    assert library.cuptiGetVersion(ctypes.byref(version)) == SUCCESS
    assert version.value < 130200
    library.version = version.value
    following = library.cuptiActivityGetNextRecord
    following.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_void_p)]
    return library


def offsets(library: ctypes.CDLL, raw: np.ndarray) -> tuple[list[int], int]:
    """Where libcupti finds records, and the status it ends with."""
    record = ctypes.c_void_p()
    found: list[int] = []
    while True:
        status = library.cuptiActivityGetNextRecord(raw.ctypes.data, len(raw), ctypes.byref(record))
        if status != SUCCESS:
            return found, status
        found.append(record.value - raw.ctypes.data)


@pytest.mark.parametrize("seed", range(5))
def test_the_same_offsets(libcupti: ctypes.CDLL, seed: int) -> None:
    tables, order = random_tables(seed)
    raw = encode(tables, libcupti.version, order)
    found, status = offsets(libcupti, raw)
    sizes = [strides(libcupti.version)[int(tables[index]["kind"][0])] for index in order]
    assert found == np.concatenate(([0], np.cumsum(sizes)))[:-1].tolist()
    assert status == MAX_LIMIT_REACHED


def test_the_same_length_for_every_kind(libcupti: ctypes.CDLL) -> None:
    for kind, size in strides(libcupti.version).items():
        raw = np.zeros(2 * size, dtype=np.uint8)
        raw[[0, size]] = kind
        assert offsets(libcupti, raw)[0] == [0, size], Kind(kind).name


def test_both_stop_at_an_unknown_kind_and_at_a_truncated_tail(libcupti: ctypes.CDLL) -> None:
    tables, order = random_tables(3)
    raw = encode(tables, libcupti.version, order)
    whole, _ = offsets(libcupti, raw)
    assert offsets(libcupti, raw[: whole[20] + 8].copy())[0] == whole[:20]
    raw[whole[10] : whole[10] + 4] = np.frombuffer((250).to_bytes(4, "little"), dtype=np.uint8)
    assert offsets(libcupti, raw)[0] == whole[:10]


@pytest.mark.parametrize("kind", list(DTYPES), ids=lambda kind: Kind(kind).name)
def test_every_field_lies_where_cupti_python_reads_it(libcupti: ctypes.CDLL, kind: int) -> None:
    cupti = pytest.importorskip(
        "cupti.cupti", reason="cupti-python is not installed (pip install cupti-python==13.0.1)"
    )
    name, words = VIEWS[kind]
    theirs: np.dtype[np.void] = getattr(cupti, f"activity_{name}_dtype")
    assert theirs.itemsize == strides(libcupti.version)[kind]
    records = random_records(kind, 3, np.random.default_rng(kind))
    raw = encode([records], libcupti.version)
    for record, offset in zip(records, offsets(libcupti, raw)[0], strict=True):
        seen = np.frombuffer(raw, theirs, count=1, offset=offset)[0]
        for field in records.dtype.names or ():
            if kind == Kind.OVERHEAD and field in ("process_id", "thread_id"):
                assert record[field] == seen["object_id"]["pt"][field]
            else:
                assert record[field].tobytes() == seen[words.get(field, _ADDRESS.get(field, field))].tobytes(), field
