"""Which libcupti, which calls, which sentence, and whether there is anything to capture at all."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import types
from pathlib import Path

import pytest

from gpuviz.capture.cupti import checks, library, statuses
from gpuviz.capture.cupti.allowlist import Allowlist, base_name
from gpuviz.capture.cupti.checks import lack_of_device, probe, require_known_records
from gpuviz.capture.cupti.driver import CudaDriver
from gpuviz.capture.cupti.layouts import Kind, strides
from gpuviz.capture.cupti.run import ClockReading, clock_pairs, version_words
from gpuviz.capture.recording import ClockPair
from gpuviz.errors import CaptureError
from tests.capture.cupti_backend.fakes import FakeCupti, FakeDriver

LINE = "7f0000000000-7f0000001000 r-xp 00000000 08:01 42{pad}{path}\n"


def maps_of(tmp_path: Path, *paths: object) -> Path:
    maps = tmp_path / "maps"
    text = "".join(LINE.format(pad=" " * 10, path=path) for path in paths)
    maps.write_text(text + "7f00-7f01 rw-p 00000000 00:00 0 \n7ffc-7ffd rw-p 00000000 00:00 0    [stack]\n")
    return maps


def test_the_mapped_libcupti_is_found_once(tmp_path: Path) -> None:
    real = tmp_path / "with space" / "libcupti.so.13"
    real.parent.mkdir()
    real.touch()
    (link := tmp_path / "libcupti.so").symlink_to(real)
    maps = maps_of(tmp_path, real, real, link, "/usr/lib/libcudart.so.12.8.90", "/usr/lib/libcupti_helper.so")
    assert library.mapped_cupti(maps) == [str(real)]
    assert library.mapped_runtime_major(maps) == 12
    assert not library.driver_is_mapped(maps)
    assert library.driver_is_mapped(maps_of(tmp_path, "/usr/lib/libcuda.so.580.65.06"))


def test_two_are_refused_by_name(tmp_path: Path) -> None:
    maps = maps_of(tmp_path, "/one/libcupti.so.13", "/two/libcupti.so.2025.1.1")
    with pytest.raises(CaptureError, match=r"/one/libcupti\.so\.13 and /two/libcupti\.so\.2025"):
        library.find_cupti(maps)


def test_none_says_what_was_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "installed_cupti", lambda maps: iter(["/nowhere/libcupti.so.13"]))
    with pytest.raises(CaptureError, match=r"/nowhere/libcupti\.so\.13"):
        library.find_cupti(maps_of(tmp_path))


def test_the_major_version_of_the_runtime_in_use_comes_first(tmp_path: Path) -> None:
    order = [path for path in library.installed_cupti(maps_of(tmp_path, "/x/libcudart.so.12")) if "/" not in path]
    assert order == ["libcupti.so.12", "libcupti.so.13"]
    assert next(path for path in library.installed_cupti(maps_of(tmp_path)) if "/" not in path) == "libcupti.so.13"


@pytest.mark.parametrize("status", [*range(1, 60), 999])
def test_every_status_is_a_sentence_with_advice(status: int) -> None:
    error = statuses.cupti_error("cuptiActivityEnable", status, "record kernels")
    text = str(error)
    assert text.startswith("Tried to record kernels: ")
    assert f"(cuptiActivityEnable returned {status}). " in text
    assert text.endswith(".")
    assert (error.call, error.status) == ("cuptiActivityEnable", status)


def test_names_of_calls_lose_version_and_variant() -> None:
    assert base_name("cudaLaunchKernel_ptsz_v7000") == "cudaLaunchKernel"
    assert base_name("cudaMemcpy_ptds_v7000") == "cudaMemcpy"
    assert base_name("cuMemcpyHtoDAsync_v2_ptsz") == "cuMemcpyHtoDAsync"
    assert base_name("cuCtxSynchronize_v2") == "cuCtxSynchronize"
    assert base_name("cudaMemset2D_v3020") == "cudaMemset2D"


def test_the_allowlist_knows_launches_by_whatever_name() -> None:
    class Named(FakeCupti):
        def callback_names(self, api: str) -> dict[int, str]:
            if api == "driver":
                return {}  # a libcupti that names nothing: our own table serves
            return {1: "cudaLaunchKernelExC_ptsz_v11060", 2: "cudaGetDevice_v3020", 3: "__cudaLaunchKernel_v13000"}

    allowlist = Allowlist(Named())
    assert allowlist.runtime == (1, 3)
    assert allowlist.enqueuing("runtime") == {1, 3}
    assert {307, 442, 652, 653, 477, 478, 514, 515} <= set(allowlist.driver)
    assert allowlist.synchronizing == {17, 800}
    assert not {17, 126, 527} & allowlist.enqueuing("driver")  # they wait, or run on the host
    assert allowlist.callback_names()["runtime", 1] == "cudaLaunchKernelExC_ptsz"


def test_record_lengths_that_libcupti_contradicts_are_refused() -> None:
    class Longer(FakeCupti):
        def record_size(self, kind: int) -> int | None:
            return strides(self.version)[kind] + (8 if kind == Kind.MEMCPY else 0)

    with pytest.raises(CaptureError, match="104 bytes"):
        require_known_records(Longer())
    require_known_records(FakeCupti())
    with pytest.raises(CaptureError):
        require_known_records(FakeCupti(version=25))


def test_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    cupti = FakeCupti()
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(checks, "_DEVICE_FILES", ("/nowhere/nvidia*",))
    assert "no device file" in str(lack_of_device(FakeDriver(cupti, contexts=0)))
    assert lack_of_device(FakeDriver(cupti)) is None
    monkeypatch.setattr(checks, "_DEVICE_FILES", ("/dev/null",))
    assert lack_of_device(FakeDriver(cupti, contexts=0)) is None
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert "CUDA_VISIBLE_DEVICES='-1'" in str(lack_of_device(FakeDriver(cupti, contexts=0)))


def test_a_torch_without_cuda_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = types.SimpleNamespace(version=types.SimpleNamespace(cuda=None), autograd=types.SimpleNamespace())
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert "without CUDA" in str(probe())


def test_the_probe_answers_with_a_sentence_and_changes_nothing() -> None:
    """In a fresh process: neither torch nor cupti-python is imported, nor CUDA initialised."""
    code = (
        "import sys; from gpuviz.capture.cupti.checks import probe; reason = probe();"
        "assert 'torch' not in sys.modules and 'cupti.cupti' not in sys.modules; print(reason)"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    reason = answer.stdout.strip()
    if library.lack_of_driver() is None:
        assert reason == "None" or reason.endswith(".")
    else:
        assert reason.startswith("Tried to ")
        assert reason.endswith(".")


@pytest.mark.skipif(library.lack_of_driver() is None, reason="there is a CUDA driver")
def test_without_a_driver_there_are_no_contexts() -> None:
    driver = CudaDriver()
    assert (driver.version(), driver.device_count(), driver.contexts(), driver.device_facts()) == (None, None, [], {})


@pytest.mark.parametrize(("version", "words"), [(26, "12.8"), (28, "12.9"), (130001, "13.0"), (130500, "13.5")])
def test_versions_in_cuda_s_words(version: int, words: str) -> None:
    assert version_words(version) == words


def test_clocks_that_agree_run_at_one_rate() -> None:
    first = ClockReading(ClockPair(1_000_000, 5_000_000), uncertainty_ns=50)
    near = ClockReading(ClockPair(2_000_000, 6_000_080), uncertainty_ns=40)
    assert clock_pairs(first, near) == (first.pair, ClockPair(2_000_000, 6_000_000))
    far = ClockReading(ClockPair(2_000_000, 6_000_091), uncertainty_ns=40)
    assert clock_pairs(first, far) == (first.pair, far.pair)


def test_the_functions_of_the_pool_are_real_addresses() -> None:
    from gpuviz._native import cupti_buffers

    if not cupti_buffers.available():
        pytest.skip("no compiled library")
    assert all(address > 4096 for address in cupti_buffers.callbacks())
    assert ctypes.sizeof(ctypes.c_void_p) == 8
