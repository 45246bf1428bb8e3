"""Which cell a function was defined in, as a capture asks while it runs; in a real kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.notebook.kernels import Kernel

PROFILE = "%%gpuprofile --backend replay:gpu.gpuviz -q"
# What a capture gets for a function: (id of the cell in the notebook, execution count, the line of its definition).
WHERE = """
import sys
def where(function):
    code = function.__code__
    cell = sys.modules["gpuviz.capture.session"]._cell_of(code.co_filename)
    if cell is not None:
        return cell.jupyter_cell_id, cell.execution_count, cell.source.splitlines()[code.co_firstlineno - 1]
"""


@pytest.fixture(scope="module")
def fresh(traces: Path) -> Kernel:
    """A kernel that has run a cell before gpuviz was loaded."""
    with Kernel(traces) as kernel:
        kernel.run("def early(): ...", cell_id="before")
        kernel.run("%load_ext gpuviz")
        kernel.run(WHERE)
        yield kernel


@pytest.mark.parametrize(
    "cell",
    [
        "DEF",
        "\n\nx = 1\nDEF",
        f"{PROFILE}\nDEF",
        f"\n{PROFILE}\n\nDEF\n1",
        f"{PROFILE}\nimport asyncio\nDEF\nawait asyncio.sleep(0)",
        f"{PROFILE}\n%%capture\n\nDEF",
        f"%%capture\n{PROFILE}\nDEF",
        f"%%time\n{PROFILE}\n\nDEF\n1",
        f"%%capture\n{PROFILE}\n%%capture\n\nDEF",
        "  x = 1\n  DEF",
    ],
)
def test_functions_belong_to_the_cell_that_defined_them(fresh: Kernel, cell: str) -> None:
    ran = fresh.run(cell.replace("DEF", "def function(): return 1"), cell_id="here")
    assert ran.status == "ok", ran.traceback or ran.text
    identity, count, line = fresh.value("where(function)")
    assert (identity, count, line.strip()) == ("here", ran.execution_count, "def function(): return 1")


def test_code_that_time_runs_belongs_to_its_cell_while_it_runs(fresh: Kernel) -> None:
    body = "def function(): return 1\nfound = where(function)"
    ran = fresh.run(f"{PROFILE}\n\n%%time\n\n{body}", cell_id="timed")
    assert fresh.value("found") == ("timed", ran.execution_count, "def function(): return 1")
    assert fresh.value("where(function)") is None


def test_a_cell_from_before_gpuviz_was_loaded(fresh: Kernel) -> None:
    assert fresh.value("where(early)") == (None, 1, "def early(): ...")


def test_code_of_files_belongs_to_no_cell(fresh: Kernel) -> None:
    assert fresh.value("where(__import__('textwrap').dedent)") is None


def test_the_expression_of_the_line_form(fresh: Kernel) -> None:
    ran = fresh.run("%gpuprofile -q --backend replay:gpu.gpuviz function = lambda: 1", cell_id="line")
    assert fresh.value("where(function)") == ("line", ran.execution_count, "%gpuprofile function = lambda: 1")
