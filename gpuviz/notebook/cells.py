"""The cells that this kernel has run, and which of them a code object was compiled from."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import Any

from gpuviz.capture.backend import CellSource
from gpuviz.notebook.transformer import timed_body, without_leading_blank_lines

MOST_CELLS = 2_000
MOST_CHARACTERS = 8_000_000

_TIMED = ("<timed exec>", "<timed eval>")


@dataclass
class _Executed:
    """One run of a cell. `filename` is worked out when somebody asks: it is a hash of the text, in pure Python.

    `number` is what IPython names the code by. It is the execution count, but for code that another magic runs within
    a cell, which IPython numbers as if it came next.
    """

    raw_cell: str
    transformed_cell: str
    execution_count: int
    number: int
    jupyter_cell_id: str | None
    filename: str | None = None

    def source(self, text: str | None = None) -> CellSource:
        shown = without_leading_blank_lines(self.raw_cell) if text is None else text
        return CellSource(self.jupyter_cell_id, self.execution_count, shown)


class ExecutedCells:
    """What `cell_of` looks through: the last `MOST_CELLS` runs of cells, or `MOST_CHARACTERS` of their text.

    The same text run twice has the same file name; the later run stands for both. Cells that ran before gpuviz was
    loaded are taken from IPython's history, which knows their text and count but not their id in the notebook.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._cells: deque[_Executed] = deque()
        self._characters = 0
        self._unnamed: list[_Executed] = []
        self._by_filename: dict[str, _Executed] = {}
        self._lock = threading.Lock()  # the threads of the program ask, too
        history = shell.history_manager
        if history is not None:
            pairs = zip(history.input_hist_raw, history.input_hist_parsed, strict=False)
            for count, (raw_cell, transformed_cell) in enumerate(pairs):
                if raw_cell:
                    self.remember(raw_cell, transformed_cell, count)

    def remember(
        self,
        raw_cell: str,
        transformed_cell: str,
        execution_count: int,
        *,
        number: int | None = None,
        jupyter_cell_id: str | None = None,
    ) -> None:
        """A cell is about to run."""
        number = execution_count if number is None else number
        executed = _Executed(raw_cell, transformed_cell, execution_count, number, jupyter_cell_id)
        with self._lock:
            self._cells.append(executed)
            self._unnamed.append(executed)
            self._characters += len(raw_cell)
            while len(self._cells) > MOST_CELLS or (self._characters > MOST_CHARACTERS and len(self._cells) > 1):
                self._forget(self._cells.popleft())

    def _forget(self, oldest: _Executed) -> None:
        self._characters -= len(oldest.raw_cell)
        if oldest.filename is None:
            self._unnamed = [executed for executed in self._unnamed if executed is not oldest]
        elif self._by_filename.get(oldest.filename) is oldest:
            del self._by_filename[oldest.filename]

    def cell_of(self, filename: str) -> CellSource | None:
        """The cell whose code has this `co_filename`; None for code of no cell that is remembered."""
        with self._lock:
            if filename in _TIMED:
                return self._timed()
            for executed in self._unnamed:
                executed.filename = self._shell.compile.get_code_name(
                    executed.raw_cell, executed.transformed_cell, executed.number
                )
                self._by_filename[executed.filename] = executed
            self._unnamed.clear()
            found = self._by_filename.get(filename)
        return None if found is None else found.source()

    def _timed(self) -> CellSource | None:
        """``%%time`` compiles under one name for all cells, so that only the cell that runs can be told; its lines
        count from the body."""
        for executed in reversed(self._cells):
            if executed.execution_count != self._cells[-1].execution_count:
                break
            if (body := timed_body(executed.raw_cell)) is not None:
                return executed.source(body)
        return None
