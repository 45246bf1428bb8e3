"""The call path around an operator: the frames of the user's own code, and the modules that were entered.

User code is the cells of the notebook, and every file that belongs neither to Python, nor to an installed package, nor
to gpuviz. Of library code only one thing is kept: that the forward of an nn.Module was called, and of which class.
"""

from __future__ import annotations

import linecache
import sys
import sysconfig
from pathlib import Path
from types import CodeType, FrameType

from gpuviz.capture.backend import CellOf, CellSource
from gpuviz.capture.recording import Stack, StackFrame, Stacks

_PACKAGE = str(Path(__file__).resolve().parents[2])
_INSTALLED = ("/site-packages/", "/dist-packages/")


def _library_folders() -> tuple[str, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib", "scripts")
    folders = {_PACKAGE, str(Path(sys.executable).parent)}
    folders.update(path for name in names if (path := sysconfig.get_paths().get(name)))
    return tuple(folder.rstrip("/\\") + separator for folder in folders for separator in "/\\")


def is_user_file(filename: str) -> bool:
    """False for Python itself, installed packages, gpuviz, and code that comes from no file."""
    if filename.startswith("<"):
        return False
    path = filename if filename.startswith("/") else str(Path(filename).absolute())
    return not path.startswith(_library_folders()) and not any(part in path for part in _INSTALLED)


class StackWalker:
    """Reads the stack of the calling thread; the same stack always gets the same number."""

    def __init__(self, cell_of: CellOf) -> None:
        from torch.nn import Module

        self._cell_of = cell_of
        self._module_call = Module._call_impl.__code__
        self._is_user: dict[CodeType, bool] = {}
        self._cell_of_file: dict[str, CellSource | None] = {}
        self._ids: dict[tuple[object, ...], int] = {}
        self._collected = Stacks()
        self.cells: dict[str, CellSource] = {}

    @property
    def stacks(self) -> list[Stack]:
        """All stacks so far; their index is their number."""
        return self._collected.stacks

    def current(self) -> int:
        """The number of the stack of the caller."""
        frame: FrameType | None = sys._getframe(1)
        key: list[object] = []
        is_user, module_call = self._is_user, self._module_call
        while frame is not None:
            code = frame.f_code
            if code is module_call:
                key.append(type(frame.f_locals["self"]))
            else:
                wanted = is_user.get(code)
                if wanted is None:
                    wanted = is_user[code] = self._is_user_code(code.co_filename)
                if wanted:
                    key.append(code)
                    key.append(frame.f_lineno)
            frame = frame.f_back
        found = self._ids.get(tuple(key))
        if found is None:
            found = self._ids[tuple(key)] = self._collected.add(self._stack(key))
        return found

    def _is_user_code(self, filename: str) -> bool:
        if filename not in self._cell_of_file:
            cell = self._cell_of_file[filename] = self._cell_of(filename)
            if cell is not None:
                self.cells[filename] = cell
        return self._cell_of_file[filename] is not None or is_user_file(filename)

    def _stack(self, key: list[object]) -> Stack:
        frames: list[StackFrame] = []
        for index, part in reversed(list(enumerate(key))):
            if isinstance(part, CodeType):
                line = key[index + 1]
                assert isinstance(line, int)
                frames.extend(self._frames_of(part, line))
            elif isinstance(part, type):
                frames.append(StackFrame("module", part.__name__))
        return tuple(frames)

    def _frames_of(self, code: CodeType, line: int) -> tuple[StackFrame, StackFrame]:
        """What was called, and the line of it that ran."""
        filename = code.co_filename
        cell = self._cell_of_file.get(filename)
        file, cell_key = (filename, None) if cell is None else (None, filename)
        text = self._line(filename, line, cell)
        within = StackFrame("line", text, file, cell_key, line)
        if cell is not None and code.co_name == "<module>":
            number = " " if cell.execution_count is None else str(cell.execution_count)
            return StackFrame("cell", f"In [{number}]", None, cell_key, None), within
        function = code.co_qualname.rpartition("<locals>.")[2]
        return StackFrame("python", function, file, cell_key, code.co_firstlineno), within

    @staticmethod
    def _line(filename: str, line: int, cell: CellSource | None) -> str:
        if cell is not None:
            lines = cell.source.splitlines()
            text = lines[line - 1].strip() if line <= len(lines) else ""
        else:
            text = linecache.getline(filename, line).strip()
        return text or f"line {line}"
