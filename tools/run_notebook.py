"""Execute a notebook in a real Jupyter kernel and leave the executed copy in a folder.

``python tools/run_notebook.py notebooks/01_first_profile.ipynb demo``
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat.sign import NotebookNotary


def main(source: str, folder: str) -> int:
    """Run it top to bottom; 1 when a cell fails, and then nothing is written."""
    notebook = nbformat.read(source, as_version=4)
    began = time.perf_counter()
    try:
        NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(Path(source).parent)}}).execute()
    except CellExecutionError as error:
        print(f"Tried to execute {source}: a cell failed.\n{error}", file=sys.stderr)
        return 1
    target = Path(folder) / Path(source).name
    target.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, target)
    # Whoever ran it may trust it: JupyterLab then shows the views at once, without a kernel.
    NotebookNotary().sign(notebook)
    print(f"Executed {source} in a Jupyter kernel ({time.perf_counter() - began:.0f} s).")
    print(f"Wrote {target} ({target.stat().st_size / 1e6:.2f} MB); its views stay alive without a kernel.")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
