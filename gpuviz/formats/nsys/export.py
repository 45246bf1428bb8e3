"""A report of Nsight Systems (.nsys-rep, .qdrep) → a trace, through the user's own ``nsys export``.

NVIDIA documents neither the format of a report nor a signature. So a file counts as a report when its name says so and
its bytes are none of the formats that gpuviz knows.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

from gpuviz.errors import TraceFileError
from gpuviz.formats.nsys.header import refusal
from gpuviz.formats.nsys.reader import read
from gpuviz.model.trace import Trace

SUFFIXES = (".nsys-rep", ".qdrep")

# What a file of that name may be instead: an archive, an SQLite export, gzip, JSON, a pointer, the page of an error.
_NO_REPORT = (b"PK", b"SQLite format 3\x00", b"\x1f\x8b", b"\xef\xbb\xbf", b"version https:", b"{", b"[", b"<")

TIMEOUT_S = 600.0
_LAST_WORDS = 400
_BY_HAND = "nsys export --type sqlite --output trace.sqlite {name}"


def is_report(source: Path, start: bytes) -> bool:
    """Whether a file that begins with `start` is to be taken for a report."""
    return source.suffix.lower() in SUFFIXES and not start.lstrip().startswith(_NO_REPORT)


def read_report(source: Path, *, timeout_s: float = TIMEOUT_S) -> Trace:
    """The trace in a report. `TraceFileError` that passes on what nsys says, or says what to do where there is none.

    The export is written into a temporary folder, which is gone when this returns; nothing is written beside the
    report.
    """
    nsys = shutil.which("nsys")
    by_hand = _BY_HAND.format(name=source.name)
    if nsys is None:
        raise _refusal(
            source,
            "a report of Nsight Systems, which only nsys can read, and no nsys on PATH",
            f"Run this where Nsight Systems is installed, and load trace.sqlite: {by_hand}",
        )
    with tempfile.TemporaryDirectory(prefix="gpuviz-nsys-") as folder:
        exported = Path(folder) / "trace.sqlite"
        # An absolute path cannot be taken for an option.
        command = [nsys, "export", "--type", "sqlite", "--output", str(exported), str(source.absolute())]
        status, words = _run(command, Path(folder), timeout_s)
        if status is None:
            raise _refusal(source, f"that nsys export took longer than {timeout_s:g} s", f"Run it yourself: {by_hand}")
        if status != 0 or not exported.is_file():
            raise _refusal(
                source,
                f"that nsys export failed with status {status}: {words or 'it said nothing'}",
                "A newer Nsight Systems may be needed than the one on PATH.",
            )
        trace = read(exported)
    title = source.name.removesuffix(source.suffix)
    return trace.replace(meta=replace(trace.meta, title=title, source=str(source)))


def _run(command: list[str], folder: Path, timeout_s: float) -> tuple[int | None, str]:
    """The exit status, None where the time was up, and the last words; nothing of it is left running."""
    said = folder / "output.txt"
    with said.open("wb") as output:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
        except OSError as error:
            return -1, f"{command[0]} cannot be run ({error.strerror or error})"
        try:
            status: int | None = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            _end(process)
    text = said.read_bytes().decode(errors="replace")
    return status, " ".join(text.split())[-_LAST_WORDS:]


def _end(process: subprocess.Popen[bytes]) -> None:
    """End nsys and what it has started, where it still runs."""
    if process.poll() is None:
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        process.wait()


def _refusal(source: Path, found: str, remedy: str) -> TraceFileError:
    return refusal(source, found, remedy, supported="reports of Nsight Systems, where nsys is installed")
