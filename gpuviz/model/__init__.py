"""What a trace is: tables with one written schema, and the facts about their capture."""

from gpuviz.model.diagnostics import Diagnostics
from gpuviz.model.trace import Trace, TraceMeta, Window

__all__ = ["Diagnostics", "Trace", "TraceMeta", "Window"]
