"""Which code is the user's own, and whose lines are therefore stamped."""

from __future__ import annotations

import importlib.util
import inspect
import opcode
import os
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from types import CodeType

from gpuviz.capture.backend import CellOf, CellSource
from gpuviz.errors import CaptureError

LINES = "lines"
FUNCTION = "function"

_OWN_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Debian's Python keeps its packages in dist-packages. The name of the folder alone decides, so that the packages of a
# virtual environment inside the user's project are library code too.
_PACKAGE_FOLDERS = {"site-packages", "dist-packages"}


def is_suspendable(code: CodeType) -> bool:
    """Generators and coroutines."""
    return bool(code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR))


def has_handlers(code: CodeType) -> bool:
    """Whether it has an ``except``, ``finally`` or ``with``: each of their handlers begins with this instruction."""
    return opcode.opmap["PUSH_EXC_INFO"] in code.co_code[::2]


@dataclass(frozen=True)
class CodePlace:
    """What a call path needs to know of a code object, without keeping it alive."""

    name: str
    file: str
    first_line: int
    cell: str | None
    level: str
    is_top_level: bool
    is_method: bool
    lines: tuple[tuple[int, int, int | None], ...] = ()

    def line_at(self, offset: int) -> int:
        """The line of an instruction; of generators and coroutines only."""
        found = (line for begin, end, line in self.lines if begin <= offset < end and line is not None)
        return next(found, self.first_line)


class UserCode:
    """Decides once per file: a notebook cell, the user's file, or library code.

    User code: cells, and every file that is neither in the standard library nor in a folder of installed packages.
    An editable install lies in neither, so it counts as the user's. `lines_in` names packages to add. Code without a
    file that is not a cell (``<string>``, ``<frozen importlib>``, what dataclasses and torch.compile generate) is
    library code.
    """

    def __init__(self, cell_of: CellOf, lines_in: Iterable[str] = ()) -> None:
        self._cell_of = cell_of
        self._added = tuple(_folder_or_file_of(package) for package in lines_in)
        self._libraries = tuple({_normal(path) + os.sep for path in _library_folders()})
        self._own = _normal(_OWN_PACKAGE) + os.sep
        self._is_user: dict[str, bool] = {}
        self.cells: dict[str, CellSource] = {}

    def level(self, code: CodeType) -> str | None:
        """`LINES` for user code, `FUNCTION` for a library's ``forward`` (else ``model(**batch)`` would be one line
        that holds every kernel), None for the rest of the libraries."""
        filename = code.co_filename
        is_user = self._is_user.get(filename)
        if is_user is None:
            is_user = self._is_user[filename] = self._decide(filename)
        if is_user:
            return LINES
        return FUNCTION if code.co_name == "forward" and "." in code.co_qualname else None

    def place(self, code: CodeType, level: str) -> CodePlace:
        """The facts of a code object that `level` has accepted."""
        return CodePlace(
            name=code.co_qualname,
            file=code.co_filename,
            first_line=code.co_firstlineno,
            cell=code.co_filename if code.co_filename in self.cells else None,
            level=level,
            # IPython renames the code of a cell, so that debuggers can tell cells apart.
            is_top_level=code.co_name == "<module>" or code.co_name.startswith("<cell line"),
            is_method=code.co_argcount > 0 and code.co_varnames[0] == "self",
            lines=tuple(code.co_lines()) if is_suspendable(code) else (),
        )

    def _decide(self, filename: str) -> bool:
        cell = self._cell_of(filename)
        if cell is not None:
            self.cells[filename] = cell
            return True
        if filename.startswith("<"):
            return False
        path = _normal(filename)
        if path.startswith(self._own):
            return False
        if any(path == added or path.startswith(added + os.sep) for added in self._added):
            return True
        return not (path.startswith(self._libraries) or _PACKAGE_FOLDERS.intersection(path.split(os.sep)))


def _normal(path: str) -> str:
    return os.path.normcase(os.path.abspath(path))


def _library_folders() -> list[str]:
    """The standard library (with and without links resolved) and the folders of installed packages."""
    paths = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    paths.append(os.path.dirname(os.__file__))
    return [*paths, *(os.path.realpath(path) for path in paths)]


def _folder_or_file_of(package: str) -> str:
    """Where a package's code lies. Only its first part is looked up, because looking up ``a.b`` would import ``a``."""
    top, *rest = package.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        spec = None
    origin = spec.origin if spec is not None else None
    if spec is None or (origin is None and not spec.submodule_search_locations):
        raise CaptureError(
            f"Tried to record lines in the package {package!r}: no module {top!r} can be found. Name an installed "
            "package as it is imported, for example 'transformers' or 'transformers.models'."
        )
    if not spec.submodule_search_locations:
        return _normal(str(origin))
    path = os.path.join(next(iter(spec.submodule_search_locations)), *rest)
    return _normal(path if os.path.isdir(path) or not rest else path + ".py")
