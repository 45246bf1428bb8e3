"""What an export says about itself: versions, the machine, how it was recorded, what went wrong.

A trace is shown and passed on, so what a report knows about its user stays behind: environment variables (which hold
tokens), arguments of programs, names of users, and paths.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from gpuviz.formats.nsys.database import Database
from gpuviz.model.diagnostics import Diagnostics

NO_VERSION = "unknown (no version row, as in 2020)"

_FACTS = ("META_DATA_EXPORT", "EXPORT_META_DATA", "META_DATA_CAPTURE")
_PRIVATE = re.compile(r"ENV|ARGUMENT|COMMAND|USER|PATH|DIR|HOST|FILE|NAME$|DEVICE_ID")
_PUBLIC = ("EXPORT_PRODUCT_NAME",)
_MODE = "CUDA_GRAPH_TRACE_OPTIONS:MODE"
_SYSTEM = {
    "CpuCores": "CPU cores",
    "CpuArchitecture": "CPU architecture",
    "CpuDescription": "CPU",
    "OsDescription": "operating system",
    "KernelVersion": "kernel of the operating system",
    "SoftwareReleaseVersion": "release of the operating system",
}
_LONGEST = 500
_WARNING, _ERROR = 2, 3
"""ENUM_DIAGNOSTIC_SEVERITY_LEVEL."""
_LOSS = re.compile(r"\b(dropped|lost|overflow\w*|not all|incomplete|missing|discarded)\b", re.IGNORECASE)


@dataclass(frozen=True)
class About:
    """The facts of an export about itself. What it does not say is None."""

    schema_version: str
    graph_mode: str | None = None
    """How CUDA graphs were recorded: ``Graph`` (whole) or ``Node``."""
    start_unix_ns: int | None = None
    """The instant that its times count from, ns since 1970."""
    versions: dict[str, str] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)


def schema_version(database: Database) -> str:
    """The version of the schema, in words where there is none."""
    for table in _FACTS[:2]:
        for row in database.small_table(table, ("name", "value")):
            if row["name"] == "EXPORT_SCHEMA_VERSION" and row["value"]:
                return str(row["value"])[:40]
    return NO_VERSION


def read_about(database: Database, diagnostics: Diagnostics) -> About:
    """Sort out the tables of facts."""
    facts: dict[str, list[str]] = {}
    for table in _FACTS:
        for row in database.small_table(table, ("name", "value")):
            if row["name"] is not None and row["value"] not in (None, ""):
                facts.setdefault(str(row["name"]), []).append(str(row["value"]))
    system = {
        str(row["name"]): str(row["value"])
        for row in database.small_table("TARGET_INFO_SYSTEM_ENV", ("name", "value"))
        if row["value"] not in (None, "")
    }
    modes = [values[0] for name, values in facts.items() if name.endswith(_MODE)]
    start = database.small_table("TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",))
    properties = {name: ", ".join(values)[:_LONGEST] for name, values in facts.items() if _may_be_told(name)}
    properties |= {shown: system[name][:_LONGEST] for name, shown in _SYSTEM.items() if name in system}
    properties |= _own_diagnostics(database, diagnostics)
    return About(
        schema_version=schema_version(database),
        graph_mode=modes[0] if modes else None,
        start_unix_ns=next((row["utcEpochNs"] for row in start if _is_time(row["utcEpochNs"])), None),
        versions=_versions(facts, system),
        properties=properties,
    )


def _may_be_told(name: str) -> bool:
    return name in _PUBLIC or not _PRIVATE.search(name.upper())


def _is_time(value: Any) -> bool:
    return isinstance(value, int) and 0 < value < 2**62


def _versions(facts: dict[str, list[str]], system: dict[str, str]) -> dict[str, str]:
    found = {
        "nsight_systems": facts.get("EXPORT_PRODUCT_VERSION", [""])[0],
        "nsys_schema": facts.get("EXPORT_SCHEMA_VERSION", [""])[0],
        "nvidia_driver": system.get("NvDriverVersion", ""),
        "cuda_driver": _cuda_version(system.get("CudaDriverVersion", "")),
    }
    return {name: value[:_LONGEST] for name, value in found.items() if value}


def _cuda_version(text: str) -> str:
    """CUDA counts 12040 for 12.4."""
    number = int(text) if re.fullmatch(r"\d{4,6}", text) else 0
    return f"{number // 1000}.{number % 1000 // 10}" if number else text


def _own_diagnostics(database: Database, diagnostics: Diagnostics) -> dict[str, str]:
    """Warnings and errors of the recording; those that speak of losses make every sum a lower bound."""
    rows = database.small_table("DIAGNOSTIC_EVENT", ("severity", "text"))
    told = [str(row["text"]) for row in rows if row["severity"] in (_WARNING, _ERROR) and row["text"]]
    for text in told:
        if _LOSS.search(text):
            diagnostics.add("records_dropped", 1, f"Nsight Systems: {text:.200}")
    return {f"message of the recording {number}": text[:_LONGEST] for number, text in enumerate(told, 1)}
