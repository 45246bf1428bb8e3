"""Times the way from a file to a page: load, analyse, save, reopen, write the page; one line per trace.

"json" is the limit that loading is held against: the standard library's decoder over the same bytes, unpacked, in the
same process, without making a single table. Machines differ; read the ratio.

Give trace files as arguments; without any it takes the recordings beside the checkout. Each gets a process
of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import gzip
import json
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import gpuviz
import gpuviz.formats
import gpuviz.view.html  # imports are not part of any figure

COLUMNS = (
    f"{'trace':44}{'kernels':>9}{'json':>9}{'load':>9}{'÷ json':>8}{'device':>9}{'save':>9}{'reopen':>9}{'page':>9}"
)
COLUMNS += f"{'page size':>12}{'peak':>9}"


def main() -> int:
    files = [Path(argument) for argument in sys.argv[1:]] or recordings()
    if not files:
        print("No trace to measure: name files, or set GPUVIZ_SHARED to a folder of recordings.")
        return 1
    print(COLUMNS)
    context = multiprocessing.get_context("spawn")
    for file in files:
        process = context.Process(target=measure, args=(file,))
        process.start()
        process.join()
        if process.exitcode:
            return 1
    return 0


def recordings() -> list[Path]:
    beside = Path(__file__).resolve().parents[2] / "shared" / "traces"
    folder = Path(os.environ.get("GPUVIZ_SHARED", beside)) / "kineto"
    return sorted(file for file in folder.rglob("*.json*") if file.is_file())


def measure(file: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        saved, page = Path(folder) / "trace.gpuviz", Path(folder) / "page.html"
        parse, _ = timed(lambda: decode(file))
        load, trace = timed(lambda: gpuviz.load(file))
        device, _ = timed(lambda: gpuviz.analysis.device_time(trace))
        save, _ = timed(lambda: trace.save(saved))
        reopen, _ = timed(lambda: gpuviz.load(saved))
        write, _ = timed(lambda: gpuviz.save_html(trace, page))
        name = "/".join(file.parts[-2:])[-43:]
        ratio = f"{load / parse:>8.1f}"
        times = "".join(f"{seconds:>7.2f} s" for seconds in (device, save, reopen, write))
        size = f"{page.stat().st_size / 1e6:>9.2f} MB"
        peak = f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:>6.0f} MB"
        print(f"{name:44}{trace.kernels.height:>9}{parse:>7.2f} s{load:>7.2f} s{ratio}{times}{size}{peak}")


def decode(file: Path) -> object:
    data = file.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    return json.loads(data.decode("utf-8", "replace"), strict=False)


def timed[T](call: Callable[[], T]) -> tuple[float, T]:
    start = time.perf_counter()
    answer = call()
    return time.perf_counter() - start, answer


if __name__ == "__main__":
    sys.exit(main())
