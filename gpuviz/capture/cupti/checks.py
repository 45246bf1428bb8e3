"""What must be there before CUPTI can capture, asked in an order in which no answer can crash.

Nothing here initialises CUDA. That is also why `torch.cuda.is_available` is not asked: by default it counts devices
through the CUDA runtime, after which a forked worker process can no longer use CUDA.
"""

from __future__ import annotations

import glob
import os
import sys

from gpuviz.capture.cupti.control import Control, open_control
from gpuviz.capture.cupti.driver import CudaDriver, Driver
from gpuviz.capture.cupti.layouts import DTYPES, strides
from gpuviz.capture.cupti.library import driver_is_mapped, lack_of_driver
from gpuviz.capture.cupti.pool import lack_of_pool
from gpuviz.errors import CaptureError

_ELSE = "Use the backend 'torch' for the CPU, or `%gpuviz simulate H100` for a simulated GPU."
# GPUs of servers and desktops, under WSL, and of Jetson boards.
_DEVICE_FILES = ("/dev/nvidia[0-9]*", "/dev/dxg", "/dev/nvhost-gpu", "/dev/nvgpu*", "/dev/nvmap")


def probe() -> str | None:
    """Why CUPTI cannot capture here, as a sentence; None where it can. For ``auto``: it has no side effect but that
    libraries (libcuda, libcupti) are loaded."""
    reason = _torch_without_cuda()
    if reason is not None:
        return reason
    try:
        require_no_torch_profiler()
        checked_control()
    except CaptureError as error:
        return str(error)
    return None


def checked_control() -> Control:
    """The control plane, after everything that could stand in its way was asked. Raises `CaptureError`."""
    if not sys.platform.startswith("linux"):
        raise CaptureError(
            f"Tried to capture with CUPTI, which gpuviz supports on Linux; this is {sys.platform}. {_ELSE}"
        )
    reason = lack_of_pool()
    if reason is not None:
        raise CaptureError(reason)
    reason = lack_of_driver()
    if reason is not None:  # asked first: some versions of libcupti crash where there is no driver
        raise CaptureError(f"Tried to load the CUDA driver, and found none ({reason}). {_ELSE}")
    reason = lack_of_device(CudaDriver())
    if reason is not None:
        raise CaptureError(f"Tried to find a GPU: {reason}. {_ELSE}")
    control = open_control()
    require_known_records(control)
    return control


def lack_of_device(driver: Driver) -> str | None:
    """Why there is no GPU to capture; None where there seems to be one."""
    count = driver.device_count()
    if count is not None:
        return None if count else "CUDA is initialised in this process and sees no device"
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and visible.strip() in ("", "-1", "NoDevFiles"):
        return f"CUDA_VISIBLE_DEVICES={visible!r} hides all of them"
    if not any(glob.glob(pattern) for pattern in _DEVICE_FILES):
        return "the CUDA driver is installed, but there is no device file (/dev/nvidia0 and the like)"
    return None


def require_known_records(control: Control) -> None:
    """Raise where the lengths of this libcupti's records are not known, or are not what libcupti says they are."""
    for kind, size in strides(control.version).items():
        said = control.record_size(kind) if kind in DTYPES else None
        if said is not None and said != size:
            raise CaptureError(
                f"Tried to use CUPTI {control.version} ({control.path}), whose records of kind {kind} are {said} bytes "
                f"long; this gpuviz knows {size}, and would misread them. Install a newer gpuviz, or another CUPTI."
            )


def require_no_torch_profiler() -> None:
    """Raise while PyTorch's profiler records: it owns CUPTI's buffers meanwhile, even in a run for the CPU only."""
    autograd = getattr(sys.modules.get("torch"), "autograd", None)
    enabled = getattr(autograd, "_profiler_enabled", None)
    if enabled is not None and enabled():
        raise CaptureError(
            "Tried to capture with CUPTI while a torch.profiler is recording in this process: CUPTI has one set of "
            "buffers, and records would go to the wrong owner. End that profiler first (leave its `with` block, or "
            "call its stop()), or use the backend 'torch'."
        )


def graph_is_being_captured() -> bool:
    """Whether PyTorch is capturing a CUDA graph in this thread: to wait for the GPU would make that capture invalid.

    Only PyTorch can be asked without a stream to ask about.
    """
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    initialized = getattr(cuda, "is_initialized", None)
    capturing = getattr(cuda, "is_current_stream_capturing", None)
    return bool(initialized is not None and capturing is not None and initialized() and capturing())


def require_no_graph_capture() -> None:
    """Raise while a CUDA graph is being captured: nothing runs on the GPU, and what a capture has to do breaks it."""
    if graph_is_being_captured():
        raise CaptureError(
            "Tried to capture with CUPTI while a CUDA graph is being captured: waiting for the GPU would make that "
            "invalid, and nothing runs yet that could be recorded. Capture around the whole graph block, or the replay."
        )


def _torch_without_cuda() -> str | None:
    """A reason where the program uses a PyTorch for the CPU, and nothing that would use CUDA otherwise."""
    torch = sys.modules.get("torch")
    cuda = getattr(getattr(torch, "version", None), "cuda", None)
    if torch is None or cuda is not None or driver_is_mapped():
        return None
    return f"PyTorch in this process is a build without CUDA, and nothing else has loaded the CUDA driver. {_ELSE}"
