"""Is an SQLite file an export of Nsight Systems? If not, what does it look like?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gpuviz.errors import TraceFileError
from gpuviz.formats.nsys.database import Database
from gpuviz.formats.nsys.header import refusal

type Tables = frozenset[str]

_EXPORT_PREFIXES = ("CUPTI_ACTIVITY_KIND_", "TARGET_INFO_", "META_DATA_")
_EXPORT_TABLES = frozenset(
    {"StringIds", "ThreadNames", "NVTX_EVENTS", "OSRT_API", "EXPORT_META_DATA", "ANALYSIS_DETAILS", "SCHED_EVENTS"}
)
_AS_JSON = "gpuviz reads the trace that it exports as Chrome JSON."
_OTHER = "Give an export of Nsight Systems: nsys export --type sqlite report.nsys-rep."
_NAMED_TABLES = 5


def _has(*tables: str) -> Callable[[Tables], bool]:
    return lambda found: set(tables) <= found


def _begins(prefix: str) -> Callable[[Tables], bool]:
    return lambda found: any(table.startswith(prefix) for table in found)


# What tells a database, what it is, what to do. The first that fits counts.
_LOOKS: tuple[tuple[Callable[[Tables], bool], str, str], ...] = (
    (_begins("rocpd_info_"), "a rocpd database of ROCm's rocprofv3", "Use rocpd convert: " + _AS_JSON),
    (_has("rocpd_op", "rocpd_api"), "an RPD database of ROCm's rocmProfileData", "Use rpd2tracing: " + _AS_JSON),
    (_begins("rocpd_"), "a database of a ROCm profiler (rocpd)", "Export it as JSON: " + _AS_JSON),
    (
        _has("StringTable"),
        "a database of nvprof or the NVIDIA Visual Profiler",
        "Record the program with Nsight Systems.",
    ),
    (_has("moz_cookies"), "the cookies of a Firefox browser", _OTHER),
    (_has("moz_places"), "the history of a Firefox browser", _OTHER),
    (_has("cookies", "meta"), "the cookies of a Chromium browser", _OTHER),
    (_has("urls", "visits"), "the history of a Chromium browser", _OTHER),
    (_has("history", "sessions"), "the history of IPython", _OTHER),
    (_has("runs", "experiments"), "a tracking database of MLflow", _OTHER),
    (_has("gpkg_contents"), "a GeoPackage", _OTHER),
)


def check_is_export(database: Database) -> None:
    """`TraceFileError` that says what it looks like, where it is no export of Nsight Systems."""
    tables = frozenset(database.tables)
    for fits, looks_like, remedy in _LOOKS:
        if fits(tables):
            raise _other(database.path, f"{looks_like}{_rocpd_version(database)}", remedy)
    is_export = tables & _EXPORT_TABLES or any(table.startswith(_EXPORT_PREFIXES) for table in tables)
    if not is_export:
        named = ", ".join(f"{table:.40}" for table in sorted(tables)[:_NAMED_TABLES])
        more = f" and {len(tables) - _NAMED_TABLES} more" if len(tables) > _NAMED_TABLES else ""
        found = f"an SQLite database with the tables {named}{more}" if tables else "an SQLite database without tables"
        raise _other(database.path, found, _OTHER)


def _rocpd_version(database: Database) -> str:
    """rocpd 3.0.1 to 3.0.3 differ, so its version is worth a word."""
    table = next((table for table in database.tables if table.startswith("rocpd_metadata")), None)
    if table is None or not {"tag", "value"} <= set(database.tables[table]):
        return ""
    facts = {row["tag"]: row["value"] for row in database.small_table(table, ("tag", "value"))}
    version = facts.get("schema_version")
    return f" (schema {version})" if version else ""


def _other(path: Path, found: str, remedy: str) -> TraceFileError:
    return refusal(path, found, remedy)
