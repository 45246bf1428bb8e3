"""The anatomy of each launch: Python, dispatch, API call, queue, GPU."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from gpuviz.analysis.host_states import follow, is_overhead
from gpuviz.analysis.intervals import Ints, covered_in, union
from gpuviz.analysis.launched import UNKNOWN, Launched, launched, null_unless
from gpuviz.analysis.selection import (
    ACTIVITY_KIND,
    device_of_stream,
    grouped,
    ints,
    resolve_window,
    times,
    touching,
    usable,
)
from gpuviz.model import Trace, Window, schema

STAGES = ("lead_ns", "python_ns", "dispatch_ns", "api_ns", "queue_delay_ns", "gpu_ns")

SCHEMA = pl.Schema(
    {
        "api_id": pl.Int32(),
        "launch": pl.Categorical(),
        "thread_id": pl.Int32(),
        "callpath_id": pl.Int32(),
        "table": ACTIVITY_KIND,
        "activity_id": pl.Int32(),
        "name": pl.Categorical(),
        "activities": pl.Int64(),
        "device_id": pl.Int32(),
        "stream_id": pl.Int32(),
        "launch_start_ns": pl.Int64(),
        "launch_end_ns": pl.Int64(),
        "start_ns": pl.Int64(),
        "end_ns": pl.Int64(),
        **dict.fromkeys(STAGES, pl.Int64()),
        "overhead_ns": pl.Int64(),
        "before_launch": pl.Boolean(),
        "first": pl.Boolean(),
    }
)


def launch_stages(trace: Trace, window: Window | None = None) -> pl.DataFrame:
    """One row per API call that starts in the window and launched usable GPU work, by start of the call.

    The way of a launch from the source line to the GPU, in stages that follow each other (ns, whole durations):

    - ``python_ns``: from when the thread was free (the later of the start of the innermost Python function or module
      around, and the end of the thread's previous operator or API call) to the start of the operator;
    - ``dispatch_ns``: from the start of the operator (the outermost one of those around the call without Python in
      between), or from the end of the previous API call in it, to the start of the call;
    - ``lead_ns``: both in one: from when the thread was free to the start of the call. Where an API call ran before
      in the same operator it is ``dispatch_ns``, and ``python_ns`` is 0;
    - ``api_ns``: the call; ``queue_delay_ns``: from its end to the start of its first activity, at least 0;
    - ``gpu_ns``: from the start of the first activity to the end of the last one (``end_ns``): of a graph launch its
      envelope, of one kernel its duration.

    ``table``, ``activity_id``, ``name``, ``start_ns``, ``stream_id`` and ``device_id`` are of the first activity,
    ``activities`` says how many there are. ``overhead_ns``: how much of the call was under recorded overhead (lazy
    loading, compiling, the profiler). ``first``: no launch of an activity of this name started earlier in the window
    on this device. ``before_launch``: the activity starts before its call (clock skew).

    Null: ``python_ns`` where no Python is recorded around the launch, and with ``dispatch_ns`` where no operator is
    (a capture by lines: Python and dispatch are one stage, ``lead_ns``); ``lead_ns`` where nothing is recorded
    before; stages that begin before the window; ``api_ns`` and ``queue_delay_ns`` of a call that never returned;
    ``overhead_ns`` where no overhead was recorded in the window. Raises `AnalysisError` for an impossible window.
    """
    window = resolve_window(trace, window)
    found = launched(trace, window)
    calls = trace.api_calls
    free = _lead(trace, window, found)
    returned = found.launch_end != UNKNOWN
    first = _first_activities(trace, found)
    device = device_of_stream(trace)[found.stream]
    stages = {
        "lead_ns": null_unless(free.lead_known, found.launch_start - free.lead_start),
        "python_ns": null_unless(free.python_known, free.operator - free.lead_start),
        "dispatch_ns": null_unless(free.dispatch_known, found.launch_start - free.dispatch_start),
        "api_ns": null_unless(returned, found.launch_end - found.launch_start),
        "queue_delay_ns": null_unless(returned, np.maximum(found.gpu_start - found.launch_end, 0)),
        "gpu_ns": pl.Series(found.gpu_end - found.gpu_start),
    }
    columns: dict[str, pl.Series] = {
        "activities": pl.Series(found.activities),
        "device_id": pl.Series(device),
        "stream_id": pl.Series(found.stream),
        "launch_start_ns": pl.Series(found.launch_start),
        "launch_end_ns": null_unless(returned, found.launch_end),
        "start_ns": pl.Series(found.gpu_start),
        "end_ns": pl.Series(found.gpu_end),
        **stages,
        "overhead_ns": _overhead(trace, window, found),
        "before_launch": pl.Series(found.gpu_start < found.launch_start),
        "first": _is_first(first["name"], device),
    }
    own = calls.select("api_id", pl.col("name").alias("launch"), "thread_id", "callpath_id")
    own = own[found.call] if len(found.call) < own.height else own
    return own.hstack(first).with_columns(**columns).select(SCHEMA.names()).cast(SCHEMA)


class _Lead(NamedTuple):
    """When the thread of each launch was free, when its operator began, and what is known of it."""

    lead_start: Ints
    operator: Ints
    dispatch_start: Ints
    lead_known: np.ndarray
    python_known: np.ndarray
    dispatch_known: np.ndarray


def _lead(trace: Trace, window: Window | None, found: Launched) -> _Lead:
    calls = _touching(trace.api_calls, window).select("thread_id", "start_ns", "end_ns")
    hosts = _touching(trace.host_calls, window)
    is_op = _layer(hosts, "op")
    thread = ints(trace.api_calls["thread_id"].gather(found.call))
    operator, python = _around(trace, hosts, is_op, found.call)
    horizon = max(trace.meta.end_ns, int(found.launch_start.max(initial=0))) + 2
    ends_of_calls = _Ends(calls, horizon)
    ends = _Ends(pl.concat([calls, hosts.select(calls.columns).filter(pl.Series(is_op))]), horizon)
    has_operator = operator != UNKNOWN
    in_operator = ends_of_calls.latest(thread, found.launch_start)
    not_first = has_operator & (in_operator >= operator)
    free = np.maximum(ends.latest(thread, np.where(has_operator, operator, found.launch_start)), python)
    lead_start = np.where(not_first, in_operator, free)
    operator_or_later = np.where(not_first, in_operator, operator)
    begin = 0 if window is None else window[0]
    lead_known = (lead_start != UNKNOWN) & (lead_start >= begin)
    dispatch_known = has_operator & (operator_or_later >= begin)
    return _Lead(
        lead_start,
        operator_or_later,
        operator_or_later,
        lead_known,
        lead_known & dispatch_known & (not_first | (python != UNKNOWN)),
        dispatch_known,
    )


def _touching(table: pl.DataFrame, window: Window | None) -> pl.DataFrame:
    """Usable rows with time in the window."""
    table = usable(table)
    inside = touching(times(table), window)
    return table if inside.all() else table.filter(pl.Series(inside))


def _layer(hosts: pl.DataFrame, *layers: str) -> np.ndarray:
    codes = [schema.HOST_LAYERS.index(layer) for layer in layers]
    return np.isin(hosts["layer"].to_physical().to_numpy(), codes)


def _around(trace: Trace, hosts: pl.DataFrame, is_op: np.ndarray, call: Ints) -> tuple[Ints, Ints]:
    """Start of the outermost operator of the chain around each call, and of the innermost Python around that."""
    if not hosts.height:
        nothing = np.full(len(call), UNKNOWN, dtype=np.int64)
        return nothing, nothing
    ids, start = ints(hosts["host_call_id"]), ints(hosts["start_ns"])
    place = np.full(int(ids.max()) + 2, UNKNOWN, dtype=np.int64)
    place[ids] = np.arange(len(ids))
    here = np.arange(len(ids))

    def row_of(host_call_id: Ints) -> Ints:
        return place[np.where(host_call_id < len(place) - 1, host_call_id, -1)]

    parent = row_of(ints(hosts["parent_id"]))
    outermost = follow(np.where(is_op & (parent >= 0) & is_op[parent], parent, here))
    is_python = _layer(hosts, "python", "module")
    nearest_python = follow(np.where(is_python | (parent < 0), here, parent))
    around = row_of(ints(trace.api_calls["host_call_id"].gather(call)))
    has_op = (around >= 0) & is_op[around]
    operator = np.where(has_op, outermost[around], UNKNOWN)
    outside = np.where(has_op, parent[operator], around)
    python = np.where(outside >= 0, nearest_python[outside], UNKNOWN)
    python = np.where((python >= 0) & is_python[python], python, UNKNOWN)
    return tuple(np.where(row >= 0, start[row], UNKNOWN) for row in (operator, python))  # type: ignore[return-value]


class _Ends:
    """When rows of a thread ended, to ask for the latest end up to a time. Rows of no length end nothing."""

    def __init__(self, rows: pl.DataFrame, horizon: int) -> None:
        thread, start, end = (ints(rows[column]) for column in ("thread_id", "start_ns", "end_ns"))
        lasting = end > start
        self._horizon = horizon
        self._ends = np.sort((thread * horizon + end)[lasting], kind="stable")

    def latest(self, thread: Ints, time: Ints) -> Ints:
        """The latest end in each thread that is not after the time; `UNKNOWN` where there is none."""
        if not len(self._ends):
            return np.full(len(thread), UNKNOWN, dtype=np.int64)
        base = thread * self._horizon
        before = np.searchsorted(self._ends, base + time, side="right") - 1
        end = self._ends[np.maximum(before, 0)] - base
        return np.where((before >= 0) & (end >= 0), end, UNKNOWN)


def _overhead(trace: Trace, window: Window | None, found: Launched) -> pl.Series:
    hosts = trace.host_calls
    records = _touching(hosts.filter(pl.Series(is_overhead(hosts))), window)
    covered = covered_in(union(*times(records)), found.launch_start, np.maximum(found.launch_end, found.launch_start))
    known = np.full(len(covered), records.height > 0) & (found.launch_end != UNKNOWN)
    return null_unless(known, covered)


def _first_activities(trace: Trace, found: Launched) -> pl.DataFrame:
    """Table, id and name of the first activity of each launch."""
    parts, rows = [], []
    for number, table in enumerate(schema.ACTIVITY_TABLES):
        here = np.flatnonzero(found.table == number)
        if len(here):
            own = usable(trace.table(table)).select("activity_id", "name")[found.row[here]]
            parts.append(own.select(pl.lit(table, dtype=ACTIVITY_KIND).alias("table"), "activity_id", "name"))
            rows.append(here)
    if not parts:
        return pl.DataFrame(schema={name: SCHEMA[name] for name in ("table", "activity_id", "name")})
    if len(parts) == 1:
        return parts[0]
    place = np.empty(len(found.call), dtype=np.int64)
    place[np.concatenate(rows)] = np.arange(len(place))
    return pl.concat(parts)[place]


def _is_first(names: pl.Series, device: Ints) -> pl.Series:
    """Whether each row is the first of its name and device."""
    first = np.zeros(len(names), dtype=np.bool_)
    if len(names):
        codes = names.to_physical().to_numpy()
        present = np.flatnonzero(np.bincount(codes))
        dense = np.zeros(int(codes.max()) + 1, dtype=np.int64)
        dense[present] = np.arange(len(present))
        group = dense[codes] * (int(device.max()) + 1) + device
        order = _stable_groups(group)
        changes = np.append(True, group[order][1:] != group[order][:-1])
        first[order[changes]] = True
    return pl.Series(first)


def _stable_groups(group: Ints) -> Ints:
    """Positions group by group, in order within each."""
    if group.max() < 2**16:
        return grouped(group, int(group.max()) + 1)
    return np.argsort(group, kind="stable")
