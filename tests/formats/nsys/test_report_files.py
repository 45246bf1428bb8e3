"""Reports (.nsys-rep) through the user's own nsys, which is played by a script here."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from gpuviz.errors import TraceFileError
from gpuviz.formats import load
from gpuviz.formats.nsys import read_report
from tests.formats.nsys.exports import kernel, kernels, write

pytestmark = pytest.mark.skipif(os.name != "posix", reason="plays nsys with a shell script")

REPORT = b"\x00\x01 report of some version"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for programs, first on PATH, and a folder for what they write; nothing of it stays."""
    programs, temporary = tmp_path / "bin", tmp_path / "tmp"
    programs.mkdir()
    temporary.mkdir()
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    return tmp_path


def report(folder: Path, name: str = "-run 1.nsys-rep", data: bytes = REPORT) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def nsys(folder: Path, script: str) -> None:
    program = folder / "bin" / "nsys"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def refused(path: Path) -> str:
    with pytest.raises(TraceFileError) as caught:
        load(path)
    assert caught.value.found
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_without_nsys_it_says_how(folder: Path) -> None:
    told = refused(report(folder))
    assert "no nsys on PATH" in told
    assert "nsys export --type sqlite --output trace.sqlite -run 1.nsys-rep" in told


@pytest.mark.parametrize("name", ["a.nsys-rep", "a.NSYS-REP", "b.qdrep"])
def test_exported_and_read(folder: Path, name: str) -> None:
    export = write(folder / "export.sqlite", kernels(kernel(1, 2)))
    nsys(
        folder,
        f'[ "$1 $2 $3 $4" = "export --type sqlite --output" ] || exit 3; case "$6" in /*) cp "{export}" "$5";; esac',
    )
    path = report(folder, name)
    trace = load(path).validate()
    assert trace.kernels.height == 1
    assert (trace.meta.title, trace.meta.source) == (path.stem, str(path))
    assert list((folder / "tmp").iterdir()) == []
    assert sorted(file.name for file in folder.iterdir()) == sorted(["bin", "tmp", "export.sqlite", name])


def test_what_nsys_says_is_passed_on(folder: Path) -> None:
    nsys(folder, "echo 'Importer error:'; echo 'newer version 2031.1' >&2; exit 1")
    told = refused(report(folder))
    assert "status 1: Importer error: newer version 2031.1" in told
    assert list((folder / "tmp").iterdir()) == []


def test_success_without_a_file(folder: Path) -> None:
    nsys(folder, "exit 0")
    assert "it said nothing" in refused(report(folder))


def test_a_program_that_cannot_be_run(folder: Path) -> None:
    (folder / "bin" / "nsys").write_bytes(b"\x7fELF nonsense")
    (folder / "bin" / "nsys").chmod(0o755)
    assert "cannot be run" in refused(report(folder))


def test_an_export_without_end_is_ended_with_its_children(folder: Path) -> None:
    nsys(folder, f"sleep 60 & echo $! > '{folder}/child'; wait")
    began = time.monotonic()
    with pytest.raises(TraceFileError, match=r"longer than 0.5 s"):
        read_report(report(folder), timeout_s=0.5)
    assert time.monotonic() - began < 20
    child = int((folder / "child").read_text())
    for _ in range(100):  # a child that was ended is reaped by whoever adopts it
        state = Path(f"/proc/{child}/stat")
        if not state.exists() or state.read_text().split(") ")[1][0] == "Z":
            break
        time.sleep(0.05)
    else:
        pytest.fail("the child of nsys still runs")
    assert list((folder / "tmp").iterdir()) == []


def test_an_export_under_the_name_of_a_report(folder: Path) -> None:
    """The bytes decide first."""
    path = write(folder / "export.sqlite", kernels(kernel(1, 2))).rename(folder / "a.nsys-rep")
    assert load(path).kernels.height == 1
    assert load(report(folder, "b.nsys-rep", b'{"traceEvents": []}')).meta.format == "kineto"
    assert "Git LFS" in refused(report(folder, "c.nsys-rep", b"version https://git-lfs.github.com/spec/v1"))
