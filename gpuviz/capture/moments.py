"""Ranges that the program marked and values that were sampled: the tables `ranges` and `counters`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from gpuviz.capture.places import OWN_PROCESS, Devices, Threads
from gpuviz.capture.ranges import RecordedRange
from gpuviz.capture.recording import CounterSample
from gpuviz.capture.times import INVALID, OPEN, Times, series
from gpuviz.model import schema
from gpuviz.model.nesting import nest, nesting_order


def ranges_table(ranges: Sequence[RecordedRange], times: Times, threads: Threads, t0_unix_ns: int) -> pl.DataFrame:
    """The table `ranges`; ranges of a thread nest by time."""
    thread = threads.rows(np.full(len(ranges), OWN_PROCESS), np.array([one.thread for one in ranges], dtype=np.int64))
    order = np.lexsort((times.start, ~times.has_start))
    row = np.empty(len(ranges), dtype=np.int64)
    row[order] = np.arange(len(ranges))
    parent = np.full(len(ranges), -1, dtype=np.int64)
    depth = np.zeros(len(ranges), dtype=np.int32)
    usable = np.flatnonzero(times.timing != INVALID)
    if len(usable):
        latest = max(int(times.end.max()), int(times.start[usable].max()))
        start, end = times.start[usable], np.where(times.timing[usable] == OPEN, latest, times.end[usable])
        lane = thread[usable].astype(np.int64)
        sorted_ = nesting_order(lane, start, end)
        nested = nest(lane[sorted_], start[sorted_], end[sorted_])
        usable = usable[sorted_]
        parent[usable] = np.where(nested.parent >= 0, row[usable[np.maximum(nested.parent, 0)]], -1)
        depth[usable] = nested.depth
    columns = {
        "range_id": pl.int_range(0, len(ranges), dtype=pl.Int32, eager=True),
        "parent_id": series(parent[order], pl.Int32(), parent[order] != -1),
        "depth": pl.Series(values=depth[order]),
        "kind": pl.Series([ranges[at].kind for at in order], dtype=pl.Enum(schema.RANGE_KINDS)),
        "domain": pl.Series([ranges[at].domain for at in order], dtype=pl.Categorical()),
        "name": pl.Series([ranges[at].name for at in order], dtype=pl.Categorical()),
        **{name: column.gather(pl.Series(values=order)) for name, column in times.columns(t0_unix_ns).items()},
        "thread_id": pl.Series(values=thread[order]),
        "stream_id": pl.Series([None] * len(ranges), dtype=pl.Int32()),
    }
    return pl.DataFrame(columns)


def sample_table(samples: Sequence[CounterSample], devices: Devices, t0_unix_ns: int) -> pl.DataFrame:
    """The table `counters`, sorted by time."""
    ordered = sorted(samples, key=lambda sample: sample.time_ns)
    columns = {
        "series": [sample.series for sample in ordered],
        "unit": [sample.unit for sample in ordered],
        "time_ns": [sample.time_ns - t0_unix_ns for sample in ordered],
        "value": [sample.value for sample in ordered],
        "device_id": [None if sample.device is None else devices.rows[sample.device] for sample in ordered],
        "process_id": [OWN_PROCESS] * len(ordered),
    }
    return pl.DataFrame(columns, schema=schema.TABLES["counters"].polars_schema)
