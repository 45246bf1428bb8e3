"""What the parts of the simulator share: the device, where memory lives, and the capture that is running, if any."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gpuviz.capture.simulate.allocator import AllocatorModel
from gpuviz.capture.simulate.clock import VirtualClock
from gpuviz.capture.simulate.gpus import Gpu
from gpuviz.capture.simulate.recorder import Recorder
from gpuviz.capture.simulate.residence import Place, Residence, on_device, tensors_in
from gpuviz.capture.simulate.timeline import DEFAULT_STREAM, FIRST_OTHER_STREAM, Timeline

# Operator → the positions of results that stay on the host whatever the arguments are.
_HOST_RESULTS = {"_pack_padded_sequence": (1,)}


class Machine:
    """A host with one simulated GPU, as the installed simulator sees it."""

    def __init__(self, gpu: Gpu, deterministic: bool) -> None:
        self.gpu = gpu
        self.clock = VirtualClock(deterministic)
        self.allocator = AllocatorModel(gpu.memory_bytes)
        self.residence = Residence(self.allocator, self._new_segment)
        self.recorder: Recorder | None = None
        self.function_mode: Any = None
        self.dispatch_mode: Any = None
        self.place: Place | None = None  # where the call at work puts its results, if its arguments say so
        self.level = 0  # calls of PyTorch's functions around the one at work
        self.mode_is_off = False  # PyTorch takes a mode off while its handler runs
        self.stream = DEFAULT_STREAM
        self.loaded: set[str] = set()  # kernels that a capture has seen
        self.warmed: set[Any] = set()  # functions that ran on the device outside of captures
        self._tracking = False
        self._streams = 0
        self._events = 0

    def new_stream(self) -> int:
        """The number of a new stream."""
        self._streams += 1
        return FIRST_OTHER_STREAM + self._streams - 1

    def new_event(self) -> int:
        """The number of a new event."""
        self._events += 1
        return self._events

    def use_stream(self, stream: int) -> None:
        """Later work goes to this stream."""
        self.stream = stream
        if self.recorder is not None:
            self.recorder.timeline.stream = stream

    @property
    def active_recorder(self) -> Recorder | None:
        """The capture, unless something of our own is going on."""
        recorder = self.recorder
        return None if recorder is None or recorder.silent else recorder

    def _new_segment(self) -> None:
        recorder = self.active_recorder
        if recorder is not None:
            recorder.timeline.allocate()

    @contextmanager
    def direct_calls(self) -> Iterator[Timeline | None]:
        """A call of the runtime by the user's code; None outside of captures, where no time is modelled."""
        recorder = self.active_recorder
        if recorder is None:
            yield None
        else:
            with recorder.direct_calls() as timeline:
                yield timeline

    @contextmanager
    def unrecorded(self, place: Place | None = None) -> Iterator[None]:
        """What PyTorch does in here is our own doing; its results live in this place."""
        recorder, before = self.recorder, self.place
        was_silent = recorder is not None and recorder.silent
        self.place = place
        if recorder is not None:
            recorder.silent = True
        try:
            yield
        finally:
            self.place = before
            if recorder is not None:
                recorder.silent = was_silent

    @contextmanager
    def reentered(self) -> Iterator[None]:
        """User code is called from inside a handler (by the autograd engine, say): the mode must be on for it."""
        if not self.mode_is_off:
            yield
            return
        self.mode_is_off = False
        try:
            with self.function_mode:
                yield
        finally:
            self.mode_is_off = True

    @contextmanager
    def tracking(self) -> Iterator[None]:
        """Outside of captures, the autograd engine runs: its operators too say what becomes of device memory."""
        if self._tracking:
            yield
            return
        self._tracking = True
        try:
            with self.dispatch_mode:
                yield
        finally:
            self._tracking = False

    def is_for_device(self, inputs: list[Any]) -> bool:
        """True when a call with these inputs runs on the device: its arguments say so, or one input lives there."""
        if self.place is not None:
            return self.place is Place.DEVICE
        return any(map(on_device, inputs))

    def place_results(self, name: str, inputs: list[Any], result: Any) -> None:
        """New memory among the results lives on the device; what the call only changed stays where it is."""
        given = {id(tensor) for tensor in inputs}
        stay = _HOST_RESULTS.get(name, ())
        if not stay and not isinstance(result, tuple | list):
            for tensor in tensors_in(result):
                if id(tensor) not in given:
                    self.residence.place(tensor)
            return
        for position, part in enumerate(result if isinstance(result, tuple | list) else (result,)):
            for tensor in tensors_in(part):
                if id(tensor) not in given and position not in stay:
                    self.residence.place(tensor)
