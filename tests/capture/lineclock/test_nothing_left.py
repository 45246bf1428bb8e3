"""The program runs as it would without the clock, and afterwards the interpreter is as it was."""

from __future__ import annotations

import collections
import dis
import gc
import os
import signal
import sys
import threading
import time
import traceback
import weakref
from types import CodeType

import pytest

from gpuviz.capture.lineclock import LineClock
from gpuviz.capture.lineclock.clock import TOOL_IDS
from gpuviz.errors import CaptureError
from tests.capture.lineclock.probing import Notebook

EVENTS = sys.monitoring.events
ALL_EVENTS = [getattr(EVENTS, name) for name in dir(EVENTS) if name.isupper() and name != "NO_EVENTS"]

PROGRAM = """
import asyncio, collections
def helper(x):
    return x + 1
def generator():
    for i in range(3):
        yield i
suspended = generator()
next(suspended)
def recursive(n):
    return n and recursive(n - 1)
def failing():
    raise KeyError("x")
async def coroutine():
    await asyncio.sleep(0)
for i in range(2000):
    total = helper(i)
recursive(20)
try:
    failing()
except KeyError:
    pass
list(generator())
asyncio.run(coroutine())
ordered = collections.OrderedDict(a=1)
counter = collections.Counter("abc")
"""


def instructions(code: CodeType) -> list[str]:
    """Their names, as the interpreter has them now (`_co_code_adaptive`)."""
    return [instruction.opname for instruction in dis.get_instructions(code, adaptive=True)]


def codes_of(*roots: CodeType) -> list[CodeType]:
    """These and all code inside them."""
    codes = list(roots)
    for code in codes:
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return codes


def test_no_tool_no_callback_no_instrumented_instruction(notebook: Notebook) -> None:
    cell = notebook.define(PROGRAM)
    threads = threading.active_count()
    with notebook.clocked() as records:
        cell()
        codes = codes_of(*(c for c in gc.get_objects() if isinstance(c, CodeType)))
        user = [value.__code__ for value in notebook.names.values() if hasattr(value, "__code__")]
        assert any("INSTRUMENTED_LINE" in instructions(code) for code in user)  # the test can see it
    assert records[0].stamps > 0
    assert threading.active_count() == threads
    for tool in TOOL_IDS:
        assert sys.monitoring.get_tool(tool) is None
        sys.monitoring.use_tool_id(tool, "test")
        try:
            assert sys.monitoring.get_events(tool) == 0
            for code in [*user, *codes]:
                assert sys.monitoring.get_local_events(tool, code) == 0
            for event in ALL_EVENTS:
                assert sys.monitoring.register_callback(tool, event, None) is None
        finally:
            sys.monitoring.free_tool_id(tool)
    libraries = [f.__code__ for f in vars(collections.Counter).values() if hasattr(f, "__code__")]
    for code in [*codes_of(*user), *codes_of(*libraries), notebook.names["suspended"].gi_code]:  # type: ignore[attr-defined]
        assert not [name for name in instructions(code) if name.startswith("INSTRUMENTED")], code


def test_nothing_of_the_users_is_kept_alive(notebook: Notebook) -> None:
    clock = LineClock(notebook.sources.get)
    clock.start()
    notebook.define("def f():\n    return [i for i in range(3)]\nf()\n")()
    clock.stop()
    code = weakref.ref(notebook.names["f"].__code__)  # type: ignore[attr-defined]
    del notebook.names["f"]
    gc.collect()
    assert code() is None


@pytest.mark.parametrize("held", [0, 1, 2])
def test_beside_another_tool(notebook: Notebook, held: int) -> None:
    """A debugger, coverage or a profiler keeps its events: those that it wants, and those that it has switched off."""
    lines: list[int] = []
    calls: list[str] = []

    def on_start(code: CodeType, offset: int) -> object:
        calls.append(code.co_name)
        return sys.monitoring.DISABLE

    notebook.define("def f():\n    x = 1\n    probe()\n    return x\n")()
    function = notebook.names["f"]
    watched = function.__code__  # type: ignore[attr-defined]
    sys.monitoring.use_tool_id(held, "other")
    try:
        sys.monitoring.register_callback(held, EVENTS.LINE, lambda code, line: lines.append(line))
        sys.monitoring.register_callback(held, EVENTS.PY_START, on_start)
        sys.monitoring.set_local_events(held, watched, EVENTS.LINE | EVENTS.PY_START)
        record = notebook.run("f()\nf()\n")
        notebook.check(record)
        function()  # type: ignore[operator]
        assert lines == [2, 3, 4] * 3
        assert calls == ["f"]
        assert sys.monitoring.get_local_events(held, watched) == EVENTS.LINE | EVENTS.PY_START
    finally:
        sys.monitoring.set_local_events(held, watched, 0)
        sys.monitoring.register_callback(held, EVENTS.LINE, None)
        sys.monitoring.register_callback(held, EVENTS.PY_START, None)
        sys.monitoring.free_tool_id(held)


def test_without_a_free_tool_there_are_no_lines_and_the_record_says_so(notebook: Notebook) -> None:
    for tool in TOOL_IDS:
        sys.monitoring.use_tool_id(tool, f"tool {tool}")
    try:
        record = notebook.run("probe()\n")
    finally:
        for tool in TOOL_IDS:
            sys.monitoring.free_tool_id(tool)
    assert record.problem is not None
    assert all(f"tool {tool}" in record.problem for tool in TOOL_IDS)
    assert record.stack_ids(*notebook.probes[0][:2]) == -1
    assert len(record.intervals().start_ns) == 0
    assert record.forward_stack_of([1, 2]).tolist() == [-1, -1]


def test_two_clocks_at_once(notebook: Notebook) -> None:
    with notebook.clocked() as outer:
        inner = notebook.run("for i in range(3):\n    probe()\n")
    notebook.check(inner)
    notebook.check(outer[0])


def test_start_and_stop_out_of_order(notebook: Notebook) -> None:
    never_started = LineClock(notebook.sources.get).stop()
    assert never_started.problem
    clock = LineClock(notebook.sources.get)
    clock.start()
    with pytest.raises(CaptureError, match="runs already"):
        clock.start()
    assert clock.stop() is clock.stop()
    clock.start()
    notebook.define("probe()\n")()
    notebook.check(clock.stop())


def raised_by(notebook: Notebook, source: str, clocked: bool) -> tuple[str, list[tuple[int, str]]]:
    """The exception of a cell, and its traceback from the cell on."""
    cell = notebook.define(source)
    filename = f"<cell {len(notebook.sources)}>"
    clock = LineClock(notebook.sources.get)
    if clocked:
        clock.start()
    try:
        cell()
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [(frame.lineno or 0, frame.name) for frame in frames if frame.filename == filename]
        assert len(own) == len(frames) - 2  # this function, and the one that calls exec
        return repr(error), own
    finally:
        clock.stop()
    raise AssertionError("the cell raised nothing")


@pytest.mark.parametrize(
    "source",
    [
        "def f(n):\n    return f(n - 1) if n else 1 / 0\nf(5)\n",
        "def g():\n    yield 1\n    raise ValueError('x')\nfor i in g():\n    pass\n",
        "try:\n    {}['x']\nexcept KeyError as error:\n    raise RuntimeError('y') from error\n",
        "raise KeyboardInterrupt\n",
        "import sys\nsys.exit(3)\n",
    ],
)
def test_exceptions_pass_with_the_same_traceback(notebook: Notebook, source: str) -> None:
    assert raised_by(notebook, source, clocked=True) == raised_by(notebook, source, clocked=False)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs setitimer")
@pytest.mark.parametrize(
    "source",
    [
        "x = 3.5\nwhile True:\n    x = -x\n    y = x * x\n    x = x + 0\n",
        "def f(x):\n    return x\nwhile True:\n    f(1)\n    f(2)\n",
        "def g():\n    while True:\n        yield 1\nfor i in g():\n    j = i\n",
        "def f(n):\n    if n: f(n - 1)\nwhile True:\n    f(50)\n",
    ],
    ids=["lines", "calls", "generator", "recursion"],
)
def test_an_interrupt_at_any_moment_leaves_the_traceback_alone(notebook: Notebook, source: str) -> None:
    """It often arrives inside the clock, whose frames must not be in the traceback."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    # An interrupt inside a callback of the garbage collector is lost, and Hypothesis has such a callback.
    gc.disable()
    try:
        for attempt in range(150):
            interrupted = BaseException()
            cell = notebook.define(source)
            clock = LineClock(notebook.sources.get)
            clock.start()
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0002 + 0.00005 * attempt)
                cell()
            except KeyboardInterrupt as error:
                interrupted = error
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
                record = clock.stop()
            files = {frame.filename.replace(os.sep, "/") for frame in traceback.extract_tb(interrupted.__traceback__)}
            assert not [file for file in files if "gpuviz/capture/lineclock" in file]
            assert interrupted.__context__ is None
            assert record.problem is None
            assert (record.intervals().start_ns > 0).all()
    finally:
        gc.enable()
        signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process")
def test_a_forked_process_is_not_watched(notebook: Notebook) -> None:
    with notebook.clocked() as records:
        notebook.define("for i in range(3000):\n    x = i\n")()  # the thread that switches lines on runs
        pid = os.fork()
        if pid == 0:
            clean = all(sys.monitoring.get_tool(tool) is None for tool in TOOL_IDS)
            notebook.define("for i in range(1000):\n    x = i\n")()
            os._exit(0 if clean else 1)
        _, status = os.waitpid(pid, 0)
        notebook.define("probe()\n")()
    assert os.waitstatus_to_exitcode(status) == 0
    notebook.check(records[0])


def test_the_time_of_a_stamp_is_that_of_the_wall_clock(notebook: Notebook) -> None:
    before = time.time_ns()
    record = notebook.run("x = 1\n")
    intervals = record.intervals()
    assert before <= intervals.start_ns[0] <= intervals.end_ns[-1] <= time.time_ns()
