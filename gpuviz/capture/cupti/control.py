"""The control plane: the ten calls of CUPTI that a capture needs, behind one interface.

Two implementations answer alike: `CtypesControl` calls the libcupti of this process directly; `CuptiPythonControl` goes
through NVIDIA's package cupti-python where that is installed and uses the same libcupti. The buffers never go through
cupti-python: its callbacks are Python code, which CUPTI calls while it holds a lock and which can therefore wait for
the GIL for ever (pytorch/pytorch#186295). Both register the native callbacks of our own pool.

Never called here: `cuptiSubscribe` (one subscriber per process, and it is not ours to take), `cuptiFinalize`, and
`cuptiActivityRegisterTimestampCallback` (pytorch/pytorch#192021: kernels lost where it changed hands).
"""

from __future__ import annotations

import ctypes
import os
from importlib import metadata
from typing import Any, Protocol

from gpuviz.capture.cupti.layouts import Kind
from gpuviz.capture.cupti.library import find_cupti, mapped_cupti
from gpuviz.capture.cupti.statuses import SUCCESS, cupti_error
from gpuviz.errors import CaptureError, CuptiError

# Kinds that describe what exists. A capture begins long after CUDA did; this asks for what is there already.
_PLACES = (Kind.DEVICE, Kind.CONTEXT, Kind.STREAM)
_EXTERNAL_KIND = 5  # CUSTOM2; Kineto uses CUSTOM0 and CUSTOM1
_FLUSH_FORCED = 1
_DOMAINS = {"driver": 1, "runtime": 2}
_MOST_CALLBACK_IDS = 4096
_GAP_THAT_ENDS = 64  # ids without a name, one after the other, that mean that no more will come


class Control(Protocol):
    """What a capture asks of CUPTI. A call that does not succeed raises `CuptiError`."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> int: ...

    @property
    def path(self) -> str: ...

    def register_callbacks(self, requested: int, completed: int) -> None:
        """The addresses of two C functions; the last registration in the process counts."""

    def enable(self, kind: int) -> None: ...

    def disable(self, kind: int) -> None: ...

    def enable_runtime_api(self, callback_id: int, on: bool) -> None: ...

    def enable_driver_api(self, callback_id: int, on: bool) -> None: ...

    def flush(self, forced: bool) -> None:
        """Deliver the buffers whose records are complete; with `forced` the others too, as they are."""

    def dropped(self) -> int:
        """How many records CUPTI had no room for since it was last asked."""

    def timestamp(self) -> int:
        """Now, on the clock of the records."""

    def push(self, external_id: int) -> None: ...

    def pop(self) -> int: ...

    def callback_names(self, api: str) -> dict[int, str]:
        """Callback id → the name of the call; `api` is ``driver`` or ``runtime``."""

    def record_size(self, kind: int) -> int | None:
        """The length of a record as libcupti itself says it; None where it cannot say (before 13.2)."""


def open_control() -> Control:
    """The control plane for the libcupti of this process: cupti-python's where it fits, else our own."""
    library, path = find_cupti()
    direct = CtypesControl(library, path)
    return CuptiPythonControl.fitting(direct) or direct


class CtypesControl:
    """The ten calls, directly on a loaded libcupti. ctypes lets go of the GIL around each."""

    name = "ctypes"

    def __init__(self, library: ctypes.CDLL, path: str) -> None:
        self._library: Any = library
        self.path = path
        answer = ctypes.c_uint32()
        self._call("cuptiGetVersion", "ask CUPTI for its version", ctypes.byref(answer))
        self.version = answer.value

    def register_callbacks(self, requested: int, completed: int) -> None:
        arguments = ctypes.c_void_p(requested), ctypes.c_void_p(completed)
        self._call("cuptiActivityRegisterCallbacks", "give CUPTI its buffers", *arguments)

    def enable(self, kind: int) -> None:
        dump = "cuptiActivityEnableAndDump"
        call = dump if kind in _PLACES and hasattr(self._library, dump) else "cuptiActivityEnable"
        self._call(call, f"record {_words(kind)}", ctypes.c_uint32(kind))

    def disable(self, kind: int) -> None:
        self._call("cuptiActivityDisable", f"stop recording {_words(kind)}", ctypes.c_uint32(kind))

    def enable_runtime_api(self, callback_id: int, on: bool) -> None:
        self._enable_api("cuptiActivityEnableRuntimeApi", "runtime", callback_id, on)

    def enable_driver_api(self, callback_id: int, on: bool) -> None:
        self._enable_api("cuptiActivityEnableDriverApi", "driver", callback_id, on)

    def flush(self, forced: bool) -> None:
        flag = ctypes.c_uint32(_FLUSH_FORCED if forced else 0)
        self._call("cuptiActivityFlushAll", "get the records of the capture", flag)

    def dropped(self) -> int:
        answer = ctypes.c_size_t()
        arguments = None, ctypes.c_uint32(0), ctypes.byref(answer)
        self._call("cuptiActivityGetNumDroppedRecords", "ask how many records were lost", *arguments)
        return answer.value

    def timestamp(self) -> int:
        answer = ctypes.c_uint64()
        self._call("cuptiGetTimestamp", "read CUPTI's clock", ctypes.byref(answer))
        return answer.value

    def push(self, external_id: int) -> None:
        arguments = ctypes.c_uint32(_EXTERNAL_KIND), ctypes.c_uint64(external_id)
        self._call("cuptiActivityPushExternalCorrelationId", "mark CUDA calls", *arguments)

    def pop(self) -> int:
        answer = ctypes.c_uint64()
        arguments = ctypes.c_uint32(_EXTERNAL_KIND), ctypes.byref(answer)
        self._call("cuptiActivityPopExternalCorrelationId", "end a mark of CUDA calls", *arguments)
        return answer.value

    def callback_names(self, api: str) -> dict[int, str]:
        names: dict[int, str] = {}
        text = ctypes.c_char_p()
        last = 0
        for callback_id in range(1, _MOST_CALLBACK_IDS):
            status = self._library.cuptiGetCallbackName(_DOMAINS[api], callback_id, ctypes.byref(text))
            if status == SUCCESS and text.value:
                names[callback_id] = text.value.decode("utf-8", "replace")
                last = callback_id
            elif callback_id - last > _GAP_THAT_ENDS:
                break
        return names

    def record_size(self, kind: int) -> int | None:
        if not hasattr(self._library, "cuptiActivityGetStructSize"):
            return None
        answer = ctypes.c_size_t()
        arguments = ctypes.c_uint32(kind), ctypes.c_uint32(0), ctypes.byref(answer)
        status = self._library.cuptiActivityGetStructSize(*arguments)
        return answer.value if status == SUCCESS else None

    def _enable_api(self, call: str, api: str, callback_id: int, on: bool) -> None:
        what = f"{'record' if on else 'stop recording'} the {api} call {callback_id}"
        self._call(call, what, ctypes.c_uint32(callback_id), ctypes.c_uint8(on))

    def _call(self, call: str, tried: str, *arguments: object) -> None:
        status = getattr(self._library, call)(*arguments)
        if status != SUCCESS:
            raise cupti_error(call, status, tried)


class CuptiPythonControl:
    """The same calls through cupti-python, but for those that it does not have or that are not to go through Python."""

    PACKAGE = "cupti-python"
    _NEEDED = (
        "activity_disable",
        "activity_enable",
        "activity_enable_and_dump",
        "activity_enable_driver_api",
        "activity_enable_runtime_api",
        "activity_flush_all",
        "activity_get_num_dropped_records",
        "activity_pop_external_correlation_id",
        "activity_push_external_correlation_id",
        "get_timestamp",
    )

    def __init__(self, module: Any, version: str, direct: CtypesControl) -> None:
        self._module = module
        self._direct = direct
        self.name = f"{self.PACKAGE} {version}"
        self.version = direct.version
        self.path = direct.path
        self.timestamp()  # its first call loads its libcupti, or finds out that there is no driver
        mapped = mapped_cupti()
        if len(mapped) > 1:
            raise CaptureError(
                f"Tried to use {self.name}, which has loaded a second CUPTI library: {' and '.join(mapped)}. The CUDA "
                f"driver reports to only one of them. Restart the kernel, and uninstall {self.PACKAGE} or install the "
                "version that belongs to the CUDA in use; gpuviz works without it."
            )

    @classmethod
    def fitting(cls, direct: CtypesControl) -> CuptiPythonControl | None:
        """Through cupti-python where it is installed, has the calls, and its libcupti is the one that is in use."""
        try:
            version = metadata.version(cls.PACKAGE)
            files = metadata.files("nvidia-cuda-cupti") or []
        except metadata.PackageNotFoundError:
            return None
        own = [str(file.locate()) for file in files if file.name.startswith("libcupti.so")]
        if os.path.realpath(direct.path) not in {os.path.realpath(path) for path in own}:
            return None
        try:
            from cupti import cupti
        except ImportError:  # built for another Python
            return None
        if not all(hasattr(cupti, name) for name in cls._NEEDED):
            return None
        return cls(cupti, version, direct)

    def register_callbacks(self, requested: int, completed: int) -> None:
        self._direct.register_callbacks(requested, completed)

    def enable(self, kind: int) -> None:
        call = "activity_enable_and_dump" if kind in _PLACES else "activity_enable"
        self._call(call, f"record {_words(kind)}", int(kind))

    def disable(self, kind: int) -> None:
        self._call("activity_disable", f"stop recording {_words(kind)}", int(kind))

    def enable_runtime_api(self, callback_id: int, on: bool) -> None:
        self._call("activity_enable_runtime_api", f"record the runtime call {callback_id}", callback_id, int(on))

    def enable_driver_api(self, callback_id: int, on: bool) -> None:
        self._call("activity_enable_driver_api", f"record the driver call {callback_id}", callback_id, int(on))

    def flush(self, forced: bool) -> None:
        self._call("activity_flush_all", "get the records of the capture", _FLUSH_FORCED if forced else 0)

    def dropped(self) -> int:
        answer = ctypes.c_size_t()
        arguments = 0, 0, ctypes.addressof(answer)
        self._call("activity_get_num_dropped_records", "ask how many records were lost", *arguments)
        return answer.value

    def timestamp(self) -> int:
        return int(self._call("get_timestamp", "read CUPTI's clock"))

    def push(self, external_id: int) -> None:
        self._call("activity_push_external_correlation_id", "mark CUDA calls", _EXTERNAL_KIND, external_id)

    def pop(self) -> int:
        return int(self._call("activity_pop_external_correlation_id", "end a mark of CUDA calls", _EXTERNAL_KIND))

    def callback_names(self, api: str) -> dict[int, str]:
        return self._direct.callback_names(api)

    def record_size(self, kind: int) -> int | None:
        return self._direct.record_size(kind)

    def _call(self, call: str, tried: str, *arguments: object) -> Any:
        """cupti-python raises `cuptiError` with a status, or a RuntimeError without one where it could not call."""
        try:
            return getattr(self._module, call)(*arguments)
        except self._module.cuptiError as error:
            raise cupti_error(call, int(error.status), tried) from error
        except RuntimeError as error:
            raise CuptiError(
                f"Tried to {tried} through {self.name}: {error}. Check that the CUDA driver loads (`nvidia-smi`).",
                call=call,
                status=None,
            ) from error


def _words(kind: int) -> str:
    return f"{Kind(kind).name.lower().replace('_', ' ')} records"
