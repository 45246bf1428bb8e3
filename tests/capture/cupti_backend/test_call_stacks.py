"""From a recorded call to the line that made it."""

from __future__ import annotations

import importlib.util
import sys
import threading
import time
import types
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest

from gpuviz.capture import Session
from gpuviz.capture.backend import CaptureRequest, CellSource
from gpuviz.capture.cupti.call_stacks import Lines
from gpuviz.capture.ranges import thread_key
from gpuviz.capture.recording import Stack, StackFrame
from tests.capture.cupti_backend.conftest import BackendOf
from tests.capture.cupti_backend.fakes import FakeCupti

pytestmark = pytest.mark.native


class OneLine:
    """A source that saw one line in this thread, and nothing in the others."""

    problem: str | None = None
    cells: Mapping[str, CellSource] = {"key": CellSource("id", 3, "step()\n")}

    def __init__(self) -> None:
        self.running = False
        self.thread = 0
        self.asked: list[tuple[npt.NDArray[np.int64], int | None]] = []

    def start(self) -> None:
        self.running = True
        self.thread = thread_key()

    def stop(self) -> Lines:
        self.running = False
        return self

    def stack_ids(
        self, threads: npt.ArrayLike, times_ns: npt.ArrayLike, *, fallback_thread: int | None = None
    ) -> npt.NDArray[np.int32]:
        times = np.asarray(times_ns, dtype=np.int64)
        self.asked.append((times, fallback_thread))
        here = np.asarray(threads) == self.thread
        return np.where(here | (fallback_thread == self.thread), 9, -1).astype(np.int32)

    def compact(self, stack_ids: npt.ArrayLike) -> tuple[npt.NDArray[np.int32], list[Stack]]:
        stack = (StackFrame("cell", "In [3]", cell="key"), StackFrame("line", "step()", cell="key", line=1))
        return np.where(np.asarray(stack_ids) == 9, 0, -1).astype(np.int32), [stack]


def lines_of_kernels(session: Session) -> list[list[str]]:
    """For each kernel, the lines it was launched from, innermost first."""
    trace = session.trace
    trace.validate()
    paths = trace.callpaths.join(trace.frames, on="frame_id")
    parents = {row["callpath_id"]: row for row in paths.iter_rows(named=True)}
    found: list[list[str]] = []
    for node in trace.kernels["callpath_id"].to_list():
        found.append([])
        while node is not None:
            if parents[node]["layer"] == "line":
                found[-1].append(str(parents[node]["function"]))
            node = parents[node]["parent_id"]
    return found


def test_kernels_hang_below_the_line_of_their_launch(backend_of: BackendOf) -> None:
    cupti, source = FakeCupti(), OneLine()
    before = time.time_ns()
    with Session(backend_of(cupti, lines=lambda request: source)) as session:
        assert source.running
        cupti.launch()
        other = threading.Thread(target=cupti.launch)
        other.start()
        other.join()
    assert not source.running
    assert lines_of_kernels(session) == [["step()"], []]
    ((asked, fallback),) = source.asked
    assert fallback is None
    assert ((before <= asked) & (asked <= time.time_ns())).all()  # Unix ns, not CUPTI's clock
    assert session.trace.cells["jupyter_cell_id"].to_list() == ["id"]


def test_with_torch_a_thread_without_python_has_the_main_thread_s_line(
    backend_of: BackendOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace())
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    cupti, source = FakeCupti(), OneLine()
    with Session(backend_of(cupti, lines=lambda request: source)) as session:
        other = threading.Thread(target=cupti.launch)
        other.start()
        other.join()
    assert lines_of_kernels(session) == [["step()"]]


def test_a_clock_that_saw_nothing_says_why(backend_of: BackendOf) -> None:
    class Blind(OneLine):
        problem = "a debugger holds every tool id"

    cupti = FakeCupti()
    with Session(backend_of(cupti, lines=lambda request: Blind())) as session:
        cupti.launch()
    assert session.trace.meta.properties["lines"] == "a debugger holds every tool id"


def test_a_source_is_stopped_when_the_start_fails(backend_of: BackendOf) -> None:
    class Failing(OneLine):
        def start(self) -> None:
            super().start()
            raise RuntimeError("no")

    cupti, source = FakeCupti(), Failing()
    with pytest.raises(RuntimeError, match="no"):
        backend_of(cupti, lines=lambda request: source).start(CaptureRequest())
    assert not source.running
    assert cupti.is_clean


@pytest.mark.skipif(importlib.util.find_spec("gpuviz.capture.lineclock") is None, reason="there is no line clock")
def test_the_line_clock_is_such_a_source(backend_of: BackendOf, tmp_path: Path) -> None:
    from gpuviz.capture.lineclock import LineClock

    source = "def work(gpu):\n    first = gpu.launch('one')\n    second = gpu.launch('two')\n    return first, second\n"
    file = tmp_path / "user_code.py"
    file.write_text(source)
    names: dict[str, types.FunctionType] = {}
    exec(compile(source, str(file), "exec"), names)
    cupti = FakeCupti()
    with Session(backend_of(cupti, lines=lambda request: LineClock(request.cell_of))) as session:
        names["work"](cupti)
    assert session.trace.kernels["name"].cast(pl.String).to_list() == ["one", "two"]
    first, second = lines_of_kernels(session)  # the fake's own lines are user code too: it lies in a checkout
    assert "first = gpu.launch('one')" in first
    assert "second = gpu.launch('two')" in second
    assert "second = gpu.launch('two')" not in first
