"""What CUPTI's status codes mean for a person who wants a capture, and what to do about each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from gpuviz.errors import CuptiError

SUCCESS = 0
INVALID_PARAMETER = 1
NOT_COMPATIBLE = 14
NOT_INITIALIZED = 15
QUEUE_EMPTY = 18
INVALID_KIND = 21
NOT_SUPPORTED = 27
INSUFFICIENT_PRIVILEGES = 35
MULTIPLE_SUBSCRIBERS = 39
UNKNOWN = 999

NOT_RECORDABLE_HERE = (NOT_COMPATIBLE, INVALID_KIND, NOT_SUPPORTED)
"""Statuses of a kind of record that this libcupti or this machine does not have."""

_OTHER_ROUTES = "open a trace of another tool with gpuviz.load, or use the backend 'torch'"

# Status → (what was found, what to do). The meanings are those of NVIDIA's documentation of CUptiResult.
_SENTENCES: Mapping[int, tuple[str, str]] = MappingProxyType(
    {
        INVALID_PARAMETER: ("an argument was not accepted", "Report this to gpuviz, with the versions it shows."),
        2: ("the device is not one that CUDA knows", "Look at CUDA_VISIBLE_DEVICES."),
        3: ("the CUDA context is not valid", "Restart the kernel: an earlier CUDA error may have destroyed it."),
        7: ("something else stands in the way of this call", "End other profilers in this process, then try again."),
        8: ("CUPTI ran out of memory", "Free GPU or host memory, then try again."),
        9: ("the GPU reported an error", "Look at the driver's log (dmesg, nvidia-smi)."),
        11: ("this libcupti does not have the call", "Install a newer CUPTI (CUDA 12.8 or later)."),
        12: ("a limit of CUPTI was reached", "Restart the kernel, then try again."),
        13: ("CUPTI was not ready yet", "Try again."),
        NOT_COMPATIBLE: (
            "it does not go together with what is enabled already",
            "End other profilers in this process.",
        ),
        NOT_INITIALIZED: (
            "CUPTI could not connect to the CUDA driver",
            "Check that `nvidia-smi` works here, and that the driver is not older than the CUDA of this libcupti.",
        ),
        QUEUE_EMPTY: ("there was nothing to take off", "Push before pop, on the same thread."),
        INVALID_KIND: ("this libcupti does not know this kind of record", "Install a newer CUPTI."),
        23: (
            "CUPTI is switched off because another profiler is at work",
            "Run without that profiler (nsys, ncu, a debugger).",
        ),
        26: ("another client uses the GPU's performance monitor", "End that client (DCGM, ncu), then try again."),
        NOT_SUPPORTED: ("this system or this GPU does not support it", f"Instead, {_OTHER_ROUTES}."),
        33: ("this virtual GPU does not support profiling", f"Ask for profiling on the vGPU, or {_OTHER_ROUTES}."),
        INSUFFICIENT_PRIVILEGES: (
            "this user may not profile the GPU",
            (
                "Its administrator can allow it (driver option NVreg_RestrictProfilingToAdminUsers=0; in a container "
                f"--cap-add=SYS_ADMIN). Until then, {_OTHER_ROUTES}."
            ),
        ),
        36: ("an older profiling interface is in use in this process", "Restart the kernel, then capture first."),
        38: ("this GPU does not support the old profiling interface", "Report this to gpuviz."),
        MULTIPLE_SUBSCRIBERS: (
            "nsys, ncu or another profiler owns CUPTI in this process",
            (
                "Only one can: start the kernel without nsys, ncu, compute-sanitizer or cuda-gdb, and end profilers "
                f"inside the process (JAX's, a torch.profiler). Or {_OTHER_ROUTES}."
            ),
        ),
        40: (
            "the hypervisor does not allow profiling on this virtual GPU",
            f"Ask its administrator, or {_OTHER_ROUTES}.",
        ),
        41: (
            "the GPU is in confidential-computing mode, which forbids profiling",
            f"Switch that off, or {_OTHER_ROUTES}.",
        ),
        42: ("this GPU is a mining processor, which CUPTI does not support", "Use another GPU."),
        43: ("profiling on this MIG slice is not supported", f"Use a whole GPU, or {_OTHER_ROUTES}."),
        44: ("profiling on SLI is not supported", "Switch SLI off."),
        45: ("profiling under WSL is not supported here", f"Use Linux itself, or {_OTHER_ROUTES}."),
        UNKNOWN: (
            "CUPTI failed inside and does not say why",
            (
                "It says so where the CUDA driver does not load, for one. Check `nvidia-smi`, and that one CUDA "
                "version is in use (`pip list | grep -i cuda`)."
            ),
        ),
    }
)


def sentence(status: int) -> tuple[str, str]:
    """What a status means, and what to do."""
    known = _SENTENCES.get(status)
    return known or ("gpuviz does not know this status", "Look it up in NVIDIA's documentation of CUptiResult.")


def cupti_error(call: str, status: int, tried: str) -> CuptiError:
    """The exception for a call that did not succeed. `tried`: what gpuviz wanted, as in "record kernels"."""
    found, advice = sentence(status)
    return CuptiError(f"Tried to {tried}: {found} ({call} returned {status}). {advice}", call=call, status=status)
