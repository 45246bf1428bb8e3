"""Steps and regions that the program marks while it is captured."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field


def thread_key() -> int:
    """The number of this thread as CUPTI writes it into its records by default: the low 32 bits of pthread_self."""
    return threading.get_ident() & 0xFFFFFFFF


@dataclass
class RecordedRange:
    """A named interval on a host thread, in Unix ns of the backend's clock; `end_ns` None: it has not ended yet."""

    kind: str
    name: str
    start_ns: int
    end_ns: int | None
    thread: int
    domain: str | None = None


@dataclass
class RangeLog:
    """Collects the ranges of one capture, from any thread.

    A backend whose records are on a clock of its own sets `clock` when it starts; otherwise it is the wall clock. A
    call of `step` ends a step, as in PyTorch's profiler: the first step begins where the capture began, and what
    follows the last call is no step.
    """

    clock: Callable[[], int] = time.time_ns
    ranges: list[RecordedRange] = field(default_factory=list)
    step_count: int = 0
    _step_start_ns: int | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def open(self) -> None:
        """The capture runs: the first step begins."""
        self._step_start_ns = self.clock()

    def step(self) -> None:
        """End a step here and begin the next one."""
        with self._lock:
            now = self.clock()
            start = now if self._step_start_ns is None else self._step_start_ns
            self.step_count += 1
            self.ranges.append(RecordedRange("step", f"step {self.step_count}", start, now, thread_key()))
            self._step_start_ns = now

    def begin(self, name: str) -> RecordedRange:
        """A region begins; `end` ends it."""
        region = RecordedRange("region", name, self.clock(), None, thread_key())
        self.ranges.append(region)  # appending to a list is atomic
        return region

    def end(self, region: RecordedRange) -> None:
        """The region that `begin` returned ends."""
        region.end_ns = self.clock()
