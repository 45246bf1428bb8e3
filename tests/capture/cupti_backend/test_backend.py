"""Captures on a fake CUPTI: what is in the trace, and that nothing stays."""

from __future__ import annotations

import os
import threading
import time

import polars as pl
import pytest

import gpuviz
from gpuviz.capture import Session
from gpuviz.capture.backend import CaptureRequest
from gpuviz.capture.cupti.layouts import Kind
from gpuviz.errors import CaptureError, CuptiError
from tests.capture.cupti_backend.conftest import BackendOf
from tests.capture.cupti_backend.fakes import FakeCupti, FakeDriver, Faults

pytestmark = pytest.mark.native


def test_a_capture_holds_what_ran(backend_of: BackendOf) -> None:
    cupti = FakeCupti()
    before = time.time_ns()
    with Session(backend_of(cupti), label="two kernels") as session:
        cupti.launch("saxpy", duration_ns=4000)
        cupti.launch("gemm", driver=True, duration_ns=9000)
        cupti.malloc()
    trace = session.trace
    trace.validate()
    assert trace.kernels["name"].cast(pl.String).to_list() == ["saxpy", "gemm"]
    assert (trace.kernels["end_ns"] - trace.kernels["start_ns"]).to_list() == [4000, 9000]
    assert trace.api_calls["name"].cast(pl.String).to_list() == ["cudaLaunchKernel", "cuLaunchKernel", "cudaMalloc"]
    assert trace.kernels["api_id"].to_list() == [0, 1]
    assert trace.devices["name"].to_list() == ["Fake 100"]
    assert trace.threads["name"].to_list() == [threading.current_thread().name]
    meta = trace.meta
    assert (meta.title, meta.source, meta.modelled, meta.dropped_records) == ("two kernels", "cupti", False, 0)
    assert meta.versions["cupti"] == "13.0"
    assert meta.versions["cuda_driver"] == "13.0"
    assert meta.properties["cupti_control"] == "fake"
    assert meta.overhead_ns is not None
    assert meta.overhead_ns > 0
    assert meta.t0_unix_ns is not None
    assert 0 <= meta.t0_unix_ns - before < 5 * 10**9  # the clocks' offset of 7 s is taken out


def test_the_fence_itself_is_not_in_the_trace(backend_of: BackendOf) -> None:
    cupti = FakeCupti()
    driver = FakeDriver(cupti, contexts=2)
    with Session(backend_of(cupti, driver)) as session:
        cupti.launch()
        cupti.synchronize(driver.contexts()[0])  # the user's own
        cupti.launch()
    assert session.trace.api_calls["name"].cast(pl.String).to_list() == [
        "cudaLaunchKernel",
        "cuCtxSynchronize",
        "cudaLaunchKernel",
    ]
    assert session.trace.syncs.height == 1
    assert session.trace.meta.dropped_records == 0
    assert len(driver.synchronized) == 4  # both contexts, before and after


def test_without_a_context_nothing_is_waited_for(backend_of: BackendOf) -> None:
    cupti = FakeCupti()
    driver = FakeDriver(cupti, contexts=0)
    with Session(backend_of(cupti, driver)) as session:
        pass
    assert driver.synchronized == []
    assert session.trace.kernels.height == 0
    assert session.trace.meta.dropped_records == 0
    assert session.trace.diagnostics.height == 0


def test_the_right_things_are_recorded(backend_of: BackendOf) -> None:
    cupti = FakeCupti()
    with Session(backend_of(cupti)):
        assert {Kind.CONCURRENT_KERNEL, Kind.MEMCPY, Kind.MEMSET, Kind.SYNCHRONIZATION} <= cupti.enabled
        assert {211, 430, 214, 431, 311, 165, 131, 41, 20} <= cupti.calls_enabled["runtime"]
        assert {307, 652, 442, 653, 514, 17, 800} <= cupti.calls_enabled["driver"]
        assert 138 not in cupti.calls_enabled["runtime"]  # cudaEventQuery, which programs poll
    assert cupti.is_clean
    assert cupti.flushes[-1] is True


def test_captures_in_a_row(backend_of: BackendOf) -> None:
    cupti = FakeCupti()
    backend = backend_of(cupti)
    for count in (1, 3, 2):
        with Session(backend) as session:
            for _ in range(count):
                cupti.launch()
        assert session.trace.kernels.height == count
        assert cupti.is_clean
    assert cupti.registrations == 3  # somebody else may have registered in between


def test_around_an_exception_the_trace_is_there_and_the_exception_goes_on(backend_of: BackendOf) -> None:
    cupti = FakeCupti()
    session = Session(backend_of(cupti))

    def cell() -> None:
        with session:
            cupti.launch()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        cell()
    assert session.trace.kernels.height == 1
    assert cupti.is_clean


def test_an_interrupt_while_it_ends_leaves_nothing_on(backend_of: BackendOf) -> None:
    class Interrupted(FakeDriver):
        def synchronize(self, context: object) -> int:
            if self.synchronized:
                raise KeyboardInterrupt
            return super().synchronize(context)  # type: ignore[arg-type]

    cupti = FakeCupti()
    session = Session(backend_of(cupti, Interrupted(cupti)))
    session.start()
    cupti.launch()
    with pytest.raises(KeyboardInterrupt):
        session.stop()
    assert cupti.is_clean
    with Session(backend_of(cupti)) as again:
        cupti.launch()
    assert again.trace.kernels.height == 1


def test_threads_have_their_own_calls(backend_of: BackendOf) -> None:
    cupti = FakeCupti()

    def work() -> None:
        for _ in range(50):
            cupti.launch()

    with Session(backend_of(cupti)) as session:
        threads = [threading.Thread(target=work, name=f"worker {index}") for index in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    trace = session.trace
    trace.validate()
    assert trace.kernels.height == 200
    assert trace.kernels["api_id"].null_count() == 0
    assert sorted(trace.api_calls.group_by("thread_id").len()["len"].to_list()) == [50] * 4 or (
        trace.threads.height < 4  # the system gives a thread the number of one that has ended
    )


def test_many_records(backend_of: BackendOf) -> None:
    cupti = FakeCupti()
    with Session(backend_of(cupti)) as session:
        cupti.launch_many(200_000)
    assert session.trace.kernels.height == 200_000
    assert session.trace.meta.dropped_records == 0
    assert session.trace.kernels["name"].cast(pl.String).unique().to_list() == ["saxpy"]


def test_ranges_are_on_the_clock_of_the_kernels(backend_of: BackendOf) -> None:
    cupti = FakeCupti()
    with Session(backend_of(cupti)) as session, gpuviz.region("load"):
        cupti.launch()
    region = session.trace.ranges.row(0, named=True)
    assert region["start_ns"] <= session.trace.api_calls["start_ns"][0] < region["start_ns"] + 10**9


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_fork_leaves_the_capture_to_its_parent(backend_of: BackendOf) -> None:
    cupti = FakeCupti()
    backend = backend_of(cupti)
    backend.start(CaptureRequest())
    cupti.launch()
    child = os.fork()
    if child == 0:
        outcomes = []
        for attempt in (backend.stop, lambda: backend_of(cupti).start(CaptureRequest())):
            try:
                attempt()
            except CaptureError as error:
                outcomes.append("fork" in str(error) or "runs in this process" in str(error))
        os._exit(0 if outcomes == [True, True] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    cupti.launch()
    assert backend.stop().kernels.height == 2
    assert cupti.is_clean


def test_start_and_stop_out_of_order(backend_of: BackendOf) -> None:
    cupti = FakeCupti()
    backend = backend_of(cupti)
    with pytest.raises(CaptureError, match="not running"):
        backend.stop()
    backend.start(CaptureRequest())
    with pytest.raises(CaptureError, match="running already"):
        backend.start(CaptureRequest())
    with pytest.raises(CaptureError, match="another one runs"):
        backend_of(FakeCupti()).start(CaptureRequest())
    cupti.launch()
    assert backend.stop().kernels.height == 1
    assert backend.description == "CUPTI 13.0 (fake)"


def test_an_unknown_version_is_refused_before_anything_is_on(backend_of: BackendOf) -> None:
    cupti = FakeCupti(version=140000)
    with pytest.raises(CaptureError, match="140000"):
        backend_of(cupti).start(CaptureRequest())
    assert (cupti.registrations, cupti.is_clean) == (0, True)


def test_kinds_that_this_cupti_lacks_are_done_without(backend_of: BackendOf) -> None:
    cupti = FakeCupti(faults=Faults(unsupported={Kind.OVERHEAD, Kind.MEMCPY2}))
    with Session(backend_of(cupti)) as session:
        cupti.launch()
    assert session.trace.kernels.height == 1
    assert "not_recorded_overhead" in session.trace.meta.properties
    with pytest.raises(CuptiError, match="does not know this kind"):
        backend_of(FakeCupti(faults=Faults(unsupported={Kind.CONCURRENT_KERNEL}))).start(CaptureRequest())


def test_without_compiled_code_the_reason_is_a_sentence(backend_of: BackendOf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuviz._native.cupti_buffers.available", lambda: False)
    cupti = FakeCupti()
    with pytest.raises(CaptureError, match="C compiler"):
        backend_of(cupti).start(CaptureRequest())
    assert cupti.is_clean
