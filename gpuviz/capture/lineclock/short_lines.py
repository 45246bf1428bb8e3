"""Lines too short to hold a launch are switched off.

A launch takes microseconds. A loop of pure Python takes tens of nanoseconds per line, and would run many times slower
with a stamp for each. So a thread looks at itself every 1024 stamps: where they came too fast it measures the next
256, line by line, and the interpreter is told not to report the lines that are too short (DISABLE). Every 50 ms they
are all switched on again: a line may have become longer. A line that calls user code is never switched off: it is part
of the call path of what that code launches.
"""

from __future__ import annotations

import sys
from _thread import allocate_lock, start_new_thread
from collections.abc import Callable
from time import time_ns
from types import CodeType

from gpuviz.capture.lineclock.stamps import GRANT, Stamps, ThreadLog, decode

SHORT_NS = 1200
REARM_SECONDS = 0.050
MEASURED_STAMPS = 256
LEAST_SAMPLES = 4
# Stamps that are further apart than this cost less than a tenth of the time; it is not worth a measurement.
SPARSE_NS = 3000
# Where a measurement found nothing, the next one waits twice as long, up to so many looks.
MOST_LOOKS_SKIPPED = 64

STAMP, MEASURE, SIFT = "stamp", "measure", "sift"


class ShortLines:
    """Which callback sees the lines (`use`): one that stamps, one that also notes the code, one that also switches
    off the lines in `short`, keys (id of the code object, line)."""

    def __init__(self, stamps: Stamps, use: Callable[[str], None], rearm: Callable[[CodeType], None]) -> None:
        self.short: set[tuple[int, int]] = set()
        self.flagged: dict[tuple[int, int], int] = {}
        self.codes: list[CodeType] = []
        self.measured_ident: int | None = None
        self._stamps, self._use, self._rearm_code = stamps, use, rearm
        self._state = STAMP
        self._begin = 0
        self._begin_ns = 0
        self._skip, self._skip_next = 0, 0
        self._off: dict[int, CodeType] = {}
        self._rearming: Rearming | None = None

    def look(self, log: ThreadLog) -> None:
        """This thread has used up its grant, and written one stamp more. Called by the thread itself."""
        grant = GRANT
        if self._state == MEASURE and log.ident == self.measured_ident:
            grant = self._judge(log)
        elif self._state == SIFT:
            self._change(STAMP)
        elif self._wants_measurement(log):
            self.measured_ident, self._begin, self._begin_ns = log.ident, len(log.stamps), time_ns()
            self.codes = []
            self._change(MEASURE)
            grant = MEASURED_STAMPS
        self._stamps.renew_pen(log, grant)

    def stop(self) -> None:
        """End the thread that switches lines on again."""
        if self._rearming is not None:
            self._rearming.stop()

    def forget_thread(self) -> None:
        """After a fork the child has no such thread."""
        self._rearming = None

    def _change(self, state: str) -> None:
        self._state = state
        self._use(state)

    def _wants_measurement(self, log: ThreadLog) -> bool:
        width = self._stamps.width
        times = log.stamps[-width * MEASURED_STAMPS :: width]
        if not times or times[-1] - times[0] > SPARSE_NS * len(times):
            return False
        # A thread that began a measurement and then waits must not keep the others from theirs.
        if self._state == MEASURE and time_ns() - self._begin_ns < REARM_SECONDS * 1e9:
            return False
        if self._skip:
            self._skip -= 1
            return False
        return True

    def _judge(self, log: ThreadLog) -> int:
        """End a measurement: which lines are too short. Returns the next grant."""
        found = self._find_short(log)
        self.codes, self.measured_ident = [], None
        if not found:
            self._skip_next = min(2 * self._skip_next + 1, MOST_LOOKS_SKIPPED)
            self._skip = self._skip_next
            self._change(STAMP)
            return GRANT
        self._skip = self._skip_next = 0
        self.short = set(found)
        for key, code in found.items():
            self.flagged[key] = self.flagged.get(key, 0) + 1
            self._off[id(code)] = code
        if self._rearming is None:
            self._rearming = Rearming(self._rearm)
        self._change(SIFT)
        return MEASURED_STAMPS

    def _find_short(self, log: ThreadLog) -> dict[tuple[int, int], CodeType]:
        width = self._stamps.width
        times = log.stamps[self._begin :: width]
        whats = log.stamps[self._begin + 1 :: width]
        if sum(what >= 0 for what in whats[:-1]) != len(self.codes):
            return {}  # an interrupt dropped a stamp: the codes are not those of the lines
        codes = iter(self.codes)
        by_key: dict[tuple[int, int], CodeType] = {}
        totals: dict[tuple[int, int], list[int]] = {}
        for index, what in enumerate(whats[:-1]):
            if what < 0:
                continue
            code = next(codes)
            key = (id(code), what)
            by_key[key] = code
            total = totals.setdefault(key, [0, 0])
            following = whats[index + 1]
            calls_user_code = following < 0 and decode(following)[1]
            total[0] += 1
            total[1] += SHORT_NS * MEASURED_STAMPS if calls_user_code else times[index + 1] - times[index]
        return {
            key: by_key[key]
            for key, (samples, total_ns) in totals.items()
            if samples >= LEAST_SAMPLES and total_ns < SHORT_NS * samples
        }

    def _rearm(self) -> None:
        """Switch all lines on again. Runs in the thread of `Rearming`."""
        while self._off:
            self._rearm_code(self._off.popitem()[1])


class Rearming:
    """A thread that the user does not see: `threading` does not know it, so it is in no list and is never traced.
    It exists only once lines have been switched off, because a loop whose lines are all off reports nothing that
    could switch them on again."""

    def __init__(self, rearm: Callable[[], None]) -> None:
        self._rearm = rearm
        self._running, self._ended = allocate_lock(), allocate_lock()
        self._running.acquire()
        self._ended.acquire()
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
        if not sys.is_finalizing():
            self._ended.acquire()
