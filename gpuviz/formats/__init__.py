"""Other tools' files → `Trace`: `load` looks at the first bytes of a file.

A name counts for one format alone, the reports of Nsight Systems, which have no known signature.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from gpuviz.formats import kineto, nsys, opening
from gpuviz.model import store
from gpuviz.model.diagnostics import Diagnostics
from gpuviz.model.trace import Trace

__all__ = ["load"]


def load(path: str | PathLike[str]) -> Trace:
    """Open a trace: a ``.gpuviz`` file, a PyTorch (Kineto) or Chrome trace in JSON, plain or gzipped, or an SQLite
    export of Nsight Systems (or its report, where ``nsys`` is on PATH).

    Raises `TraceFileError` with .path, .found and .supported where there is nothing to read. What could be read only
    in part is a trace; its `diagnostics` say what was lost.
    """
    source = Path(path)
    start = opening.first_bytes(source)
    if start.startswith(opening.ZIP):
        return store.load(source)
    if start.startswith(opening.SQLITE):
        return nsys.read(source)
    if nsys.is_report(source, start):
        return nsys.read_report(source)
    diagnostics = Diagnostics()
    return kineto.read(opening.json_bytes(source, diagnostics), source, diagnostics)
