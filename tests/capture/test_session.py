"""Sessions: one at a time, always stopped, and silent where there is none."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gpuviz.capture import (
    CaptureRequest,
    CellSource,
    Session,
    active_session,
    choose_backend,
    profile,
    region,
    step,
    use_cells,
)
from gpuviz.capture.assemble import assemble
from gpuviz.errors import CaptureError, DroppedRecordsWarning, SessionActiveError, TraceFileError
from gpuviz.model import Trace, TraceMeta
from tests.capture.recordings import T0, api, kernel, recording


@dataclass
class Fake:
    """A backend on a clock of its own that ticks 10 ns per look, and does as it is told."""

    on_start: Callable[[], None] = lambda: None
    on_stop: Callable[[], None] = lambda: None
    dropped: int | None = 0
    events: list[str] = field(default_factory=list)
    name: str = "fake"
    description: str = "fake (modelled)"
    request: CaptureRequest | None = None
    now: int = T0

    def tick(self) -> int:
        self.now += 10
        return self.now

    def start(self, request: CaptureRequest) -> None:
        self.events.append("start")
        self.request = request
        request.ranges.clock = self.tick
        self.on_start()

    def stop(self) -> Trace:
        self.events.append("stop")
        self.on_stop()
        assert self.request is not None
        work = [api(5 + 10 * i, 6 + 10 * i, i) for i in range(1, 9)]
        work += [kernel(7 + 10 * i, 9 + 10 * i, i) for i in range(1, 9)]
        return assemble(recording(*work, ranges=self.request.ranges.ranges, dropped_records=self.dropped))


def fail(error: BaseException) -> Callable[[], None]:
    def raises() -> None:
        raise error

    return raises


def test_a_session_from_start_to_stop() -> None:
    backend = Fake()
    session = Session(backend, label="mine")
    assert not session.running
    with pytest.raises(CaptureError, match="has not captured anything"):
        _ = session.trace
    assert session.start() is session
    assert session.running
    assert active_session() is session
    with pytest.raises(CaptureError, match="is still running"):
        _ = session.trace
    trace = session.stop()
    assert not session.running
    assert session.trace is trace
    assert trace.validate().kernels.height == 8
    assert backend.events == ["start", "stop"]
    assert backend.request is not None
    assert backend.request.label == "mine"


def test_stop_without_start_and_start_twice() -> None:
    session = Session(Fake())
    with pytest.raises(CaptureError, match="not running"):
        session.stop()
    with session, pytest.raises(SessionActiveError):
        session.start()
    with pytest.raises(CaptureError, match="captures once"):
        session.start()
    with pytest.raises(CaptureError, match="not running"):
        session.stop()


def test_nested_sessions_are_refused_and_the_outer_one_goes_on() -> None:
    outer, inner = Session(Fake(), label="outer"), Fake()
    with outer:
        with pytest.raises(SessionActiveError, match="'outer'"), profile(inner):
            pytest.fail("the inner body ran")
        assert outer.running
    assert inner.events == []
    assert outer.trace.kernels.height == 8


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_the_exception_of_the_body_goes_on_unchanged(error: BaseException) -> None:
    session = Session(Fake())
    with pytest.raises(type(error)) as caught, session:
        raise error
    assert caught.value is error
    assert error.__context__ is None
    assert getattr(error, "__notes__", []) == []
    assert session.trace.kernels.height == 8


@pytest.mark.parametrize("error", [CaptureError("no"), RuntimeError("no"), KeyboardInterrupt()])
def test_a_start_that_fails_leaves_nothing_running(error: BaseException) -> None:
    backend = Fake(on_start=fail(error))
    with pytest.raises(type(error)) as caught, profile(backend):
        pytest.fail("the body ran")
    assert caught.value is error
    assert backend.events == ["start", "stop"]
    assert active_session() is None


def test_a_start_and_a_stop_that_fail() -> None:
    error = RuntimeError("start")
    backend = Fake(on_start=fail(error), on_stop=fail(OSError("stop")))
    with pytest.raises(RuntimeError) as caught:
        Session(backend).start()
    assert caught.value is error
    assert "OSError('stop')" in error.__notes__[0]
    assert active_session() is None


@pytest.mark.parametrize("error", [CaptureError("no"), RuntimeError("no"), KeyboardInterrupt()])
def test_a_stop_that_fails_leaves_nothing_running(error: BaseException) -> None:
    with pytest.raises(type(error)), profile(Fake(on_stop=fail(error))):
        pass
    assert active_session() is None


def test_a_stop_that_fails_does_not_hide_the_exception_of_the_body() -> None:
    with (
        pytest.warns(RuntimeWarning, match="could not finish"),
        pytest.raises(ZeroDivisionError),
        profile(Fake(on_stop=fail(CaptureError("no")))),
    ):
        _ = 1 / 0
    assert active_session() is None


def test_a_body_that_stops_the_session_itself() -> None:
    with profile(Fake()) as session:
        trace = session.stop()
    assert session.trace is trace


def test_dropped_records_warn() -> None:
    with pytest.warns(DroppedRecordsWarning, match="7 records"), profile(Fake(dropped=7)):
        pass


def test_steps_and_regions() -> None:
    with profile(Fake()) as session:  # the first step begins at 10 ns
        step()  # 20
        with region("load"), region("inner"):  # 30 and 40, to 50 and 60
            pass
        step()  # 70
    ranges = session.trace.validate().ranges
    assert ranges.select("kind", "name", "start_ns", "end_ns").rows() == [
        ("step", "step 1", 0, 10),
        ("step", "step 2", 10, 60),
        ("region", "load", 20, 50),
        ("region", "inner", 30, 40),
    ]
    assert ranges["parent_id"].to_list() == [None, None, 1, 2]


def test_a_region_that_is_open_at_the_end() -> None:
    with profile(Fake()) as session:
        opened = region("open").__enter__()
    opened.__exit__(None, None, None)
    assert session.trace.validate().ranges["timing"].to_list() == ["open"]


def test_without_a_session_nothing_is_recorded() -> None:
    step()
    with region("early") as early, profile(Fake()) as session, early:
        pass
    step()
    ranges = session.trace.ranges
    assert ranges["name"].to_list() == ["early"]
    assert ranges["timing"].to_list() == ["ok"]


def test_regions_as_decorators() -> None:
    @region("plain")
    def plain(value: int) -> int:
        return plain(value - 1) + 1 if value else 0

    @region("async")
    async def waits() -> int:
        await asyncio.sleep(0)
        return 5

    assert plain(1) == 1
    with profile(Fake()) as session:
        assert plain(2) == 2
        assert asyncio.run(waits()) == 5
        with pytest.raises(TypeError):
            plain("x")  # type: ignore[arg-type]
    ranges = session.trace.ranges
    assert ranges["name"].to_list().count("plain") == 4
    assert ranges["name"].to_list().count("async") == 1
    assert set(ranges["timing"]) == {"ok"}
    assert plain.__name__ == "plain"


def test_steps_and_regions_from_many_threads() -> None:
    shared = region("shared")
    go = threading.Barrier(8)

    def work() -> None:
        go.wait()
        for _ in range(200):
            with shared, shared:
                step()

    with profile(Fake()) as session:
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    ranges = session.trace.validate().ranges
    steps = ranges.filter(kind="step")
    assert steps.height == 1600
    assert steps["name"].n_unique() == 1600
    assert ranges.filter(kind="region").height == 3200
    assert ranges["timing"].unique().to_list() == ["ok"]
    assert ranges.filter(kind="region")["thread_id"].n_unique() == 8


def test_sessions_from_many_threads_exclude_each_other() -> None:
    go, hold = threading.Barrier(8), threading.Barrier(8)
    outcomes: list[str] = []

    def work() -> None:
        go.wait()
        session = Session(Fake())
        try:
            session.start()
        except SessionActiveError:
            outcomes.append("refused")
            hold.wait()
        else:
            outcomes.append("ran")
            hold.wait()
            session.stop()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["ran"] + ["refused"] * 7


def loop(steps: int) -> None:
    for _ in range(steps):
        step()


def test_the_window_of_steps() -> None:
    with profile(Fake(), steps=2, warmup=1) as session:
        loop(5)  # steps end at 20, 30, 40, 50, 60; t0 is 10
    trace = session.trace.validate()
    assert trace.meta.window == (10, 30)
    assert trace.kernels["start_ns"].to_list() == [17, 27]
    assert trace.ranges["name"].to_list() == ["step 2", "step 3"]
    assert trace.diagnostics.height == 0


def test_a_warmup_alone_keeps_the_rest() -> None:
    with profile(Fake(), warmup=3) as session:
        loop(5)
    assert session.trace.meta.window == (30, 50)


def test_steps_that_did_not_come() -> None:
    with profile(Fake(), steps=4, warmup=1) as session:
        loop(3)
    assert session.trace.meta.window == (10, 30)
    assert session.trace.diagnostics["code"].to_list() == ["steps_missing"]
    with profile(Fake(), steps=1, warmup=9) as session:
        loop(3)
    assert session.trace.validate().meta.window is None
    assert session.trace.diagnostics["first_example"].to_list() == ["1 steps after 9 were asked for, 3 came"]


@pytest.mark.parametrize(("steps", "warmup"), [(0, 0), (-1, 0), (None, -1)])
def test_steps_that_make_no_sense(steps: int | None, warmup: int) -> None:
    with pytest.raises(CaptureError, match="steps start at 1"):
        Session(Fake(), steps=steps, warmup=warmup)


def test_cells_come_from_whoever_knows_them() -> None:
    cell = CellSource("id", 1, "x")
    backend = Fake()
    use_cells(lambda filename: cell if filename == "<cell>" else None)
    try:
        with profile(backend):
            pass
    finally:
        use_cells(None)
    assert backend.request is not None
    assert backend.request.cell_of("<cell>") is cell
    with profile(backend):
        pass
    assert backend.request.cell_of("<cell>") is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_has_no_session() -> None:
    with profile(Fake()):
        child = os.fork()
        if child == 0:
            step()
            os._exit(0 if active_session() is None else 1)
        _, status = os.waitpid(child, 0)
        assert active_session() is not None
    assert os.waitstatus_to_exitcode(status) == 0


def test_unknown_backends() -> None:
    for name in ("cuda", "", "replay", "replay:", "auto:x"):
        with pytest.raises(CaptureError, match="replay:FILE"):
            choose_backend(name)


def test_auto_without_a_gpu_says_what_to_do() -> None:
    with pytest.raises(CaptureError, match="%gpuviz simulate H100"):
        choose_backend("auto")


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    trace = assemble(recording(api(100, 200, 1), kernel(250, 400, 1)))
    return trace.save(tmp_path / "step.gpuviz")


def test_replay(saved: Path) -> None:
    with profile(f"replay:{saved}", label="again") as session:
        step()
    trace = session.trace.validate()
    assert trace.kernels["name"].to_list() == ["gemm"]
    assert trace.ranges.height == 0
    assert trace.meta.title == "again"
    assert trace.meta.properties["replayed_from"] == "step.gpuviz"
    assert not trace.meta.modelled
    assert session.backend.description == "replay step.gpuviz"


def test_replay_stays_modelled(tmp_path: Path) -> None:
    path = Trace({}, TraceMeta(title="m", modelled=True)).save(tmp_path / "m.gpuviz")
    with profile(f"replay:{path}") as session:
        pass
    assert session.trace.meta.modelled
    assert session.trace.meta.title == "m (replayed)"
    with profile(f"replay:{path}", label="In [17]") as session:
        pass
    assert session.trace.meta.title == "m (replayed)"
    assert session.trace.meta.properties["replayed_in"] == "In [17]"


def test_replay_of_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TraceFileError), profile(f"replay:{tmp_path / 'none.gpuviz'}"):
        pytest.fail("the body ran")
    with pytest.raises(CaptureError, match="has not been started"):
        choose_backend("replay:x.gpuviz").stop()
