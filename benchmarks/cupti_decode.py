"""The compiled path of a CUPTI capture: `python benchmarks/cupti_decode.py [records]`.

How fast the C walk turns buffers into arrays, as a ratio to copying the same bytes into fresh memory (NumPy's copy, in
the same process and the same minute) and to the walk in Python; and what a buffer costs CUPTI's thread: one request and
one completion, against the time in which it is filled. Fails below the target of 20 M records/s.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable

import numpy as np
from decode import VERSION, buffers_of, mixed

from gpuviz._native import cupti_buffers, cupti_records
from gpuviz.capture.cupti import walk
from gpuviz.capture.cupti.layouts import strides
from gpuviz.capture.cupti.pool import BUFFER_BYTES
from gpuviz.capture.cupti.records import decode_all, decode_in_python

TARGET = 20e6
TRIES = 9
ROUND_TRIPS = 20_000


def fastest(*works: Callable[[], object]) -> list[float]:
    """The shortest run of each, in seconds. They take turns, so that a busy machine slows all of them."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(TRIES):
        for work, taken in zip(works, times, strict=True):
            start = time.perf_counter()
            work()
            taken.append(time.perf_counter() - start)
    return [min(taken) for taken in times]


def decoding(launches: int) -> float:
    """Print the figures of decoding; returns records/s."""
    tables, order = mixed(launches)
    buffers = buffers_of(tables, order)
    records, total = len(order), sum(map(len, buffers))
    table = walk.size_table(strides(VERSION))
    counts = np.zeros(cupti_records.KINDS, dtype=np.uint64)
    assert decode_all(buffers, VERSION).record_count == records

    compiled, walking, copying, python = fastest(
        lambda: decode_all(buffers, VERSION),
        lambda: [cupti_records.count(buffer, table, counts) for buffer in buffers],
        lambda: [buffer.copy() for buffer in buffers],
        lambda: [decode_in_python(buffer, VERSION) for buffer in buffers],
    )
    print(f"{records:,} records, {total / 2**20:.0f} MiB in {len(buffers)} buffers")
    for what, seconds in (("decode, compiled", compiled), ("walk alone", walking), ("decode, Python", python)):
        print(
            f"{what:17} {1e9 * seconds / records:6.1f} ns per record, {records / seconds / 1e6:6.1f} M records/s, "
            f"{seconds / copying:5.2f} × one copy of the same bytes"
        )
    return records / compiled


def callbacks() -> None:
    """Print what a request and a completion cost, ctypes included, which CUPTI's own thread does not pay."""
    cupti_buffers.open_pool(BUFFER_BYTES, 4, walk.size_table(strides(VERSION)), never_refuse=False)
    requested, completed = cupti_buffers.callbacks()
    pointer = ctypes.c_void_p
    request = ctypes.CFUNCTYPE(None, pointer, pointer, pointer)(requested)
    complete = ctypes.CFUNCTYPE(None, pointer, ctypes.c_uint32, pointer, ctypes.c_size_t, ctypes.c_size_t)(completed)
    buffer, size, most = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
    arguments = ctypes.addressof(buffer), ctypes.addressof(size), ctypes.addressof(most)

    start = time.perf_counter()
    for _ in range(ROUND_TRIPS):
        request(*arguments)
        complete(None, 0, buffer, size, 0)
    each = (time.perf_counter() - start) / ROUND_TRIPS
    cupti_buffers.close_pool()
    cupti_buffers.trim()
    launches = BUFFER_BYTES // (strides(VERSION)[5] + strides(VERSION)[10])
    print(f"request and completion: {1e6 * each:.1f} µs with ctypes, once per {launches:,} launches")


def main() -> int:
    if not (cupti_records.available() and cupti_buffers.available()):
        print("no compiled library here: nothing to measure")
        return 1
    rate = decoding(int(sys.argv[1]) // 2 if len(sys.argv) > 1 else 500_000)
    callbacks()
    return 0 if rate >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
