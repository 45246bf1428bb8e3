"""The packed stamps of each thread, within one bound.

A stamp is two or three numbers: the time, what happened, and, where it is asked for, the next autograd sequence number.
What happened is a line (its number) or, below zero, a function that was entered or left. A thread appends the numbers
to a list, which costs a third of appending them to an array, and packs the list when it holds `LOOK` stamps.
"""

from __future__ import annotations

import threading
from _thread import _local, allocate_lock
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from time import time_ns

from gpuviz.capture.lineclock.uninterrupted import without_check_at_start

LOOK = 256
"""So many stamps a thread writes before it packs them and looks at itself."""


def entered(code_index: int) -> int:
    """The stamp of a function that was entered."""
    return -2 * code_index - 2


def left(code_index: int) -> int:
    """The stamp of a function that returned, yielded or was left by an exception."""
    return -2 * code_index - 1


UNKNOWN_NUMBER = -1
"""Each thread counts autograd's nodes for itself, and cannot be asked by another one."""

OFFSET_BITS = 32
"""A generator is resumed in the middle of a line, which is not reported again. The stamp of resuming is that of
entering, less the offset of the instruction, shifted by so many bits."""


def decode(what: int) -> tuple[int, bool]:
    """(code index, whether it was entered) of a stamp below zero."""
    return (-what - 1 & (1 << OFFSET_BITS) - 1) >> 1, not what & 1


def offset_of(what: int) -> int:
    """Where a generator was resumed; 0 for a function that was entered."""
    return -what - 1 >> OFFSET_BITS


@dataclass(eq=False)
class ThreadLog:
    """The stamps of one thread: packed, and `pending`. `full_at_ns`: from then on stamps were only counted."""

    ident: int
    native_id: int | None
    name: str
    stamps: array[int] = field(default_factory=lambda: array("q"))
    pending: list[int] = field(default_factory=list)
    full_at_ns: int | None = None
    final_sequence: int | None = None
    lost: int = 0


class Stamps:
    """The logs of all threads. `pens` is what the callbacks use: thread → its pending stamps, absent before its first
    stamp. `current` are the logs of threads that live, `resting` those of threads that have ended. `mutes`: (time, code
    index) of functions that were switched off: they leave no stamp when they end."""

    def __init__(self, memory_bytes: int, sequence: Callable[[], int] | None) -> None:
        self.sequence = sequence
        self.width = 2 if sequence is None else 3
        self.pens: dict[int, list[int]] = {}
        self.logs: list[ThreadLog] = []
        self.mutes: list[tuple[int, int]] = []
        self.current: dict[int, ThreadLog] = {}
        self._seeded: dict[int, ThreadLog] = {}
        self.resting: dict[tuple[int, int | None], ThreadLog] = {}
        self._farewells = _local()
        self._lock = allocate_lock()
        # What an array holds beyond its elements (an eighth at most, CPython's array_resize) is part of the bound.
        self._packed, self._bound = 0, memory_bytes * 8 // 9 // 8

    def seed(self, ident: int, frames: list[tuple[int, int]]) -> None:
        """The (code index, line) of the functions that run in this thread already, outermost first."""
        thread = next((thread for thread in threading.enumerate() if thread.ident == ident), None)
        log = ThreadLog(ident, thread.native_id if thread else None, thread.name if thread else f"thread {ident}")
        now = time_ns()
        is_this_thread = ident == threading.get_ident()
        number = self.sequence() if self.sequence and is_this_thread else UNKNOWN_NUMBER
        for code_index, line in frames:
            for what in (entered(code_index), line):
                log.pending.extend((now, what, number)[: self.width])
        self.logs.append(log)
        self._seeded[ident] = log

    def log_of_this_thread(self) -> ThreadLog:
        """Its log; a new one when the thread is new. Two threads never share one, though the system gives the number
        of a thread that has ended to another one."""
        ident, native_id = threading.get_ident(), threading.get_native_id()
        log = self.current.get(ident)
        if log is None:
            log = self._seeded.pop(ident, None) or self.resting.pop((ident, native_id), None)
            if log is None:
                log = ThreadLog(ident, native_id, _name_of_this_thread(ident))
                self.logs.append(log)
            log.native_id = native_id
            self.current[ident] = log
            self.pens[ident] = log.pending
            self._farewells.farewell = _Farewell(self, log)
        return log

    def write(self, log: ThreadLog, what: int) -> None:
        """One stamp, slowly."""
        log.pending.extend((time_ns(), what, self.sequence() if self.sequence else 0)[: self.width])

    def pack(self, log: ThreadLog) -> float:
        """Pack the pending stamps, or only count them where memory is full. Returns the mean ns between them."""
        self.repair(log)
        # An interrupt comes after a call: none can lose these stamps between the list and the array.
        pending = log.pending[:]
        del log.pending[:]
        if not pending:
            return 0.0
        with self._lock:
            if log.full_at_ns is None and self._packed + len(pending) > self._bound:
                log.full_at_ns = pending[0]
            if log.full_at_ns is None:
                self._packed += len(pending)
        if log.full_at_ns is None:
            log.stamps.fromlist(pending)
        else:
            log.lost += len(pending) // self.width
        return (pending[-self.width] - pending[0]) * self.width / len(pending)

    def close(self, log: ThreadLog) -> None:
        """No memory is left: only count the stamps of this thread from now on."""
        if log.full_at_ns is None:
            log.full_at_ns = log.pending[0] if log.pending else time_ns()
        self.pack(log)

    def repair(self, log: ThreadLog) -> None:
        """Drop a stamp that an interrupt has left half written."""
        half = len(log.pending) % self.width
        if half:
            del log.pending[-half:]

    def finish(self) -> None:
        """No more stamps. Notes where the sequence numbers of this thread have come to."""
        log = self.current.get(threading.get_ident())
        if log is not None and self.sequence is not None:
            log.final_sequence = self.sequence()
        for each in self.logs:
            self.pack(each)


class _Farewell:
    """Lives in the thread's local storage, and so dies with the thread: the thread has ended (or a thread that is not
    Python's has given back its Python state for now)."""

    def __init__(self, stamps: Stamps, log: ThreadLog) -> None:
        self._pens, self._current, self._resting = stamps.pens, stamps.current, stamps.resting
        self._log = log

    def __del__(self) -> None:
        # An interrupt that is raised in here would be lost, so nothing in here is a call: the interpreter looks for
        # signals after calls.
        log = self._log
        ident = log.ident
        try:
            if self._current[ident] is log:
                del self._current[ident]
                self._resting[ident, log.native_id] = log
                del self._pens[ident]
        except KeyError:
            pass


without_check_at_start(_Farewell.__del__)


def _name_of_this_thread(ident: int) -> str:
    """`threading.current_thread` would register a thread that is not Python's; this only looks."""
    thread = next((thread for thread in threading.enumerate() if thread.ident == ident), None)
    return thread.name if thread is not None else f"thread {threading.get_native_id()}"
