"""What can go wrong between a program and its records, and what the user is told."""

from __future__ import annotations

import sys
import threading
import types
import warnings

import polars as pl
import pytest

from gpuviz.capture import Session
from gpuviz.capture.backend import CaptureRequest
from gpuviz.capture.cupti.layouts import Kind
from gpuviz.errors import CaptureError, CuptiError, DroppedRecordsWarning
from gpuviz.model import Trace
from tests.capture.cupti_backend.conftest import BackendOf
from tests.capture.cupti_backend.fakes import FakeCupti, FakeDriver, Faults

pytestmark = pytest.mark.native

STARTING = ["register_callbacks", "enable", "enable_runtime_api", "enable_driver_api", "timestamp"]


def told(session: Session) -> list[str]:
    """Stop the session and return what it warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        session.stop()
    assert {warning.category for warning in caught} <= {DroppedRecordsWarning}
    return [str(warning.message) for warning in caught]


def diagnosed(trace: Trace) -> set[str]:
    return set(trace.diagnostics["code"].cast(pl.String).to_list())


@pytest.mark.parametrize("call", STARTING)
@pytest.mark.parametrize(
    ("status", "sentence"),
    [(39, "nsys, ncu or another profiler owns CUPTI"), (999, "failed inside"), (35, "may not profile"), (15, "driver")],
)
def test_a_start_that_fails_says_why_and_leaves_nothing_on(
    backend_of: BackendOf, call: str, status: int, sentence: str
) -> None:
    cupti = FakeCupti(faults=Faults(status={call: status}))
    with pytest.raises(CuptiError, match=sentence) as failure, Session(backend_of(cupti)):
        raise AssertionError("it must not run")
    assert (failure.value.call, failure.value.status) == (call, status)
    assert cupti.is_clean
    cupti.faults.status.clear()
    with Session(backend_of(cupti)) as session:  # and nothing stands in the way of the next one
        cupti.launch()
    assert session.trace.kernels.height == 1


@pytest.mark.parametrize("call", ["flush", "disable", "enable_runtime_api", "dropped"])
@pytest.mark.parametrize("status", [39, 999])
def test_an_end_that_fails_keeps_what_it_has_and_says_so(backend_of: BackendOf, call: str, status: int) -> None:
    cupti = FakeCupti()
    session = Session(backend_of(cupti)).start()
    cupti.launch()
    if call == "flush":
        cupti.flush(forced=False)  # what has come before the failure is kept
    cupti.faults.status[call] = status
    (*_, message) = told(session)
    assert f"returned {status}" in message
    assert session.trace.kernels.height == 1
    assert session.trace.meta.dropped_records is None  # unknown, and not 0
    assert f"returned {status}" in session.trace.meta.properties["may_be_missing"]
    assert cupti.is_clean


def test_records_that_arrive_after_the_flush_has_returned_are_waited_for(backend_of: BackendOf) -> None:
    cupti = FakeCupti(faults=Faults(delay_s=0.15))
    session = Session(backend_of(cupti)).start()
    others = [threading.Thread(target=cupti.launch_many, args=(1000,)) for _ in range(3)]
    for other in others:
        other.start()
    for other in others:
        other.join()
    cupti.launch()
    assert told(session) == []
    assert session.trace.kernels.height == 3001
    assert session.trace.meta.dropped_records == 0
    cupti.wait()


def test_records_that_come_only_by_force(backend_of: BackendOf) -> None:
    cupti = FakeCupti(faults=Faults(withheld=True))
    session = Session(backend_of(cupti, fence_timeout_s=0.1)).start()
    cupti.launch()
    assert told(session) == []
    assert True in cupti.flushes
    assert session.trace.kernels.height == 1
    assert session.trace.api_calls.height == 1  # the fence's own call is not shown


def test_records_that_never_come_are_not_waited_for_for_ever(backend_of: BackendOf) -> None:
    cupti = FakeCupti(faults=Faults(lost=True))
    session = Session(backend_of(cupti, fence_timeout_s=0.1)).start()
    cupti.launch()
    (message,) = told(session)
    assert "did not deliver" in message
    assert cupti.flushes[-1] is True
    assert session.trace.meta.dropped_records is None
    assert cupti.is_clean


def test_success_without_a_single_kernel_is_loud(backend_of: BackendOf) -> None:
    cupti = FakeCupti(faults=Faults(silent=True))
    session = Session(backend_of(cupti)).start()
    for _ in range(3):
        cupti.launch()
    (message,) = told(session)
    assert message.startswith("3 calls put work on the GPU, and CUPTI recorded no kernel")
    assert "no_gpu_activity" in diagnosed(session.trace)


def test_a_cell_that_only_allocates_is_not_accused(backend_of: BackendOf) -> None:
    cupti = FakeCupti(faults=Faults(silent=True))
    session = Session(backend_of(cupti)).start()
    cupti.malloc()
    assert told(session) == []


def test_dropped_records_are_counted(backend_of: BackendOf) -> None:
    cupti = FakeCupti()
    cupti.faults.dropped = 1000  # of before the capture
    session = Session(backend_of(cupti)).start()
    cupti.launch()
    cupti.faults.dropped = 12
    (message,) = told(session)
    assert "12 records were lost" in message
    assert session.trace.meta.dropped_records == 12
    assert "records_dropped" in diagnosed(session.trace)


def test_full_memory_is_a_number_where_cupti_counts(backend_of: BackendOf) -> None:
    cupti = FakeCupti()
    session = Session(backend_of(cupti, memory_bytes=8 << 20)).start()
    cupti.launch_many(80_000)  # 20 MB
    cupti.flush(forced=False)
    assert cupti.not_served > 0
    cupti.faults.dropped = 5
    (message,) = told(session)
    assert "5 records were lost" in message
    assert session.trace.meta.dropped_records == 5
    assert 0 < session.trace.kernels.height < 80_000


def test_full_memory_is_unknown_where_cupti_counts_nothing(backend_of: BackendOf) -> None:
    """Where old and new calls of CUPTI are mixed in a process its count stays 0 (pytorch/pytorch#192094)."""
    cupti = FakeCupti()
    session = Session(backend_of(cupti, memory_bytes=8 << 20)).start()
    cupti.launch_many(80_000)
    cupti.flush(forced=False)
    (message,) = told(session)
    assert "how many are missing is unknown" in message
    assert session.trace.meta.dropped_records is None


def test_before_12_9_no_request_is_refused_and_what_is_overwritten_is_counted(backend_of: BackendOf) -> None:
    cupti = FakeCupti(version=26)
    session = Session(backend_of(cupti, memory_bytes=8 << 20)).start()
    count = 80_000
    cupti.launch_many(count)
    cupti.flush(forced=False)
    assert cupti.not_served == 0
    (message,) = told(session)
    trace = session.trace
    assert trace.meta.dropped_records is not None
    assert trace.meta.dropped_records > 0
    assert "records were lost" in message
    shown = trace.kernels.height + trace.api_calls.height
    assert shown + trace.meta.dropped_records == 2 * count
    assert trace.kernels["correlation_id"].max() == trace.api_calls["correlation_id"].max()  # the last are there


def test_buffers_of_another_profiler_make_the_count_unknown(backend_of: BackendOf) -> None:
    cupti = FakeCupti()
    session = Session(backend_of(cupti)).start()
    cupti.launch()
    cupti.return_foreign_buffer()
    (message,) = told(session)
    assert "another profiler's" in message
    assert session.trace.meta.dropped_records is None


def test_bytes_that_nobody_knows_are_reported(backend_of: BackendOf) -> None:
    """They also hide what comes after them in their buffer: here the record that marks the end."""
    cupti = FakeCupti()
    session = Session(backend_of(cupti, fence_timeout_s=0.1)).start()
    cupti.launch()
    cupti.emit_unknown_kind()
    (message,) = told(session)
    assert "did not deliver" in message
    assert "records_undecoded" in diagnosed(session.trace)
    assert session.trace.kernels.height == 1


def test_a_cuda_error_of_the_program_is_named(backend_of: BackendOf) -> None:
    cupti = FakeCupti()
    session = Session(backend_of(cupti, FakeDriver(cupti, status=700))).start()
    cupti.launch()
    (message,) = told(session)
    assert "CUDA error 700" in message
    assert session.trace.kernels.height == 1


def test_no_capture_beside_a_torch_profiler(backend_of: BackendOf, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = types.SimpleNamespace(autograd=types.SimpleNamespace(_profiler_enabled=lambda: True))
    monkeypatch.setitem(sys.modules, "torch", torch)
    cupti = FakeCupti()
    with pytest.raises(CaptureError, match=r"torch\.profiler is recording"):
        backend_of(cupti).start(CaptureRequest())
    assert cupti.registrations == 0


def test_a_cuda_graph_that_is_being_captured_is_not_broken(
    backend_of: BackendOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    cupti = FakeCupti()
    driver = FakeDriver(cupti)
    capturing = types.SimpleNamespace(is_initialized=lambda: True, is_current_stream_capturing=lambda: True)
    session = Session(backend_of(cupti, driver)).start()
    cupti.launch()
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=capturing))
    waited = len(driver.synchronized)
    (message,) = told(session)
    assert "A CUDA graph was being captured" in message
    assert session.trace.meta.dropped_records is None
    with pytest.raises(CaptureError, match="CUDA graph is being captured"):
        backend_of(cupti, driver).start(CaptureRequest())
    assert len(driver.synchronized) == waited


@pytest.mark.torch
def test_no_capture_beside_the_real_torch_profiler(backend_of: BackendOf) -> None:
    from torch.profiler import ProfilerActivity, profile

    cupti = FakeCupti()
    recording, refused = profile(activities=[ProfilerActivity.CPU]), pytest.raises(CaptureError, match="is recording")
    with recording, refused:
        backend_of(cupti).start(CaptureRequest())
    backend = backend_of(cupti)
    backend.start(CaptureRequest())
    cupti.launch()
    assert backend.stop().kernels.height == 1


def test_kinds_that_were_not_asked_for_do_no_harm(backend_of: BackendOf) -> None:
    """Another library may have switched kinds on; they are walked over."""
    from gpuviz.capture.cupti.records import blank

    cupti = FakeCupti()
    session = Session(backend_of(cupti)).start()
    cupti.launch()
    cupti.emit(blank(Kind.EXTERNAL_CORRELATION, 3))
    session.stop()
    assert session.trace.kernels.height == 1
