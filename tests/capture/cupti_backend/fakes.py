"""CUPTI and a CUDA driver without either: the ten calls, which deliver binary buffers through the real pool.

A test's program calls `FakeCupti.launch` and its like where a real one would call CUDA. What is recorded follows from
what was enabled, as with CUPTI, and arrives on another thread when it is flushed.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
import time
from dataclasses import dataclass, field

import numpy as np

from gpuviz.capture.cupti.callback_names import DRIVER_CALLS, RUNTIME_CALLS
from gpuviz.capture.cupti.driver import Context
from gpuviz.capture.cupti.layouts import Kind, strides
from gpuviz.capture.cupti.records import Records, blank, encode
from gpuviz.capture.cupti.statuses import SUCCESS, cupti_error
from gpuviz.capture.ranges import thread_key
from gpuviz.capture.recording import DeviceFacts

REQUEST = ctypes.CFUNCTYPE(
    None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t)
)
COMPLETE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
LAUNCH, MALLOC, DRIVER_LAUNCH, SYNCHRONIZE = 211, 20, 307, 17
CONTEXT_SYNCHRONIZE = 4
CLOCK_OFFSET_NS = 7_000_000_000  # the records' clock is ahead of the wall clock

type Bytes = np.ndarray[tuple[int], np.dtype[np.uint8]]


@dataclass
class Faults:
    """How this CUPTI misbehaves. `status`: call → the status that it returns from now on. `delay_s`: records arrive so
    long after the flush has returned. `withheld`: they never do, unless forced. `silent`: the GPU records nothing."""

    status: dict[str, int] = field(default_factory=dict)
    unsupported: set[int] = field(default_factory=set)
    delay_s: float = 0.0
    withheld: bool = False
    lost: bool = False
    silent: bool = False
    dropped: int = 0


@dataclass(frozen=True)
class Chunk:
    """Records as bytes, and where each ends."""

    raw: Bytes
    ends: np.ndarray[tuple[int], np.dtype[np.int64]]


class FakeCupti:
    """A `Control`: the calls, and a GPU that runs behind them."""

    name = "fake"
    path = "/nowhere/libcupti.so.13"

    def __init__(self, version: int = 130001, faults: Faults | None = None) -> None:
        self.version = version
        self.faults = faults or Faults()
        self.enabled: set[int] = set()
        self.calls_enabled: dict[str, set[int]] = {"runtime": set(), "driver": set()}
        self.flushes: list[bool] = []
        self.registrations = 0
        self.not_served = 0
        self._names: dict[str, ctypes.Array[ctypes.c_char]] = {}
        self._correlation = itertools.count(1)
        self._pending: dict[int, list[Chunk]] = {}
        self._lock = threading.Lock()
        self._deliveries: list[threading.Thread] = []

    # The ten calls.

    def register_callbacks(self, requested: int, completed: int) -> None:
        self._check("register_callbacks")
        self.registrations += 1
        self._request, self._complete = REQUEST(requested), COMPLETE(completed)

    def enable(self, kind: int) -> None:
        self._check("enable")
        if kind in self.faults.unsupported:
            raise cupti_error("enable", 21, "record it")
        assert kind not in (Kind.KERNEL, Kind.RUNTIME, Kind.DRIVER, Kind.GRAPH_TRACE)
        self.enabled.add(kind)

    def disable(self, kind: int) -> None:
        self.enabled.discard(kind)
        self._check("disable")

    def enable_runtime_api(self, callback_id: int, on: bool) -> None:
        self._enable_call("runtime", callback_id, on)

    def enable_driver_api(self, callback_id: int, on: bool) -> None:
        self._enable_call("driver", callback_id, on)

    def flush(self, forced: bool) -> None:
        self._check("flush")
        self.flushes.append(forced)
        if self.faults.lost or (self.faults.withheld and not forced):
            return
        with self._lock:
            chunks, self._pending = self._pending, {}
        for parts in chunks.values():  # a thread's buffer each, in no order
            delivery = threading.Thread(target=self._deliver, args=(parts,))
            self._deliveries.append(delivery)
            delivery.start()
            if not self.faults.delay_s:
                delivery.join()

    def dropped(self) -> int:
        self._check("dropped")
        dropped, self.faults.dropped = self.faults.dropped, 0
        return dropped

    def timestamp(self) -> int:
        self._check("timestamp")
        return time.time_ns() + CLOCK_OFFSET_NS

    def push(self, external_id: int) -> None:
        self._check("push")

    def pop(self) -> int:
        self._check("pop")
        return 0

    # What libcupti knows besides.

    def callback_names(self, api: str) -> dict[int, str]:
        table = RUNTIME_CALLS if api == "runtime" else DRIVER_CALLS
        return {number: f"{name}_v12000" if api == "runtime" else name for number, name in table.items()}

    def record_size(self, kind: int) -> int | None:
        return None

    # The program's side.

    def launch(self, name: str = "saxpy", *, driver: bool = False, duration_ns: int = 5000) -> int:
        """A kernel, and the call that launches it; returns its correlation id."""
        correlation = next(self._correlation)
        now = self.timestamp_unchecked()
        self._call("driver" if driver else "runtime", DRIVER_LAUNCH if driver else LAUNCH, correlation, now)
        if Kind.CONCURRENT_KERNEL in self.enabled and not self.faults.silent:
            kernel = blank(Kind.CONCURRENT_KERNEL, 1)
            kernel["start"], kernel["end"] = now + 3000, now + 3000 + duration_ns
            kernel["correlation_id"], kernel["name_address"] = correlation, self.pointer(name)
            kernel["context_id"], kernel["stream_id"], kernel["grid_x"], kernel["block_x"] = 1, 7, 8, 128
            self.emit(kernel)
        return correlation

    def launch_many(self, count: int) -> None:
        """The same, `count` times, made in bulk."""
        correlation = np.array([next(self._correlation) for _ in range(count)], dtype=np.uint32)
        start = self.timestamp_unchecked() + np.arange(count, dtype=np.uint64) * 5000
        calls = blank(Kind.RUNTIME, count)
        calls["callback_id"], calls["thread_id"], calls["correlation_id"] = LAUNCH, thread_key(), correlation
        calls["start"], calls["end"], calls["process_id"] = start, start + 2000, os.getpid()
        kernels = blank(Kind.CONCURRENT_KERNEL, count)
        kernels["start"], kernels["end"], kernels["correlation_id"] = start + 3000, start + 4000, correlation
        kernels["name_address"] = self.pointer("saxpy")
        self.emit(calls, kernels, order=np.tile([0, 1], count))

    def malloc(self) -> None:
        """A call that puts nothing on the GPU."""
        self._call("runtime", MALLOC, next(self._correlation), self.timestamp_unchecked())

    def synchronize(self, context: Context) -> None:
        """``cuCtxSynchronize``: the call, and the wait that it is."""
        correlation = next(self._correlation)
        now = self.timestamp_unchecked()
        self._call("driver", SYNCHRONIZE, correlation, now)
        if Kind.SYNCHRONIZATION in self.enabled:
            wait = blank(Kind.SYNCHRONIZATION, 1)
            wait["synchronization_type"], wait["correlation_id"] = CONTEXT_SYNCHRONIZE, correlation
            wait["start"], wait["end"], wait["context_id"], wait["stream_id"] = now, now + 10, 1, 0xFFFFFFFF
            self.emit(wait)

    def emit(self, *tables: Records, order: np.ndarray | None = None, raw: Bytes | None = None) -> None:
        """Records of this thread, to be delivered at the next flush."""
        if raw is not None:
            chunk = Chunk(raw, np.array([len(raw)]))
        else:
            kinds = [int(table["kind"][0]) for table in tables]
            sizes = np.array([strides(self.version)[kind] for kind in kinds])
            which = np.repeat(np.arange(len(tables)), [len(table) for table in tables]) if order is None else order
            chunk = Chunk(encode(tables, self.version, order), np.cumsum(sizes[which]))
        with self._lock:
            self._pending.setdefault(threading.get_ident(), []).append(chunk)

    def emit_unknown_kind(self) -> None:
        """A record of a kind that no version knows: whatever follows it cannot be read."""
        self.emit(raw=np.full(24, 251, dtype=np.uint8))

    def return_foreign_buffer(self) -> None:
        """A buffer that another owner of the callbacks has given to CUPTI."""
        foreign = ctypes.create_string_buffer(4096)
        self._complete(None, 0, ctypes.addressof(foreign), 4096, 128)

    def pointer(self, name: str) -> int:
        """The address of a name, the same each time."""
        text = self._names.setdefault(name, ctypes.create_string_buffer(name.encode()))
        return ctypes.addressof(text)

    @property
    def is_clean(self) -> bool:
        """Whether nothing is recorded any more."""
        return not self.enabled and not any(self.calls_enabled.values())

    def wait(self) -> None:
        """Until everything that is under way has been delivered."""
        for delivery in self._deliveries:
            delivery.join()

    def timestamp_unchecked(self) -> int:
        return time.time_ns() + CLOCK_OFFSET_NS

    def _call(self, api: str, callback_id: int, correlation: int, now: int) -> None:
        if callback_id not in self.calls_enabled[api]:
            return
        call = blank(Kind.RUNTIME if api == "runtime" else Kind.DRIVER, 1)
        call["callback_id"], call["correlation_id"], call["thread_id"] = callback_id, correlation, thread_key()
        call["start"], call["end"], call["process_id"] = now, now + 2000, os.getpid()
        self.emit(call)

    def _enable_call(self, api: str, callback_id: int, on: bool) -> None:
        (self.calls_enabled[api].add if on else self.calls_enabled[api].discard)(callback_id)
        self._check(f"enable_{api}_api")

    def _check(self, call: str) -> None:
        status = self.faults.status.get(call, SUCCESS)
        if status != SUCCESS:
            raise cupti_error(call, status, "do something")

    def _deliver(self, chunks: list[Chunk]) -> None:
        """CUPTI's thread: asks for buffers, fills them with whole records, returns them."""
        time.sleep(self.faults.delay_s)
        raw = np.concatenate([chunk.raw for chunk in chunks])
        before = np.cumsum([0, *(len(chunk.raw) for chunk in chunks[:-1])])
        ends = np.concatenate([chunk.ends + start for chunk, start in zip(chunks, before, strict=True)])
        start = 0
        while start < len(raw):
            buffer, size, most = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
            self._request(ctypes.byref(buffer), ctypes.byref(size), ctypes.byref(most))
            room = size.value or 4 << 20
            end = int(ends[np.searchsorted(ends, start + room, side="right") - 1])
            if buffer.value is None:
                self.not_served += 1
            else:
                ctypes.memmove(buffer.value, raw[start:end].ctypes.data, end - start)
                self._complete(None, 0, buffer.value, size.value, end - start)
            start = end


class FakeDriver:
    """A `Driver` whose contexts are given; what it waits for goes into the records of `cupti`."""

    def __init__(self, cupti: FakeCupti, contexts: int = 1, status: int = SUCCESS) -> None:
        self._cupti = cupti
        self._contexts = [Context(0x1000 + index, index) for index in range(contexts)]
        self._status = status
        self.synchronized: list[Context] = []

    def version(self) -> int | None:
        return 13000

    def device_count(self) -> int | None:
        return len(self._contexts) or None

    def contexts(self) -> list[Context]:
        return list(self._contexts)

    def synchronize(self, context: Context) -> int:
        self.synchronized.append(context)
        self._cupti.synchronize(context)
        return self._status

    def device_facts(self) -> dict[int, DeviceFacts]:
        return {index: DeviceFacts(name="Fake 100", sm_count=10) for index in range(len(self._contexts))}
