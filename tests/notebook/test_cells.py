"""Which cell a file name stands for, in IPython's compiler and in that of Jupyter."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ipykernel.compiler import XCachingCompiler
from IPython.core.compilerop import CachingCompiler

from gpuviz.notebook import cells as module
from gpuviz.notebook.cells import ExecutedCells


def shell(compiler: Any, *earlier: str) -> Any:
    history = SimpleNamespace(input_hist_raw=["", *earlier], input_hist_parsed=["", *earlier])
    return SimpleNamespace(compile=compiler, history_manager=history)


@pytest.fixture(params=[CachingCompiler, XCachingCompiler], ids=["ipython", "jupyter"])
def compiler(request: pytest.FixtureRequest) -> Any:
    return request.param()


def test_a_cell_is_found_by_the_name_of_its_code(compiler: Any) -> None:
    executed = ExecutedCells(shell(compiler))
    executed.remember("f = 1\n", "f = 1\n", 3, jupyter_cell_id="abc")
    filename = compiler.cache("f = 1\n", 3, raw_code="f = 1\n")
    found = executed.cell_of(filename)
    assert found is not None
    assert (found.jupyter_cell_id, found.execution_count, found.source) == ("abc", 3, "f = 1\n")


def test_the_source_is_what_the_user_wrote_from_the_first_line_that_counts(compiler: Any) -> None:
    raw, code = "\n\n%%gpuprofile -q\nf()\n", "# %%gpuprofile -q\nf()\n"
    executed = ExecutedCells(shell(compiler))
    executed.remember(raw, code, 1)
    found = executed.cell_of(compiler.cache(code, 1, raw_code=raw))
    assert found is not None
    assert found.source == "%%gpuprofile -q\nf()\n"


def test_cells_from_before_gpuviz_was_loaded_are_known(compiler: Any) -> None:
    executed = ExecutedCells(shell(compiler, "def f(): ...\n", "g()\n"))
    found = executed.cell_of(compiler.cache("def f(): ...\n", 1, raw_code="def f(): ...\n"))
    assert found is not None
    assert (found.jupyter_cell_id, found.execution_count) == (None, 1)


def test_files_and_forgotten_cells_are_nobody_s(compiler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CELLS", 2)
    executed = ExecutedCells(shell(compiler))
    names = []
    for count in range(1, 5):
        code = f"x = {count}\n"
        executed.remember(code, code, count)
        names.append(compiler.cache(code, count, raw_code=code))
        if count == 2:
            assert executed.cell_of(names[0]) is not None
    assert [executed.cell_of(name) is None for name in names] == [True, True, False, False]
    assert executed.cell_of(__file__) is None


def test_text_is_limited(compiler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CHARACTERS", 10)
    executed = ExecutedCells(shell(compiler))
    for count, code in enumerate(["x = 12345\n", "y = 12345\n", "z" * 100 + "\n"], start=1):
        executed.remember(code, code, count)
        assert executed.cell_of(compiler.cache(code, count, raw_code=code)) is not None
    assert executed.cell_of(compiler.cache("y = 12345\n", 2, raw_code="y = 12345\n")) is None


def test_the_same_text_run_again_is_its_later_run() -> None:
    compiler = XCachingCompiler()
    executed = ExecutedCells(shell(compiler))
    for count in (1, 2):
        executed.remember("f()\n", "f()\n", count, jupyter_cell_id=f"cell {count}")
        found = executed.cell_of(compiler.cache("f()\n", count, raw_code="f()\n"))
        assert found is not None
        assert found.jupyter_cell_id == f"cell {count}"


def test_timed_code_belongs_to_the_cell_that_runs() -> None:
    executed = ExecutedCells(shell(XCachingCompiler()))
    executed.remember("%%gpuprofile\n%%time\nf()\n", "...", 1, jupyter_cell_id="abc")
    found = executed.cell_of("<timed exec>")
    assert found is not None
    assert (found.jupyter_cell_id, found.source) == ("abc", "f()\n")
    executed.remember("%time f()\n", "...", 2)
    assert executed.cell_of("<timed exec>") is None
