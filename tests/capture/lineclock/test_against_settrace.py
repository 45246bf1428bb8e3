"""Random programs, with sys.settrace as the oracle: at each line that it reports, the clock knows the same stack."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from types import FrameType
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuviz.capture.lineclock import short_lines
from gpuviz.capture.ranges import thread_key
from tests.capture.lineclock.probing import Notebook, Place, true_stack
from tests.capture.lineclock.programs import Program

MOST_EVENTS = 5000


class TooLong(BaseException):
    """Ends a random program that would run for ever."""


class Oracle:
    """Notes the true stack at each line, and a time at which it is still true.

    The interpreter tells a trace function of an event before it tells the clock (the tools of sys.monitoring, the
    highest number first), so what a line event says is what the clock says when the next event comes.
    """

    def __init__(self, files: set[str]) -> None:
        self.files = files
        self.noted: list[tuple[int, int, tuple[Place, ...]]] = []
        self.pending: tuple[Place, ...] | None = None

    def __call__(self, frame: FrameType, event: str, argument: object) -> Oracle:
        now = time.time_ns()
        if self.pending is not None:
            self.noted.append((thread_key(), now, self.pending))
            self.pending = None
        if event == "line" and frame.f_code.co_filename in self.files:
            self.pending = true_stack(frame, self.files)
            if len(self.noted) > MOST_EVENTS:
                sys.settrace(None)
                raise TooLong
        return self


def traced(notebook: Notebook, text: str) -> tuple[Oracle, object]:
    cell = notebook.define(text)
    notebook.names["suppress"] = contextlib.suppress
    oracle = Oracle(set(notebook.sources))
    before = sys.gettrace()
    # Every line is to be seen here, also the short ones.
    with mock.patch.object(short_lines, "SHORT_NS", 0), notebook.clocked() as records:
        sys.settrace(oracle)
        try:
            cell()
        except (TooLong, Exception):  # whatever the program does wrong
            pass
        finally:
            sys.settrace(before)
    return oracle, records[0]


@settings(max_examples=150)
@given(st.integers(0, 2**32))
def test_every_line_of_a_random_program(seed: int) -> None:
    notebook = Notebook()
    oracle, record = traced(notebook, Program(seed).text)
    assert oracle.noted
    for thread, time_ns, truth in oracle.noted:
        assert notebook.clocked_stack(record, thread, time_ns) == truth


@settings(max_examples=25)
@given(st.integers(0, 2**32))
def test_the_program_does_the_same_with_and_without_the_clock(seed: int) -> None:
    text = Program(seed).text
    results = []
    for clocked in (False, True):
        notebook = Notebook()
        notebook.names["suppress"] = contextlib.suppress
        cell = notebook.define(text)
        oracle = Oracle(set(notebook.sources))
        context = notebook.clocked() if clocked else contextlib.nullcontext()
        with context:
            sys.settrace(oracle)
            try:
                cell()
            except (TooLong, Exception) as error:
                results.append(repr(error))
            finally:
                sys.settrace(None)
        results.append([stack for _, _, stack in oracle.noted])
    assert results[: len(results) // 2] == results[len(results) // 2 :]
    assert threading.gettrace() is None
