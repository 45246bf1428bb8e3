"""Raw rows → columns with types: names as text, times as int64 ns, places as the ids of threads and streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from gpuviz.formats.kineto.copies import copy_columns
from gpuviz.formats.kineto.events import Records, Rows
from gpuviz.formats.kineto.gpus import Gpus
from gpuviz.formats.kineto.hosts import Hosts
from gpuviz.formats.kineto.identity import identity
from gpuviz.formats.kineto.numbers import integers, nanoseconds, texts
from gpuviz.model.diagnostics import Diagnostics

GPU_TABLES = frozenset({"gpu", "syncs", "gpu_ranges"})

_TEXT = frozenset({"name", "layer", "category", "kind", "domain", "api", "copy_kind", "shapes"})
_RENAMED = {
    "correlation": "correlation_id",
    "sequence": "sequence_number",
    "shapes": "input_shapes",
    "registers": "registers_per_thread",
    "shared_memory": "shared_memory_bytes",
    "bytes": "size_bytes",
    "channel": "channel_id",
    "event": "event_id",
    "waited_correlation": "waited_correlation_id",
}
_ABSENT_AS_NEGATIVE = (
    "correlation_id",
    "event_id",
    "waited_correlation_id",
    "graph_id",
    "graph_node_id",
    "channel_id",
)
"""Ids that the profiler writes as -1 where there is none."""


@dataclass(frozen=True)
class Columns:
    """The raw tables with types: host, api, gpu, syncs, ranges and gpu_ranges hold start_ns and dur_ns."""

    intervals: Mapping[str, pl.DataFrame]
    counters: pl.DataFrame
    flows: pl.DataFrame


def typed_columns(records: Records, hosts: Hosts, gpus: Gpus, diagnostics: Diagnostics) -> Columns:
    """Type every column of every raw table."""
    thread = {"thread_id": hosts.thread_of_place}
    stream = {"stream_id": gpus.stream_of_place, "device_id": gpus.device_of_place}
    process = hosts.threads["process_id"]
    api = _intervals(records.api, thread)
    host = _intervals(records.host, thread)
    intervals = {
        "host": host.with_columns(process.gather(host["thread_id"])),
        "api": api.with_columns(process.gather(api["thread_id"])),
        "gpu": _gpu(records.gpu, gpus, stream, diagnostics),
        "syncs": _intervals(records.syncs, stream).with_columns(gpus.waited_streams.alias("waited_stream_id")),
        "ranges": _intervals(records.ranges, thread),
        "gpu_ranges": _intervals(records.gpu_ranges, stream),
    }
    flows = _intervals(records.flows, thread)
    return Columns(
        intervals=intervals,
        counters=_counters(records.counters, hosts, gpus),
        flows=flows.with_columns(process.gather(flows["thread_id"])),
    )


def _intervals(rows: Rows, places: Mapping[str, pl.Series]) -> pl.DataFrame:
    """The rows with start_ns, dur_ns where they have one, and the ids that their place stands for."""
    columns: dict[str, pl.Series] = {}
    for column, values in rows.lists().items():
        name = _RENAMED.get(column, column)
        if column == "ts":
            columns["start_ns"] = nanoseconds(values)
        elif column == "dur":
            columns["dur_ns"] = nanoseconds(values)
        elif column == "place":
            place = integers(values)
            columns |= {id_name: of_place.gather(place) for id_name, of_place in places.items()}
        elif column in _TEXT or column == "phase" or column == "id":
            columns[name] = texts(values)
        elif column not in ("src", "dst", "waited_stream"):
            numbers = integers(values)
            absent = numbers.is_in([-1]) if name in _ABSENT_AS_NEGATIVE else None
            columns[name] = numbers if absent is None else numbers.set(absent, None)
    return pl.DataFrame(columns)


def _gpu(rows: Rows, gpus: Gpus, stream: Mapping[str, pl.Series], diagnostics: Diagnostics) -> pl.DataFrame:
    table = _intervals(rows, stream)
    values = rows.lists()
    ids = {
        f"{end}_device_id": pl.Series([_device(ordinal, gpus) for ordinal in values[end]], dtype=pl.Int32)
        for end in ("src", "dst")
    }
    is_copy = table["kind"] == "memcpy"
    copies = copy_columns(table["name"], table["copy_kind"])
    table = table.drop("copy_kind").hstack(copies).with_columns(**ids)
    unknown = table.filter(is_copy & (copies["copy_kind"] == "other"))
    diagnostics.add("copy_kind_unknown", unknown.height, f"{unknown['name'][0]!r:.80}" if unknown.height else None)
    return table


def _device(ordinal: object, gpus: Gpus) -> int | None:
    found = identity(ordinal)
    return gpus.device_ids.get(found) if isinstance(found, int) else None


def _counters(rows: Rows, hosts: Hosts, gpus: Gpus) -> pl.DataFrame:
    values = rows.lists()
    pids = [identity(pid) for pid in values["pid"]]
    return pl.DataFrame(
        {
            "series": texts(values["series"]),
            "unit": texts(values["unit"]),
            "start_ns": nanoseconds(values["ts"]),
            "value": pl.Series(values["value"], dtype=pl.Float64, strict=False),
            "device_id": pl.Series([_device(ordinal, gpus) for ordinal in values["device"]], dtype=pl.Int32),
            "process_id": pl.Series([hosts.process_ids.get(pid) for pid in pids], dtype=pl.Int32),
        }
    )
