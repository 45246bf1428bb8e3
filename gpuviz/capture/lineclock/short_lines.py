"""Lines and functions too short to hold a launch are switched off.

A launch takes microseconds. A loop of pure Python takes tens of nanoseconds per line, and would run many times slower
with a stamp for each. So a thread looks at itself every 256 stamps: where they came too fast it measures the next
stamps one by one, and then the interpreter is told not to report the lines that are too short (DISABLE) and the
functions that are too short. Every 50 ms all are switched on again: they may have become longer. A line that calls
code that is recorded is never switched off: it is part of the call path of what that code launches.
"""

from __future__ import annotations

import sys
from _thread import allocate_lock, start_new_thread
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from time import time_ns
from types import CodeType

from gpuviz.capture.lineclock.stamps import LOOK, Stamps, ThreadLog, decode

SHORT_NS = 1200
REARM_SECONDS = 0.050
LEAST_SAMPLES = 4
# A measurement; where it found nothing the next one is four times as long (a loop may have hundreds of lines). To
# measure a stamp costs about as much as to write it, so a measurement waits until so many times as many are written.
MEASURED_STAMPS = LOOK
MOST_MEASURED_STAMPS = 4096
WAIT = 32
# Stamps that are further apart than this cost less than a tenth of the time; it is not worth a measurement.
SPARSE_NS = 3000

STAMP, MEASURE, SIFT = "stamp", "measure", "sift"


type LineKey = tuple[int, int]
"""The id of a code object and a line in it."""


@dataclass(frozen=True)
class Switches:
    """How the clock does it: which callback sees the lines; all lines of these code objects on again; a function off,
    by the index of its code; all functions on again. `index_of`: the index of a code object."""

    use: Callable[[str], None]
    index_of: Callable[[CodeType], int]
    rearm_lines: Callable[[Iterable[CodeType]], None]
    mute: Callable[[int], None]
    unmute_all: Callable[[], None]


class ShortLines:
    """One of three callbacks sees the lines: the first only stamps, the second also notes the code of each line that
    the thread `measured_ident` stamps, the third also switches off the lines in `short`.

    `flagged`: (code index, line or None for the whole function) → how often it was switched off.
    """

    def __init__(self, stamps: Stamps, switches: Switches) -> None:
        self.short: set[LineKey] = set()
        self.flagged: dict[tuple[int, int | None], int] = {}
        self.codes: list[CodeType] = []
        self.measured_ident: int | None = None
        self._stamps, self._switches = stamps, switches
        self._state = STAMP
        self._window = MEASURED_STAMPS
        self._begin = 0
        self._begin_ns = 0
        self._skip = 0
        self._off: dict[int, CodeType] = {}
        self._muted = False
        self._rearming: Rearming | None = None
        self._lock = allocate_lock()

    def look(self, log: ThreadLog) -> None:
        """This thread has written `LOOK` stamps. Called by the thread itself."""
        mean_ns = self._stamps.pack(log)
        with self._lock:
            if self._state == MEASURE and log.ident == self.measured_ident:
                if len(log.stamps) - self._begin >= self._window * self._stamps.width or log.full_at_ns:
                    self._judge(log)
            # After lines have been switched off, what called them may be short too: measure again at once.
            elif mean_ns < SPARSE_NS and self._may_measure(log):
                self.measured_ident, self._begin, self._begin_ns = log.ident, len(log.stamps), time_ns()
                self.codes = []
                self._change(MEASURE)
            elif self._state == SIFT:
                self._change(STAMP)

    def stop(self) -> None:
        """End the thread that switches lines on again."""
        rearming, self._rearming = self._rearming, None
        if rearming is not None:
            rearming.stop()

    def forget_thread(self) -> None:
        """After a fork the child has no such thread, and the lock may be held by a thread that it has not."""
        self._rearming = None
        self._lock = allocate_lock()

    def _change(self, state: str) -> None:
        self._state = state
        self._switches.use(state)

    def _may_measure(self, log: ThreadLog) -> bool:
        # A thread that began a measurement and then waits must not keep the others from theirs.
        if self._state == MEASURE and time_ns() - self._begin_ns < REARM_SECONDS * 1e9:
            return False
        if self._skip:
            self._skip -= 1
            return False
        return log.full_at_ns is None

    def _judge(self, log: ThreadLog) -> None:
        """End a measurement: switch off what is too short."""
        measured = self._measure(log)
        lines = measured.short_lines()
        functions = measured.short_functions()
        self.codes, self.measured_ident = [], None
        if not lines and not functions:
            self._skip = WAIT * self._window // LOOK
            self._window = min(4 * self._window, MOST_MEASURED_STAMPS)
            self._change(STAMP)
            return
        self._skip = 0
        self._window = MEASURED_STAMPS
        self.short = set(lines)
        for (_, line), code in lines.items():
            self._flag(self._switches.index_of(code), line)
            self._off[id(code)] = code
        for code_index in functions:
            self._flag(code_index, None)
            self._switches.mute(code_index)
            self._muted = True
        if self._rearming is None:
            self._rearming = Rearming(self._rearm)
            self._rearming.start()
        self._change(SIFT)

    def _flag(self, code_index: int, line: int | None) -> None:
        self.flagged[code_index, line] = self.flagged.get((code_index, line), 0) + 1

    def _measure(self, log: ThreadLog) -> _Measurement:
        """Durations of the lines and the calls since the measurement began."""
        width = self._stamps.width
        times = log.stamps[self._begin :: width]
        whats = log.stamps[self._begin + 1 :: width]
        measured = _Measurement()
        if sum(what >= 0 for what in whats) != len(self.codes):
            return measured  # an interrupt dropped a stamp: the codes are not those of the lines
        codes = iter(self.codes)
        calls: list[_OpenCall] = []
        for index, what in enumerate(whats[:-1]):
            code_index, is_entry = decode(what) if what < 0 else (0, False)
            if what >= 0:
                following = whats[index + 1]
                calls_recorded_code = following < 0 and decode(following)[1]
                measured.line(next(codes), what, None if calls_recorded_code else times[index + 1] - times[index])
            elif is_entry:
                if calls:
                    calls[-1].is_leaf = False
                calls.append(_OpenCall(code_index, times[index]))
            elif calls and calls[-1].code_index == code_index:
                call = calls.pop()
                measured.call(code_index, times[index] - call.begin_ns if call.is_leaf else None)
        return measured

    def _rearm(self) -> None:
        """Switch everything on again. Runs in the thread of `Rearming`."""
        if not self._off and not self._muted:
            return
        with self._lock:
            self.short = set()
            if self._state == SIFT:
                self._change(STAMP)
            off, self._off = self._off, {}
            self._switches.rearm_lines(off.values())
            if self._muted:
                self._muted = False
                self._switches.unmute_all()


@dataclass
class _OpenCall:
    code_index: int
    begin_ns: int
    is_leaf: bool = True


@dataclass
class _Measurement:
    """Samples and their sum, by line and by function. A sample without a duration makes its line or function long."""

    lines: dict[LineKey, list[int]] = field(default_factory=dict)
    functions: dict[int, list[int]] = field(default_factory=dict)
    codes: dict[int, CodeType] = field(default_factory=dict)

    def line(self, code: CodeType, line: int, duration_ns: int | None) -> None:
        self.codes[id(code)] = code
        self._add(self.lines.setdefault((id(code), line), [0, 0]), duration_ns)

    def call(self, code_index: int, duration_ns: int | None) -> None:
        self._add(self.functions.setdefault(code_index, [0, 0]), duration_ns)

    def short_lines(self) -> dict[LineKey, CodeType]:
        return {key: self.codes[key[0]] for key, total in self.lines.items() if _is_short(*total)}

    def short_functions(self) -> list[int]:
        return [code_index for code_index, total in self.functions.items() if _is_short(*total)]

    @staticmethod
    def _add(total: list[int], duration_ns: int | None) -> None:
        total[0] += 1
        total[1] += SHORT_NS * MOST_MEASURED_STAMPS if duration_ns is None else duration_ns


def _is_short(samples: int, total_ns: int) -> bool:
    return samples >= LEAST_SAMPLES and total_ns < SHORT_NS * samples


class Rearming:
    """A thread that the user does not see: `threading` does not know it, so it is in no list and is never traced.
    It exists only once lines have been switched off, because a loop whose lines are all off reports nothing that
    could switch them on again."""

    def __init__(self, rearm: Callable[[], None]) -> None:
        self._rearm = rearm
        self._running, self._ended = allocate_lock(), allocate_lock()
        self._running.acquire()
        self._ended.acquire()
        self._started = False

    def start(self) -> None:
        self._started = True  # no interrupt comes between this and the start, because there is no call between
        start_new_thread(self._run, ())

    def _run(self) -> None:
        try:
            while not self._running.acquire(timeout=REARM_SECONDS):
                self._rearm()
        finally:
            self._ended.release()

    def stop(self) -> None:
        """Returns when the thread has ended."""
        self._running.release()
        if self._started and not sys.is_finalizing():
            self._ended.acquire()
