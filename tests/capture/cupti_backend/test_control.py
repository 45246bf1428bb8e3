"""One suite for both control planes: over fakes of what lies below them, and over the real libcupti."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from importlib import metadata
from types import SimpleNamespace
from typing import Any

import pytest

from gpuviz.capture.cupti import control as control_module
from gpuviz.capture.cupti.control import Control, CtypesControl, CuptiPythonControl
from gpuviz.capture.cupti.layouts import Kind
from gpuviz.capture.cupti.library import lack_of_driver
from gpuviz.errors import CaptureError, CuptiError

ORACLE = "13.0.85"
VERSION = 130001


class FakeLibrary:
    """A libcupti as ctypes would show it: functions that return a status and write through pointers."""

    def __init__(self) -> None:
        self.status: dict[str, int] = {}
        self.calls: list[tuple[object, ...]] = []
        self.dropped = 3

    def __getattr__(self, name: str) -> Callable[..., int]:
        if not name.startswith("cupti") or name == "cuptiActivityGetStructSize":
            raise AttributeError(name)
        return lambda *arguments: self._answer(name, arguments)

    def _answer(self, name: str, arguments: tuple[Any, ...]) -> int:
        plain = [argument.value for argument in arguments if hasattr(argument, "value")]
        pointers = [argument._obj for argument in arguments if hasattr(argument, "_obj")]
        self.calls.append((name, *plain))
        values = {
            "cuptiGetVersion": VERSION,
            "cuptiGetTimestamp": 1_800_000_000_000_000_000,
            "cuptiActivityGetNumDroppedRecords": self.dropped,
            "cuptiActivityPopExternalCorrelationId": 42,
        }
        if name == "cuptiGetCallbackName":
            return 1
        for pointer in pointers:
            pointer.value = values[name]
        return self.status.get(name, 0)


class FakeCuptiPython:
    """cupti-python's module, on top of the same library: it raises where that returns a status."""

    class cuptiError(Exception):  # noqa: N801 - its name in cupti-python
        def __init__(self, status: int) -> None:
            self.status = status

    def __init__(self, library: FakeLibrary) -> None:
        self.library = library

    def _run(self, name: str, *arguments: object) -> None:
        status = getattr(self.library, name)(*(SimpleNamespace(value=argument) for argument in arguments))
        if status:
            raise self.cuptiError(status)

    def activity_enable(self, kind: int) -> None:
        self._run("cuptiActivityEnable", kind)

    def activity_enable_and_dump(self, kind: int) -> None:
        self._run("cuptiActivityEnableAndDump", kind)

    def activity_disable(self, kind: int) -> None:
        self._run("cuptiActivityDisable", kind)

    def activity_enable_runtime_api(self, callback_id: int, on: int) -> None:
        self._run("cuptiActivityEnableRuntimeApi", callback_id, on)

    def activity_enable_driver_api(self, callback_id: int, on: int) -> None:
        self._run("cuptiActivityEnableDriverApi", callback_id, on)

    def activity_flush_all(self, flag: int) -> None:
        self._run("cuptiActivityFlushAll", flag)

    def activity_get_num_dropped_records(self, context: int, stream: int, address: int) -> None:
        self._run("cuptiActivityGetNumDroppedRecords", stream)
        ctypes.c_size_t.from_address(address).value = self.library.dropped

    def get_timestamp(self) -> int:
        self._run("cuptiGetTimestamp")
        return 1_800_000_000_000_000_000

    def activity_push_external_correlation_id(self, kind: int, external_id: int) -> None:
        self._run("cuptiActivityPushExternalCorrelationId", kind, external_id)

    def activity_pop_external_correlation_id(self, kind: int) -> int:
        self._run("cuptiActivityPopExternalCorrelationId", kind)
        return 42


type Faked = tuple[Control, FakeLibrary]


@pytest.fixture(params=["ctypes", "cupti-python"])
def faked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Faked:
    library = FakeLibrary()
    direct = CtypesControl(library, "/nowhere/libcupti.so.13")  # type: ignore[arg-type]
    if request.param == "ctypes":
        return direct, library
    monkeypatch.setattr(control_module, "mapped_cupti", lambda: [direct.path])
    return CuptiPythonControl(FakeCuptiPython(library), "13.0.1", direct), library


CALLS: list[tuple[str, Callable[[Control], object], list[tuple[object, ...]]]] = [
    ("register_callbacks", lambda c: c.register_callbacks(1, 2), [("cuptiActivityRegisterCallbacks", 1, 2)]),
    ("enable", lambda c: c.enable(Kind.MEMCPY), [("cuptiActivityEnable", 1)]),
    ("enable a place", lambda c: c.enable(Kind.CONTEXT), [("cuptiActivityEnableAndDump", 9)]),
    ("disable", lambda c: c.disable(Kind.CONTEXT), [("cuptiActivityDisable", 9)]),
    ("runtime on", lambda c: c.enable_runtime_api(211, True), [("cuptiActivityEnableRuntimeApi", 211, 1)]),
    ("driver off", lambda c: c.enable_driver_api(307, False), [("cuptiActivityEnableDriverApi", 307, 0)]),
    ("flush", lambda c: c.flush(forced=False), [("cuptiActivityFlushAll", 0)]),
    ("flush forced", lambda c: c.flush(forced=True), [("cuptiActivityFlushAll", 1)]),
    ("dropped", lambda c: c.dropped(), [("cuptiActivityGetNumDroppedRecords", 0)]),
    ("timestamp", lambda c: c.timestamp(), [("cuptiGetTimestamp",)]),
    ("push", lambda c: c.push(7), [("cuptiActivityPushExternalCorrelationId", 5, 7)]),
    ("pop", lambda c: c.pop(), [("cuptiActivityPopExternalCorrelationId", 5)]),
]


@pytest.mark.parametrize(("_name", "work", "expected"), CALLS, ids=[name for name, _, _ in CALLS])
def test_each_call_reaches_libcupti_with_its_arguments(
    faked: Faked, _name: str, work: Callable[[Control], object], expected: list[tuple[object, ...]]
) -> None:
    control, library = faked
    library.calls.clear()
    work(control)
    assert library.calls == expected


def test_answers(faked: Faked) -> None:
    control, _ = faked
    assert (control.version, control.dropped(), control.pop()) == (VERSION, 3, 42)
    assert control.timestamp() == 1_800_000_000_000_000_000
    assert control.record_size(Kind.MEMCPY) is None


@pytest.mark.parametrize("status", [1, 15, 35, 39, 999, 4711])
@pytest.mark.parametrize(("_name", "work", "expected"), CALLS, ids=[name for name, _, _ in CALLS])
def test_every_status_of_every_call_is_an_error_with_call_and_status(
    faked: Faked, _name: str, work: Callable[[Control], object], expected: list[tuple[object, ...]], status: int
) -> None:
    control, library = faked
    library.status[str(expected[0][0])] = status
    with pytest.raises(CuptiError, match=f"returned {status}") as failure:
        work(control)
    assert failure.value.status == status
    if status == 39:
        assert "nsys, ncu or another profiler owns CUPTI" in str(failure.value)


def test_cupti_python_without_a_driver_is_an_error_without_a_status(monkeypatch: pytest.MonkeyPatch) -> None:
    library = FakeLibrary()
    module = FakeCuptiPython(library)

    def no_driver() -> int:
        raise RuntimeError("CUDA driver is not found")

    module.get_timestamp = no_driver  # type: ignore[method-assign]
    direct = CtypesControl(library, "/nowhere/libcupti.so.13")  # type: ignore[arg-type]
    with pytest.raises(CuptiError, match="CUDA driver is not found") as failure:
        CuptiPythonControl(module, "13.0.1", direct)
    assert failure.value.status is None


def test_cupti_python_that_loads_a_second_libcupti_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    library = FakeLibrary()
    direct = CtypesControl(library, "/one/libcupti.so.13")  # type: ignore[arg-type]
    monkeypatch.setattr(control_module, "mapped_cupti", lambda: ["/one/libcupti.so.13", "/two/libcupti.so.13"])
    with pytest.raises(CaptureError, match=r"/one/libcupti\.so\.13 and /two/libcupti\.so\.13"):
        CuptiPythonControl(FakeCuptiPython(library), "13.0.1", direct)


# The real library, as far as it works without a driver.


@pytest.fixture(scope="module")
def real() -> CtypesControl:
    try:
        found, files = metadata.version("nvidia-cuda-cupti"), metadata.files("nvidia-cuda-cupti") or []
    except metadata.PackageNotFoundError:
        pytest.skip(f"the real libcupti is not installed (pip install nvidia-cuda-cupti=={ORACLE})")
    if found != ORACLE:
        pytest.skip(f"nvidia-cuda-cupti is {found}; only {ORACLE} is sure to work without a driver")
    path = str(next(file for file in files if file.name.startswith("libcupti.so")).locate())
    return CtypesControl(ctypes.CDLL(path), path)


@pytest.fixture(params=["ctypes", "cupti-python"])
def real_control(request: pytest.FixtureRequest, real: CtypesControl) -> Control:
    if request.param == "ctypes":
        return real
    pytest.importorskip("cupti.cupti", reason="cupti-python is not installed (pip install cupti-python==13.0.1)")
    reason = lack_of_driver()
    if reason is not None:
        pytest.skip(f"cupti-python calls nothing without a CUDA driver ({reason})")
    fitting = CuptiPythonControl.fitting(real)
    assert fitting is not None
    return fitting


def test_version_clock_and_registration(real_control: Control) -> None:
    assert real_control.version == VERSION
    before = time.time_ns()
    now = real_control.timestamp()
    assert before - 10**6 <= now <= time.time_ns() + 10**6
    request = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(lambda *arguments: None)
    address = ctypes.cast(request, ctypes.c_void_p).value
    assert address is not None
    real_control.register_callbacks(address, address)
    assert real_control.dropped() == 0


def test_names_come_from_libcupti(real_control: Control) -> None:
    runtime, driver = real_control.callback_names("runtime"), real_control.callback_names("driver")
    assert (runtime[211], driver[307], driver[800]) == (
        "cudaLaunchKernel_v7000",
        "cuLaunchKernel",
        "cuCtxSynchronize_v2",
    )
    assert max(runtime) > 500
    assert max(driver) > 800


@pytest.mark.skipif(lack_of_driver() is None, reason="with a driver these calls succeed")
def test_without_a_driver_recording_is_refused_with_a_sentence(real: CtypesControl) -> None:
    for work in (lambda: real.enable(Kind.CONCURRENT_KERNEL), lambda: real.flush(forced=False), lambda: real.push(1)):
        with pytest.raises(CuptiError, match="nvidia-smi") as failure:
            work()
        assert failure.value.status == 999


def test_cupti_python_fits_only_the_libcupti_that_it_belongs_to(real: CtypesControl) -> None:
    elsewhere = CtypesControl(FakeLibrary(), "/elsewhere/libcupti.so.13")  # type: ignore[arg-type]
    assert CuptiPythonControl.fitting(elsewhere) is None
