"""One profile from start to end: capture, keep, save, display. Nothing in here raises into the cell of the user."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuviz.capture.backend import choose_backend
from gpuviz.capture.session import Session
from gpuviz.errors import GpuvizError
from gpuviz.model import Trace, schema
from gpuviz.notebook.cells import ExecutedCells
from gpuviz.notebook.display import VIEWS_OF_CHOICE, publish, say
from gpuviz.notebook.history import KERNEL_HISTORY
from gpuviz.notebook.options import ProfileOptions
from gpuviz.view.wording import count_text, duration_text


@dataclass
class Profile:
    """A profile that is running. Without `session` the capture did not start, and `problem` says why."""

    options: ProfileOptions
    what: str
    cell: str | None
    execution_count: int
    session: Session | None = None
    backend: str = ""
    problem: str | None = None
    started_ns: int = 0


class Profiler:
    """Begins and ends the profiles of a kernel, one at a time."""

    def __init__(self, shell: Any, cells: ExecutedCells) -> None:
        self._shell = shell
        self._cells = cells
        self.running: Profile | None = None
        self.last_failure: str | None = None

    def begin(self, options: ProfileOptions, *, what: str, cell: str | None, execution_count: int) -> Profile:
        """Start to capture; where that fails, what was to be profiled runs all the same."""
        profile = Profile(options, what, cell, execution_count)
        try:
            backend = choose_backend(options.backend)
            session = Session(
                backend,
                label=options.label or what,
                cell_of=self._cells.cell_of,
                steps=options.steps,
                warmup=options.warmup,
            )
            session.start()
            profile.session, profile.backend = session, backend.description
        except (Exception, KeyboardInterrupt) as error:
            profile.problem = self._sentence(f"{what} was not profiled", error)
        if self.running is None:  # a subshell may begin one while the main shell's still runs; that one was refused
            self.running = profile
        profile.started_ns = time.perf_counter_ns()
        return profile

    def end(self, profile: Profile, *, ran: bool = True) -> None:
        """Stop to capture, keep the trace and show it. `ran` False: the code could not even be compiled."""
        wall_ns = time.perf_counter_ns() - profile.started_ns
        if self.running is profile:
            self.running = None
        if profile.session is None:
            if ran:
                say(self._with_name(profile, profile.problem or ""))
            return
        try:
            profile.session.stop()
            trace = profile.session.trace
        except (Exception, KeyboardInterrupt) as error:
            say(self._with_name(profile, self._sentence(f"the capture of {profile.what} was lost", error)))
            return
        if not ran:
            return
        if profile.options.name is not None:
            self._shell.user_ns[profile.options.name] = trace
        steps: list[tuple[str, Callable[[], object]]] = [
            ("the trace is not in gpuviz.history()", lambda: self._keep(profile, trace, wall_ns)),
            (f"{profile.options.save} was not written", lambda: _save(profile, trace)),
            ("the views were not drawn", lambda: _show(profile, trace, wall_ns)),
        ]
        for failure, step in steps:
            try:
                step()
            except (Exception, KeyboardInterrupt) as error:
                say(self._sentence(f"{profile.what} was profiled, but {failure}", error))

    def _keep(self, profile: Profile, trace: Trace, wall_ns: int) -> None:
        KERNEL_HISTORY.add(
            trace,
            cell=profile.cell,
            execution_count=profile.execution_count,
            label=profile.options.label,
            wall_ns=wall_ns,
            backend=profile.backend,
        )

    def _with_name(self, profile: Profile, sentence: str) -> str:
        """A variable of an earlier profile must not be taken for one of this."""
        name = profile.options.name
        if name is None:
            return sentence
        state = "still holds what it held before" if name in self._shell.user_ns else "was not set"
        return f"{sentence} `{name}` {state}."

    def _sentence(self, failure: str, error: BaseException) -> str:
        """What did not work and why. An error that we did not foresee leaves its traceback for `%gpuviz status`."""
        if isinstance(error, GpuvizError):
            return f"gpuviz: {failure}. {error}"
        if isinstance(error, KeyboardInterrupt):
            return f"gpuviz: {failure}: interrupted."
        self.last_failure = "".join(traceback.format_exception(error))
        kind, text = type(error).__name__, str(error).strip()
        return f"gpuviz: {failure}: {kind}{': ' if text else ''}{text}. `%gpuviz status` shows the traceback."


def _save(profile: Profile, trace: Trace) -> None:
    if profile.options.save is not None:
        trace.save(Path(profile.options.save).expanduser())


def _show(profile: Profile, trace: Trace, wall_ns: int) -> None:
    if profile.options.quiet:
        return
    if not any(trace.table(name).height for name in schema.ACTIVITY_TABLES):
        calls = trace.host_calls.height
        hint = f" `gpuviz.show(gpuviz.history(-1))` draws its {count_text(calls, 'host call')}." if calls else ""
        say(f"gpuviz: {profile.what} ran for {duration_text(wall_ns)} and launched no GPU work: none to show.{hint}")
    elif profile.options.view == "copies" and not trace.memcpys.height:
        say(f"gpuviz: {profile.what} has copied nothing, so that there are no copies to show; `--view all` shows more.")
    else:
        publish(trace, VIEWS_OF_CHOICE[profile.options.view])
