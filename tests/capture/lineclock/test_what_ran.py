"""Which line ran: threads, coroutines, exceptions thrown into generators, other cells, libraries."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from gpuviz.capture.backend import CellSource, no_cells
from gpuviz.capture.lineclock import LineClock, short_lines
from gpuviz.capture.ranges import thread_key
from gpuviz.capture.recording import StackFrame
from gpuviz.errors import CaptureError
from tests.capture.lineclock.probing import Notebook


def test_a_line_of_a_function_of_another_cell(notebook: Notebook) -> None:
    notebook.define("def step(x):\n    y = x\n    probe()\n    return y\n")()
    record = notebook.run("for i in range(2):\n    step(i)  # here\n")
    notebook.check(record)
    thread, time_ns, _ = notebook.probes[-1]
    stack = record.stack(int(record.stack_ids(thread, time_ns)))
    own = [frame for frame in stack if frame.cell is not None]  # the rest are frames of this test
    assert own == [
        StackFrame("cell", "In [2]", cell="<cell 2>"),
        StackFrame("line", "step(i)  # here", cell="<cell 2>", line=2),
        StackFrame("python", "step", cell="<cell 1>", line=1),
        StackFrame("line", "probe()", cell="<cell 1>", line=3),
    ]
    assert set(record.cells) == {"<cell 1>", "<cell 2>"}


def test_threads(notebook: Notebook) -> None:
    notebook.names["threading"] = threading
    record = notebook.run(
        "def work(depth):\n"
        "    for i in range(30):\n"
        "        probe()\n"
        "        if depth:\n"
        "            work(depth - 1)\n"
        "        probe()\n"
        "threads = [threading.Thread(target=work, args=(1,), name=f'worker {i}') for i in range(6)]\n"
        "for thread in threads: thread.start()\n"
        "probe()\n"
        "for thread in threads: thread.join()\n"
        "probe()\n"
    )
    notebook.check(record)
    assert {f"worker {i}" for i in range(6)} < {thread.name for thread in record.threads}


def test_threads_one_after_another_get_the_same_number(notebook: Notebook) -> None:
    notebook.names["threading"] = threading
    record = notebook.run(
        "def work():\n"
        "    probe()\n"
        "for i in range(20):\n"
        "    thread = threading.Thread(target=work)\n"
        "    thread.start()\n"
        "    thread.join()\n"
    )
    notebook.check(record)
    assert len({thread.native_id for thread in record.threads}) == 21


def test_native_thread_numbers(notebook: Notebook) -> None:
    record = notebook.run("probe()\n")
    _, time_ns, _ = notebook.probes[0]
    by_native = record.stack_ids(threading.get_native_id(), time_ns, numbers="native")
    assert by_native == record.stack_ids(thread_key(), time_ns) >= 0


def test_coroutines_that_take_turns(notebook: Notebook) -> None:
    notebook.names["asyncio"] = asyncio
    record = notebook.run(
        "async def leaf(n):\n"
        "    probe()\n"
        "    await asyncio.sleep(0)\n"
        "    probe()\n"
        "    return n\n"
        "async def task(n):\n"
        "    for i in range(4):\n"
        "        value = await leaf(i) + n; probe()\n"
        "        async for item in items():\n"
        "            probe()\n"
        "async def items():\n"
        "    for i in range(2):\n"
        "        await asyncio.sleep(0)\n"
        "        probe()\n"
        "        yield i\n"
        "async def main():\n"
        "    await asyncio.gather(*(task(n) for n in range(3)))\n"
        "    probe()\n"
        "asyncio.run(main())\n"
        "probe()\n"
    )
    notebook.check(record)
    assert len(notebook.probes) > 50


def test_an_exception_thrown_into_a_generator(notebook: Notebook) -> None:
    record = notebook.run(
        "def generator():\n"
        "    while True:\n"
        "        try:\n"
        "            yield 1\n"
        "            probe()\n"
        "        except KeyError:\n"
        "            probe()\n"
        "g = generator()\n"
        "for i in range(3):\n"
        "    next(g)\n"
        "    g.throw(KeyError('x'))\n"
        "    probe()\n"
        "g.close()\n"
        "probe()\n"
    )
    notebook.check(record)


def test_an_exception_thrown_through_a_generator_has_the_innermost_line(notebook: Notebook) -> None:
    # The interpreter resumes only the inner generator; that the outer one waits for it is seen by nobody.
    record = notebook.run(
        "def inner():\n"
        "    try:\n"
        "        yield 1\n"
        "    except KeyError:\n"
        "        probe()\n"
        "    yield 2\n"
        "def outer():\n"
        "    yield from inner()\n"
        "g = outer()\n"
        "next(g)\n"
        "g.throw(KeyError('x'))\n"
        "probe()\n"
    )
    (thread, time_ns, truth), last = notebook.probes
    assert notebook.clocked_stack(record, thread, time_ns) == (truth[0], truth[-1])
    assert notebook.clocked_stack(record, *last[:2]) == last[2]


def test_deep_recursion(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(short_lines, "SHORT_NS", 0)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(5000)
    try:
        record = notebook.run(
            "def f(n):\n    if n:\n        f(n - 1)\n    if n % 500 == 0:\n        probe()\nf(3000)\n"
        )
    finally:
        sys.setrecursionlimit(limit)
    notebook.check(record)


def test_what_ran_before_the_clock_started(notebook: Notebook) -> None:
    started = threading.Event()
    proceed = threading.Event()
    records = []

    def start() -> LineClock:
        clock = LineClock(notebook.sources.get)
        clock.start()
        return clock

    notebook.names |= {"start": start, "records": records, "started": started, "proceed": proceed}
    notebook.names["threading"] = threading
    notebook.define(
        "def waiting():\n"
        "    started.set()\n"
        "    proceed.wait()\n"
        "    probe()\n"
        "thread = threading.Thread(target=waiting)\n"
        "thread.start()\n"
        "started.wait()\n"
        "def profiled():\n"
        "    clock = start()\n"
        "    probe()\n"
        "    proceed.set()\n"
        "    thread.join()\n"
        "    return clock\n"
        "clock = profiled()\n"
        "probe()\n"
        "records.append(clock.stop())\n"
    )()
    assert len(notebook.probes) == 3
    notebook.check(records[0])


def test_the_users_files_are_user_code_and_libraries_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    libraries = tmp_path / "venv" / "lib" / "site-packages"
    libraries.mkdir(parents=True)
    (libraries / "lineclock_library.py").write_text(
        "def call(f):\n    return f()\n"
        "class Layer:\n    def forward(self, f):\n        return f()\n"
        "def forward(f):\n    return f()\n"
    )
    (tmp_path / "lineclock_script.py").write_text(
        "import lineclock_library as library\n"
        "def run(probe):\n"
        "    library.call(probe)\n"
        "    library.Layer().forward(probe)\n"
        "    library.forward(probe)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(libraries))
    import lineclock_library  # type: ignore[import-not-found]
    import lineclock_script  # type: ignore[import-not-found]

    def stacks(**options: tuple[str, ...]) -> list[list[tuple[str, str]]]:
        times: list[int] = []
        clock = LineClock(no_cells, **options)
        clock.start()
        try:
            # A partial of a C function is no line of ours; sys.monitoring does not see it.
            lineclock_script.run(lambda: times.append(time.time_ns()))
        finally:
            record = clock.stop()
        found = record.stack_ids([thread_key()] * len(times), times)
        files = {lineclock_script.__file__, lineclock_library.__file__}
        return [[(f.layer, f.function) for f in record.stack(i) if f.file in files] for i in found.tolist()]

    called, layer, function = stacks()
    assert called == [("python", "run"), ("line", "library.call(probe)")]
    assert layer == [("python", "run"), ("line", "library.Layer().forward(probe)"), ("module", "Layer")]
    assert function == [("python", "run"), ("line", "library.forward(probe)")]
    called, layer, _ = stacks(lines_in=("lineclock_library",))
    assert called[-2:] == [("python", "call"), ("line", "return f()")]
    assert layer[-2:] == [("python", "Layer.forward"), ("line", "return f()")]


def test_an_unknown_package_is_an_error_that_says_so() -> None:
    with pytest.raises(CaptureError, match="no_such_package"):
        LineClock(no_cells, lines_in=["no_such_package.models"])


def test_equal_code_in_two_cells_is_told_apart(notebook: Notebook) -> None:
    notebook.define("def same():\n    probe()\n")()
    first = notebook.names["same"]
    notebook.define("def same():\n    probe()\n")()
    assert first.__code__ == notebook.names["same"].__code__  # type: ignore[attr-defined]
    notebook.names["first"] = first
    notebook.check(notebook.run("first()\nsame()\nfirst()\n"))


def test_line_starts_and_intervals(notebook: Notebook) -> None:
    notebook.names["sleep"] = time.sleep
    record = notebook.run("def slow():\n    sleep(0.01)\n    probe()\nslow(); sleep(0.01); probe()\nx = 1\n")
    (thread, inner, _), (_, outer, _) = notebook.probes
    starts = record.line_start_ns([thread, thread], [inner, outer])
    assert 0 <= inner - starts[0] < 5_000_000
    # The line that called began before the call, and is the same line still.
    assert outer - starts[1] > 20_000_000
    intervals = record.intervals()
    assert (intervals.end_ns[:-1] <= intervals.start_ns[1:]).all()
    assert (intervals.start_ns <= intervals.end_ns).all()
    assert (intervals.line_start_ns <= intervals.start_ns).all()
    middle = (intervals.start_ns + intervals.end_ns) // 2
    wide = intervals.end_ns > intervals.start_ns + 1
    found = record.stack_ids(intervals.thread, middle)
    assert (found == intervals.stack_id)[wide].all()


def test_compact_stacks(notebook: Notebook) -> None:
    record = notebook.run("probe()\nprobe()\nprobe()\n")
    times = [time_ns for _, time_ns, _ in notebook.probes]
    ids = record.stack_ids(thread_key(), [0, times[2], times[0], times[2]])
    assert ids[0] == -1
    places, stacks = record.compact(ids)
    assert places.tolist() == [-1, 1, 0, 1]
    assert [stack[-1].line for stack in stacks] == [1, 3]
    empty, nothing = record.compact(np.empty(0, dtype=np.int32))
    assert len(empty) == len(nothing) == 0
    assert record.stack_count > 2


def test_a_thread_without_python_code_has_the_line_of_the_main_thread(notebook: Notebook) -> None:
    record = notebook.run("probe()\n")
    _, time_ns, _ = notebook.probes[0]
    assert record.stack_ids(12345, time_ns) == -1
    assert record.stack_ids(12345, time_ns, fallback_thread=thread_key()) == record.stack_ids(thread_key(), time_ns)


def test_cells_without_a_number(notebook: Notebook) -> None:
    cell = notebook.define("probe()\n")
    notebook.sources["<cell 1>"] = CellSource(None, None, "probe()\n")
    with notebook.clocked() as records:
        cell()
    stack = records[0].stack(int(records[0].stack_ids(*notebook.probes[0][:2])))
    assert "In [ ]" in [frame.function for frame in stack]
