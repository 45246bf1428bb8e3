"""The modelled GPU: streams, copy engines and the calls of the host, on a virtual clock. Knows nothing of PyTorch.

Each stream is first in, first out. Streams do not slow each other down: two kernels that overlap each take as long as
they would alone. There is one copy engine for each direction, so that an upload, a download and a kernel can overlap,
and two uploads cannot. What happens is kept as rows, in the order in which it was issued; `encode` turns them into the
bytes that CUPTI would have delivered.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from gpuviz.capture.simulate.clock import VirtualClock
from gpuviz.capture.simulate.gpus import GIGA, Gpu

DEFAULT_STREAM = 7  # the number that CUPTI gives to the default stream
FIRST_OTHER_STREAM = 13
HTOD, DTOH, DTOD = 1, 2, 8  # CUpti_ActivityMemcpyKind
PAGEABLE, PINNED, DEVICE = 1, 2, 3  # CUpti_ActivityMemoryKind
WAIT_EVENT, STREAM_WAITS_EVENT, WAIT_STREAM, WAIT_DEVICE = 1, 2, 3, 4  # CUpti_ActivitySynchronizationType
NO_ID = 0xFFFFFFFF  # CUPTI_SYNCHRONIZATION_INVALID_VALUE


class ApiRow(NamedTuple):
    """One call of the CUDA runtime."""

    name: str
    start: int
    end: int
    thread: int
    correlation: int


class KernelRow(NamedTuple):
    """One kernel."""

    name: str
    start: int
    end: int
    stream: int
    correlation: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    registers: int
    shared_memory: int


class CopyRow(NamedTuple):
    """One copy."""

    kind: int
    source: int
    destination: int
    size: int
    start: int
    end: int
    stream: int
    correlation: int


class FillRow(NamedTuple):
    """One fill."""

    value: int
    size: int
    start: int
    end: int
    stream: int
    correlation: int


class SyncRow(NamedTuple):
    """One wait."""

    kind: int
    start: int
    end: int
    stream: int
    event: int
    correlation: int


class Kernel(NamedTuple):
    """A kernel to launch, and how long it would run."""

    name: str
    duration_ns: int
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (128, 1, 1)
    registers: int = 32
    shared_memory: int = 0


@dataclass
class Timeline:
    """One device during one capture. `thread` is who calls; `loaded` are the kernels that were launched before."""

    gpu: Gpu
    clock: VirtualClock
    loaded: set[str]
    thread: int = 0
    stream: int = DEFAULT_STREAM
    warm: bool = False  # kernels launched now were launched before the capture too
    rows: list[ApiRow | KernelRow | CopyRow | FillRow | SyncRow] = field(default_factory=list)
    _stream_free: dict[int, int] = field(default_factory=dict)
    _engine_free: dict[int, int] = field(default_factory=dict)
    _queued: deque[int] = field(default_factory=deque)
    _correlation: int = 0

    def __post_init__(self) -> None:
        self._limits = self.gpu.assumed

    @property
    def correlation(self) -> int:
        """The correlation id of the last call."""
        return self._correlation

    def stream_end(self, stream: int) -> int:
        """When the work issued to this stream so far is done; the past where there is none."""
        return self._stream_free.get(stream, 0)

    def _call(self, name: str, duration_ns: int, until: int = 0) -> tuple[int, int]:
        """A call that takes `duration_ns`, and at least until this moment; its start and end."""
        start = self.clock.now()
        self.clock.spend(duration_ns)
        self.clock.wait_until(until)
        end = max(self.clock.now(), start + duration_ns)
        self._correlation += 1
        self.rows.append(ApiRow(name, start, end, self.thread, self._correlation))
        return start, end

    def launch(self, kernel: Kernel) -> None:
        """cudaLaunchKernel: asynchronous, until too many launches wait."""
        limits = self._limits
        slot = 0
        queued = self._queued
        if len(queued) >= limits.launch_queue_length:
            slot = queued.popleft()
        cost = limits.host_launch_ns
        if kernel.name not in self.loaded:
            self.loaded.add(kernel.name)
            cost += 0 if self.warm else limits.host_first_launch_ns
        _, returned = self._call("cudaLaunchKernel", cost, slot)
        free = self._stream_free.get(self.stream)
        start = returned + limits.device_launch_latency_ns
        if free is not None:
            start = max(start, free + limits.device_kernel_gap_ns)
        end = start + max(kernel.duration_ns, limits.device_shortest_kernel_ns)
        self._stream_free[self.stream] = end
        queued.append(start)
        self.rows.append(
            KernelRow(
                kernel.name,
                start,
                end,
                self.stream,
                self._correlation,
                kernel.grid,
                kernel.block,
                kernel.registers,
                kernel.shared_memory,
            )
        )

    def copy_duration_ns(self, kind: int, size: int, pinned: bool) -> int:
        """How long one copy of this size keeps its engine busy."""
        limits = self._limits
        if kind == DTOD:  # reads and writes device memory
            rate = self.gpu.memory_bytes_per_s * limits.memory_efficiency / 2
        else:
            rate = limits.pinned_bytes_per_s if pinned else limits.pageable_bytes_per_s
        return limits.device_copy_fixed_ns + round(size / rate * GIGA)

    def copy(self, kind: int, size: int, *, pinned: bool = False, blocking: bool = False) -> None:
        """cudaMemcpyAsync, and cudaStreamSynchronize after it where `blocking`.

        Pinned memory is read and written by the engine while the host goes on. Pageable memory goes through a staging
        buffer: a download returns when it is complete, an upload when it is staged, which for more than 64 KiB means
        about when it is complete ("API synchronization behavior" of the CUDA runtime).
        """
        limits = self._limits
        on_host = PINNED if pinned else PAGEABLE
        duration = self.copy_duration_ns(kind, size, pinned)
        issued = self.clock.now() + limits.host_copy_call_ns
        start = max(issued + limits.device_launch_latency_ns, self._stream_free.get(self.stream, 0))
        if kind != DTOD:
            start = max(start, self._engine_free.get(kind, 0))
        end = start + duration
        until = 0
        if kind != DTOD and not pinned and (kind == DTOH or size > limits.pageable_staging_bytes):
            until = end
        self._call("cudaMemcpyAsync", limits.host_copy_call_ns, until)
        self._stream_free[self.stream] = end
        if kind != DTOD:
            self._engine_free[kind] = end
        source = {HTOD: on_host, DTOH: DEVICE, DTOD: DEVICE}[kind]
        destination = {HTOD: DEVICE, DTOH: on_host, DTOD: DEVICE}[kind]
        self.rows.append(CopyRow(kind, source, destination, size, start, end, self.stream, self._correlation))
        if blocking:
            self.synchronize_stream(self.stream)

    def fill(self, size: int, value: int = 0) -> None:
        """cudaMemsetAsync."""
        limits = self._limits
        _, returned = self._call("cudaMemsetAsync", limits.host_launch_ns)
        start = max(returned + limits.device_launch_latency_ns, self._stream_free.get(self.stream, 0))
        end = start + limits.device_copy_fixed_ns
        end += round(size / (self.gpu.memory_bytes_per_s * limits.memory_efficiency) * GIGA)
        self._stream_free[self.stream] = end
        self.rows.append(FillRow(value, size, start, end, self.stream, self._correlation))

    def synchronize_stream(self, stream: int) -> None:
        """cudaStreamSynchronize."""
        self._wait("cudaStreamSynchronize", WAIT_STREAM, self.stream_end(stream), stream)

    def synchronize_device(self) -> None:
        """cudaDeviceSynchronize."""
        self._wait("cudaDeviceSynchronize", WAIT_DEVICE, max(self._stream_free.values(), default=0))

    def _wait(self, call: str, kind: int, until: int, stream: int = NO_ID, event: int = NO_ID) -> None:
        start, end = self._call(call, self._limits.host_synchronize_ns, until)
        self.rows.append(SyncRow(kind, start, end, stream, event, self._correlation))

    def record_event(self, stream: int) -> int:
        """cudaEventRecord; when the event will have happened."""
        _, returned = self._call("cudaEventRecord", self._limits.host_event_call_ns)
        return max(returned, self.stream_end(stream))

    def wait_for_event(self, event: int, happens_at: int) -> None:
        """cudaEventSynchronize."""
        self._wait("cudaEventSynchronize", WAIT_EVENT, happens_at, event=event)

    def stream_waits(self, stream: int, event: int, happens_at: int) -> None:
        """cudaStreamWaitEvent: later work of `stream` starts after the event; the host goes on."""
        start, end = self._call("cudaStreamWaitEvent", self._limits.host_event_call_ns)
        self._stream_free[stream] = max(self.stream_end(stream), happens_at)
        self.rows.append(SyncRow(STREAM_WAITS_EVENT, start, end, stream, event, self._correlation))

    def query(self, call: str, done_at: int) -> bool:
        """cudaEventQuery or cudaStreamQuery: whether everything up to this moment has happened."""
        self._call(call, self._limits.host_event_call_ns)
        return done_at <= self.clock.now()

    def allocate(self, name: str = "cudaMalloc") -> None:
        """cudaMalloc, cudaHostAlloc: slow, and known for it."""
        self._call(name, self._limits.host_allocate_ns)

    def free(self) -> None:
        """cudaFree, which waits for the device."""
        self._call("cudaFree", self._limits.host_allocate_ns, max(self._stream_free.values(), default=0))
