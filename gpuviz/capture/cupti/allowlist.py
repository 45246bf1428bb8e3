"""Which CUDA calls a capture records.

All of them would cost more than they tell: a training step polls events and asks for attributes far more often than it
launches. Recorded is what puts work on a GPU, waits for it, or allocates for it, in the runtime and in the driver:
Triton, torch.compile, CuPy and JAX launch through the driver.

Ids are found by name, because libcupti's own list of names grows with its version while the ids of a name stay.
"""

from __future__ import annotations

import re

from gpuviz.capture.cupti.callback_names import DRIVER_CALLS, RUNTIME_CALLS, shown_name
from gpuviz.capture.cupti.control import Control

# The same call on the per-thread default stream (ptds: it waits, ptsz: it does not), and a driver call's next version.
_VARIANT = re.compile(r"(_v\d)?(_pt(sz|ds))?$")

_RUNTIME = re.compile(
    r"""
    (__)?cudaLaunch(Kernel|KernelExC|CooperativeKernel|CooperativeKernelMultiDevice|HostFunc)?
    | cudaGraph(Launch|Upload|Instantiate(WithFlags|WithParams)?)
    | cuda(Memcpy|Memset)\w*
    | cuda(Device|Thread|Stream|Event)Synchronize
    | cudaStreamWaitEvent
    | cuda(Malloc|Free|HostAlloc|HostRegister|HostUnregister)\w*
    """,
    re.VERBOSE,
)
# The runtime allocates through the driver too; its own calls are enough.
_DRIVER = re.compile(
    r"""
    cuLaunch(Kernel|KernelEx|CooperativeKernel|CooperativeKernelMultiDevice|HostFunc|Grid|GridAsync)?
    | cuGraph(Launch|Upload|Instantiate(WithFlags|WithParams)?)
    | cu(64)?(Memcpy|Memset)\w*
    | cu(Ctx|Stream|Event)Synchronize
    | cuStreamWaitEvent
    """,
    re.VERBOSE,
)
# The calls of the above that put kernels, copies or fills on a GPU: where they were made, GPU records must follow.
_ENQUEUES = re.compile(r"(__)?cu(da|64)?(Launch(?!HostFunc)|GraphLaunch|Memcpy|Memset)\w*")

_SYNCHRONIZE = "cuCtxSynchronize"


class Allowlist:
    """The calls to record, by the names that a libcupti gives them; by our own table where it gives none."""

    def __init__(self, control: Control) -> None:
        self.names = {
            "runtime": control.callback_names("runtime") or dict(RUNTIME_CALLS),
            "driver": control.callback_names("driver") or dict(DRIVER_CALLS),
        }
        self.runtime = _matching(self.names["runtime"], _RUNTIME)
        self.driver = _matching(self.names["driver"], _DRIVER)

    @property
    def synchronizing(self) -> frozenset[int]:
        """The driver's calls that wait for a context: the fence at the end of a capture is one of them."""
        return frozenset(
            callback_id for callback_id in self.driver if base_name(self.names["driver"][callback_id]) == _SYNCHRONIZE
        )

    def enqueuing(self, api: str) -> frozenset[int]:
        """The ids of the recorded calls that put work on a GPU; `api` is ``runtime`` or ``driver``."""
        ids = self.runtime if api == "runtime" else self.driver
        return frozenset(
            callback_id for callback_id in ids if _ENQUEUES.fullmatch(base_name(self.names[api][callback_id]))
        )

    def enable(self, control: Control) -> None:
        """Record these calls. To be called after the kinds RUNTIME and DRIVER were left alone or disabled: enabling a
        kind overrides it."""
        for callback_id in self.runtime:
            control.enable_runtime_api(callback_id, True)
        for callback_id in self.driver:
            control.enable_driver_api(callback_id, True)

    def callback_names(self) -> dict[tuple[str, int], str]:
        """(api, id) → name, as `Recording.callback_names` wants it."""
        return {
            (api, callback_id): shown_name(name)
            for api, names in self.names.items()
            for callback_id, name in names.items()
        }


def base_name(name: str) -> str:
    """The call itself: ``cudaLaunchKernel_ptsz_v7000`` → ``cudaLaunchKernel``."""
    return _VARIANT.sub("", shown_name(name))


def _matching(names: dict[int, str], pattern: re.Pattern[str]) -> tuple[int, ...]:
    return tuple(callback_id for callback_id, name in names.items() if pattern.fullmatch(base_name(name)))
