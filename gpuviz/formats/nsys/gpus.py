"""Devices and streams.

A row names its device by the number that its process has for it. Two processes that see different GPUs
(CUDA_VISIBLE_DEVICES) both say 0; exports since 2025 tell which GPU that is in TARGET_INFO_CUDA_DEVICE, and so one GPU
is one device here, whoever uses it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from gpuviz.formats.nsys.database import Database
from gpuviz.formats.nsys.hosts import Hosts, machine, machine_of
from gpuviz.formats.nsys.layout import column
from gpuviz.formats.nsys.lookup import looked_up
from gpuviz.model import schema
from gpuviz.model.diagnostics import Diagnostics

NO_ID = 2**32 - 1
"""What CUPTI writes into 32-bit ids that mean nothing."""
_LARGEST_ORDINAL = 2**31 - 1

# ENUM_CUPTI_STREAM_TYPE, the same in all exports that have it.
_STREAM_KINDS = {1: "blocking", 2: "non_blocking", 3: "legacy"}
PLACE = ("process_id", "deviceId", "contextId", "streamId")

type DeviceKey = tuple[int, int | None]
"""Machine and index of a GPU; None where the index is not recorded."""


@dataclass(frozen=True)
class Gpus:
    """The tables `devices` and `streams`, and where the rows of each table lie."""

    devices: pl.DataFrame
    streams: pl.DataFrame
    properties: Mapping[str, str]
    device_rows: pl.DataFrame
    """process_id, deviceId → device_id"""
    stream_rows: pl.DataFrame
    """process_id, deviceId, contextId, streamId → stream_id"""

    def streams_of(self, places: pl.DataFrame) -> pl.Series:
        """stream_id of each place (`PLACE`), null where no stream is meant."""
        return looked_up(places.select(PLACE), self.stream_rows)["stream_id"]

    def devices_of(self, processes: pl.Series, devices: pl.Series) -> pl.Series:
        """device_id of each process and number of a device, null where none is meant."""
        asked = pl.DataFrame({"process_id": processes, "deviceId": devices})
        return looked_up(asked, self.device_rows)["device_id"]


def places_of(table: pl.DataFrame) -> pl.DataFrame:
    """Where the rows of a raw table lie (`PLACE`)."""
    return pl.DataFrame([table["process_id"], *(column(table, name) for name in PLACE[1:])])


def find_gpus(
    database: Database, hosts: Hosts, work: pl.DataFrame, named: pl.DataFrame, diagnostics: Diagnostics
) -> Gpus:
    """Number the devices and streams.

    `work`: the distinct places (`PLACE`) of GPU work and waits, with the number of rows of work in `rows`; `named`:
    distinct (process_id, deviceId) that rows name otherwise.
    """
    machines = {row: machine_of(key << 24) for key, row in hosts.process_ids.items() if key is not None}
    seen_by = _gpu_indices(database)
    pids = dict(hosts.processes.select("process_id", "pid").iter_rows())
    facts = _facts(database)

    def key_of(process_id: int | None, number: int | None) -> DeviceKey:
        where = machines.get(process_id, _only(machines)) if process_id is not None else _only(machines)
        if number is None or not 0 <= number <= _LARGEST_ORDINAL:
            return where, None
        return where, seen_by.get((pids.get(process_id) if process_id is not None else None, number), number)

    asked = pl.concat([work.select("process_id", "deviceId"), named.select("process_id", "deviceId")]).unique()
    keys = {pair: key_of(*pair) for pair in sorted(asked.iter_rows(), key=_nulls_last)}
    every = sorted({*keys.values(), *facts}, key=_nulls_last)
    device_ids = {key: row for row, key in enumerate(every)}
    device_rows = pl.DataFrame(
        [(*pair, device_ids[key]) for pair, key in keys.items()],
        schema={"process_id": pl.Int32, "deviceId": pl.Int64, "device_id": pl.Int32},
        orient="row",
    )
    users = defaultdict(set)
    for (process_id, _), key in keys.items():
        users[key].add(process_id)
    placed = work.join(device_rows, on=["process_id", "deviceId"], how="left", nulls_equal=True)
    streams, stream_rows = _streams(database, hosts, placed, diagnostics)
    homeless = work.filter(pl.col("deviceId").is_null())
    diagnostics.add("event_without_place", int(homeless["rows"].sum()), "work without a device")
    return Gpus(
        devices=_device_table(every, facts, users),
        streams=streams,
        properties=_properties(facts),
        device_rows=device_rows,
        stream_rows=stream_rows,
    )


def _only(machines: Mapping[int, int]) -> int:
    return next(iter(machines.values()), 1)


def _nulls_last(values: tuple[int | None, ...]) -> tuple[tuple[bool, int], ...]:
    return tuple((value is None, value or 0) for value in values)


def _device_table(
    keys: list[DeviceKey], facts: Mapping[DeviceKey, Mapping[str, Any]], users: Mapping[DeviceKey, set[int | None]]
) -> pl.DataFrame:
    free = max((index for _, index in keys if index is not None), default=-1)
    rows = []
    for row, key in enumerate(keys):
        ordinal = key[1]
        if ordinal is None:  # not recorded: an index that nobody has
            free = ordinal = min(free + 1, _LARGEST_ORDINAL)
        owners = users.get(key, set())
        owner = next(iter(owners)) if len(owners) == 1 else None
        known = {name: value for name, value in facts.get(key, {}).items() if not name.startswith("_")}
        rows.append({"device_id": row, "process_id": owner, "ordinal": ordinal, **known})
    return pl.DataFrame(rows, schema=schema.TABLES["devices"].polars_schema, strict=False)


def _gpu_indices(database: Database) -> dict[tuple[int | None, int], int]:
    """(pid, number that the process has for a GPU) → index of the GPU in the export."""
    rows = database.small_table("TARGET_INFO_CUDA_DEVICE", ("gpuId", "cudaId", "pid"))
    whole = [row for row in rows if all(isinstance(row[name], int) for name in ("gpuId", "cudaId"))]
    return {(row["pid"], row["cudaId"]): row["gpuId"] for row in whole if 0 <= row["gpuId"] <= _LARGEST_ORDINAL}


_FACTS = (
    *("vmId", "id", "deviceId", "name", "uuid", "busLocation", "computeMajor", "computeMinor", "smCount"),
    *("totalMemory", "threadsPerWarp", "maxWarpsPerSm", "maxRegistersPerSm", "maxShmemPerSm", "memoryBandwidth"),
    *("clockRate", "l2CacheSize", "chipName"),
)
# The names of 2020, in TARGET_INFO_CUDA_GPU.
_OLD_FACTS = {
    "computeMajor": "computeCapabilityMajor",
    "computeMinor": "computeCapabilityMinor",
    "smCount": "numMultiprocessors",
    "totalMemory": "globalMemorySize",
    "threadsPerWarp": "numThreadsPerWarp",
    "maxWarpsPerSm": "maxWarpsPerMultiprocessor",
    "maxRegistersPerSm": "maxRegistersPerMultiprocessor",
    "maxShmemPerSm": "maxSharedMemoryPerMultiprocessor",
    "memoryBandwidth": "globalMemoryBandwidth",
    "clockRate": "coreClockRate",
    "busLocation": "pciBusId",
}


def _facts(database: Database) -> dict[DeviceKey, dict[str, Any]]:
    """Device → its columns in the table `devices`, and further facts under names with an underscore."""
    found: dict[DeviceKey, dict[str, Any]] = {}
    old_names = tuple(_OLD_FACTS.get(name, name) for name in _FACTS)
    old = database.small_table("TARGET_INFO_CUDA_GPU", old_names)
    rows = [dict(zip(_FACTS, map(row.get, old_names), strict=True)) for row in old]
    rows += database.small_table("TARGET_INFO_GPU", _FACTS)
    for row in rows:
        index = row["id"] if isinstance(row["id"], int) else row["deviceId"]
        if not isinstance(index, int) or not 0 <= index <= _LARGEST_ORDINAL:
            continue
        global_vm = row["vmId"] if isinstance(row["vmId"], int) else 1 << 48
        columns = {name: value for name, value in _columns(row).items() if value is not None}
        found.setdefault((machine_of(global_vm), index), {}).update(columns)
    return found


def _columns(row: Mapping[str, Any]) -> dict[str, Any]:
    major, minor = _count(row["computeMajor"]), row["computeMinor"]
    warp, warps = _count(row["threadsPerWarp"]), _count(row["maxWarpsPerSm"])
    uuid = row["uuid"]
    return {
        "uuid": None if not uuid else uuid if str(uuid).startswith(("GPU-", "MIG-")) else f"GPU-{uuid}",
        "name": row["name"] or None,
        "compute_capability": f"{major}.{minor}" if major and isinstance(minor, int) else None,
        "sm_count": _count(row["smCount"], 31),
        "memory_bytes": _count(row["totalMemory"]),
        "warp_size": _count(warp, 31),
        "max_threads_per_sm": _count(warp * warps, 31) if warp and warps else None,
        "registers_per_sm": _count(row["maxRegistersPerSm"], 31),
        "shared_memory_per_sm_bytes": _count(row["maxShmemPerSm"]),
        "_memory bandwidth in bytes/s": _count(row["memoryBandwidth"]),
        "_clock rate in Hz": _count(row["clockRate"]),
        "_L2 cache in bytes": _count(row["l2CacheSize"]),
        "_chip": row["chipName"] or None,
        "_bus": row["busLocation"] or None,
    }


def _count(value: Any, bits: int = 63) -> int | None:
    """A positive number that its column can hold; anything else is not known."""
    return value if isinstance(value, int) and 0 < value < 1 << bits else None


def _properties(facts: Mapping[DeviceKey, Mapping[str, Any]]) -> dict[str, str]:
    return {
        f"GPU {index} {name[1:]}": str(value)
        for (_, index), columns in sorted(facts.items(), key=lambda item: _nulls_last(item[0]))
        for name, value in columns.items()
        if name.startswith("_")
    }


def _streams(
    database: Database, hosts: Hosts, work: pl.DataFrame, diagnostics: Diagnostics
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The table, and the rows of each place. A stream belongs to a context, a context to a process and a device."""
    places = work.with_columns(
        number=pl.when(pl.col("streamId").is_between(0, NO_ID - 1)).then("streamId"),
    )
    unknown = places.filter(pl.col("number").is_null())
    diagnostics.add("event_without_place", int(unknown["rows"].sum()), "work without a stream")
    # Waits that name no stream are for a whole device.
    places = places.filter(pl.col("number").is_not_null() | (pl.col("rows") > 0))
    order = ["device_id", "process_id", "contextId", "number"]
    distinct = places.select(order).unique().sort(order, nulls_last=True).with_row_index("stream_id")
    distinct = distinct.with_columns(pl.col("stream_id").cast(pl.Int32))
    kinds = _stream_kinds(database)
    machines = {row: machine_of(key << 24) for key, row in hosts.process_ids.items() if key is not None}
    pids = dict(hosts.processes.select("process_id", "pid").iter_rows())
    rows = list(distinct.select("process_id", "contextId", "number").iter_rows())
    columns = {
        "stream_id": distinct["stream_id"],
        "device_id": distinct["device_id"],
        "process_id": distinct["process_id"],
        "context": distinct["contextId"],
        "label": distinct["number"].cast(pl.String).fill_null("unknown"),
        "number": distinct["number"],
        "kind": [
            kinds.get((machines.get(process, 0), pids.get(process), context, number), "unknown")
            for process, context, number in rows
        ],
    }
    found = places.join(distinct, on=order, how="left", nulls_equal=True).select(*PLACE, "stream_id")
    return pl.DataFrame(columns, schema=schema.TABLES["streams"].polars_schema), found


def _stream_kinds(database: Database) -> dict[tuple[Any, ...], str]:
    """(machine, pid, context, stream) → kind. Contexts name their null stream, streams say how they were made."""
    place = ("hwId", "vmId", "processId", "contextId")
    with_null = database.small_table("TARGET_INFO_CUDA_CONTEXT_INFO", (*place, "nullStreamId"))
    null = database.small_table("TARGET_INFO_CUDA_NULL_STREAM", (*place, "streamId"))
    contexts = [*((row, row["nullStreamId"]) for row in with_null), *((row, row["streamId"]) for row in null)]
    kinds = {(*_context(row), stream): "legacy" for row, stream in contexts}
    for row in database.small_table("TARGET_INFO_CUDA_STREAM", (*place, "streamId", "flag")):
        if row["flag"] in _STREAM_KINDS:
            kinds[(*_context(row), row["streamId"])] = _STREAM_KINDS[row["flag"]]
    return kinds


def _context(row: Mapping[str, Any]) -> tuple[Any, ...]:
    hardware, virtual = (value if isinstance(value, int) else 0 for value in (row["hwId"], row["vmId"]))
    return machine(hardware, virtual), row["processId"], row["contextId"]


def devices_of_contexts(database: Database) -> dict[tuple[Any, ...], int]:
    """(machine, pid, context) → the number of the device that it is on."""
    names = ("hwId", "vmId", "processId", "contextId", "deviceId")
    rows = [*database.small_table("TARGET_INFO_CUDA_NULL_STREAM", names)]
    rows += database.small_table("TARGET_INFO_CUDA_CONTEXT_INFO", names)
    return {_context(row): row["deviceId"] for row in rows if isinstance(row["deviceId"], int)}
