"""BokehJS and the engine as text that an output carries.

Every output works as the only one left, so each carries both, gzip-compressed and base64-coded; the browser unpacks
BokehJS once per page and version.
"""

from __future__ import annotations

import base64
import gzip
import re
from functools import cache
from importlib import resources

import bokeh
from bokeh.resources import Resources

from gpuviz.errors import GpuvizError

ENTRY_MODULE = "main.mjs"
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./([\w-]+\.mjs)";?[ \t]*\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class|let)\b)", re.MULTILINE)
_DECLARED = re.compile(r"^(?:export )?(?:async )?(?:function\*?|const|class|let) (\w+)", re.MULTILINE)


def packed(text: str) -> str:
    """gzip and base64, always the same bytes for the same text."""
    return base64.b64encode(gzip.compress(text.encode("utf-8"), 9, mtime=0)).decode("ascii")


@cache
def bokeh_packed() -> str:
    """BokehJS core (no widgets: the engine has its own inputs), packed."""
    sources = Resources(mode="inline", components=["bokeh"], log_level="error").js_raw
    return packed(";\n".join(sources))


def bokeh_version() -> str:
    """The version that the packed library reports as `Bokeh.version`."""
    return str(bokeh.__version__)


@cache
def engine_packed() -> str:
    """The joined engine, packed."""
    return packed(engine_source())


@cache
def engine_style() -> str:
    """The engine's style sheet."""
    return _read("style.css")


def engine_source() -> str:
    """The engine's modules as one script that evaluates to an object with `start`.

    Modules are joined in the order of their imports inside one function scope, so that nothing becomes global. A name
    declared at the top of two modules would silently replace the other: that is an error here.
    """
    ordered: list[str] = []
    _visit(ENTRY_MODULE, ordered, ())
    declared: dict[str, str] = {}
    parts = []
    for module in ordered:
        text = _read(module)
        for name in _DECLARED.findall(text):
            if name in declared:
                raise GpuvizError(
                    f"The engine's modules were joined: {name!r} is declared in {declared[name]} and in {module}. "
                    "Rename one of them."
                )
            declared[name] = module
        parts.append(f"// {module}\n" + _EXPORT.sub("", _IMPORT.sub("", text)))
    return "(() => {\n'use strict';\n" + "\n".join(parts) + "\nreturn {start};\n})()"


def _visit(module: str, ordered: list[str], path: tuple[str, ...]) -> None:
    if module in ordered:
        return
    if module in path:
        raise GpuvizError(f"The engine's modules import each other in a circle: {' → '.join([*path, module])}.")
    for imported in _IMPORT.findall(_read(module)):
        _visit(imported, ordered, (*path, module))
    ordered.append(module)


@cache
def _read(name: str) -> str:
    return resources.files("gpuviz.view").joinpath("engine", name).read_text(encoding="utf-8")
