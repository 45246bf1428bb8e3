"""What a trace file says about itself: the machine, the run, the versions, and what the profiler lost."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuviz.formats.kineto.numbers import integers
from gpuviz.model.diagnostics import Diagnostics

_LONGEST_PROPERTY = 500
# Kept in tables, or in other fields of the meta data.
_KEPT_ELSEWHERE = frozenset({"traceEvents", "deviceProperties", "baseTimeNanoseconds", "displayTimeUnit", "host_name"})
# "Record counts: Out-of-range = 3829, Blocklisted runtime = 56517, …" in the profiler's log lines.
_OUT_OF_RANGE = re.compile(r"Out-of-range = (\d+)")
_VERSION = re.compile(r"(?P<what>.+?)_version")
_CUDA_VERSIONS = ("cuda_runtime", "cuda_driver")


@dataclass(frozen=True)
class About:
    """The facts of a file's own metadata. What it does not say is None."""

    base_ns: int | None
    """The instant that its times count from, ns since 1970."""
    counts_ns: bool
    """Whether it says that its times have sub-microsecond digits."""
    host: str | None
    rank: int | None
    devices: Mapping[int, Mapping[str, Any]]
    """Index of a GPU → its columns in the table `devices`."""
    versions: Mapping[str, str]
    properties: Mapping[str, str]


def read_about(metadata: Mapping[str, Any], diagnostics: Diagnostics) -> About:
    """Sort out the members beside the events."""
    distributed = metadata.get("distributedInfo")
    rank = distributed.get("rank") if isinstance(distributed, dict) else None
    host = metadata.get("host_name")
    for key, value in metadata.items():
        for lost in _OUT_OF_RANGE.findall(_as_text(value)):
            diagnostics.add("out_of_range_records", int(lost[:18]), f"{key}: Out-of-range = {lost}")
    versions = {match["what"]: (key, metadata[key]) for key in metadata if (match := _VERSION.fullmatch(key))}
    return About(
        base_ns=_integer(metadata.get("baseTimeNanoseconds")),
        counts_ns=metadata.get("displayTimeUnit") == "ns",
        host=host if isinstance(host, str) and host else None,
        rank=_integer(rank),
        devices=_devices(metadata.get("deviceProperties")),
        versions={what: _version(what, value) for what, (_, value) in versions.items()},
        properties=_properties(metadata, {key for key, _ in versions.values()}),
    )


def _devices(listed: Any) -> dict[int, dict[str, Any]]:
    devices = {}
    for entry in listed if isinstance(listed, list) else ():
        ordinal = _integer(entry.get("id")) if isinstance(entry, dict) else None
        if ordinal is None:
            continue
        major, minor = entry.get("computeMajor"), entry.get("computeMinor")
        name, uuid = entry.get("name"), entry.get("uuid")
        # AMD builds have one spelling, NVIDIA's another.
        shared = entry.get("sharedMemPerMultiprocessor", entry.get("maxSharedMemoryPerMultiProcessor"))
        devices[ordinal] = {
            "uuid": uuid if isinstance(uuid, str) and uuid else None,
            "name": name if isinstance(name, str) and name else None,
            "compute_capability": None if major is None or minor is None else f"{major}.{minor}",
            "sm_count": _integer(entry.get("numSms")),
            "memory_bytes": _integer(entry.get("totalGlobalMem")),
            "warp_size": _integer(entry.get("warpSize")),
            "max_threads_per_sm": _integer(entry.get("maxThreadsPerMultiprocessor")),
            "registers_per_sm": _integer(entry.get("regsPerMultiprocessor")),
            "shared_memory_per_sm_bytes": _integer(shared),
        }
    return devices


def _version(what: str, value: Any) -> str:
    """CUDA counts 12040 for 12.4; the others are kept as written."""
    number = _integer(value)
    if what in _CUDA_VERSIONS and number is not None and number >= 1000:
        return f"{number // 1000}.{number % 1000 // 10}"
    return _as_text(value)[:_LONGEST_PROPERTY]


def _properties(metadata: Mapping[str, Any], versions: set[str]) -> dict[str, str]:
    """Everything else as short text; long lists (log lines) are left out."""
    properties = {}
    for key, value in metadata.items():
        text = _as_text(value)
        too_long = len(text) > _LONGEST_PROPERTY
        if key in _KEPT_ELSEWHERE or key in versions or (too_long and isinstance(value, list)):
            continue
        properties[key] = text[: _LONGEST_PROPERTY - 1] + "…" if too_long else text
    return properties


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _integer(value: Any) -> int | None:
    """An int64, also from text."""
    return None if isinstance(value, bool) else integers([value]).item()
