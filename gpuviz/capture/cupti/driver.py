"""The CUDA driver as far as a capture asks it: which contexts exist, wait for one, what a device is called.

Nothing here initialises CUDA. The library is used only where something else in the process has loaded it, every call
is one that answers "not initialised" instead of initialising, and a context is only touched where it exists already.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from gpuviz.capture.cupti.library import DRIVER_NAME
from gpuviz.capture.recording import DeviceFacts

SUCCESS = 0
_NAME_BYTES = 256
# Numbers of CUdevice_attribute.
_WARP_SIZE, _SM_COUNT, _MAX_THREADS_PER_SM = 10, 16, 39
_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76
_SHARED_MEMORY_PER_SM, _REGISTERS_PER_SM = 81, 82


@dataclass(frozen=True)
class Context:
    """A CUDA context that exists. `device`: the ordinal whose primary context it is; None for another context."""

    handle: int
    device: int | None = None


class Driver(Protocol):
    """What a capture asks of the CUDA driver of this process."""

    def version(self) -> int | None: ...

    def device_count(self) -> int | None:
        """How many devices this process sees; None where CUDA is not initialised."""

    def contexts(self) -> list[Context]:
        """The contexts that exist, as far as the driver tells: the primary one of each device and the current one."""

    def synchronize(self, context: Context) -> int:
        """Wait for all work of a context; returns the driver's status."""

    def device_facts(self) -> dict[int, DeviceFacts]:
        """Ordinal → facts, for devices whose primary context exists."""


class CudaDriver:
    """The driver that is loaded in this process; answers "nothing" where none is."""

    def __init__(self) -> None:
        self._library: Any = _loaded_driver()

    def version(self) -> int | None:
        answer = ctypes.c_int()
        return answer.value if self._ok("cuDriverGetVersion", ctypes.byref(answer)) else None

    def device_count(self) -> int | None:
        answer = ctypes.c_int()
        return answer.value if self._ok("cuDeviceGetCount", ctypes.byref(answer)) else None

    def contexts(self) -> list[Context]:
        handles = {ordinal: self._primary_context(device) for ordinal, device in self._active().items()}
        found = [Context(handle, ordinal) for ordinal, handle in handles.items() if handle]
        current = ctypes.c_void_p()
        asked = self._ok("cuCtxGetCurrent", ctypes.byref(current))
        if asked and current.value and current.value not in {context.handle for context in found}:
            found.append(Context(current.value))
        return found

    def synchronize(self, context: Context) -> int:
        with self._kept(context):
            status = int(self._library.cuCtxPushCurrent_v2(ctypes.c_void_p(context.handle)))
            if status != SUCCESS:
                return status
            try:
                return int(self._library.cuCtxSynchronize())
            finally:
                self._library.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))

    def device_facts(self) -> dict[int, DeviceFacts]:
        return {ordinal: self._facts(device) for ordinal, device in self._active().items()}

    def _facts(self, device: ctypes.c_int) -> DeviceFacts:
        name = ctypes.create_string_buffer(_NAME_BYTES)
        named = self._ok("cuDeviceGetName", name, ctypes.c_int(_NAME_BYTES), device)
        memory = ctypes.c_size_t()
        sized = self._ok("cuDeviceTotalMem_v2", ctypes.byref(memory), device)
        major, minor = (self._attribute(number, device) for number in (_CAPABILITY_MAJOR, _CAPABILITY_MINOR))
        return DeviceFacts(
            name=name.value.decode("utf-8", "replace") if named else None,
            compute_capability=None if major is None or minor is None else f"{major}.{minor}",
            memory_bytes=memory.value if sized else None,
            sm_count=self._attribute(_SM_COUNT, device),
            warp_size=self._attribute(_WARP_SIZE, device),
            max_threads_per_sm=self._attribute(_MAX_THREADS_PER_SM, device),
            registers_per_sm=self._attribute(_REGISTERS_PER_SM, device),
            shared_memory_per_sm_bytes=self._attribute(_SHARED_MEMORY_PER_SM, device),
        )

    def _attribute(self, number: int, device: ctypes.c_int) -> int | None:
        answer = ctypes.c_int()
        asked = self._ok("cuDeviceGetAttribute", ctypes.byref(answer), ctypes.c_int(number), device)
        return answer.value if asked and answer.value > 0 else None

    def _active(self) -> dict[int, ctypes.c_int]:
        """Ordinal → device, where the primary context exists."""
        active: dict[int, ctypes.c_int] = {}
        for ordinal in range(self.device_count() or 0):
            device, flags, is_active = ctypes.c_int(), ctypes.c_uint(), ctypes.c_int()
            asked = self._ok("cuDeviceGet", ctypes.byref(device), ctypes.c_int(ordinal)) and self._ok(
                "cuDevicePrimaryCtxGetState", device, ctypes.byref(flags), ctypes.byref(is_active)
            )
            if asked and is_active.value:
                active[ordinal] = device
        return active

    def _primary_context(self, device: ctypes.c_int) -> int | None:
        """The handle of an active primary context. Retaining it creates none, for there is one, and is undone."""
        handle = ctypes.c_void_p()
        if not self._ok("cuDevicePrimaryCtxRetain", ctypes.byref(handle), device):
            return None
        self._library.cuDevicePrimaryCtxRelease_v2(device)
        return handle.value

    @contextmanager
    def _kept(self, context: Context) -> Iterator[None]:
        """Keep a primary context from going away while it is used."""
        device = None if context.device is None else self._active().get(context.device)
        kept = device is not None and self._ok("cuDevicePrimaryCtxRetain", ctypes.byref(ctypes.c_void_p()), device)
        try:
            yield
        finally:
            if kept:
                self._library.cuDevicePrimaryCtxRelease_v2(device)

    def _ok(self, call: str, *arguments: object) -> bool:
        return self._library is not None and getattr(self._library, call)(*arguments) == SUCCESS


def _loaded_driver() -> ctypes.CDLL | None:
    """The driver's library, where something has loaded it already."""
    no_load = getattr(os, "RTLD_NOLOAD", None)
    if no_load is None:
        return None
    try:
        return ctypes.CDLL(DRIVER_NAME, mode=no_load | os.RTLD_NOW)
    except OSError:
        return None
