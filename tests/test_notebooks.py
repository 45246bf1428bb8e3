"""Every notebook of the repository runs from top to bottom in a real kernel."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def needs(path: Path) -> list[pytest.MarkDecorator]:
    return [pytest.mark.torch] if "import torch" in path.read_text(encoding="utf-8") else []


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem, marks=needs(path)) for path in NOTEBOOKS])
def test_notebook_runs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook = nbformat.read(path, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "notebooks are saved without outputs"
    assert len(notebook.cells) < 15
    NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(path.parent)}}).execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", []) if "data" in output]
    assert any('class="gpuviz"' in output["data"].get("text/html", "") for output in shown)
    assert not any(output["output_type"] == "error" for cell in notebook.cells for output in cell.get("outputs", []))
