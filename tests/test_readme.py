"""The README's example runs as it stands there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_example_runs_and_leaves_what_it_says(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    example = re.findall(r"runs as a test[^\n]*\n```python\n(.*?)```", readme, re.DOTALL)[0]
    shutil.copytree(ROOT / "gpuviz" / "samples", tmp_path / "gpuviz" / "samples")
    # The copy holds no package, so the installed gpuviz (or the checkout on the path) is what is imported.
    script = tmp_path / "example" / "example.py"
    script.parent.mkdir()
    script.write_text(example, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1"}
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "exclusive_ns" in done.stdout
    assert (tmp_path / "training.gpuviz").stat().st_size < 1_000_000
    assert "<!doctype html>" in (tmp_path / "training.html").read_text(encoding="utf-8")[:20]


def test_every_link_between_our_documents_leads_somewhere() -> None:
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    lost = [
        f"{document.name}: {target}"
        for document in documents
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", document.read_text(encoding="utf-8"))
        if not (document.parent / target).exists()
    ]
    assert lost == []
