"""What lands in a wheel, with a C compiler and without one."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
INPUTS = ["pyproject.toml", "hatch_build.py", "README.md", "LICENSE", ".gitignore"]
LIBRARY = "gpuviz/_native/libgpuviz_native" + (".dylib" if sys.platform == "darwin" else ".so")

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("hatchling") is None or importlib.util.find_spec("pip") is None,
    reason="hatchling or pip is not installed; a build would have to fetch them",
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what a build reads, with a library of some earlier install lying in it."""
    copy = tmp_path / "tree"
    copy.mkdir()
    for name in INPUTS:
        shutil.copy(ROOT / name, copy)
    shutil.copytree(ROOT / "gpuviz", copy / "gpuviz", ignore=shutil.ignore_patterns("__pycache__"))
    (copy / LIBRARY).write_bytes(b"stale")
    return copy


@pytest.fixture
def no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    monkeypatch.setenv("CC", "/nonexistent")


def build_wheel(tree: Path) -> tuple[zipfile.ZipFile, str]:
    """The wheel and what the build printed."""
    out = tree.parent / "wheels"
    command = [sys.executable, "-m", "pip", "wheel", "-v", "--no-build-isolation", "--no-deps", "--no-index"]
    command += ["-w", str(out), str(tree)]
    answer = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert answer.returncode == 0, answer.stdout
    (wheel,) = out.glob("*.whl")
    return zipfile.ZipFile(wheel), answer.stdout


def tag_of(wheel: zipfile.ZipFile) -> str:
    return Path(wheel.filename or "").stem.removeprefix("gpuviz-0.1.0-")


def hook(tree: Path, call: str) -> str:
    """Call one function of hatchling's build interface, as a build frontend would."""
    code = f"from hatchling import build; print(build.{call})"
    answer = subprocess.run([sys.executable, "-c", code], cwd=tree, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout.split()[-1]


@pytest.mark.native
def test_with_a_compiler_the_wheel_is_of_this_platform(tree: Path, tmp_path: Path) -> None:
    wheel, _ = build_wheel(tree)
    abi, platform = tag_of(wheel).rsplit("-", 1)
    assert (abi, platform != "any") == ("py3-none", True)
    assert "manylinux" not in platform

    files = {path.relative_to(tree).as_posix() for path in (tree / "gpuviz").rglob("*") if path.is_file()}
    shipped = {name for name in wheel.namelist() if not name.startswith("gpuviz-0.1.0.dist-info/")}
    assert shipped == {name for name in files if not name.endswith(".c")}
    assert "gpuviz-0.1.0.dist-info/licenses/LICENSE" in wheel.namelist()

    wheel.extractall(tmp_path / "site")
    answer = subprocess.run(
        [sys.executable, "-c", "import gpuviz._native as n; print(n.library(), n.__file__)"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "libgpuviz_native" in answer.stdout
    assert str(tmp_path / "site") in answer.stdout


@pytest.mark.usefixtures("no_compiler")
def test_without_a_compiler_the_wheel_is_pure_and_says_so(tree: Path) -> None:
    wheel, printed = build_wheel(tree)
    assert tag_of(wheel) == "py3-none-any"
    assert not [name for name in wheel.namelist() if name.endswith((".so", ".dylib"))]
    assert printed.count("no C compiler found") == 1


def test_a_failed_compilation_is_a_pure_wheel_and_a_warning(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = tree.parent / "failing-cc"
    failing.write_text("#!/bin/sh\necho 'no such header' >&2\nexit 1\n")
    failing.chmod(0o755)
    monkeypatch.setenv("CC", f"{failing} -some-flag")
    wheel, printed = build_wheel(tree)
    assert tag_of(wheel) == "py3-none-any"
    assert LIBRARY not in wheel.namelist()
    assert "no such header" in printed


@pytest.mark.native
def test_an_editable_install_builds_the_library_in_place(tree: Path) -> None:
    hook(tree, f"build_editable({str(tree.parent)!r})")
    assert (tree / LIBRARY).stat().st_size > len(b"stale")


@pytest.mark.usefixtures("no_compiler")
def test_an_editable_install_leaves_no_stale_library(tree: Path) -> None:
    hook(tree, f"build_editable({str(tree.parent)!r})")
    assert not (tree / LIBRARY).exists()


def test_the_source_distribution_holds_the_c_and_no_library(tree: Path) -> None:
    name = hook(tree, f"build_sdist({str(tree.parent)!r})")
    with tarfile.open(tree.parent / name) as archive:
        names = {member.partition("/")[2] for member in archive.getnames()}
    assert {"gpuviz/_native/nesting.c", "hatch_build.py", "pyproject.toml"} <= names
    assert LIBRARY not in names
