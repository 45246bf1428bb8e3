"""gpuviz: where a GPU's time went, and why, inside a notebook.

Importing gpuviz loads none of Bokeh, IPython, torch or CUPTI; each comes with the first call that needs it.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuviz import analysis as analysis
    from gpuviz.capture import profile as profile
    from gpuviz.capture import region as region
    from gpuviz.capture import step as step
    from gpuviz.errors import GpuvizError as GpuvizError
    from gpuviz.formats import load as load
    from gpuviz.model import Trace as Trace
    from gpuviz.model import TraceMeta as TraceMeta
    from gpuviz.notebook.display import show as show
    from gpuviz.notebook.history import history as history
    from gpuviz.notebook.magics import load_ipython_extension as load_ipython_extension
    from gpuviz.notebook.magics import unload_ipython_extension as unload_ipython_extension
    from gpuviz.view.html import save_html as save_html
    from gpuviz.view.report import report as report

try:
    __version__ = version("gpuviz")
except PackageNotFoundError:  # run from a checkout that is not installed
    __version__ = "0+unknown"

_HOME = {
    "GpuvizError": "gpuviz.errors",
    "Trace": "gpuviz.model",
    "TraceMeta": "gpuviz.model",
    "history": "gpuviz.notebook.history",
    "load": "gpuviz.formats",
    "load_ipython_extension": "gpuviz.notebook.magics",
    "profile": "gpuviz.capture",
    "region": "gpuviz.capture",
    "report": "gpuviz.view.report",
    "save_html": "gpuviz.view.html",
    "show": "gpuviz.notebook.display",
    "step": "gpuviz.capture",
    "unload_ipython_extension": "gpuviz.notebook.magics",
}
"""Public name → the module that has it, imported when the name is first used."""

__all__ = [
    "GpuvizError",
    "Trace",
    "TraceMeta",
    "__version__",
    "analysis",
    "history",
    "load",
    "profile",
    "region",
    "report",
    "save_html",
    "show",
    "step",
]


def __getattr__(name: str) -> Any:
    if name == "analysis":
        return import_module("gpuviz.analysis")
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'gpuviz' has no attribute {name!r}; it has {', '.join(__all__)}")


def __dir__() -> list[str]:
    return __all__
