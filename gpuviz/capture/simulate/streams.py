"""Streams and events of the simulated device, in the shape of `torch.cuda.Stream` and `torch.cuda.Event`.

Outside of captures no time is modelled: waits return at once, and the time between two events is not a number (with a
warning that says so), because there is none.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

from gpuviz.capture.simulate.devices import is_simulated, the_device
from gpuviz.capture.simulate.machine import Machine
from gpuviz.capture.simulate.timeline import DEFAULT_STREAM


class SimulatedStream:
    """A stream; `make_types` says of which machine."""

    machine: Machine
    event_type: type[SimulatedEvent]

    def __init__(self, device: Any = None, priority: int = 0, stream_id: int | None = None, **other: Any) -> None:
        if device is not None:
            is_simulated(device)
        self.stream_id = self.machine.new_stream() if stream_id is None else stream_id
        self.priority = priority
        self._outer: list[int] = []

    @property
    def device(self) -> Any:
        return the_device()

    @property
    def device_index(self) -> int:
        return 0

    @property
    def cuda_stream(self) -> int:
        """A handle; 0 is the default stream, as in CUDA."""
        return 0 if self.stream_id == DEFAULT_STREAM else self.stream_id

    @staticmethod
    def is_capturing() -> bool:
        """CUDA graphs are not modelled, so that nothing captures one."""
        return False

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """Least and greatest priority; the model knows no priorities."""
        return 0, -5

    def synchronize(self) -> None:
        """Wait for everything in this stream."""
        with self.machine.direct_calls() as timeline:
            if timeline is not None:
                timeline.synchronize_stream(self.stream_id)

    def query(self) -> bool:
        """Whether everything in this stream is done."""
        with self.machine.direct_calls() as timeline:
            if timeline is None:
                return True
            return timeline.query("cudaStreamQuery", timeline.stream_end(self.stream_id))

    def record_event(self, event: SimulatedEvent | None = None) -> SimulatedEvent:
        """Put an event into this stream."""
        recorded = self.event_type() if event is None else event
        recorded.record(self)
        return recorded

    def wait_event(self, event: SimulatedEvent) -> None:
        """Later work of this stream waits for the event."""
        with self.machine.direct_calls() as timeline:
            if timeline is not None and event.happens_at is not None:
                timeline.stream_waits(self.stream_id, event.event_id, event.happens_at)

    def wait_stream(self, stream: SimulatedStream) -> None:
        """Later work of this stream waits for what is in the other one now."""
        self.wait_event(stream.record_event())

    def __enter__(self) -> SimulatedStream:
        self._outer.append(self.machine.stream)
        self.machine.use_stream(self.stream_id)
        return self

    def __exit__(self, *error: object) -> None:
        self.machine.use_stream(self._outer.pop())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SimulatedStream) and self.stream_id == other.stream_id

    def __hash__(self) -> int:
        return hash(self.stream_id)

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device=cuda:0 cuda_stream={self.cuda_stream:#x} (simulated)>"


class SimulatedEvent:
    """An event; `happens_at` is None until it is recorded inside a capture. `make_types` says of which machine."""

    machine: Machine

    def __init__(
        self,
        device: Any = None,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        **other: Any,
    ) -> None:
        if interprocess:
            raise RuntimeError("Tried to make an event for several processes; the simulated GPU serves one only.")
        self._has_timing = bool(enable_timing if device is None or not isinstance(device, bool) else device)
        self.event_id = self.machine.new_event()
        self.happens_at: int | None = None
        self._recorded = False

    def record(self, stream: SimulatedStream | None = None) -> None:
        """Happens when everything in the stream so far is done."""
        number = self.machine.stream if stream is None else stream.stream_id
        self._recorded = True
        with self.machine.direct_calls() as timeline:
            self.happens_at = None if timeline is None else timeline.record_event(number)

    def wait(self, stream: SimulatedStream | None = None) -> None:
        """Later work of the stream waits for this event."""
        number = self.machine.stream if stream is None else stream.stream_id
        with self.machine.direct_calls() as timeline:
            if timeline is not None and self.happens_at is not None:
                timeline.stream_waits(number, self.event_id, self.happens_at)

    def query(self) -> bool:
        """Whether it has happened."""
        with self.machine.direct_calls() as timeline:
            return timeline is None or timeline.query("cudaEventQuery", self.happens_at or 0)

    def synchronize(self) -> None:
        """Wait until it has happened."""
        with self.machine.direct_calls() as timeline:
            if timeline is not None:
                timeline.wait_for_event(self.event_id, self.happens_at or 0)

    def elapsed_time(self, end: SimulatedEvent) -> float:
        """Modelled milliseconds from this event to `end`."""
        if not (self._has_timing and end._has_timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if not (self._recorded and end._recorded):
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if self.happens_at is None or end.happens_at is None:
            warnings.warn(
                "The time between two CUDA events was asked for outside of a capture, where the simulated GPU models "
                "none: the answer is nan. Record both events inside one profiled cell.",
                stacklevel=2,
            )
            return math.nan
        recorder = self.machine.recorder
        if recorder is not None and max(self.happens_at, end.happens_at) > recorder.clock.now():
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        return (end.happens_at - self.happens_at) / 1e6

    def __repr__(self) -> str:
        return f"<torch.cuda.Event {self.event_id} (simulated)>"


class UseStream:
    """`torch.cuda.stream(...)`: later work goes to this stream; None changes nothing."""

    def __init__(self, stream: SimulatedStream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self.stream.__enter__()

    def __exit__(self, *error: object) -> None:
        if self.stream is not None:
            self.stream.__exit__(*error)


def make_types(machine: Machine) -> tuple[type[SimulatedStream], type[SimulatedEvent]]:
    """The two classes for this machine: what `torch.cuda.Stream` and `torch.cuda.Event` are while it is on."""
    event: type[SimulatedEvent] = type("Event", (SimulatedEvent,), {"machine": machine})
    stream: type[SimulatedStream] = type("Stream", (SimulatedStream,), {"machine": machine, "event_type": event})
    return stream, event
