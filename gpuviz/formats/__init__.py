"""Other tools' files → `Trace`: `load` looks at the first bytes of a file, never at its name."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from gpuviz.formats import kineto, opening
from gpuviz.model import store
from gpuviz.model.diagnostics import Diagnostics
from gpuviz.model.trace import Trace

__all__ = ["load"]


def load(path: str | PathLike[str]) -> Trace:
    """Open a trace: a ``.gpuviz`` file, or a PyTorch (Kineto) or Chrome trace in JSON, plain or gzipped.

    Raises `TraceFileError` with .path, .found and .supported where there is nothing to read. What could be read only
    in part is a trace; its `diagnostics` say what was lost.
    """
    source = Path(path)
    if opening.first_bytes(source).startswith(opening.ZIP):
        return store.load(source)
    diagnostics = Diagnostics()
    return kineto.read(opening.json_bytes(source, diagnostics), source, diagnostics)
