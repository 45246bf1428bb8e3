"""A finished recording → a trace: decode, link, nest, build the call tree.

Every backend that speaks CUPTI ends here, the simulator too, so that what is tested without a GPU is what runs on one.
No record is lost on the way: what has no usable time, no launch or no name keeps its row, and is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import polars as pl

from gpuviz.capture.activities import Activities, read_activities
from gpuviz.capture.call_tree import CallPaths, build_call_paths
from gpuviz.capture.cupti.layouts import API_KINDS, Kind
from gpuviz.capture.cupti.records import Decoded, decode_all
from gpuviz.capture.host_calls import (
    API,
    HOST,
    OVERHEAD,
    Calls,
    api_call_columns,
    capture_overhead_ns,
    host_call_columns,
    read_calls,
)
from gpuviz.capture.moments import ranges_table, sample_table
from gpuviz.capture.places import Cells, Devices, Processes, Streams, Threads
from gpuviz.capture.recording import Recording
from gpuviz.capture.times import NONE, OK, OPEN, Clock, Ints, Times, count_cases, known, pick, series
from gpuviz.capture.waits import read_waits
from gpuviz.model import Diagnostics, Trace, TraceMeta, schema
from gpuviz.model.trace import FRAMES_WITHOUT_CALLS


def assemble(recording: Recording) -> Trace:
    """Make the trace of this recording."""
    diagnostics = Diagnostics()
    decoded = decode_all(recording.buffers, recording.cupti_version)
    clock = Clock(*recording.clock)
    api_pids = np.concatenate([decoded.of(kind)["process_id"] for kind in API_KINDS])
    processes = Processes(recording.process_id, api_pids, recording.host)
    threads = Threads(recording.threads)
    calls = read_calls(recording, decoded, clock, processes, threads, diagnostics)
    activities = read_activities(decoded, clock, recording.names, diagnostics)
    waits = read_waits(decoded, clock, diagnostics)
    streams = Streams(activities, decoded)
    devices = Devices(recording, decoded, _ordinals(activities, streams, recording))
    cells = Cells(recording.cells)
    ranges = Times.of_host([one.start_ns for one in recording.ranges], [one.end_ns for one in recording.ranges])
    every = [calls.times, waits.times, ranges, *(part.times for part in activities)]
    t0, end = _span(every, [sample.time_ns for sample in recording.counters], clock)

    links = Links(calls, activities, clock, diagnostics)
    paths = build_call_paths(calls, recording.stacks, cells, activities, links.launch, links.before_window(activities))
    forward = _forward_nodes(calls, paths)
    tables = {
        "processes": processes.table(),
        "streams": streams.table(devices),
        "devices": devices.table(diagnostics),
        "cells": cells.table(),
        "frames": paths.frames,
        "callpaths": paths.callpaths,
        **_call_tables(recording, calls, links, paths, forward, t0),
        **_activity_tables(activities, links, paths, forward, streams, devices, t0),
        "syncs": waits.table(links, calls, streams, devices, t0),
        "ranges": ranges_table(recording.ranges, ranges, threads, t0),
        "counters": sample_table(recording.counters, devices, t0),
        "threads": threads.table(),
    }
    _count_losses(recording, decoded, activities, diagnostics)
    meta = TraceMeta(
        title=recording.title,
        source=recording.source,
        t0_unix_ns=t0,
        end_ns=end - t0,
        modelled=recording.modelled,
        dropped_records=recording.dropped_records,
        overhead_ns=capture_overhead_ns(recording, decoded, calls),
        versions=dict(recording.versions),
        properties={**recording.properties, **({FRAMES_WITHOUT_CALLS: "python, module"} if recording.stacks else {})},
    )
    return Trace({**tables, "diagnostics": diagnostics.table()}, meta)


class Links:
    """From GPU work to the API call that launched it, by correlation id within the captured process."""

    def __init__(self, calls: Calls, activities: list[Activities], clock: Clock, diagnostics: Diagnostics) -> None:
        self._clock = clock
        self._ids, self._calls = calls.launches()
        api_rows = calls.rows(API)
        self.api_id = np.full(len(calls.kind), NONE, dtype=np.int64)
        self.api_id[api_rows] = np.arange(len(api_rows))
        self.launch = [self.call_of(part.place.correlation_id) for part in activities]
        for part, launch in zip(activities, self.launch, strict=True):
            self._count_early(part, launch, calls, diagnostics)
            orphan = launch == NONE
            before = self._before_window(part, orphan)
            for code, cases in (
                ("launched_before_window", orphan & before),
                ("launch_missing", orphan & ~before),
            ):
                count_cases(diagnostics, code, cases, _describe(part))

    def call_of(self, correlation_ids: npt.NDArray[np.uint32]) -> Ints:
        """The row of `Calls` that each id joins, NONE where there is none; unknown ids never join."""
        if not len(self._ids):
            return np.full(len(correlation_ids), NONE, dtype=np.int64)
        place = np.minimum(np.searchsorted(self._ids, correlation_ids), len(self._ids) - 1)
        joins = known(correlation_ids) & (self._ids[place] == correlation_ids)
        return np.where(joins, self._calls[place], NONE)

    def api_ids(self, calls: Ints) -> pl.Series:
        """The column `api_id` for these rows of `Calls`; null for NONE."""
        return _ids_or_null(self.api_id, calls)

    def before_window(self, activities: list[Activities]) -> list[npt.NDArray[np.bool_]]:
        """For the activities that no call has launched: whether their launch lies before the recording."""
        return [self._before_window(part, launch == NONE) for part, launch in zip(activities, self.launch, strict=True)]

    def _before_window(self, part: Activities, orphan: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """It started before the capture did, or its correlation id is smaller than every one that was recorded: CUPTI
        counts them up."""
        early: npt.NDArray[np.bool_] = part.times.has_start & (part.times.start < self._clock.first.unix_ns)
        if len(self._ids):
            early |= known(part.place.correlation_id) & (part.place.correlation_id < self._ids[0])
        return orphan & early

    def _count_early(self, part: Activities, launch: Ints, calls: Calls, diagnostics: Diagnostics) -> None:
        begun = (pick(calls.times.has_start.astype(np.int8), launch) > 0) & part.times.has_start
        early = begun & (part.times.start < pick(calls.times.start, launch))
        count_cases(diagnostics, "kernel_before_launch", early, _describe(part))


def _describe(part: Activities) -> Callable[[int], str]:
    return lambda index: f"{part.name[index]} with correlation id {part.place.correlation_id[index]}"


def _ids_or_null(table: Ints, at: Ints) -> pl.Series:
    """``table[at]`` as row ids; null where `at` or the answer is NONE."""
    values = pick(table, at)
    return series(values, pl.Int32(), values != NONE)


def _ordinals(activities: list[Activities], streams: Streams, recording: Recording) -> set[int]:
    """Every device that something in the recording names."""
    ordinals = set(streams.devices)
    for part in activities:
        for values, where in part.peer_devices.values():
            ordinals.update(values[where].tolist())
    ordinals.update(sample.device for sample in recording.counters if sample.device is not None)
    return ordinals


def _span(every: list[Times], moments: list[int], clock: Clock) -> tuple[int, int]:
    """The earliest and the latest usable time, in Unix ns; the start of the capture where there is none."""
    starts, ends = list(moments), list(moments)
    for times in every:
        timing = times.timing
        begun = (timing == OK) | (timing == OPEN)
        if begun.any():
            starts.append(int(times.start[begun].min()))
            ends.append(int(times.start[begun].max()))
        if (timing == OK).any():
            ends.append(int(times.end[timing == OK].max()))
    t0 = min(starts, default=clock.first.unix_ns)
    return t0, max(ends, default=t0)


def _forward_nodes(calls: Calls, paths: CallPaths) -> Ints:
    """The node of the forward call that each call belongs to; a call without one of its own has its caller's."""
    forward = calls.forward.copy()
    for level in range(1, int(calls.level.max()) + 1 if len(calls.level) else 0):
        at = np.flatnonzero((calls.level == level) & (forward == NONE))
        forward[at] = forward[calls.caller[at]]
    return pick(paths.of_call, forward)


def _call_tables(
    recording: Recording, calls: Calls, links: Links, paths: CallPaths, forward: Ints, t0: int
) -> dict[str, pl.DataFrame]:
    """The tables `host_calls` and `api_calls`."""
    host_rows, api_rows = calls.rows(HOST, OVERHEAD), calls.rows(API)
    host_id = np.full(len(calls.kind), NONE, dtype=np.int64)
    host_id[host_rows] = np.arange(len(host_rows))
    around_host, around_api = calls.nearest(HOST), calls.nearest(API)
    host = {
        "host_call_id": _count(len(host_rows)),
        "parent_id": _ids_or_null(host_id, around_host[host_rows]),
        **host_call_columns(recording, calls, host_rows, t0),
        "callpath_id": _ids_or_null(paths.of_call, host_rows),
        "forward_callpath_id": _ids_or_null(forward, host_rows),
    }
    api = {
        "api_id": _count(len(api_rows)),
        "parent_api_id": _ids_or_null(links.api_id, around_api[api_rows]),
        "host_call_id": _ids_or_null(host_id, around_host[api_rows]),
        **api_call_columns(calls, api_rows, t0),
        "callpath_id": _ids_or_null(paths.of_call, api_rows),
    }
    return {"host_calls": _table("host_calls", host), "api_calls": _table("api_calls", api)}


def _activity_tables(
    activities: list[Activities],
    links: Links,
    paths: CallPaths,
    forward: Ints,
    streams: Streams,
    devices: Devices,
    t0: int,
) -> dict[str, pl.DataFrame]:
    """The four tables of GPU activities, each sorted by start; one numbering over all."""
    tables = {}
    first = 0
    for part, launch, node in zip(activities, links.launch, paths.of_activity, strict=True):
        place = part.place
        device, context, stream = (
            pl.Series(values=values) for values in (place.device_id, place.context_id, place.stream_id)
        )
        columns: dict[str, pl.Series] = {
            "correlation_id": series(place.correlation_id, pl.Int64(), known(place.correlation_id)),
            "api_id": links.api_ids(launch),
            "name": part.name,
            **part.times.columns(t0),
            "stream_id": streams.row_series(device, context, stream),
            "graph_id": series(place.graph_id, pl.Int64(), known(place.graph_id)),
            "graph_node_id": series(
                place.graph_node_id, pl.Int64(), known(place.graph_node_id) & (place.graph_node_id < 2**63)
            ),
            "callpath_id": series(node, pl.Int32()),
            "forward_callpath_id": _ids_or_null(forward, launch),
            **part.own,
            **{name: devices.row_series(*peer) for name, peer in part.peer_devices.items()},
        }
        for name in ("queued_ns", "submitted_ns"):
            if name in columns:
                columns[name] = columns[name] - t0
        table = pl.DataFrame(columns).sort("start_ns", nulls_last=True, maintain_order=True)
        ids = pl.int_range(first, first + len(part), dtype=pl.Int32, eager=True)
        tables[part.table] = _table(part.table, {"activity_id": ids, **table.to_dict()})
        first += len(part)
    return tables


def _count(rows: int) -> pl.Series:
    return pl.int_range(0, rows, dtype=pl.Int32, eager=True)


def _table(name: str, columns: Mapping[str, pl.Series]) -> pl.DataFrame:
    """The columns in the order of the schema."""
    return pl.DataFrame([columns[column].alias(column) for column in schema.TABLES[name].polars_schema])


def _count_losses(
    recording: Recording, decoded: Decoded, activities: list[Activities], diagnostics: Diagnostics
) -> None:
    """What is missing: dropped by CUPTI, not decoded, of a kind without a table, or all of it."""
    if recording.dropped_records:
        diagnostics.add("records_dropped", recording.dropped_records)
    if decoded.undecoded_bytes:
        kind = decoded.stopped_at_kind
        where = "in the middle of a record's head" if kind is None else f"at a record of kind {kind}"
        diagnostics.add("records_undecoded", decoded.undecoded_bytes, f"the walk stopped {where}")
    for kind, count in decoded.skipped.items():
        diagnostics.add("record_kind_ignored", count, f"{count} of kind {Kind(kind).name}")
    calls = sum(len(decoded.of(kind)) for kind in API_KINDS)
    if not sum(map(len, activities)) and (calls or recording.dropped_records or decoded.undecoded_bytes):
        diagnostics.add("no_gpu_activity", 1, f"{calls} CUDA calls were recorded, and no kernel, copy or fill")
