"""The functions that the interpreter calls. Everything here is on the user's time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from threading import get_ident
from time import time_ns
from types import CodeType

from gpuviz.capture.lineclock.short_lines import MEASURE, SIFT, STAMP, ShortLines
from gpuviz.capture.lineclock.stamps import LOOK, OFFSET_BITS, Stamps
from gpuviz.capture.lineclock.uninterrupted import leave_traceback, without_check_at_start

_events = sys.monitoring.events
DISABLE = sys.monitoring.DISABLE

type Callback = Callable[..., object]


@dataclass(frozen=True)
class Callbacks:
    """`by_event` stay; of `by_state`, one at a time sees the lines."""

    by_event: dict[int, Callback]
    by_state: dict[str, Callback]


def make_callbacks(
    stamps: Stamps,
    short_lines: ShortLines,
    entered: dict[int, int],
    see: Callable[[CodeType], int | None],
    cleaning: set[CodeType],
) -> Callbacks:
    """`entered`: id of a recorded code object → the stamp of entering it (one more is that of leaving it); `see`
    decides about code that is not in it. `cleaning`: recorded generators that may run code when they are closed.

    All callbacks have one form. The stamp is written inside a `try`, which costs nothing; its handler deals with what
    is rare, and takes the callback out of the traceback of an exception that is the user's (a signal's).
    """
    pens = stamps.pens
    sequence = stamps.sequence
    full = LOOK * stamps.width

    def look() -> None:
        short_lines.look(stamps.log_of_this_thread())

    def recover(error: BaseException, what: int) -> bool:
        """Whether the exception was ours: a thread that is new, whose stamp is then written here, or no memory."""
        log = stamps.log_of_this_thread()
        if type(error) is KeyError:
            stamps.write(log, what)
            return True
        if type(error) is MemoryError:
            stamps.close(log)
            return True
        stamps.repair(log)
        leave_traceback(error)
        return False

    def take_back(what: int) -> None:
        """An exception in place of the return: the function is yet to be left by it, and must not be left twice."""
        pending = pens.get(get_ident())
        if pending and pending[1 - stamps.width] == what:
            del pending[-stamps.width :]

    def enter_first(code: CodeType, offset: int) -> object:
        """Code that is met for the first time, or that is not recorded."""
        what = see(code)
        if what is None:
            return DISABLE
        stamps.write(stamps.log_of_this_thread(), what - (offset << OFFSET_BITS))
        return None

    def on_line(code: CodeType, line: int) -> None:
        try:
            pending = pens[get_ident()]
            pending.append(time_ns())
            pending.append(line)
            if len(pending) >= full:
                look()
        except BaseException as error:
            if not recover(error, line):
                raise

    def on_line_with_sequence(code: CodeType, line: int) -> None:
        try:
            pending = pens[get_ident()]
            pending.append(time_ns())
            pending.append(line)
            pending.append(sequence())  # type: ignore[misc]
            if len(pending) >= full:
                look()
        except BaseException as error:
            if not recover(error, line):
                raise

    def on_line_measured(code: CodeType, line: int) -> None:
        try:
            ident = get_ident()
            pending = pens[ident]
            pending.append(time_ns())
            pending.append(line)
            if sequence is not None:
                pending.append(sequence())
            if ident == short_lines.measured_ident:
                short_lines.codes.append(code)
            if len(pending) >= full:
                look()
        except BaseException as error:
            if not recover(error, line):
                raise

    def on_line_sifted(code: CodeType, line: int) -> object:
        try:
            pending = pens[get_ident()]
            pending.append(time_ns())
            pending.append(line)
            if sequence is not None:
                pending.append(sequence())
            if len(pending) >= full:
                look()
            return DISABLE if (id(code), line) in short_lines.short else None
        except BaseException as error:
            if not recover(error, line):
                raise
        return None

    def on_enter(code: CodeType, offset: int) -> object:
        what = 0
        try:
            what = entered.get(id(code), 0)
            if not what:
                return enter_first(code, 0)
            pending = pens[get_ident()]
            pending.append(time_ns())
            pending.append(what)
            if sequence is not None:
                pending.append(sequence())
            if len(pending) >= full:
                look()
        except BaseException as error:
            if not recover(error, what):
                raise
        return None

    def on_resume(code: CodeType, offset: int) -> object:
        what = 0
        try:
            what = entered.get(id(code), 0)
            if not what:
                return enter_first(code, offset)
            what -= offset << OFFSET_BITS
            pending = pens[get_ident()]
            pending.append(time_ns())
            pending.append(what)
            if sequence is not None:
                pending.append(sequence())
            if len(pending) >= full:
                look()
        except BaseException as error:
            if not recover(error, what):
                raise
        return None

    def on_throw(code: CodeType, offset: int, exception: BaseException) -> None:
        # The garbage collector closes generators, and an interrupt that is raised meanwhile is lost. A generator that
        # does nothing then has no place for one, so there must be none in here either: no call.
        if exception.__class__ is GeneratorExit and code not in cleaning:
            return
        try:
            on_resume(code, offset)  # but without its answer: DISABLE is an error here
        except BaseException as error:
            leave_traceback(error)
            raise

    def on_leave(code: CodeType, offset: int, value: object) -> object:
        what = 0
        try:
            what = entered.get(id(code), 0)
            if not what:
                return DISABLE
            pending = pens[get_ident()]
            pending.append(time_ns())
            pending.append(what + 1)
            if sequence is not None:
                pending.append(sequence())
            if len(pending) >= full:
                look()
        except BaseException as error:
            if not recover(error, what + 1):
                take_back(what + 1)
                raise
        return None

    def on_unwind(code: CodeType, offset: int, exception: BaseException) -> None:
        if exception.__class__ is GeneratorExit and code not in cleaning:
            return
        what = 0
        try:
            what = entered.get(id(code), 0)
            if what:
                pending = pens[get_ident()]
                pending.append(time_ns())
                pending.append(what + 1)
                if sequence is not None:
                    pending.append(sequence())
                if len(pending) >= full:
                    look()
        except BaseException as error:
            if not recover(error, what + 1):
                raise

    on_stamped_line = on_line if sequence is None else on_line_with_sequence
    for function in (
        on_line, on_line_with_sequence, on_line_measured, on_line_sifted, on_enter, on_resume, on_throw,
        on_leave, on_unwind,
    ):  # fmt: skip
        without_check_at_start(function)
    return Callbacks(
        by_event={
            _events.PY_START: on_enter,
            _events.PY_RESUME: on_resume,
            _events.PY_THROW: on_throw,
            _events.PY_RETURN: on_leave,
            _events.PY_YIELD: on_leave,
            _events.PY_UNWIND: on_unwind,
        },
        by_state={STAMP: on_stamped_line, MEASURE: on_line_measured, SIFT: on_line_sifted},
    )
