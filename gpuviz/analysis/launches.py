"""How long GPU work waits for its launch: latency, API time, queue delay."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from gpuviz.analysis.distribution import nearest_rank
from gpuviz.analysis.intervals import Ints
from gpuviz.analysis.selection import ACTIVITY_KIND, device_of_stream, ints, resolve_window, usable
from gpuviz.model import Trace, Window, schema

SCHEMA = pl.Schema(
    {
        "table": ACTIVITY_KIND,
        "activity_id": pl.Int32(),
        "api_id": pl.Int32(),
        "correlation_id": pl.Int64(),
        "name": pl.Categorical(),
        "launch_start_ns": pl.Int64(),
        "launch_end_ns": pl.Int64(),
        "start_ns": pl.Int64(),
        "end_ns": pl.Int64(),
        "stream_id": pl.Int32(),
        "device_id": pl.Int32(),
        "launch_latency_ns": pl.Int64(),
        "api_ns": pl.Int64(),
        "queue_delay_ns": pl.Int64(),
        "before_launch": pl.Boolean(),
        "launch_index": pl.Int32(),
    }
)
SUMMARY_SCHEMA = pl.Schema(
    {
        "device_id": pl.Int32(),
        "ordinal": pl.Int32(),
        "activities": pl.Int64(),
        "launches": pl.Int64(),
        "without_launch": pl.Int64(),
        "before_launch": pl.Int64(),
        **{
            f"{what}_{percentile}_ns": pl.Int64()
            for what in ("launch_latency", "api", "queue_delay")
            for percentile in ("p50", "p99")
        },
    }
)
_UNKNOWN = np.iinfo(np.int64).min


def launches(trace: Trace, window: Window | None = None) -> pl.DataFrame:
    """One row per usable GPU activity that starts in the window, by start, joined to the API call that launched it.

    - ``launch_latency_ns``: start of the activity − start of the API call. Negative when the clocks of host and GPU
      disagree: kept, and flagged by ``before_launch``.
    - ``api_ns``: end − start of the API call.
    - ``queue_delay_ns``: start of the activity − end of the API call, at least 0. A call that launches many
      activities (a graph launch) is followed by one delay: its first activity carries it, later ones have null,
      because what they wait for is the work before them.
    - ``launch_index``: 0 for the first usable activity of its API call, 1 for the next; counted in the whole trace.

    So launch latency = API time + queue delay for a first activity that starts after its call returns. Null: an
    activity without a host record has nulls in all launch columns; a call without a usable start or end has null
    where that time is needed. Raises `AnalysisError` for an impossible window.
    """
    window = resolve_window(trace, window)
    columns = ["activity_id", "api_id", "correlation_id", "name", "start_ns", "end_ns", "stream_id"]
    parts = []
    for name in schema.ACTIVITY_TABLES:
        table = usable(trace.table(name))
        if table.height:
            parts.append(table.select(pl.lit(name, dtype=ACTIVITY_KIND).alias("table"), *columns))
    if not parts:
        return pl.DataFrame(schema=SCHEMA)
    start = np.concatenate([ints(part["start_ns"]) for part in parts])
    api_id = np.concatenate([ints(part["api_id"]) for part in parts])
    index = _launch_index(api_id, start)
    table = pl.concat(parts)
    order = _order(start, len(parts), window)
    if order is not None:
        table, start, api_id, index = table[order], start[order], api_id[order], index[order]
    return table.with_columns(**join_launches(trace, start, api_id, index), device_id=_device(trace, table)).select(
        SCHEMA.names()
    )


def _order(start: Ints, runs: int, window: Window | None) -> Ints | None:
    """Positions of the rows in the window by start, equal starts in the order of their tables; None for all rows."""
    order = np.argsort(start, kind="stable") if runs > 1 else None
    if window is None:
        return order
    if order is None:
        first, stop = np.searchsorted(start, window)
        return np.arange(first, stop)
    first, stop = np.searchsorted(start[order], window)
    return order[first:stop]


def _launch_index(api_id: Ints, start: Ints) -> Ints:
    """Position of each activity among those of its API call, by start; -1 without one."""
    index = np.where(api_id >= 0, 0, -1)
    siblings = np.bincount(np.maximum(api_id, -1) + 1)
    siblings[0] = 0
    if siblings.max() <= 1:
        return index
    shared = np.flatnonzero(siblings[api_id + 1] > 1)
    by_call = shared[np.lexsort((start[shared], api_id[shared]))]
    call = api_id[by_call]
    first = np.flatnonzero(np.concatenate(([True], call[1:] != call[:-1])))
    index[by_call] = np.arange(len(call)) - np.repeat(first, np.diff(np.append(first, len(call))))
    return index


def _call_times(trace: Trace, highest: int) -> tuple[Ints, Ints]:
    """Start and end of API calls at the place of their api_id, up to `highest`; `_UNKNOWN` where there is none.

    The last place (index -1, an activity without a call) is always unknown.
    """
    table = trace.api_calls
    invalid = table["timing"] == "invalid"
    if invalid.any():
        table = table.filter(~invalid)
    ids = ints(table["api_id"])
    known = ids <= highest
    in_place = len(ids) > highest and bool((ids[: highest + 1] == np.arange(highest + 1)).all())
    columns = []
    for name in ("start_ns", "end_ns"):
        values = table[name].fill_null(_UNKNOWN).to_numpy()
        by_id = np.full(highest + 2, _UNKNOWN, dtype=np.int64)
        if in_place:
            by_id[:-1] = values[: highest + 1]
        else:
            by_id[ids[known]] = values[known]
        columns.append(by_id)
    return columns[0], columns[1]


def join_launches(trace: Trace, start: Ints, api_id: Ints, index: Ints) -> dict[str, pl.Series]:
    """The launch columns of activities, by their starts, API calls and launch indices (-1: no call)."""
    launch_start, launch_end = (by_id[api_id] for by_id in _call_times(trace, int(api_id.max(initial=-1))))
    has_start, has_end = launch_start != _UNKNOWN, launch_end != _UNKNOWN
    return {
        "launch_start_ns": _known(launch_start, has_start),
        "launch_end_ns": _known(launch_end, has_end),
        "launch_latency_ns": _known(start - launch_start, has_start),
        "api_ns": _known(launch_end - launch_start, has_start & has_end),
        "queue_delay_ns": _known(np.maximum(start - launch_end, 0), has_end & (index == 0)),
        "before_launch": _known(start < launch_start, has_start),
        "launch_index": _known(index.astype(np.int32), index >= 0),
    }


def _known(values: Any, known: Any) -> pl.Series:
    """A column that is null where it is not known."""
    series = pl.Series(values)
    return series if known.all() else pl.select(pl.when(pl.Series(known)).then(series)).to_series()


def _device(trace: Trace, table: pl.DataFrame) -> pl.Series:
    return pl.Series(device_of_stream(trace)[ints(table["stream_id"])].astype(np.int32))


def launch_summary(trace: Trace, window: Window | None = None) -> pl.DataFrame:
    """The launches of each device in numbers: one row per row of `trace.devices`.

    ``activities`` start in the window; ``launches`` are the distinct API calls whose first activity does;
    ``without_launch`` activities have no host record; ``before_launch`` activities start before their call (clock
    skew). Percentiles (nearest rank, ns) of launch latency, API time and queue delay are over launches, one value
    each, that of its first activity, without the flagged ones; null where there are none. Raises `AnalysisError` for
    an impossible window.
    """
    table = launches(trace, window)
    rows = []
    for device_id, ordinal in trace.devices.select("device_id", "ordinal").iter_rows():
        here = table.filter(pl.col("device_id") == device_id)
        first = here.filter(pl.col("launch_index") == 0)
        fair = first.filter(~pl.col("before_launch"))
        row: dict[str, Any] = {
            "device_id": device_id,
            "ordinal": ordinal,
            "activities": here.height,
            "launches": first.height,
            "without_launch": here["launch_index"].null_count(),
            "before_launch": here["before_launch"].sum(),
        }
        for what in ("launch_latency", "api", "queue_delay"):
            values = np.sort(ints(fair[f"{what}_ns"].drop_nulls()))
            for name, percentile in (("p50", 0.5), ("p99", 0.99)):
                rank = nearest_rank(np.array(len(values)), percentile)
                row[f"{what}_{name}_ns"] = int(values[rank]) if len(values) else None
        rows.append(row)
    return pl.DataFrame(rows, schema=SUMMARY_SCHEMA)
