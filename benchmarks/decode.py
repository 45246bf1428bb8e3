"""How fast CUPTI buffers become arrays: `python benchmarks/decode.py [records]`.

The mix is what a training step gives: an API call and a kernel for most records, an external correlation now and
then, some copies, fills and waits, in buffers of 8 MiB. Each way of decoding is measured under its own name: `decode`
takes the compiled walk wherever there is one, so its rate alone says nothing about NumPy's, which the target
(4 M records/s) is for. The ratio compares with copying the same bytes once in the same run.
"""

from __future__ import annotations

import itertools
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np

from gpuviz._native import cupti_records
from gpuviz.capture.cupti.layouts import Kind, strides
from gpuviz.capture.cupti.records import Records, blank, decode, decode_in_python, encode

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
    return [raw[start:end].copy() for start, end in itertools.pairwise(cuts)]


def cpu_seconds(work: Callable[[], object], tries: int = 9) -> float:
    """The median CPU time of some runs. Not the wall time: where cores are shared, that measures the neighbours."""
    times = []
    for _ in range(tries):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return statistics.median(times)


def main() -> int:
    launches = int(sys.argv[1]) // 2 if len(sys.argv) > 1 else 500_000
    tables, order = mixed(launches)
    buffers = buffers_of(tables, order)
    total = sum(map(len, buffers))
    copying = cpu_seconds(lambda: [buffer.copy() for buffer in buffers])
    print(f"{len(order):,} records, {total / 2**20:.0f} MiB in {len(buffers)} buffers; CPU time, all results kept")
    print(f"{'one copy of the bytes':24} {1e9 * copying / len(order):5.0f} ns/record")
    ways = {"NumPy": decode_in_python}
    if cupti_records.available():
        ways["compiled walk"] = decode
    rates = {}
    for name, read in ways.items():
        for table in tables:  # a fast wrong answer is no answer
            kind = int(table["kind"][0])
            assert (np.concatenate([read(buffer, VERSION).of(kind) for buffer in buffers]) == table).all()
        seconds = cpu_seconds(lambda read=read: [read(buffer, VERSION) for buffer in buffers])
        rates[name] = len(order) / seconds
        print(
            f"{name:24} {1e9 * seconds / len(order):5.0f} ns/record, {rates[name] / 1e6:.1f} M records/s, "
            f"{seconds / copying:.1f} times a copy"
        )
    return 0 if rates["NumPy"] >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
