"""What `load` says about files that hold no trace, and what it makes of compressed ones."""

from __future__ import annotations

import gzip
import os
import sqlite3
from pathlib import Path

import pytest

from gpuviz.errors import TraceFileError
from gpuviz.formats import load
from tests.formats.events import codes, document, kernel, launch, load_events

TEXT = document([launch(1, 10), kernel(1, 20, 4)]).encode()


def refused(path: Path) -> TraceFileError:
    with pytest.raises(TraceFileError) as caught:
        load(path)
    error = caught.value
    assert error.path == str(path)
    assert error.found
    assert error.supported
    assert str(path) in str(error)
    assert "\n" not in str(error)
    return error


def write(folder: Path, data: bytes, name: str = "trace") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def test_missing_file(tmp_path: Path) -> None:
    assert "No such file" in str(refused(tmp_path / "none.json"))


def test_folder(tmp_path: Path) -> None:
    assert "a folder" in str(refused(tmp_path))


def test_empty_file(tmp_path: Path) -> None:
    assert "0 bytes" in str(refused(write(tmp_path, b"")))


def test_name_with_a_nul(tmp_path: Path) -> None:
    refused(tmp_path / "a\x00b")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")
def test_pipe_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "no regular file" in str(refused(tmp_path / "pipe"))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may read everything")
def test_forbidden_file(tmp_path: Path) -> None:
    path = write(tmp_path, TEXT)
    path.chmod(0)
    assert "Permission denied" in str(refused(path))


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"\x28\xb5\x2f\xfd\x00\x00", "zstd"),
        (b"BZh91AY", "bzip2"),
        (b"\xfd7zXZ\x00\x00", "xz"),
        (b"\xff\xfe{\x00", "UTF-16"),
        (b"<!DOCTYPE html>", "HTML"),
        (b"version https://git-lfs.github.com/spec/v1", "Git LFS"),
        (b"\x0a\x85\x01\x08\x01\x12\x05/host", "protobuf"),
        (b"\x0a\x85" + "\ufffd\ufffd\x01\ufffd".encode() * 9, "text conversion"),
        (b"\x1f" + "\ufffd\x08\ufffd\ufffd\ufffd".encode() * 9, "text conversion"),
        (b"   \n ", "white space"),
        (b"hello world", "text that begins with b'hello world'"),
        (b"\x00\x01\x02\x03", "unknown data"),
        (gzip.compress(b""), "holds nothing"),
        (gzip.compress(b"BZh91AY"), "bzip2"),
        (b'{"schemaVersion": 1}', "without trace events"),
        (b'{"traceEvents": 3, "b": 1}', "without trace events"),
        (b'[1, 2, "a"]', "without trace events"),
        (b'[{"name": "a row of some table"}]', "without trace events"),
    ],
)
def test_other_data_is_named(tmp_path: Path, data: bytes, found: str) -> None:
    assert found in str(refused(write(tmp_path, data)))


def test_sqlite_is_named(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "report.json")
    connection.execute("create table a (b)")
    connection.commit()
    connection.close()
    assert "an SQLite database with the tables a" in str(refused(tmp_path / "report.json"))
    packed = gzip.compress((tmp_path / "report.json").read_bytes())
    assert "gunzip" in str(refused(write(tmp_path, packed)))


def test_archive_without_a_manifest(tmp_path: Path) -> None:
    error = refused(write(tmp_path, b"PK\x03\x04 and no more"))
    assert "manifest" in str(error)


def test_own_format_by_its_bytes(tmp_path: Path) -> None:
    trace = load_events(tmp_path, launch(1, 10), kernel(1, 20, 4))
    saved = trace.save(tmp_path / "any.name")
    again = load(saved)
    assert again.kernels.equals(trace.kernels)
    assert again.meta == trace.meta


@pytest.mark.parametrize("name", ["trace.json", "trace.gz", "trace.json.gz", "trace.sqlite"])
@pytest.mark.parametrize(
    "data",
    [
        TEXT,
        b"\xef\xbb\xbf" + TEXT,
        b"\n\n  " + TEXT,
        gzip.compress(TEXT),
        gzip.compress(TEXT[:100]) + gzip.compress(TEXT[100:101]) + gzip.compress(TEXT[101:]),
        gzip.compress(TEXT) + bytes(512),
        gzip.compress(gzip.compress(TEXT)),
    ],
    ids=["plain", "byte order mark", "white space", "gzip", "members", "padded", "twice"],
)
def test_bytes_decide_not_names(tmp_path: Path, name: str, data: bytes) -> None:
    trace = load(str(write(tmp_path, data, name))).validate()
    assert trace.kernels.height == 1
    assert codes(trace) == {}


def many() -> bytes:
    return document([event for n in range(1, 3000) for event in (launch(n, 10 * n), kernel(n, 10 * n + 5, 4))]).encode()


@pytest.mark.parametrize("share", [0.05, 0.5, 0.99])
def test_truncated_gzip_keeps_what_inflates(tmp_path: Path, share: float) -> None:
    packed = gzip.compress(many())
    trace = load(write(tmp_path, packed[: int(len(packed) * share)])).validate()
    assert codes(trace)["file_truncated"] == 1
    assert trace.kernels.height > 2000 * share**2
    assert trace.kernels["correlation_id"].to_list() == list(range(1, trace.kernels.height + 1))


def test_damaged_gzip_keeps_what_comes_before(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(many()))
    middle = len(packed) // 2
    packed[middle : middle + 64] = bytes(64)
    trace = load(write(tmp_path, bytes(packed))).validate()
    assert codes(trace)["file_truncated"] == 1
    assert trace.kernels.height > 500


def test_wrong_checksum_of_gzip_is_reported(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(TEXT))
    packed[-6] ^= 0xFF
    trace = load(write(tmp_path, bytes(packed))).validate()
    assert trace.kernels.height == 1
    assert codes(trace) == {"file_truncated": 1}


def test_title_and_source(tmp_path: Path) -> None:
    meta = load(write(tmp_path, gzip.compress(TEXT), "run 3.pt.trace.json.gz")).meta
    assert (meta.title, meta.format) == ("run 3", "kineto")
    assert meta.source == str(tmp_path / "run 3.pt.trace.json.gz")
