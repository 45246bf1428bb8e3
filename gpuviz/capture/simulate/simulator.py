"""Turning the simulated GPU on and off, and capturing from it."""

from __future__ import annotations

import os
import platform
import socket
import threading
from types import TracebackType
from typing import Any

from gpuviz.capture.backend import CaptureRequest
from gpuviz.capture.recording import ClockPair, DeviceFacts, Recording
from gpuviz.capture.simulate.encode import CUPTI_VERSION, buffers
from gpuviz.capture.simulate.gpus import Gpu, gpu_named
from gpuviz.capture.simulate.machine import Machine
from gpuviz.capture.simulate.patcher import Patcher
from gpuviz.capture.simulate.recorder import Recorder
from gpuviz.capture.simulate.stacks import StackWalker
from gpuviz.errors import CaptureError, SessionActiveError
from gpuviz.model import Trace

_BEFORE_ALL_OTHERS = -1  # PyTorch's own ways to restore a storage start at 10

_installed: Simulator | None = None


def active() -> Simulator | None:
    """The simulator that is on in this process, if one is."""
    return _installed


class Simulator:
    """A simulated GPU for the whole process, and a capture backend.

    `install` makes PyTorch see the GPU until `uninstall`; as a context manager, for the length of a block. `start` and
    `stop` capture (`gpuviz.capture.backend.Backend`); where it is not installed, for the length of the capture.
    `deterministic`: the time of the user's own Python code is modelled too (a fixed cost per call) instead of being
    real, so that two runs of the same code give the same bytes.
    """

    name = "simulate"

    def __init__(self, gpu: str | Gpu = "H100", deterministic: bool = False) -> None:
        self.gpu = gpu if isinstance(gpu, Gpu) else gpu_named(gpu)
        self.deterministic = deterministic
        self._machine: Machine | None = None
        self._patcher = Patcher()
        self._thread: int | None = None
        self._restorer: tuple[Any, ...] | None = None
        self._request: CaptureRequest | None = None
        self._installed_for_capture = False

    @property
    def description(self) -> str:
        """For headers."""
        return f"simulate {self.gpu.key} (modelled)"

    @property
    def installed(self) -> bool:
        """True between `install` and `uninstall`."""
        return self._machine is not None

    @property
    def patched(self) -> list[tuple[Any, str]]:
        """What of PyTorch is exchanged now: (owner, attribute)."""
        return self._patcher.patched

    def __enter__(self) -> Simulator:
        self.install()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.uninstall()

    # On and off.

    def install(self) -> None:
        """Make PyTorch see the GPU, in this thread."""
        global _installed
        if _installed is not None:
            raise CaptureError(
                f"Tried to turn on a simulated {self.gpu.key}; a simulated {_installed.gpu.key} is on already. "
                "Turn that one off first (`%gpuviz simulate off`)."
            )
        torch = _import_torch()
        if torch.cuda.is_initialized():
            raise CaptureError(
                f"Tried to turn on a simulated {self.gpu.key}; this process already works with a real GPU. "
                "Restart the kernel and turn the simulator on before the first CUDA call."
            )
        _installed = self
        try:
            self._install()
        except BaseException:
            self.uninstall()
            raise

    def _install(self) -> None:
        # Every optimiser imports it sooner or later, and it then indexes the functions of torch.cuda by identity: it
        # must not meet ours.
        import torch._dynamo

        from gpuviz.capture.simulate import named_ranges, patches
        from gpuviz.capture.simulate.copies import Copies
        from gpuviz.capture.simulate.modes import make_dispatch_mode, make_function_mode

        self._thread = threading.get_ident()
        machine = self._machine = Machine(self.gpu, self.deterministic)
        copies = Copies(machine)
        machine.function_mode = make_function_mode(machine, copies.handlers())
        machine.dispatch_mode = make_dispatch_mode(machine, copies)
        patches.apply(machine, self._patcher, self._leave_child)
        named_ranges.apply(machine, self._patcher)
        self._restorer = (_BEFORE_ALL_OTHERS, _no_tag, self._restore_storage)
        torch.serialization._package_registry.insert(0, self._restorer)
        machine.function_mode.__enter__()

    def uninstall(self) -> None:
        """Put everything back; nothing where it is not installed. Tensors that lived on the GPU are CPU tensors."""
        global _installed
        if _installed is not self:
            return
        self._check_thread("turn the simulator off")
        self._end_capture()
        self._take_down()
        _installed = None

    def _take_down(self) -> None:
        import torch

        machine = self._machine
        if machine is not None and machine.function_mode is not None:
            _remove_function_mode(machine.function_mode)
        if self._restorer in torch.serialization._package_registry:
            torch.serialization._package_registry.remove(self._restorer)
        self._patcher.restore()
        self._machine = self._thread = self._restorer = None

    def _leave_child(self) -> None:
        """A data loader's worker process was forked from us: it computes on the CPU, and nothing of it is captured."""
        global _installed
        if _installed is self:
            self._thread = threading.get_ident()
            self.uninstall()

    def _check_thread(self, what: str) -> None:
        if self._thread not in (None, threading.get_ident()):
            raise CaptureError(
                f"Tried to {what} in another thread than the one that turned the simulator on; PyTorch keeps its "
                "hooks per thread. Do it in the thread where the simulator was turned on."
            )

    def _restore_storage(self, storage: Any, location: str) -> Any:
        """`torch.load(..., map_location="cuda")`: the file's bytes go to the device."""
        machine = self._machine
        if machine is None or not location.startswith("cuda"):
            return None
        from gpuviz.capture.simulate.devices import is_simulated
        from gpuviz.capture.simulate.timeline import HTOD

        is_simulated(location)
        machine.residence.place_storage(storage)
        with machine.direct_calls() as timeline:
            if timeline is not None:
                timeline.copy(HTOD, storage.nbytes(), blocking=True)
        return storage

    # Capturing.

    def start(self, request: CaptureRequest) -> None:
        """Begin a capture."""
        if self._request is not None:
            raise SessionActiveError(
                "Tried to start a capture of the simulated GPU; one is running already. Stop that one first."
            )
        if not self.installed:
            self.install()
            self._installed_for_capture = True
        self._check_thread("start a capture")
        machine = self._machine
        assert machine is not None
        self._request = request
        machine.level, machine.place, machine.mode_is_off = 0, None, False
        machine.clock.start()
        request.ranges.clock = machine.clock.now
        walker = StackWalker(request.cell_of)
        recorder = Recorder(self.gpu, machine.clock, machine.loaded, machine.stream, walker, request.ranges)
        self._began = machine.clock.now()
        recorder.note_allocated(machine.allocator.allocated)
        machine.dispatch_mode.__enter__()
        machine.recorder = recorder

    def stop(self) -> Trace:
        """End the capture and make its trace."""
        from gpuviz.capture.assemble import assemble

        return assemble(self.stop_recording())

    def stop_recording(self) -> Recording:
        """End the capture; what `stop` makes the trace of."""
        machine, request = self._machine, self._request
        recorder = None if machine is None else machine.recorder
        self._check_thread("stop a capture")
        ended = 0 if machine is None else machine.clock.now()
        self._end_capture()
        if self._installed_for_capture:
            self._installed_for_capture = False
            self.uninstall()
        if recorder is None or request is None:
            raise CaptureError(
                "Tried to stop a capture of the simulated GPU; none had begun. Start one before stopping it."
            )
        return self._recording(recorder, request, ended)

    def _end_capture(self) -> None:
        machine = self._machine
        self._request = None
        if machine is not None:
            machine.recorder = None
            machine.level, machine.place, machine.mode_is_off = 0, None, False
            if machine.dispatch_mode is not None:
                _remove_dispatch_mode(machine.dispatch_mode)

    def _recording(self, recorder: Recorder, request: CaptureRequest, ended: int) -> Recording:
        import torch

        gpu = self.gpu
        process_id = os.getpid()
        made, names = buffers(recorder.timeline, process_id)
        return Recording(
            title=request.label or self.description,
            source=self.description,
            cupti_version=CUPTI_VERSION,
            clock=(ClockPair(self._began, self._began), ClockPair(ended, ended)),
            buffers=made,
            names=names,
            host_calls=recorder.finished_calls(),
            stacks=recorder.walker.stacks,
            api_stacks=recorder.api_stacks,
            ranges=request.ranges.ranges,
            counters=recorder.allocated,
            process_id=process_id,
            host=socket.gethostname(),
            threads=recorder.threads,
            devices={
                0: DeviceFacts(
                    name=gpu.name,
                    compute_capability=gpu.capability_text,
                    sm_count=gpu.sm_count,
                    memory_bytes=gpu.memory_bytes,
                    warp_size=gpu.warp_size,
                    max_threads_per_sm=gpu.max_threads_per_sm,
                    registers_per_sm=gpu.registers_per_sm,
                    shared_memory_per_sm_bytes=gpu.shared_memory_per_sm_bytes,
                    link_bytes_per_s=gpu.link_bytes_per_s,
                )
            },
            cells=recorder.walker.cells,
            dropped_records=0,
            modelled=True,
            versions={"python": platform.python_version(), "torch": torch.__version__},
            properties={"backend": self.description, "simulated GPU": gpu.name},
        )


def _import_torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise CaptureError(
            "Tried to turn on a simulated GPU; PyTorch, whose work it models, is not installed. "
            "Install it (pip install gpuviz[torch])."
        ) from error
    return torch


def _no_tag(storage: Any) -> None:
    """What is saved says that it came from the CPU, so that it can be read anywhere."""


def _remove_function_mode(mode: Any) -> None:
    """Take our mode off the stack, also from between others."""
    from torch.overrides import _get_current_function_mode_stack, _pop_mode, _push_mode

    above = []
    if mode in _get_current_function_mode_stack():
        while (top := _pop_mode()) is not mode:
            above.append(top)
    for other in reversed(above):
        _push_mode(other)


def _remove_dispatch_mode(mode: Any) -> None:
    """The same for the operators' mode, whose exit also resets what its entry has noted."""
    from torch.utils import _python_dispatch as dispatch

    stack = dispatch._get_current_dispatch_mode_stack()
    if mode not in stack:
        return
    above = [dispatch._pop_mode() for _ in stack[stack.index(mode) + 1 :]]
    mode.__exit__(None, None, None)
    for other in reversed(above):
        dispatch._push_mode(other)
