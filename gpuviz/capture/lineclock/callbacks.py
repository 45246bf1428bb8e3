"""The functions that the interpreter calls. Everything here is on the user's time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from threading import get_ident
from types import CodeType

from gpuviz.capture.lineclock.short_lines import MEASURE, SIFT, STAMP, ShortLines
from gpuviz.capture.lineclock.stamps import Stamps
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
    stamps: Stamps, short_lines: ShortLines, entered: dict[int, int], see: Callable[[CodeType], int | None]
) -> Callbacks:
    """`entered`: id of a recorded code object → the stamp of entering it (one more is that of leaving it); `see`
    decides about code that is not in it.

    All callbacks have one form. The stamp is written inside a `try`, which costs nothing; its handler deals with what
    is rare, and takes the callback out of the traceback of an exception that is the user's (a signal's).
    """
    pens = stamps.pens
    sequence = stamps.sequence

    def recover(error: BaseException, what: int) -> bool:
        """Whether the exception was ours: a thread that is new, or that has used up its grant. Then the stamp is
        written here."""
        kind = type(error)
        if kind is KeyError or kind is StopIteration:
            log = stamps.log_of_this_thread()
            stamps.write(log, what)
            if kind is KeyError:
                stamps.renew_pen(log)
            else:
                short_lines.look(log)
            return True
        log = stamps.log_of_this_thread()
        if kind is MemoryError:
            stamps.close(log)
            return True
        stamps.repair(log)
        leave_traceback(error)
        return False

    def on_line(code: CodeType, line: int) -> None:
        try:
            ticks, put = pens[get_ident()]
            put(next(ticks))
            put(line)
        except BaseException as error:
            if not recover(error, line):
                raise

    def on_line_with_sequence(code: CodeType, line: int) -> None:
        try:
            ticks, put = pens[get_ident()]
            put(next(ticks))
            put(line)
            put(sequence())  # type: ignore[misc]
        except BaseException as error:
            if not recover(error, line):
                raise

    def on_line_measured(code: CodeType, line: int) -> None:
        try:
            ident = get_ident()
            ticks, put = pens[ident]
            put(next(ticks))
            put(line)
            if sequence is not None:
                put(sequence())
            if ident == short_lines.measured_ident:
                short_lines.codes.append(code)
        except BaseException as error:
            if not recover(error, line):
                raise

    def on_line_sifted(code: CodeType, line: int) -> object:
        try:
            ticks, put = pens[get_ident()]
            put(next(ticks))
            put(line)
            if sequence is not None:
                put(sequence())
            return DISABLE if (id(code), line) in short_lines.short else None
        except BaseException as error:
            if not recover(error, line):
                raise
        return None

    def on_enter(code: CodeType, offset: int) -> object:
        what = 0
        try:
            what = entered.get(id(code)) or see(code) or 0
            if not what:
                return DISABLE
            ticks, put = pens[get_ident()]
            put(next(ticks))
            put(what)
            if sequence is not None:
                put(sequence())
        except BaseException as error:
            if not recover(error, what):
                raise
        return None

    def on_throw(code: CodeType, offset: int, exception: BaseException) -> None:
        what = 0
        try:
            what = entered.get(id(code)) or see(code) or 0
            if what:
                ticks, put = pens[get_ident()]
                put(next(ticks))
                put(what)
                if sequence is not None:
                    put(sequence())
        except BaseException as error:
            if not recover(error, what):
                raise

    def on_leave(code: CodeType, offset: int, value: object) -> object:
        what = 0
        try:
            what = entered.get(id(code), 0)
            if not what:
                return DISABLE
            ticks, put = pens[get_ident()]
            put(next(ticks))
            put(what + 1)
            if sequence is not None:
                put(sequence())
        except BaseException as error:
            if not recover(error, what + 1):
                raise
        return None

    def on_unwind(code: CodeType, offset: int, exception: BaseException) -> None:
        what = 0
        try:
            what = entered.get(id(code), 0)
            if what:
                ticks, put = pens[get_ident()]
                put(next(ticks))
                put(what + 1)
                if sequence is not None:
                    put(sequence())
        except BaseException as error:
            if not recover(error, what + 1):
                raise

    on_stamped_line = on_line if sequence is None else on_line_with_sequence
    for function in (
        on_line, on_line_with_sequence, on_line_measured, on_line_sifted, on_enter, on_throw, on_leave, on_unwind
    ):  # fmt: skip
        without_check_at_start(function)
    return Callbacks(
        by_event={
            _events.PY_START: on_enter,
            _events.PY_RESUME: on_enter,
            _events.PY_THROW: on_throw,
            _events.PY_RETURN: on_leave,
            _events.PY_YIELD: on_leave,
            _events.PY_UNWIND: on_unwind,
        },
        by_state={STAMP: on_stamped_line, MEASURE: on_line_measured, SIFT: on_line_sifted},
    )
