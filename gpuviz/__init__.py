"""gpuviz: where a GPU's time went, and why, inside a notebook.

Importing gpuviz loads none of Bokeh, IPython, torch or CUPTI; each comes with the first call that needs it.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuviz import analysis as analysis
    from gpuviz.errors import GpuvizError as GpuvizError
    from gpuviz.formats import load as load
    from gpuviz.model import Trace as Trace
    from gpuviz.model import TraceMeta as TraceMeta
    from gpuviz.notebook.display import show as show
    from gpuviz.view.html import save_html as save_html

try:
    __version__ = version("gpuviz")
except PackageNotFoundError:  # run from a checkout that is not installed
    __version__ = "0+unknown"

_PUBLIC = {
    "GpuvizError": "gpuviz.errors",
    "Trace": "gpuviz.model",
    "TraceMeta": "gpuviz.model",
    "load": "gpuviz.formats",
    "save_html": "gpuviz.view.html",
    "show": "gpuviz.notebook.display",
}
_MODULES = ("analysis",)

__all__ = ["GpuvizError", "Trace", "TraceMeta", "__version__", "analysis", "load", "save_html", "show"]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"gpuviz.{name}")
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'gpuviz' has no attribute {name!r}; it has {', '.join(__all__)}")


def __dir__() -> list[str]:
    return __all__
