"""A path → the bytes of a JSON trace, or a sentence that says what was found instead.

Only the bytes decide: browsers unpack downloads and keep the name, tools compress without changing it.
"""

from __future__ import annotations

import stat
import zlib
from pathlib import Path

from gpuviz.errors import TraceFileError
from gpuviz.model.diagnostics import Diagnostics

SUPPORTED = (
    "a .gpuviz file, a PyTorch (Kineto) or Chrome trace in JSON, plain or gzipped, "
    "or an SQLite export of Nsight Systems"
)

ZIP = b"PK\x03\x04"
SQLITE = b"SQLite format 3\x00"
_GZIP = b"\x1f\x8b"
_UTF8_MARK = b"\xef\xbb\xbf"
_REPLACEMENT = "\ufffd".encode()
_SHOWN = 16
_MOST_LAYERS = 3
"""A file may be compressed twice, by a tool and by a server."""
_CHUNK = 1 << 16

# First bytes, what they are, what to do.
_SIGNATURES = (
    # Only what was inside of gzip comes here; a plain database is read as an export of Nsight Systems.
    (SQLITE, "an SQLite database", "Unpack it first: gunzip."),
    (b"\x28\xb5\x2f\xfd", "data compressed with zstd", "Unpack it first: zstd -d."),
    (b"BZh", "data compressed with bzip2", "Unpack it first: bunzip2."),
    (b"\xfd7zXZ\x00", "data compressed with xz", "Unpack it first: unxz."),
    (b"PK", "a ZIP archive", "Unpack it and give the trace inside."),
    (b"\xff\xfe", "text in UTF-16", "Save it as UTF-8."),
    (b"\xfe\xff", "text in UTF-16", "Save it as UTF-8."),
    (b"PAR1", "a Parquet file", "Give the .gpuviz file that it came from."),
    (b"%PDF", "a PDF document", "Give the trace itself."),
    (b"<", "HTML or XML, such as the error page of a download", "Download the trace again."),
    (b"version https://git-lfs", "a Git LFS pointer instead of the file", "Fetch the file: git lfs pull."),
    (b"\x0a", "a protobuf message (JAX and TensorFlow write xplane.pb files)", "Export the trace as JSON."),
)


def first_bytes(path: Path) -> bytes:
    """The first bytes of a file; `TraceFileError` where there are none."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise _refusal(path, "a folder", "Give one of the files in it.")
        if not stat.S_ISREG(mode):
            raise _refusal(path, "no regular file (a device, a pipe or a socket)", "Write it to a file first.")
        with path.open("rb") as file:
            start = file.read(_SHOWN)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise _unreadable(path, error) from error
    if not start:
        raise _refusal(path, "an empty file (0 bytes)", "Record or download the trace again.")
    return start


def json_bytes(path: Path, diagnostics: Diagnostics) -> bytes:
    """The JSON text in a file, unpacked; `TraceFileError` where it holds something else."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error
    for _ in range(_MOST_LAYERS):
        if not data.startswith(_GZIP):
            break
        data = _inflate(data, diagnostics)
        if not data:
            raise _refusal(path, "a gzip file that holds nothing", "Record or download the trace again.")
    if data.removeprefix(_UTF8_MARK)[:4096].lstrip()[:1] not in (b"{", b"["):
        raise _refusal(path, *_describe(data))
    return data


def _inflate(data: bytes, diagnostics: Diagnostics) -> bytes:
    """Every member of a gzip file, one after the other; as much as there is of one that is damaged or cut off."""
    parts: list[bytes] = []
    rest = memoryview(data)
    while bytes(rest[:2]) == _GZIP:
        inflater = zlib.decompressobj(wbits=31)
        position = 0
        try:
            while position < len(rest) and not inflater.eof:
                before = inflater.copy()
                parts.append(inflater.decompress(rest[position : position + _CHUNK]))
                position += _CHUNK
        except zlib.error as error:
            parts += _inflate_bytewise(before, rest[position : position + _CHUNK])
            left = len(rest) - position
            diagnostics.add("file_truncated", example=f"damaged gzip data, {left} bytes from the end: {error}")
            return b"".join(parts)
        if not inflater.eof:
            parts.append(inflater.flush())
            diagnostics.add("file_truncated", example=f"the gzip data ends early, after {len(data)} bytes")
            break
        rest = rest[len(rest[:position]) - len(inflater.unused_data) :]
    return b"".join(parts)


def _inflate_bytewise(inflater: zlib._Decompress, chunk: memoryview) -> list[bytes]:
    """What comes before the damage: zlib gives nothing of a chunk that holds an error."""
    parts: list[bytes] = []
    for index in range(len(chunk)):
        try:
            parts.append(inflater.decompress(chunk[index : index + 1]))
        except zlib.error:
            break
    return parts


def _describe(data: bytes) -> tuple[str, str]:
    """What the bytes look like, and what to do."""
    if data[: 1 << 20].count(_REPLACEMENT) > 2:
        what = "binary data damaged by a text conversion (runs of EF BF BD, the mark for what is no UTF-8)"
        return what, "Copy or download the file again, in binary."
    for signature, what, remedy in _SIGNATURES:
        if data.startswith(signature):
            return what, remedy
    if not data.strip():
        return "nothing but white space", "Record or download the trace again."
    kind = "text" if data[:4096].isascii() and b"\x00" not in data[:4096] else "unknown data"
    return f"{kind} that begins with {data[:_SHOWN]!r}", "Give the trace itself."


def _refusal(path: Path, found: str, remedy: str) -> TraceFileError:
    return TraceFileError(
        f"Tried to open {path} as a trace: found {found}. {remedy} gpuviz reads {SUPPORTED}.",
        path=path,
        found=found,
        supported=SUPPORTED,
    )


def _unreadable(path: Path, error: OSError | ValueError) -> TraceFileError:
    found = getattr(error, "strerror", None) or str(error)
    return TraceFileError(
        f"Tried to open {path} as a trace: {found}. Check the path and its permissions.",
        path=path,
        found=found,
        supported=SUPPORTED,
    )
