"""Cells that say themselves where they are: `probe()` in a cell notes the time and the true call stack."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

from gpuviz.capture.backend import CellSource
from gpuviz.capture.lineclock import LineClock, LineRecord
from gpuviz.capture.ranges import thread_key

type Place = tuple[str, str, int]
"""(file, function, line)"""


def true_stack(frame: FrameType | None, files: set[str]) -> tuple[Place, ...]:
    """The functions of these files that run, outermost first."""
    places: list[Place] = []
    while frame is not None:
        if frame.f_code.co_filename in files:
            places.append((frame.f_code.co_filename, frame.f_code.co_qualname, frame.f_lineno))
        frame = frame.f_back
    return tuple(reversed(places))


@dataclass
class Notebook:
    """Cells, and what they have noted: (thread, time, true stack) of each probe."""

    sources: dict[str, CellSource] = field(default_factory=dict)
    names: dict[str, object] = field(default_factory=dict)
    probes: list[tuple[int, int, tuple[Place, ...]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.names["probe"] = self.probe

    def probe(self) -> None:
        # The time first: what is noted is what ran before the probe was called.
        now = time.time_ns()
        self.probes.append((thread_key(), now, true_stack(sys._getframe(1), set(self.sources))))

    def define(self, source: str) -> Callable[[], None]:
        """A new cell; call the result to run it."""
        number = len(self.sources) + 1
        filename = f"<cell {number}>"
        self.sources[filename] = CellSource(f"id-{number}", number, source)
        code = compile(source, filename, "exec")
        return lambda: exec(code, self.names)

    def run(self, source: str, **options: object) -> LineRecord:
        """Run a new cell with a clock."""
        cell = self.define(source)
        with self.clocked(**options) as clocks:
            cell()
        return clocks[0]

    @contextmanager
    def clocked(self, **options: object) -> Iterator[list[LineRecord]]:
        """The record is in the list once the block has ended."""
        records: list[LineRecord] = []
        clock = LineClock(self.sources.get, **options)  # type: ignore[arg-type]
        clock.start()
        try:
            yield records
        finally:
            records.append(clock.stop())

    def clocked_stack(self, record: LineRecord, thread: int, time_ns: int) -> tuple[Place, ...]:
        """What the record says of a moment, in the words of `true_stack`."""
        stack = record.stack(int(record.stack_ids(thread, time_ns)))
        function = "<module>"
        places: list[Place] = []
        for frame in stack:
            if frame.layer in ("cell", "python"):
                function = "<module>" if frame.layer == "cell" else frame.function
            if frame.layer == "line" and frame.cell is not None and frame.line is not None:
                places.append((frame.cell, function, frame.line))
        return tuple(places)

    def check(self, record: LineRecord) -> None:
        """Every probe was where the record says."""
        assert self.probes
        for thread, time_ns, truth in self.probes:
            same = self.clocked_stack(record, thread, time_ns) == truth
            assert same, f"{truth[-3:]} (the end of it) is not what the record says"


# A probe is library code, so that a stack ends at the line that called it.
Notebook.probe.__code__ = Notebook.probe.__code__.replace(co_filename="<string>")
