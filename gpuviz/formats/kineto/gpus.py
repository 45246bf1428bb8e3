"""Devices and streams.

A GPU event is known by its category and its arguments, never by its pid: Kineto writes the index of the GPU there,
which may also be the pid of a process in a container, and AMD's indices appear in no list of devices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

import polars as pl

from gpuviz.formats.kineto.about import About
from gpuviz.formats.kineto.events import GpuPlace, Records
from gpuviz.formats.kineto.identity import Identity, identity, natural_order, number
from gpuviz.formats.kineto.numbers import integers
from gpuviz.model import schema
from gpuviz.model.diagnostics import Diagnostics

_SYNC_LANE_OFFSET = 1_000_000
"""Kineto draws the waits of stream n on the lane n + 1 000 000 (pytorch/kineto#1356)."""
_DEFAULT_STREAM = 7
"""The number that CUPTI gives to the legacy default stream. hip numbers streams in another way."""
_UNKNOWN_STREAM = "unknown"
_LARGEST_ORDINAL = 2**31 - 1

type StreamKey = tuple[int, Identity, Identity]
"""device_id, context and label."""


@dataclass(frozen=True)
class Gpus:
    """The tables `devices` and `streams`, and where each GPU place lies."""

    devices: pl.DataFrame
    streams: pl.DataFrame
    device_of_place: pl.Series
    stream_of_place: pl.Series
    """Null is the whole device."""
    waited_streams: pl.Series
    """The stream that each raw row of `Records.syncs` waits for."""
    device_ids: Mapping[int, int]
    """index in the source → device_id"""


def find_gpus(
    records: Records, about: About, is_nvidia: bool, process_id: int | None, diagnostics: Diagnostics
) -> Gpus:
    """Number the devices that are listed or named, and the streams that anything lies on or waits for."""
    places = list(records.gpu_places)
    ordinals = _ordinals(places, {*about.devices, *_named_ordinals(records)}, diagnostics)
    every_ordinal = sorted({*ordinals, *about.devices, *_named_ordinals(records)})
    device_ids = {ordinal: device_id for device_id, ordinal in enumerate(every_ordinal)}
    working = Counter(row[3] for row in records.gpu.rows)
    on: list[StreamKey] = []
    for index, place in enumerate(places):
        label = _label(place)
        if label is None and working[index]:
            label = _UNKNOWN_STREAM
            diagnostics.add("event_without_place", working[index], f"work on device {ordinals[index]}, no stream")
        on.append((device_ids[ordinals[index]], identity(place[4]), label))
    waited = [(*on[row[3]][:2], _stream_label(row[7])) for row in records.syncs.rows]
    streams, stream_ids = _number_streams([*on, *waited])
    return Gpus(
        devices=_device_table(device_ids, about, process_id),
        streams=_stream_table(streams, is_nvidia, process_id),
        device_of_place=pl.Series([device for device, _, _ in on], dtype=pl.Int32),
        stream_of_place=pl.Series([stream_ids.get(key) for key in on], dtype=pl.Int32),
        waited_streams=pl.Series([stream_ids.get(key) for key in waited], dtype=pl.Int32),
        device_ids=device_ids,
    )


def _ordinals(places: list[GpuPlace], taken: set[int], diagnostics: Diagnostics) -> list[int]:
    """The index of the device of each place. A device that is named otherwise gets an index that is free."""
    named = [_device(place) for place in places]
    known: dict[Identity, int] = {name: name for name in named if _is_ordinal(name)}
    free = max({*taken, *known.values()}, default=-1) + 1
    others = sorted({*named} - {*known}, key=natural_order)
    for name in others:
        diagnostics.add("event_without_place", named.count(name), f"the device {name!r:.40} has no index")
    indices: dict[Identity, int] = {**known, **{name: free + index for index, name in enumerate(others)}}
    return [indices[name] for name in named]


def _device(place: GpuPlace) -> Identity:
    """What the arguments say; the pid only where they say nothing."""
    device = identity(place[2])
    return identity(place[0]) if device is None or device == -1 else device


def _is_ordinal(name: Identity) -> TypeGuard[int]:
    return isinstance(name, int) and 0 <= name <= _LARGEST_ORDINAL


def _named_ordinals(records: Records) -> set[int]:
    """Devices that copies read or write and that the allocator reports on."""
    gpu, counters = records.gpu, records.counters
    values = [row[gpu.columns.index(column)] for column in ("src", "dst") for row in gpu.rows]
    values += [row[counters.columns.index("device")] for row in counters.rows]
    return {ordinal for ordinal in integers(values).unique() if ordinal is not None and _is_ordinal(ordinal)}


def _label(place: GpuPlace) -> Identity:
    """The stream of a place, None for the whole device."""
    if place[3] is not None:
        return _stream_label(place[3])
    lane = identity(place[1])
    return _stream_label(lane - _SYNC_LANE_OFFSET if isinstance(lane, int) and lane >= _SYNC_LANE_OFFSET else lane)


def _stream_label(value: Any) -> Identity:
    label = identity(value)
    return None if label == -1 else label


def _number_streams(wanted: list[StreamKey]) -> tuple[list[StreamKey], dict[StreamKey, int]]:
    """The streams in order, and the number of every key that names one; annotations on the GPU name no context."""
    named = sorted({key for key in wanted if key[2] is not None}, key=lambda key: tuple(map(natural_order, key)))
    of_some_context = {(device, label): (device, context, label) for device, context, label in reversed(named)}
    found = {key: of_some_context[key[0], key[2]] if key[1] is None else key for key in named}
    streams = sorted(set(found.values()), key=lambda key: tuple(map(natural_order, key)))
    numbers = {key: stream_id for stream_id, key in enumerate(streams)}
    return streams, {key: numbers[target] for key, target in found.items()}


def _device_table(device_ids: Mapping[int, int], about: About, process_id: int | None) -> pl.DataFrame:
    rows = [
        {
            "device_id": device_id,
            "process_id": process_id,
            "ordinal": ordinal,
            **about.devices.get(ordinal, {}),
        }
        for ordinal, device_id in device_ids.items()
    ]
    return pl.DataFrame(rows, schema=schema.TABLES["devices"].polars_schema, strict=False)


def _stream_table(streams: list[StreamKey], is_nvidia: bool, process_id: int | None) -> pl.DataFrame:
    labels = [label for _, _, label in streams]
    columns = {
        "stream_id": range(len(streams)),
        "device_id": [device_id for device_id, _, _ in streams],
        "process_id": [process_id] * len(streams),
        "context": [number(context) for _, context, _ in streams],
        "label": [str(label) for label in labels],
        "number": [number(label) for label in labels],
        "kind": ["legacy" if is_nvidia and label == _DEFAULT_STREAM else "unknown" for label in labels],
    }
    return pl.DataFrame(columns, schema=schema.TABLES["streams"].polars_schema)
