"""What `make demo` runs: the sample recording as one offline page.

``python -m gpuviz.demo [FOLDER]`` writes into ``demo/`` when no folder is named.
"""

from __future__ import annotations

import sys
import time
from importlib import resources
from pathlib import Path

from gpuviz.formats import load
from gpuviz.view.html import save_html
from gpuviz.view.report import headline

SAMPLE = "cpu_training.json.gz"


def main(folder: str = "demo") -> None:
    """Open the sample, write the page, and say what was made and where."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    with resources.as_file(resources.files("gpuviz").joinpath("samples", SAMPLE)) as sample:
        trace = load(sample)
    page = save_html(trace, target / "cpu_training.html")
    print(f"Opened the sample {SAMPLE}: three training steps of a small model, recorded with torch.profiler on a CPU.")
    for line in headline(trace):
        print(f"  {line}")
    print(f"Wrote {page} ({page.stat().st_size / 1e6:.2f} MB, {time.perf_counter() - began:.1f} s).")
    print("Open it in any browser; it needs no network and no server.")


if __name__ == "__main__":
    main(*sys.argv[1:2])
