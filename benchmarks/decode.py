"""How fast CUPTI buffers become arrays: `python benchmarks/decode.py [records]`.

The mix is what a training step gives: an API call and a kernel for most records, an external correlation now and then,
some copies, fills and waits, in buffers of 8 MiB. The ratio compares with copying the same bytes once, in the same
process and the same minute, because machines differ more than versions of this code do.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

from gpuviz.capture.cupti.layouts import Kind, strides
from gpuviz.capture.cupti.records import Records, blank, decode, encode

VERSION = 130001
BUFFER_BYTES = 8 << 20
TARGET = 4e6


def mixed(launches: int) -> tuple[list[Records], list[int]]:
    """Tables and the order of their records."""
    random = np.random.default_rng(0)
    pattern: list[int] = []
    kinds = [Kind.RUNTIME, Kind.CONCURRENT_KERNEL, Kind.EXTERNAL_CORRELATION, Kind.MEMCPY, Kind.MEMSET]
    kinds.append(Kind.SYNCHRONIZATION)
    for dice in random.random(launches).tolist():
        if dice < 0.2:
            pattern.append(2)
        pattern.extend((0, 3) if dice > 0.95 else (0, 4) if dice > 0.92 else (0, 5) if dice > 0.9 else (0, 1))
    tables = [blank(kind, pattern.count(index)) for index, kind in enumerate(kinds)]
    for table in tables:
        count = len(table)
        for name in ("start", "end"):
            if name in (table.dtype.names or ()):
                table[name] = 1_800_000_000_000_000_000 + np.arange(count) * 5000
        table["correlation_id"] = np.arange(count) + 1
    kernels = tables[1]
    kernels["name_address"] = 0x7F00_0000_1000 + 64 * random.integers(0, 40, len(kernels))
    for axis in ("grid_x", "grid_y", "grid_z"):
        kernels[axis] = random.integers(1, 60, len(kernels))  # small numbers look like kinds
    kernels["block_x"], kernels["block_y"], kernels["block_z"] = 128, 1, 1
    kernels["stream_id"], kernels["context_id"], kernels["registers_per_thread"] = 7, 1, 40
    tables[0]["callback_id"], tables[0]["process_id"], tables[0]["thread_id"] = 211, 4242, 0x7FFF_1234
    return tables, pattern


def buffers_of(tables: list[Records], order: list[int]) -> list[np.ndarray]:
    """The bytes as CUPTI hands them out: whole records, at most `BUFFER_BYTES` at a time."""
    raw = encode(tables, VERSION, order)
    sizes = np.array([strides(VERSION)[int(table["kind"][0])] for table in tables])[order]
    ends = np.cumsum(sizes)
    cuts = [0]
    while cuts[-1] < len(raw):
        cuts.append(int(ends[np.searchsorted(ends, cuts[-1] + BUFFER_BYTES, side="right") - 1]))
    return [raw[start:end].copy() for start, end in zip(cuts, cuts[1:], strict=False)]


def best(work: Callable[[], object], tries: int = 5) -> float:
    """The shortest of some runs, in seconds."""
    times = []
    for _ in range(tries):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> int:
    launches = int(sys.argv[1]) // 2 if len(sys.argv) > 1 else 500_000
    tables, order = mixed(launches)
    buffers = buffers_of(tables, order)
    total = sum(map(len, buffers))
    assert sum(decode(buffer, VERSION).record_count for buffer in buffers) == len(order)

    seconds = best(lambda: [decode(buffer, VERSION) for buffer in buffers])
    copying = best(lambda: [np.frombuffer(buffer, dtype=np.uint8).copy() for buffer in buffers])
    rate = len(order) / seconds
    print(f"{len(order):,} records, {total / 2**20:.0f} MiB in {len(buffers)} buffers")
    print(f"decode: {rate / 1e6:.1f} M records/s, {1e9 * seconds / len(order):.0f} ns per record")
    print(f"ratio to one copy of the same bytes: {seconds / copying:.1f}")
    return 0 if rate >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
