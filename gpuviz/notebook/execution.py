"""Code that a magic runs itself: the expression of ``%gpuprofile``, and ``%%gpuprofile`` below another magic."""

from __future__ import annotations

import ast
import tokenize
from typing import Any

from IPython.core.displayhook import DisplayHook

from gpuviz.notebook.cells import ExecutedCells
from gpuviz.notebook.hooks import RunningCell


def run_line(shell: Any, cells: ExecutedCells, cell: RunningCell, code: str, local_ns: dict[str, Any]) -> Any:
    """Run what stands behind ``%gpuprofile``, and return the value of its last expression."""
    __tracebackhide__ = True
    raw = f"%gpuprofile {code}"
    return _run(shell, _remembered(shell, cells, cell, raw, shell.transform_cell(code)), code, local_ns)


def run_body(shell: Any, cells: ExecutedCells, cell: RunningCell, line: str, body: str) -> Any:
    """Run a cell below its line ``%%gpuprofile``, and return the value of its last expression."""
    __tracebackhide__ = True
    code = shell.transform_cell(body)
    # That took off the blank lines it began with; they and the line of the magic count.
    lines = body.splitlines(keepends=True)
    above = 1 + next((index for index, text in enumerate(lines) if not text.isspace()), 0)
    raw = f"%%gpuprofile {line}".rstrip() + "\n" + body
    return _run(shell, _remembered(shell, cells, cell, raw, "\n" * above + code), body, shell.user_ns)


def _remembered(shell: Any, cells: ExecutedCells, cell: RunningCell, raw: str, code: str) -> tuple[str, str]:
    """The code and its file name, under which tracebacks find its text and `cell_of` the cell."""
    filename: str = shell.compile.cache(code, cell.execution_count, raw_code=raw)
    cells.remember(raw, code, cell.execution_count, jupyter_cell_id=cell.jupyter_cell_id)
    return code, filename


def _run(shell: Any, named: tuple[str, str], text: str, local_ns: dict[str, Any]) -> Any:
    __tracebackhide__ = True
    code, filename = named
    tree = shell.transform_ast(shell.compile.ast_parse(code, filename=filename))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(shell.compile(tree, filename, "exec"), shell.user_ns, local_ns)
    if last is None:
        return None
    value = eval(shell.compile(ast.Expression(last.value), filename, "eval"), shell.user_ns, local_ns)
    return None if _is_silenced(text) else value


def _is_silenced(text: str) -> bool:
    """Whether the code ends in a semicolon, as IPython reads it."""
    try:
        return bool(DisplayHook.semicolon_at_end_of_expression(text))
    except tokenize.TokenError:  # not Python to begin with, such as `!ls "`
        return False
