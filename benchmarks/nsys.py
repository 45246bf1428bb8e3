"""How fast an Nsight Systems export becomes a trace: `python benchmarks/nsys.py [activities]`.

The export is generated: kernels and copies on two GPUs of two processes, an API call for each, NVTX ranges around
every tenth, in the columns that exports of 2026 have. Measured are the standard library fetching the columns that the
reader wants, each reader filling columns with them, and the whole trace with links and call tree. The goal (1.0 s for
a million activities) is held as a ratio to the standard library in the same run, because shared machines drift.
"""

from __future__ import annotations

import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from gpuviz.formats import nsys
from gpuviz.formats.nsys import layout
from gpuviz.formats.nsys.database import Database
from gpuviz.model.diagnostics import Diagnostics

TRIES = 5
MOST_OF_STDLIB = 0.6
"""The whole trace may take this share of what fetching its columns takes the standard library."""

# Column names, separated by blanks.
KERNEL_COLUMNS = (
    "start end deviceId contextId greenContextId streamId correlationId globalPid demangledName shortName mangledName "
    "launchType cacheConfig registersPerThread gridX gridY gridZ blockX blockY blockZ staticSharedMemory "
    "dynamicSharedMemory localMemoryPerThread localMemoryTotal gridId sharedMemoryExecuted graphNodeId "
    "sharedMemoryLimitConfig graphId"
)
COPY_COLUMNS = (
    "start end deviceId contextId greenContextId streamId correlationId globalPid bytes copyKind deprecatedSrcId "
    "srcKind dstKind srcDeviceId srcContextId dstDeviceId dstContextId migrationCause graphNodeId virtualAddress "
    "copyCount"
)
API_COLUMNS = "start end eventClass globalTid correlationId nameId returnValue callchainId"
NVTX_COLUMNS = "start end eventType rangeId category color text globalTid endGlobalTid textId domainId"
FIRST_PID, FIRST_NS, STEP_NS = (1 << 48) | (144 << 24), 60_111_418_026, 5_000
NAMES = 200
SHAPE = (None, 1, 1, 18, 93600, 1, 1, 128, 1, 1, 0, 1024, 0, 250871808)


def generate(path: Path, activities: int) -> None:
    """Write an export with so many kernels and copies; every fourth is a copy."""
    connection = sqlite3.connect(path)
    connection.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")

    def fill(table: str, names: str, rows: Iterator[tuple[object, ...]], text: str = "") -> None:
        columns = names.split()
        listed = ", ".join(f'"{name}" {"TEXT" if name == text else "INTEGER"}' for name in columns)
        connection.execute(f'CREATE TABLE "{table}" ({listed})')
        connection.executemany(f'INSERT INTO "{table}" VALUES ({", ".join("?" * len(columns))})', rows)

    kernels = [index for index in range(activities) if index % 4]
    copies = range(0, activities, 4)

    def times(index: int) -> tuple[int, int]:
        return FIRST_NS + index * STEP_NS, FIRST_NS + index * STEP_NS + 4_000

    def place(index: int) -> tuple[object, ...]:
        gpu = index % 2
        return gpu, gpu + 1, None, 7 + 8 * gpu, index // 2 + 1, FIRST_PID + (gpu << 24)

    def thread(index: int) -> int:
        gpu = index % 2
        return FIRST_PID + (gpu << 24) + 144 + gpu

    fill(
        "CUPTI_ACTIVITY_KIND_KERNEL",
        KERNEL_COLUMNS,
        (
            (*times(index), *place(index), index % NAMES, index % NAMES, *SHAPE, index, 32768, None, 0, None)
            for index in kernels
        ),
    )
    fill(
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        COPY_COLUMNS,
        ((*times(index), *place(index), 4096, 1 + index % 2, None, index % 3, 2, *[None] * 8) for index in copies),
    )
    fill(
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        API_COLUMNS,
        (
            (start - 3_000, start - 1_000, 0, thread(index), index // 2 + 1, NAMES + (index % 4 == 0), 0, None)
            for index in range(activities)
            for start, _ in [times(index)]
        ),
    )
    fill(
        "NVTX_EVENTS",
        NVTX_COLUMNS,
        (
            (start - 4_000, start + 1_000, 59, None, None, None, f"step {index}", FIRST_PID + 144, None, None, 0)
            for index in range(0, activities, 10)
            for start, _ in [times(index)]
        ),
        text="text",
    )
    connection.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
    names = [f"void kernel_{number}<float, {number}>(float const*, float*)" for number in range(NAMES)]
    names += ["cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020"]
    connection.executemany("INSERT INTO StringIds VALUES (?, ?)", list(enumerate(names)))
    connection.commit()
    connection.close()


def seconds(work: Callable[[], object], tries: int = TRIES) -> tuple[float, float]:
    """The best wall time and the median CPU time of some runs."""
    walls, cpus = [], []
    for _ in range(tries):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return min(walls), statistics.median(cpus)


def fetch_all(path: Path) -> None:
    """The columns that the reader wants, by the standard library, as tuples."""
    with Database(path, Diagnostics(), "stdlib") as database:
        for selection in layout.selections(database, "").values():
            listed = ", ".join(f'"{name}"' for name in selection.columns)
            database.query(f'SELECT {listed} FROM "{selection.table}"')


def fill_columns(path: Path, reader: str) -> None:
    """The same columns, by one of our readers, as Polars tables."""
    with Database(path, Diagnostics(), reader) as database:  # type: ignore[arg-type]
        database.read(layout.selections(database, ""))


def main() -> int:
    activities = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "export.sqlite"
        generate(path, activities)
        print(f"{activities:,} kernels and copies, as many API calls, {path.stat().st_size / 2**20:.0f} MiB")
        ways: dict[str, Callable[[], object]] = {
            "stdlib fetchall": lambda: fetch_all(path),
            "columns, stdlib": lambda: fill_columns(path, "stdlib"),
            "columns, adbc": lambda: fill_columns(path, "adbc"),
            "trace, stdlib": lambda: nsys.read(path, reader="stdlib"),
            "trace, adbc": lambda: nsys.read(path, reader="adbc"),
        }
        found = {name: seconds(work) for name, work in ways.items()}
    base = found["stdlib fetchall"]
    for name, (wall, cpu) in found.items():
        print(
            f"{name:18} {wall:6.2f} s wall, {cpu:6.2f} s CPU; {wall / base[0]:.2f} and {cpu / base[1]:.2f} of fetchall"
        )
    return 0 if found["trace, adbc"][1] <= MOST_OF_STDLIB * base[1] else 1


if __name__ == "__main__":
    sys.exit(main())
