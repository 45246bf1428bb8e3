"""LineClock: stamps of the lines of user code, by `sys.monitoring`."""

from __future__ import annotations

import os
import sys
import weakref
from _thread import allocate_lock
from collections.abc import Callable, Iterable
from time import time_ns
from types import CodeType, FrameType

from gpuviz.capture.backend import CellOf
from gpuviz.capture.lineclock.callbacks import make_callbacks
from gpuviz.capture.lineclock.record import LineRecord, ShortPlace
from gpuviz.capture.lineclock.short_lines import STAMP, ShortLines, Switches
from gpuviz.capture.lineclock.stamps import Stamps, decode, entered
from gpuviz.capture.lineclock.usercode import LINES, CodePlace, UserCode, has_handlers, is_suspendable
from gpuviz.errors import CaptureError

DEFAULT_MEMORY_BYTES = 256 * 1024 * 1024

TOOL_NAME = "gpuviz"
# The two numbers that nobody has reserved, then the optimizer's, which nothing uses. Those of debuggers, coverage and
# profilers (cProfile takes 2) stay free for a user who starts one in the cell.
TOOL_IDS = (4, 3, 5)

_monitoring = sys.monitoring
_events = sys.monitoring.events
# Seen everywhere, and switched off for each place in library code at its first sight. (PY_UNWIND and PY_THROW cannot
# be: returning DISABLE from them is an error that removes the callback.)
_START_EVENTS = _events.PY_START | _events.PY_RESUME
_GLOBAL_EVENTS = _START_EVENTS | _events.PY_UNWIND | _events.PY_THROW
# Asked for where code is recorded. The ends of functions are not seen elsewhere: that spares library code half of its
# first sights. The starts are asked for here too, so that they can be switched off and on globally (`_unmute_all`).
_FUNCTION_EVENTS = _START_EVENTS | _events.PY_RETURN | _events.PY_YIELD
_LINE_EVENTS = _FUNCTION_EVENTS | _events.LINE

_MOST_CODES = 1_000_000
"""Programs that compile code in a loop: what comes after so many code objects is not recorded."""


class LineClock:
    """Stamps which line of which cell or file runs, in every thread, from `start` to `stop`.

    `cell_of` must not raise; it is asked once per file. `lines_in` names packages whose lines are stamped too.
    `sequence_numbers`: note autograd's next number with each stamp, where torch is loaded (a fifth more per stamp), for
    a backend that knows the numbers of backward work. Nothing stays registered after `stop`.
    """

    def __init__(
        self,
        cell_of: CellOf,
        lines_in: Iterable[str] = (),
        *,
        sequence_numbers: bool = False,
        memory_bytes: int = DEFAULT_MEMORY_BYTES,
    ) -> None:
        self._user_code = UserCode(cell_of, lines_in)
        self._memory_bytes = memory_bytes
        self._sequence_numbers = sequence_numbers
        self._tool: int | None = None
        self._problem: str | None = "the line clock was not started"
        self._stamps = Stamps(memory_bytes, None)
        self._short_lines = self._make_short_lines()
        self._codes: list[CodeType] = []
        self._places: list[CodePlace] = []
        self._entered: dict[int, int] = {}
        self._muted: dict[int, int] = {}
        self._suspended: dict[int, weakref.ref[CodeType]] = {}
        self._cleaning: set[CodeType] = set()
        self._lock = allocate_lock()
        self._callbacks: dict[str, Callable[..., object]] = {}
        self._record: LineRecord | None = None

    def start(self) -> None:
        """Begin. Without a free tool id the record will hold no lines and say why."""
        if self._tool is not None:
            raise CaptureError("Tried to start a line clock: it runs already. Stop it, or make another one.")
        self._stamps = Stamps(self._memory_bytes, _sequence_number_function() if self._sequence_numbers else None)
        self._short_lines = self._make_short_lines()
        self._codes, self._places, self._suspended, self._record = [], [], {}, None
        self._entered, self._muted, self._cleaning = {}, {}, set()
        tool = self._take_tool_id()
        if tool is None:
            self._problem = _no_tool_id()
            return
        self._problem = None
        callbacks = make_callbacks(self._stamps, self._short_lines, self._entered, self._see, self._cleaning)
        self._callbacks = callbacks.by_state
        _clocks.add(self)
        try:
            for event, callback in callbacks.by_event.items():
                _monitoring.register_callback(tool, event, callback)
            self._use(STAMP)
            self._seed()
            # What an earlier capture has switched off must be seen again.
            _monitoring.restart_events()
            _monitoring.set_events(tool, _GLOBAL_EVENTS)
        except BaseException:
            self._release()
            raise

    def stop(self) -> LineRecord:
        """End. Called again, it returns the same record."""
        self._release()
        if self._record is None:
            self._stamps.finish()
            short = [
                ShortPlace(self._places[index].name, self._places[index].file, line, times)
                for (index, line), times in self._short_lines.flagged.items()
            ]
            cells = dict(self._user_code.cells)
            self._record = LineRecord(self._stamps, self._places, cells, short, self._problem)
            # Keep none of the user's code alive.
            self._codes, self._entered, self._muted = [], {}, {}
            self._cleaning, self._callbacks = set(), {}
            self._short_lines = self._make_short_lines()
        return self._record

    def _take_tool_id(self) -> int | None:
        for tool in TOOL_IDS:
            if _monitoring.get_tool(tool) is None:
                self._tool = tool  # before it is taken: after an interrupt `stop` gives it back
                try:
                    _monitoring.use_tool_id(tool, TOOL_NAME)
                except ValueError:  # another thread was faster
                    self._tool = None
                    continue
                return tool
        return None

    def _release(self) -> None:
        """Whatever interrupts it, it can be called again."""
        if self._tool is None:
            return
        try:
            self._short_lines.stop()
        finally:
            with self._lock:  # other threads may be about to switch something
                self._unregister(self._tool)
                self._tool = None
            _clocks.discard(self)

    def _unregister(self, tool: int) -> None:
        if _monitoring.get_tool(tool) != TOOL_NAME:
            return
        _monitoring.set_events(tool, 0)
        suspended = (reference() for reference in self._suspended.values())
        for code in (*self._codes, *suspended):
            # The interpreter cleans a code object when it runs next, or at once when its local events change.
            if code is not None:
                _monitoring.set_local_events(tool, code, _events.LINE)
                _monitoring.set_local_events(tool, code, 0)
        for event in (*_events_of(_GLOBAL_EVENTS), *_events_of(_LINE_EVENTS)):
            _monitoring.register_callback(tool, event, None)
        _monitoring.free_tool_id(tool)

    def _abandon_in_child(self) -> None:
        """A forked process (a worker of a DataLoader) does not belong to the capture, and has only this thread."""
        self._lock = allocate_lock()
        self._short_lines.forget_thread()
        self._stamps.logs.clear()
        self._release()

    def _see(self, code: CodeType) -> int | None:
        """The stamp of entering this code, which has been met for the first time; None where it is not recorded."""
        level = self._user_code.level(code)
        if level is None or len(self._codes) >= _MOST_CODES:
            if is_suspendable(code):
                self._suspended[id(code)] = weakref.ref(code)
            return None
        with self._lock:  # two threads may meet the same code
            if self._tool is None or id(code) in self._muted:
                return None
            if id(code) not in self._entered:
                # By identity, and kept alive for it: code objects of different cells can be equal, because their
                # comparison does not look at the file.
                self._codes.append(code)
                if is_suspendable(code) and has_handlers(code):
                    self._cleaning.add(code)
                self._places.append(self._user_code.place(code, level))
                self._entered[id(code)] = entered(len(self._codes) - 1)
                _monitoring.set_local_events(self._tool, code, _LINE_EVENTS if level == LINES else _FUNCTION_EVENTS)
            return self._entered[id(code)]

    def _seed(self) -> None:
        """What runs when the clock starts: the cell itself, where the capture begins inside it."""
        for ident, innermost in sys._current_frames().items():
            frames: list[tuple[int, int]] = []
            frame: FrameType | None = innermost
            while frame is not None:
                stamp = self._entered.get(id(frame.f_code)) or self._see(frame.f_code)
                if stamp is not None:
                    frames.append((decode(stamp)[0], frame.f_lineno or frame.f_code.co_firstlineno))
                frame = frame.f_back
            if frames:
                self._stamps.seed(ident, frames[::-1])
        # Now, and not when its first stamp is written: an interrupt may come then.
        self._stamps.log_of_this_thread()

    def _use(self, state: str) -> None:
        with self._lock:
            if self._tool is not None:
                _monitoring.register_callback(self._tool, _events.LINE, self._callbacks[state])

    def _make_short_lines(self) -> ShortLines:
        switches = Switches(self._use, self._index_of, self._rearm_lines, self._mute, self._unmute_all)
        return ShortLines(self._stamps, switches)

    def _index_of(self, code: CodeType) -> int:
        index = self._muted.get(id(code))
        return decode(self._entered[id(code)])[0] if index is None else index

    def _rearm_lines(self, codes: Iterable[CodeType]) -> None:
        """Switch all lines of this code on again, and no more than that (`restart_events` would do it for every
        tool)."""
        for code in codes:
            with self._lock:
                if self._tool is not None and id(code) not in self._muted:
                    _monitoring.set_local_events(self._tool, code, _FUNCTION_EVENTS)
                    _monitoring.set_local_events(self._tool, code, _LINE_EVENTS)

    def _mute(self, index: int) -> None:
        """Treat a function like library code. Where it runs just now, its end will not be stamped."""
        code = self._codes[index]
        with self._lock:
            if self._tool is not None and self._entered.pop(id(code), None) is not None:
                self._muted[id(code)] = index
                self._stamps.mutes.append((time_ns(), index))
                _monitoring.set_local_events(self._tool, code, 0)

    def _unmute_all(self) -> None:
        """Functions that were switched off are seen again.

        Their start is asked for globally, and was switched off by DISABLE, which only a change of the events that
        apply to the code takes back: so the starts are switched off globally for a moment. Code that is recorded asks
        for its starts itself and misses none; all other code sees no change, because the interpreter looks at it when
        it runs next.
        """
        with self._lock:
            tool = self._tool
            if tool is None:
                return
            muted = dict(self._muted)
            self._muted.clear()
            _monitoring.set_events(tool, _GLOBAL_EVENTS & ~_START_EVENTS)
            for index in muted.values():
                _monitoring.set_local_events(tool, self._codes[index], _events.LINE)
            _monitoring.set_events(tool, _GLOBAL_EVENTS)
            for key, index in muted.items():
                self._entered[key] = entered(index)
                level = self._places[index].level
                events = _LINE_EVENTS if level == LINES else _FUNCTION_EVENTS
                _monitoring.set_local_events(tool, self._codes[index], events)


def _sequence_number_function() -> Callable[[], int] | None:
    """The number that autograd will give to this thread's next node, where torch is loaded."""
    torch = sys.modules.get("torch")
    autograd = getattr(getattr(torch, "_C", None), "_autograd", None)
    return getattr(autograd, "_get_sequence_nr", None)


def _no_tool_id() -> str:
    holders = ", ".join(f"{tool}: {_monitoring.get_tool(tool)}" for tool in TOOL_IDS)
    return (
        "Tried to record which lines run: all numbers that sys.monitoring has for tools like this are taken "
        f"({holders}). The trace has no lines; stop one of these tools and capture again."
    )


def _events_of(mask: int) -> list[int]:
    return [1 << bit for bit in range(mask.bit_length()) if mask >> bit & 1]


_clocks: weakref.WeakSet[LineClock] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for clock in list(_clocks):
        clock._abandon_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
