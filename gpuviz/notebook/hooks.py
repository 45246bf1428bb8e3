"""What happens before and after each cell: which cell runs, and whether it is profiled."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from gpuviz.notebook.cells import ExecutedCells
from gpuviz.notebook.options import parse_options
from gpuviz.notebook.profiles import Profile, Profiler
from gpuviz.notebook.transformer import asked_for


@dataclass
class RunningCell:
    """A cell between `pre_run_cell` and `post_run_cell`. `request` is the id of the message that asked for it, where
    there are messages."""

    info: Any
    request: str | None
    execution_count: int
    jupyter_cell_id: str | None
    profile: Profile | None = None


class CellHooks:
    """The cells that run now, innermost last: one per thread, but where a magic runs cells of its own.

    Subshells run cells in threads beside the main one, so that each thread has its own list.
    """

    def __init__(self, shell: Any, cells: ExecutedCells, profiler: Profiler) -> None:
        self._shell = shell
        self._cells = cells
        self._profiler = profiler
        self._of_thread = threading.local()

    def pre_run_cell(self, info: Any) -> None:
        """A cell is about to run."""
        raw_cell: str = info.raw_cell
        transformed_cell: str | None = getattr(info, "transformed_cell", None)
        if transformed_cell is None:  # an older IPython; asked before the cell counts as running
            transformed_cell = self._shell.transform_cell(raw_cell)
        number = self._shell.execution_count - bool(info.store_history)
        running = self._running()
        outer = running[0] if running else None
        current = RunningCell(
            info,
            self._request(),
            outer.execution_count if outer else number,
            outer.jupyter_cell_id if outer else self._jupyter_cell_id(info),
        )
        running.append(current)
        self._cells.remember(
            raw_cell,
            transformed_cell,
            current.execution_count,
            number=number,
            jupyter_cell_id=current.jupyter_cell_id,
        )
        options = None if outer else asked_for(raw_cell, transformed_cell)
        if options is not None:
            current.profile = self._profiler.begin(
                parse_options(options),
                what=f"In [{number}]",
                cell=current.jupyter_cell_id,
                execution_count=number,
            )

    def post_run_cell(self, result: Any) -> None:
        """A cell has ended; `result` is None where a cell with `await` was cancelled from outside."""
        running = self._running()
        for index in range(len(running) - 1, -1, -1):
            cell = running[index]
            # After some errors IPython makes a new info for the same cell.
            if result is None or result.info is cell.info or result.info.raw_cell == cell.info.raw_cell:
                del running[index:]
                if cell.profile is not None:
                    self._profiler.end(cell.profile, ran=result is None or result.error_before_exec is None)
                return

    def is_nested(self) -> bool:
        """Whether code that is transformed now runs within a cell of this thread."""
        return bool(self._running())

    def current(self) -> RunningCell | None:
        """The outermost cell that runs in this thread."""
        running = self._running()
        return running[0] if running else None

    def end_all(self) -> None:
        """Stop a profile whose cell will not be heard of again."""
        running = self._running()
        for cell in running:
            if cell.profile is not None:
                self._profiler.end(cell.profile)
        running.clear()

    def _running(self) -> list[RunningCell]:
        """The list of this thread, without cells of an earlier request: a front end that runs cells on its own may
        never say that they have ended."""
        running: list[RunningCell] = self._of_thread.__dict__.setdefault("cells", [])
        if running and running[0].request != self._request():
            stale = running.copy()
            running.clear()
            for cell in stale:
                if cell.profile is not None:
                    self._profiler.end(cell.profile)
        return running

    def _request(self) -> str | None:
        header = self._parent().get("header", {})
        request: str | None = header.get("msg_id")
        return request

    def _jupyter_cell_id(self, info: Any) -> str | None:
        found: str | None = getattr(info, "cell_id", None) or self._parent().get("metadata", {}).get("cellId")
        return found

    def _parent(self) -> dict[str, Any]:
        """The message that the kernel is answering; empty where there are no messages."""
        get_parent = getattr(self._shell, "get_parent", None)
        return (get_parent() or {}) if get_parent is not None else {}
