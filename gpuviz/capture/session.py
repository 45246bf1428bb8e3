"""`Session`: one capture from start to stop, and what a program may say meanwhile."""

from __future__ import annotations

import functools
import inspect
import os
import threading
import time
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, cast

from gpuviz.capture.backend import Backend, CaptureRequest, CellOf, choose_backend, no_cells
from gpuviz.capture.ranges import RangeLog, RecordedRange
from gpuviz.errors import CaptureError, DroppedRecordsWarning, SessionActiveError
from gpuviz.model import Diagnostics, Trace

_claim = threading.Lock()
_active: Session | None = None
_cell_of: CellOf = no_cells


class Session:
    """One capture; at most one runs in a process.

    Use it as a context manager, or call `start` and `stop`. The trace is in `trace` afterwards, also when the body
    raised; the body's exception goes on unchanged.

    With `steps`, the trace is cut to that many steps after the first `warmup` ones: to the host time from the end of
    the last warm-up step to the end of the last wanted one, as `Trace.window` cuts. The capture itself runs from start
    to stop; that a simulated or patched GPU came and went in the middle of a loop would change the loop.
    """

    def __init__(
        self,
        backend: str | Backend = "auto",
        *,
        label: str | None = None,
        steps: int | None = None,
        warmup: int = 0,
        cell_of: CellOf | None = None,
    ) -> None:
        if (steps is not None and steps < 1) or warmup < 0:
            raise CaptureError(
                f"Tried to capture {steps} steps after {warmup} warm-up steps; steps start at 1 and warm-ups at 0."
            )
        self.backend = choose_backend(backend) if isinstance(backend, str) else backend
        self.label = label
        self.steps = steps
        self.warmup = warmup
        self.ranges = RangeLog()
        self._cell_of = cell_of
        self._trace: Trace | None = None
        self._started: float | None = None

    @property
    def running(self) -> bool:
        """Whether it captures now."""
        return _active is self

    @property
    def trace(self) -> Trace:
        """The trace, once the session has stopped."""
        if self._trace is None:
            state = "is still running" if self.running else "has not captured anything"
            raise CaptureError(
                f"Tried to read the trace of {self._words()}, which {state}. "
                "A trace is there after `stop`, or after the `with` block."
            )
        return self._trace

    def start(self) -> Self:
        """Begin to capture. Raises `SessionActiveError` while another session runs."""
        global _active
        with _claim:
            if _active is not None:
                raise SessionActiveError(
                    f"Tried to start {self._words()}, but {_active._words()} is running. "
                    "Only one capture can run at a time: stop that one first."
                )
            if self._started is not None:
                raise CaptureError(f"Tried to start {self._words()} again; a session captures once. Make a new one.")
            _active = self
            self._started = time.monotonic()
        request = CaptureRequest(
            label=self.label,
            cell_of=self._cell_of or _cell_of,
            steps=self.steps,
            warmup=self.warmup,
            ranges=self.ranges,
        )
        try:
            self.backend.start(request)
            self.ranges.open()
        except BaseException as error:
            try:
                self.backend.stop()
            except CaptureError:
                pass  # there was nothing to stop yet
            except Exception as second:
                error.add_note(f"gpuviz: stopping the half-started backend failed too: {second!r}")
            finally:
                self._release()
            raise
        return self

    def stop(self) -> Trace:
        """End the capture and return its trace."""
        if not self.running:
            raise CaptureError(
                f"Tried to stop {self._words()}, which is not running. Start it first, and stop it once."
            )
        try:
            trace = self.backend.stop()
        finally:
            self._release()
        self._trace = self._cut(trace)
        if trace.meta.dropped_records:
            warnings.warn(
                f"{trace.meta.dropped_records} records were lost in {self._words()}; counts and sums are lower bounds.",
                DroppedRecordsWarning,
                stacklevel=2,
            )
        return self._trace

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self.running:
            return  # the body has stopped it
        if error is None:
            self.stop()
            return
        try:
            self.stop()
        except Exception as second:  # the body's own exception is the one that its author must see
            warnings.warn(f"gpuviz could not finish {self._words()}: {second!r}", RuntimeWarning, stacklevel=2)

    def _release(self) -> None:
        global _active
        with _claim:
            if _active is self:
                _active = None

    def _cut(self, trace: Trace) -> Trace:
        """The part of the trace that `steps` and `warmup` ask for; all of it where the steps did not come."""
        if self.steps is None and not self.warmup:
            return trace
        steps = trace.ranges.filter(kind="step", timing="ok").sort("start_ns")
        wanted = steps.slice(self.warmup, self.steps)
        diagnostics = Diagnostics()
        asked = f"{'all' if self.steps is None else self.steps} steps after {self.warmup} were asked for"
        if wanted.height < (self.steps or 1):
            diagnostics.add("steps_missing", 1, f"{asked}, {steps.height} came")
        table = diagnostics.table()
        if table.height:
            trace = trace.replace(diagnostics=trace.diagnostics.vstack(table))
        if not wanted.height:
            return trace
        start, end = cast("int", wanted["start_ns"].min()), cast("int", wanted["end_ns"].max())
        return trace.window(start, max(end, start + 1))

    def _words(self) -> str:
        """What this session is, in an error message."""
        label = f" {self.label!r}" if self.label else ""
        return f"the capture{label} ({self.backend.description})"


def profile(
    backend: str | Backend = "auto",
    *,
    label: str | None = None,
    steps: int | None = None,
    warmup: int = 0,
) -> Session:
    """A session for a ``with`` block::

        with gpuviz.profile() as session:
            train_step()
        session.trace

    `backend`: ``auto``, ``simulate[:GPU]`` or ``replay:FILE``. `steps` and `warmup` cut the trace to some of the steps
    that `step` marks.
    """
    return Session(backend, label=label, steps=steps, warmup=warmup)


def active_session() -> Session | None:
    """The session that runs now."""
    return _active


def use_cells(cell_of: CellOf | None) -> None:
    """Where sessions look up the cell of a piece of code, unless they are told; None: nowhere, as in a script."""
    global _cell_of
    _cell_of = cell_of or no_cells


def step() -> None:
    """A step of the program ends here. Does nothing where no session runs."""
    session = _active
    if session is not None:
        session.ranges.step()


class region:  # noqa: N801 - used like a function: `with gpuviz.region("load"): ...`
    """A named part of the program, as a context manager or a decorator (of coroutine functions too)::

        with gpuviz.region("load"):
            batch = next(batches)

        @gpuviz.region("forward")
        def forward(batch): ...

    Does nothing where no session runs. It may be entered again while it is open, and from several threads.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._open = threading.local()

    def __enter__(self) -> Self:
        stack: list[tuple[RangeLog, RecordedRange] | None] | None = getattr(self._open, "stack", None)
        if stack is None:
            stack = self._open.stack = []
        session = _active
        stack.append(None if session is None else (session.ranges, session.ranges.begin(self.name)))
        return self

    def __exit__(self, *exception: object) -> None:
        begun = self._open.stack.pop()
        if begun is not None:
            log, opened = begun
            log.end(opened)

    def __call__[F: Callable[..., Any]](self, function: F) -> F:
        name = self.name
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def in_region_async(*args: Any, **kwargs: Any) -> Any:
                with region(name):
                    return await function(*args, **kwargs)

            return cast("F", in_region_async)

        @functools.wraps(function)
        def in_region(*args: Any, **kwargs: Any) -> Any:
            with region(name):
                return function(*args, **kwargs)

        return cast("F", in_region)


def _forget_session() -> None:
    """In a forked child: the capture is the parent's, and the lock may have been held by a thread that is gone."""
    global _active, _claim
    _active = None
    _claim = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_session)
