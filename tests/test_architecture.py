"""The order of the packages, and who may touch which outside library. The rules are the tables."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "gpuviz"

ALL_BUT_THE_TOP = {"analysis", "capture", "errors", "formats", "model", "view"}

# layer → what it may import. "gpuviz" is the package itself (`import gpuviz`): whatever it offers comes from
# below, so only those above it may ask it.
MAY_IMPORT: dict[str, set[str]] = {
    "_native": set(),
    "errors": set(),
    "model": {"_native", "errors"},
    "analysis": {"_native", "errors", "model"},
    "formats": {"_native", "errors", "model"},
    "capture": {"_native", "errors", "formats", "model"},
    "view": {"analysis", "errors", "model"},
    "notebook": ALL_BUT_THE_TOP | {"gpuviz"},
    "cli": ALL_BUT_THE_TOP | {"gpuviz", "notebook"},
    "demo": ALL_BUT_THE_TOP | {"gpuviz", "notebook"},
    "gpuviz": ALL_BUT_THE_TOP | {"notebook"},
    "__main__": {"cli"},
}

# outside library → the files that may import it, as patterns below gpuviz/.
ALLOWED_IN: dict[str, list[str]] = {
    "IPython": ["notebook/*"],
    "anywidget": ["notebook/*"],
    "bokeh": ["notebook/*", "view/*"],
    "ctypes": ["_native/*", "capture/cupti/*"],
    "cupti": ["capture/cupti/*"],
    "ipywidgets": ["notebook/*"],
    "torch": ["capture/*"],
}
NEVER_IN: dict[str, list[str]] = {"bokeh": ["view/geometry.py"]}
INSIDE_FUNCTIONS_ONLY = {"cupti", "torch"}

# Files that each draw one view; dashboard.py is where they meet.
FIGURES = {"copy_overlap", "details", "flamegraph", "timeline"}

LONGEST_FILE = 400
LONGER_FOR_A_REASON: dict[str, str] = {}


@dataclass(frozen=True)
class Import:
    """One import: the file (below gpuviz/), its line, the dotted target, whether a function holds it."""

    file: str
    line: int
    target: str
    in_function: bool

    @property
    def source_layer(self) -> str:
        return layer_of("gpuviz." + self.file.removesuffix(".py").replace("/", ".").removesuffix("__init__"))

    @property
    def where(self) -> str:
        return f"gpuviz/{self.file}:{self.line}"


def layer_of(dotted: str) -> str:
    """`gpuviz.model.trace` → `model`; names that the package itself offers → `gpuviz`."""
    parts = [part for part in dotted.split(".") if part]
    if len(parts) == 1:
        return "gpuviz"
    is_module = (PACKAGE / parts[1]).is_dir() or (PACKAGE / f"{parts[1]}.py").exists()
    return parts[1] if is_module else "gpuviz"


def imports_of(path: Path) -> Iterator[Import]:
    file = path.relative_to(PACKAGE).as_posix()

    def visit(node: ast.AST, in_function: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            yield from (Import(file, node.lineno, alias.name, in_function) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"gpuviz/{file}:{node.lineno} imports relatively; write the full name"
            module = node.module or ""
            # `from gpuviz import model` names a layer, `from gpuviz.model import Trace` a thing in one.
            yield from (Import(file, node.lineno, f"{module}.{alias.name}", in_function) for alias in node.names)
        inside = in_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            yield from visit(child, inside)

    yield from visit(ast.parse(path.read_text(encoding="utf-8"), str(path)), False)


def python_files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


IMPORTS = [found for path in python_files() for found in imports_of(path)]


def test_there_is_something_to_check() -> None:
    assert any(found.source_layer == "_native" for found in IMPORTS)


def test_every_module_has_its_layer() -> None:
    tops = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in python_files()}
    unknown = tops - {"__init__"} - MAY_IMPORT.keys()
    assert not unknown, f"give {sorted(unknown)} a row in MAY_IMPORT and a place in pyproject.toml's layers"


def test_imports_go_down_only() -> None:
    broken = []
    for found in IMPORTS:
        if found.target.split(".")[0] != "gpuviz":
            continue
        source, target = found.source_layer, layer_of(found.target)
        if target != source and target not in MAY_IMPORT.get(source, set()):
            broken.append(f"{found.where}: {source} may not import {target} ({found.target})")
    assert not broken, "\n".join(broken)


def test_outside_libraries_stay_in_their_place() -> None:
    broken = []
    for found in IMPORTS:
        library = found.target.split(".")[0]
        if library not in ALLOWED_IN:
            continue
        allowed = any(fnmatch(found.file, pattern) for pattern in ALLOWED_IN[library])
        if not allowed or found.file in NEVER_IN.get(library, []):
            broken.append(f"{found.where}: {library} belongs in {', '.join(ALLOWED_IN[library])} only")
        elif library in INSIDE_FUNCTIONS_ONLY and not found.in_function:
            broken.append(f"{found.where}: {library} may be imported inside functions only")
    assert not broken, "\n".join(broken)


def test_one_figure_never_imports_another() -> None:
    broken = []
    for found in IMPORTS:
        if not found.file.startswith("view/") or not found.target.startswith("gpuviz.view."):
            continue
        source, target = found.file.split("/")[1].removesuffix(".py"), found.target.split(".")[2]
        if source in FIGURES and target in FIGURES - {source}:
            broken.append(f"{found.where}: {source} imports {target}; let dashboard.py join them")
    assert not broken, "\n".join(broken)


def test_importing_gpuviz_is_light() -> None:
    heavy = ["bokeh", "IPython", "ipywidgets", "anywidget", "torch", "cupti"]
    code = f"import gpuviz, sys; print(*[name for name in {heavy} if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.split() == []


@pytest.mark.parametrize("folder", ["gpuviz", "tests", "tools"])
def test_no_file_is_too_long(folder: str) -> None:
    suffixes = {".c", ".css", ".js", ".mjs", ".py", ".sh"}
    long = []
    for path in sorted((ROOT / folder).rglob("*")):
        name = path.relative_to(ROOT).as_posix()
        if path.suffix not in suffixes or name in LONGER_FOR_A_REASON:
            continue
        lines = path.read_bytes().count(b"\n")
        if lines > LONGEST_FILE:
            long.append(f"{name} has {lines} lines; split it by variant, at {LONGEST_FILE} at the latest")
    assert not long, "\n".join(long)
