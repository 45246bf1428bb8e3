"""The packed stamps of each thread, within one bound.

A stamp is two or three numbers of one array: the time, what happened, and the next autograd sequence number where
torch is loaded. What happened is a line (its number) or, below zero, a function that was entered or left.
"""

from __future__ import annotations

import threading
from _thread import _local
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count, islice
from time import time_ns

GRANT = 1024
"""So many stamps a thread writes before it looks at itself."""

type Pen = tuple[Iterator[int], Callable[[int], None]]
"""The clock of a thread (it gives out after a grant) and the function that appends to its stamps."""


def entered(code_index: int) -> int:
    """The stamp of a function that was entered or resumed."""
    return -2 * code_index - 2


def left(code_index: int) -> int:
    """The stamp of a function that returned, yielded or was left by an exception."""
    return -2 * code_index - 1


def decode(what: int) -> tuple[int, bool]:
    """(code index, whether it was entered) of a stamp below zero."""
    return (-what - 1) >> 1, not what & 1


@dataclass(eq=False)
class ThreadLog:
    """The stamps of one thread. `full_at_ns`: from then on stamps were only counted."""

    ident: int
    native_id: int | None
    name: str
    stamps: array[int] = field(default_factory=lambda: array("q"))
    full_at_ns: int | None = None
    final_sequence: int | None = None
    lost: Iterator[int] = field(default_factory=count)


class Stamps:
    """The logs of all threads. `pens` is what the callbacks use: native thread → its pen, absent before its first
    stamp."""

    def __init__(self, memory_bytes: int, sequence: Callable[[], int] | None) -> None:
        self.sequence = sequence
        self.width = 2 if sequence is None else 3
        self.pens: dict[int, Pen] = {}
        self.logs: list[ThreadLog] = []
        self._current: dict[int, ThreadLog] = {}
        self._seeded: dict[int, ThreadLog] = {}
        self._resting: dict[tuple[int, int], ThreadLog] = {}
        self._farewells = _local()
        # What an array holds beyond its elements (an eighth at most, CPython's array_resize) is part of the bound.
        self._granted, self._bound = 0, memory_bytes * 8 // 9 // (8 * self.width)

    def seed(self, ident: int, frames: list[tuple[int, int]]) -> None:
        """The (code index, line) of the functions that run in this thread already, outermost first."""
        thread = next((thread for thread in threading.enumerate() if thread.ident == ident), None)
        log = ThreadLog(ident, thread.native_id if thread else None, thread.name if thread else f"thread {ident}")
        now = time_ns()
        for code_index, line in frames:
            for what in (entered(code_index), line):
                log.stamps.extend((now, what, 0)[: self.width])
        self.logs.append(log)
        self._seeded[ident] = log

    def log_of_this_thread(self) -> ThreadLog:
        """Its log; a new one when the thread is new. Two threads never share one, though the system gives the number
        of a thread that has ended to another one."""
        ident, native_id = threading.get_ident(), threading.get_native_id()
        log = self._current.get(ident)
        if log is None:
            log = self._seeded.pop(ident, None) or self._resting.pop((ident, native_id), None)
            if log is None:
                log = ThreadLog(ident, native_id, _name_of_this_thread(ident))
                self.logs.append(log)
            log.native_id = native_id
            self._current[ident] = log
            self._farewells.farewell = _Farewell(self, log)
        return log

    def renew_pen(self, log: ThreadLog, stamps: int = GRANT) -> None:
        """Let the thread write so many stamps more; where the bound is reached, only count them."""
        self._granted += stamps + 1  # one more is written slowly, when the grant is used up
        if log.full_at_ns is None and self._granted <= self._bound:
            self.pens[log.ident] = (islice(iter(time_ns, None), stamps), log.stamps.append)
        else:
            self.close(log)

    def close(self, log: ThreadLog) -> None:
        """Only count the stamps of this thread from now on."""
        self.repair(log)
        if log.full_at_ns is None:
            log.full_at_ns = time_ns()
        self.pens[log.ident] = (log.lost, deque[int](maxlen=0).append)

    def write(self, log: ThreadLog, what: int) -> None:
        """One stamp, slowly."""
        if log.full_at_ns is not None:
            next(log.lost)
            return
        log.stamps.extend((time_ns(), what, self.sequence() if self.sequence else 0)[: self.width])

    def repair(self, log: ThreadLog) -> None:
        """Drop a stamp that an interrupt has left half written."""
        half = len(log.stamps) % self.width
        if half:
            del log.stamps[-half:]

    def finish(self) -> None:
        """No more stamps. Notes where the sequence numbers of this thread have come to."""
        log = self._current.get(threading.get_ident())
        if log is not None and self.sequence is not None:
            log.final_sequence = self.sequence()
        for each in self.logs:
            self.repair(each)

    def retire(self, log: ThreadLog) -> None:
        """The thread has ended (or a thread that is not Python's has given back its Python state for now)."""
        if self._current.get(log.ident) is log:
            self.pens.pop(log.ident, None)
            del self._current[log.ident]
            if log.native_id is not None:
                self._resting[log.ident, log.native_id] = log


class _Farewell:
    """Lives in the thread's local storage, and so dies with the thread."""

    def __init__(self, stamps: Stamps, log: ThreadLog) -> None:
        self._stamps, self._log = stamps, log

    def __del__(self) -> None:
        self._stamps.retire(self._log)


def _name_of_this_thread(ident: int) -> str:
    """`threading.current_thread` would register a thread that is not Python's; this only looks."""
    thread = next((thread for thread in threading.enumerate() if thread.ident == ident), None)
    return thread.name if thread is not None else f"thread {threading.get_native_id()}"
