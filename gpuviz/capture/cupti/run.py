"""One capture by CUPTI, from its first call to its last."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from gpuviz.capture.backend import CaptureRequest
from gpuviz.capture.cupti import walk
from gpuviz.capture.cupti.allowlist import Allowlist
from gpuviz.capture.cupti.call_stacks import Lines, LineSource, call_stacks
from gpuviz.capture.cupti.checks import graph_is_being_captured
from gpuviz.capture.cupti.control import Control
from gpuviz.capture.cupti.driver import Driver
from gpuviz.capture.cupti.fence import Fence, settle, wait_for_delivery, without_own_calls
from gpuviz.capture.cupti.layouts import API_KINDS, KERNEL_KINDS, Kind, strides
from gpuviz.capture.cupti.losses import count_dropped, silent_gpu
from gpuviz.capture.cupti.pool import Pool
from gpuviz.capture.cupti.records import Records
from gpuviz.capture.cupti.statuses import NOT_RECORDABLE_HERE
from gpuviz.capture.ranges import thread_key
from gpuviz.capture.recording import ClockPair, Recording
from gpuviz.capture.times import Clock
from gpuviz.errors import CuptiError

# CONCURRENT_KERNEL, never KERNEL, which makes kernels run one after another. The API kinds stay off: single calls are
# recorded instead. GRAPH_TRACE stays off: it would hide the kernels of a graph.
_NEEDED = (Kind.CONCURRENT_KERNEL, Kind.MEMCPY, Kind.MEMSET)
_OPTIONAL = (Kind.MEMCPY2, Kind.SYNCHRONIZATION, Kind.OVERHEAD, Kind.DEVICE, Kind.CONTEXT, Kind.STREAM)
# What is read here, before the trace is made: names and call stacks.
_READ_EARLY = (*API_KINDS, *KERNEL_KINDS, Kind.DEVICE)
_CLOCK_TRIES = 5


class Run:
    """A capture that is running or has just ended. `problems`: what may be missing, one sentence each."""

    def __init__(
        self, control: Control, driver: Driver, pool: Pool, request: CaptureRequest, lines: LineSource | None
    ) -> None:
        self.process_id = os.getpid()
        self.problems: list[str] = []
        self.overhead_ns = 0
        self._control = control
        self._driver = driver
        self._pool = pool
        self._request = request
        self._line_source = lines
        self._lines_running = False
        self._sizes = strides(control.version)
        self._allowlist = Allowlist(control)
        self._enabled: list[Kind] = []
        self._calls_enabled = False
        self._unclean = False
        self._cupti_holds = False
        self._first: ClockReading | None = None
        self._main_thread = thread_key()
        self._properties: dict[str, str] = {"cupti_control": control.name, "libcupti": control.path}

    def begin(self) -> None:
        """Switch everything on; the lines last, so that they see nothing of this."""
        for context in self._driver.contexts():
            self._driver.synchronize(context)
        self._pool.open(self._control.version, self._sizes)
        self._control.register_callbacks(*self._pool.callbacks)
        self._cupti_holds = True
        for kind in _NEEDED:
            self._enable(kind)
        for kind in _OPTIONAL:
            try:
                self._enable(kind)
            except CuptiError as error:
                if error.status not in NOT_RECORDABLE_HERE:
                    raise
                self._properties[f"not_recorded_{kind.name.lower()}"] = str(error)
        with suppress(CuptiError):
            self._control.dropped()  # CUPTI counts since it was last asked
        self._calls_enabled = True
        self._allowlist.enable(self._control)
        self._first = read_clocks(self._control)
        if self._line_source is not None:
            self._lines_running = True
            self._line_source.start()

    def end(self, fence_timeout_s: float) -> Recording:
        """Collect everything. The recording's buffers are good until `abandon`."""
        began = time.perf_counter_ns()
        lines = self._stop_lines()
        assert self._first is not None
        clock = clock_pairs(self._first, read_clocks(self._control))
        self._pool.use_reserve()
        fence = self._fence(fence_timeout_s)
        self._disable()
        self._collect()
        dropped = count_dropped(self._control, self._pool.stats(), complete=not self.problems)
        if dropped.problem is not None:
            self.problems.append(dropped.problem)
        buffers = without_own_calls(self._pool.buffers, self._sizes, fence.own_calls)
        gathered = walk.gather(buffers, self._sizes, kinds=_READ_EARLY)
        assert gathered is not None  # there is a pool, so there is a compiled walk
        silent = silent_gpu(gathered, self._allowlist)
        if silent is not None:
            self.problems.append(silent)
        stacks = call_stacks(lines, gathered.records, Clock(*clock), self._main_thread)
        self.overhead_ns += time.perf_counter_ns() - began
        if self.problems:
            self._properties["may_be_missing"] = " ".join(self.problems)
        return Recording(
            title=self._request.label or "CUPTI capture",
            source="cupti",
            cupti_version=self._control.version,
            clock=clock,
            buffers=buffers,
            names=names_at(addresses(gathered.records)),
            callback_names=self._allowlist.callback_names(),
            stacks=stacks.stacks,
            api_stacks=stacks.api_stacks,
            cells=stacks.cells,
            ranges=self._request.ranges.ranges,
            process_id=self.process_id,
            host=platform.node() or None,
            threads={(thread.ident or 0) & 0xFFFFFFFF: thread.name for thread in threading.enumerate()},
            devices=self._driver.device_facts(),
            dropped_records=dropped.count,
            overhead_ns=self.overhead_ns,
            versions=self._versions(),
            properties=self._properties,
        )

    def abandon(self) -> None:
        """Leave nothing behind, whatever has happened: safe to call at any time, and twice."""
        if self.process_id != os.getpid():
            return
        try:
            self._stop_lines()
        finally:
            try:
                self._disable()
                self._collect()  # else what was recorded so far would be in the next capture
            finally:
                self._pool.give_back()

    def _enable(self, kind: Kind) -> None:
        self._enabled.append(kind)  # first: what fails half way is switched off too
        self._control.enable(kind)

    def _disable(self) -> None:
        """Switch off what was switched on, each by itself: one that fails must not keep the others on."""
        calls, self._calls_enabled = self._calls_enabled, False
        if calls:
            for callback_id in self._allowlist.runtime:
                self._attempt(self._control.enable_runtime_api, callback_id, False)
            for callback_id in self._allowlist.driver:
                self._attempt(self._control.enable_driver_api, callback_id, False)
        while self._enabled:
            self._attempt(self._control.disable, self._enabled.pop())

    def _collect(self) -> None:
        """Make CUPTI hand out all that it has, once nothing is recorded any more."""
        holds, self._cupti_holds = self._cupti_holds, False
        if holds:
            self._attempt(self._control.flush, True)
            settle(self._pool)

    def _fence(self, timeout_s: float) -> Fence:
        if graph_is_being_captured():
            fence = Fence(
                "A CUDA graph was being captured when this capture ended, so that the GPU could not be waited for: "
                "records may be missing. End the capture after the graph block."
            )
        else:
            try:
                fence = wait_for_delivery(
                    self._control,
                    self._driver,
                    self._pool,
                    self._sizes,
                    self._allowlist.synchronizing,
                    timeout_s=timeout_s,
                )
            except CuptiError as error:
                fence = Fence(f"The records of the capture could not be asked for, and some may be missing: {error}")
        if fence.problem is not None:
            self.problems.append(fence.problem)
        return fence

    def _attempt[**P](self, call: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Do it. A failure is a problem of this capture, told once, and no exception."""
        try:
            call(*args, **kwargs)
        except CuptiError as error:
            if not self._unclean:
                self.problems.append(f"CUPTI did not end the capture cleanly: {error}")
            self._unclean = True

    def _stop_lines(self) -> Lines | None:
        running, self._lines_running = self._lines_running, False
        if not running or self._line_source is None:
            return None
        lines = self._line_source.stop()
        if lines.problem is not None:
            self._properties["lines"] = lines.problem
        return lines

    def _versions(self) -> Mapping[str, str]:
        versions = {"cupti": version_words(self._control.version), "python": platform.python_version()}
        driver = self._driver.version()
        if driver is not None:
            versions["cuda_driver"] = f"{driver // 1000}.{driver % 1000 // 10}"
        for name in ("torch", "cupy", "numba", "jax", "triton"):
            version = getattr(sys.modules.get(name), "__version__", None)
            if version is not None:
                versions[name] = str(version)
        return versions


def version_words(version: int) -> str:
    """CUDA's words for what ``cuptiGetVersion`` answers: 130001 → 13.0, 28 → 12.9."""
    if version >= 130000:
        return f"{version // 10000}.{version % 10000 // 100}"
    return {26: "12.8", 27: "12.9", 28: "12.9"}.get(version, f"API {version}")


@dataclass(frozen=True)
class ClockReading:
    """One instant on both clocks, and how far apart the two readings may be."""

    pair: ClockPair
    uncertainty_ns: int

    @property
    def offset_ns(self) -> int:
        """The wall clock's lead."""
        return self.pair.unix_ns - self.pair.cupti_ns


def read_clocks(control: Control) -> ClockReading:
    """The tightest of a few readings of CUPTI's clock, each between two of the wall clock."""
    readings = []
    for _ in range(_CLOCK_TRIES):
        before = time.time_ns()
        cupti_ns = control.timestamp()
        after = time.time_ns()
        readings.append(ClockReading(ClockPair(cupti_ns, (before + after) // 2), (after - before + 1) // 2))
    return min(readings, key=lambda reading: reading.uncertainty_ns)


def clock_pairs(first: ClockReading, last: ClockReading) -> tuple[ClockPair, ClockPair]:
    """The line that converts times. Where the two readings agree as well as they can, the clocks run at one rate: a
    rate made of their noise would stretch the kernels of a short capture."""
    if abs(last.offset_ns - first.offset_ns) > first.uncertainty_ns + last.uncertainty_ns:
        return first.pair, last.pair
    return first.pair, ClockPair(last.pair.cupti_ns, last.pair.cupti_ns + first.offset_ns)


def addresses(records: Mapping[int, Records]) -> set[int]:
    """Every distinct name that these records point to."""
    named = [records[kind]["name_address"] for kind in (*KERNEL_KINDS, Kind.DEVICE) if kind in records]
    return set(np.unique(np.concatenate(named)).tolist()) - {0} if named else set()


def names_at(pointers: Iterable[int]) -> dict[int, str]:
    """The text behind each pointer. CUPTI keeps each name once, so a million kernels have some hundred pointers."""
    return {pointer: ctypes.string_at(pointer).decode("utf-8", "replace") for pointer in pointers}
