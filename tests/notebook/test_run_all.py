"""Run All stops where it would without gpuviz, and plain IPython works too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat.v4 import new_code_cell, new_notebook

from tests.notebook.kernels import ROOT

PROFILE = "%%gpuprofile --backend replay:gpu.gpuviz"


@pytest.mark.parametrize(
    ("cell", "error"),
    [("%%gpuprofile --veiw all\n1", "UsageError"), (f"{PROFILE}\n1 / 0", "ZeroDivisionError")],
)
def test_run_all_stops(cell: str, error: str, traces: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    sources = ["%load_ext gpuviz", f"{PROFILE}\n'shown'", cell, "open('went_on', 'w').close()"]
    notebook = new_notebook(cells=[new_code_cell(source) for source in sources])
    client = NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(traces)}})
    with pytest.raises(CellExecutionError) as raised:
        client.execute()
    assert raised.value.ename == error
    assert not (traces / "went_on").exists()
    kinds = [output["output_type"] for output in notebook.cells[1]["outputs"]]
    assert sorted(kinds) == ["display_data", "execute_result"]


SCRIPT = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "gpuviz")
done = shell.run_cell("%%gpuprofile --backend replay:gpu.gpuviz -o trace\\ndef f(): return 7\\nf()", store_history=True)
assert done.success and done.result == 7
assert shell.user_ns["trace"].kernels.height == 2
import gpuviz.capture.session as session
cell = session._cell_of(shell.user_ns["f"].__code__.co_filename)
assert cell.source.splitlines()[1] == "def f(): return 7" and cell.execution_count == 1
assert shell.run_cell("%%gpuprofile --veiw\\n1", store_history=True).error_in_exec is not None
assert shell.run_cell("%%time\\n%%gpuprofile --backend replay:gpu.gpuviz -q\\n8").result == 8
shell.run_line_magic("unload_ext", "gpuviz")
print("went well")
"""


def test_plain_ipython(traces: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=traces,
        env={"PYTHONPATH": str(ROOT), "HOME": str(traces), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip().endswith("went well")
    assert "compute 7.00 µs" in done.stdout
