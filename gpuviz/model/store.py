"""Save and load a ``.gpuviz`` file.

The file is a ZIP archive (stored, not compressed again) of one Parquet file per table that has rows, and
``manifest.json`` with the schema version, the meta data, and a SHA-256 of every table. It is written under a temporary
name beside its target and renamed when it is whole. Opening reads the manifest only; a table is read, and its checksum
compared, when it is first used.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
import zlib
from dataclasses import asdict, fields
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import polars as pl

from gpuviz.errors import TraceError, TraceFileError
from gpuviz.model import schema
from gpuviz.model.atomic import replacing
from gpuviz.model.trace import TableSource, Trace, TraceMeta, check_columns

MANIFEST = "manifest.json"
FORMAT_NAME = "gpuviz-trace"
FORMAT_VERSION = 1
SUPPORTED = f"{FORMAT_NAME} format {FORMAT_VERSION}, schema {schema.SCHEMA_VERSION}"


def save(trace: Trace, path: str | PathLike[str]) -> Path:
    """Write the trace to `path`; an existing file is replaced in one step, or left as it was when writing fails."""
    target = Path(path)
    parts = {name: _parquet_bytes(table) for name, table in trace.tables.items() if table.height}
    manifest = {
        "format": FORMAT_NAME,
        "format_version": FORMAT_VERSION,
        "schema_version": schema.SCHEMA_VERSION,
        "meta": asdict(trace.meta),
        "tables": {name: {"sha256": hashlib.sha256(data).hexdigest()} for name, data in parts.items()},
    }
    with replacing(target) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, data in parts.items():
            archive.writestr(f"{name}.parquet", data)
        archive.writestr(MANIFEST, json.dumps(manifest, indent=1))
    return target


def load(path: str | PathLike[str]) -> Trace:
    """Open a ``.gpuviz`` file; `TraceFileError` when it is not one, is damaged, or is of an unknown version."""
    source = Path(path)
    manifest = _read_manifest(source)
    try:
        meta = _meta(manifest["meta"])
    except TypeError as error:
        raise _damaged(source, f"meta data that cannot be used ({error})") from error
    tables: dict[str, TableSource] = {
        name: partial(_read_table, source, name, entry["sha256"]) for name, entry in manifest["tables"].items()
    }
    return Trace(tables, meta)


UNREADABLE = (zipfile.BadZipFile, zlib.error, KeyError, ValueError, EOFError, NotImplementedError, RuntimeError)
"""What `zipfile` and `json` raise for bytes that are not what they should be."""


def _read_manifest(source: Path) -> dict[str, Any]:
    try:
        with source.open("rb") as file, zipfile.ZipFile(file) as archive:
            manifest = json.loads(archive.read(MANIFEST))
    except UNREADABLE as error:
        raise _damaged(source, f"no readable manifest ({error})") from error
    except OSError as error:
        raise _cannot_open(source, error) from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT_NAME:
        raise _damaged(source, "an archive without a gpuviz manifest")
    found = f"format {manifest.get('format_version')}, schema {manifest.get('schema_version')}"
    if (manifest.get("format_version"), manifest.get("schema_version")) != (
        FORMAT_VERSION,
        schema.SCHEMA_VERSION,
    ):
        raise TraceFileError(
            f"Tried to open {source}: it is {FORMAT_NAME} {found}, this gpuviz reads {SUPPORTED}. "
            "Open it with the gpuviz that wrote it, or load the original trace again.",
            path=source,
            found=found,
            supported=SUPPORTED,
        )
    tables, meta = manifest.get("tables"), manifest.get("meta")
    if not isinstance(tables, dict) or not isinstance(meta, dict):
        raise _damaged(source, "a manifest without its tables or its meta data")
    unknown = sorted(set(tables) - set(schema.TABLES))
    if unknown or not all(isinstance(entry, dict) and "sha256" in entry for entry in tables.values()):
        raise _damaged(source, f"a manifest that names unknown tables {unknown} or lacks a checksum")
    return manifest


def _read_table(source: Path, name: str, sha256: str) -> pl.DataFrame:
    try:
        with zipfile.ZipFile(source) as archive:
            data = archive.read(f"{name}.parquet")
    except UNREADABLE as error:
        raise _damaged(source, f"its table {name!r} cannot be read ({error})") from error
    except OSError as error:
        raise _cannot_open(source, error, f" for its table {name!r}, which is read when it is first used") from error
    if hashlib.sha256(data).hexdigest() != sha256:
        raise _damaged(source, f"the checksum of its table {name!r} does not match")
    try:
        return check_columns(name, pl.read_parquet(io.BytesIO(data)))
    except (TraceError, pl.exceptions.PolarsError) as error:
        raise _damaged(source, f"its table {name!r} is not that of the data model ({error})") from error


def _parquet_bytes(table: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    table.write_parquet(buffer, compression="zstd")
    return buffer.getvalue()


def _meta(values: dict[str, Any]) -> TraceMeta:
    known = {field.name for field in fields(TraceMeta)}
    kept = {name: value for name, value in values.items() if name in known}
    if kept.get("window") is not None:
        kept["window"] = tuple(kept["window"])
    return TraceMeta(**kept)


def _damaged(source: Path, found: str) -> TraceFileError:
    return TraceFileError(
        f"Tried to open {source} as a .gpuviz file: found {found}. "
        "The file is damaged or something else; save the trace again, or load the original.",
        path=source,
        found=found,
        supported=SUPPORTED,
    )


def _cannot_open(source: Path, error: OSError, purpose: str = "") -> TraceFileError:
    return TraceFileError(
        f"Tried to open {source}{purpose}: {error.strerror or error}. Check the path and its permissions.",
        path=source,
        found=str(error),
    )
