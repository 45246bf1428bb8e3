"""GPU time and host time by call path."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from gpuviz.analysis import distribution
from gpuviz.analysis.intervals import Ints, clipped_durations
from gpuviz.analysis.selection import (
    Mask,
    counts,
    exact_sums,
    grouped,
    has_gpu_activity,
    ints,
    resolve_window,
    starts_inside,
    times,
    touching,
    usable,
)
from gpuviz.model import Trace, Window, schema
from gpuviz.model.callpaths import ROOT_ID
from gpuviz.model.trace import FRAMES_WITHOUT_CALLS

GPU_LAYERS = ("kernel", "memcpy", "memset", "graph_run")
CALL_LAYERS = (*schema.HOST_LAYERS, "api")
HOST_TABLES = ("host_calls", "api_calls")

SCHEMA = pl.Schema(
    {
        "callpath_id": pl.Int32(),
        "parent_id": pl.Int32(),
        "depth": pl.Int32(),
        "layer": pl.Enum(schema.FRAME_LAYERS),
        "name": pl.Categorical(),
        "calls": pl.Int64(),
        "activities": pl.Int64(),
        "exclusive_ns": pl.Int64(),
        "inclusive_ns": pl.Int64(),
        **distribution.SCHEMA,
    }
)


def gpu_time(trace: Trace, window: Window | None = None, *, distributions: bool = True) -> pl.DataFrame:
    """GPU time by call path: one row per node of `trace.callpaths`, in its order.

    - ``calls``: calls of the frame itself (host or API calls at the node; for a GPU leaf its activities) that start
      in the window. Null for the root, groups, cells and lines, which are not calls, and for frames that the capture
      knows from call stacks only (`gpuviz.model.trace.FRAMES_WITHOUT_CALLS`): nobody counted those calls.
    - ``activities``: GPU activities at or below the node that start in the window.
    - ``exclusive_ns``, ``inclusive_ns``: Σ durations, cut to the window, of the activities at the node, and at or
      below it. Sums over streams: concurrent work counts twice, unlike the unions of `device_time`.
      inclusive = exclusive + Σ inclusive of the children; the root's is the sum of all durations in the tree.
    - ``mean_ns`` (a float), ``min_ns``, ``p50_ns``, ``p99_ns``, ``max_ns``, ``histogram``: of the whole durations of
      the ``activities`` (`gpuviz.analysis.distribution.describe`); null where there are none.

    In a trace that recorded no GPU work (diagnostic ``no_gpu_activity``) activities and times are null, not 0.
    Disjoint windows add up in the counts and sums. `distributions` False leaves the columns from ``mean_ns`` on out.
    Raises `AnalysisError` for an impossible window.
    """
    window = resolve_window(trace, window)
    nodes = trace.callpaths.height
    activities = _rows(trace, schema.ACTIVITY_TABLES, window)
    last = ints(trace.callpaths["last_id"])
    exclusive = exact_sums(activities.node, activities.clipped, nodes)
    at_node = counts(activities.node[activities.counted], nodes)
    known = np.full(nodes, has_gpu_activity(trace))
    columns = {
        "calls": _calls(trace, window, at_node),
        "activities": _null_unless(_below(at_node, last), known),
        "exclusive_ns": _null_unless(exclusive, known),
        "inclusive_ns": _null_unless(_below(exclusive, last), known),
    }
    if distributions:
        order, begin = _by_node(activities, at_node)
        columns |= distribution.describe(activities.whole[order], begin[:-1], begin[last + 1]).columns()
    return _tree(trace, columns)


def cpu_time(trace: Trace, window: Window | None = None, *, distributions: bool = True) -> pl.DataFrame:
    """Host time by call path: one row per node of `trace.callpaths`, the columns of `gpu_time`.

    - ``calls``, ``activities``: as in `gpu_time`; ``calls`` of GPU leaves are null.
    - ``inclusive_ns``: Σ durations, cut to the window, of the host and API calls at the node; a node without calls
      of its own in the window (root, group, cell, line) has the sum of its children. Summed over threads.
    - ``exclusive_ns``: inclusive − Σ inclusive of the children, at least 0: children that end after their parent
      (clock resolution) could make it negative.
    - ``mean_ns`` … ``histogram``: of the whole durations of the ``calls``, not of what lies below.

    A call that launches GPU work counts the time the host spent in it, not the work. `distributions` False leaves
    the columns from ``mean_ns`` on out. Raises `AnalysisError` for an impossible window.
    """
    window = resolve_window(trace, window)
    nodes = trace.callpaths.height
    calls = _rows(trace, HOST_TABLES, window)
    activities = _rows(trace, schema.ACTIVITY_TABLES, window)
    own = exact_sums(calls.node, calls.clipped, nodes)
    has_own = counts(calls.node, nodes) > 0
    inclusive, children = _from_children(trace.callpaths, own, has_own)
    at_node = counts(calls.node[calls.counted], nodes)
    activities_at = counts(activities.node[activities.counted], nodes)
    below = _below(activities_at, ints(trace.callpaths["last_id"]))
    columns = {
        "calls": _null_unless(at_node, _has_layer(trace, _counted_layers(trace, CALL_LAYERS))),
        "activities": _null_unless(below, np.full(nodes, has_gpu_activity(trace))),
        "exclusive_ns": pl.Series(np.maximum(inclusive - children, 0)),
        "inclusive_ns": pl.Series(inclusive),
    }
    if distributions:
        order, begin = _by_node(calls, at_node)
        columns |= distribution.describe(calls.whole[order], begin[:-1], begin[1:]).columns()
    return _tree(trace, columns)


class _Rows(NamedTuple):
    """Usable rows of some tables that touch the window."""

    node: Ints
    """Call path; -1 where the row has none."""
    clipped: Ints
    """Duration inside the window, ns."""
    whole: Ints
    """Duration, ns."""
    counted: Mask
    """Whether the row starts in the window and belongs to a node."""


def _rows(trace: Trace, tables: tuple[str, ...], window: Window | None) -> _Rows:
    parts = []
    for name in tables:
        table = usable(trace.table(name))
        if table.height:
            parts.append(_rows_of_table(table, window))
    if len(parts) == 1:
        return parts[0]
    if not parts:
        none = np.empty(0, dtype=np.int64)
        return _Rows(none, none, none, none.astype(np.bool_))
    node, clipped, whole, counted = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return _Rows(node, clipped, whole, counted)


def _rows_of_table(table: pl.DataFrame, window: Window | None) -> _Rows:
    inside = touching(times(table), window)
    if not inside.all():
        table = table.filter(pl.Series(inside))
    spans, node = times(table), ints(table["callpath_id"])
    counted = starts_inside(spans.start, window) & (node >= 0)
    return _Rows(node, clipped_durations(*spans, window), spans.end - spans.start, counted)


def _by_node(rows: _Rows, at_node: Ints) -> tuple[Ints, Ints]:
    """Counted rows in the order of their nodes, and where each node begins among them (one more at the end)."""
    counted = np.flatnonzero(rows.counted)
    order = counted[grouped(rows.node[counted], len(at_node))]
    return order, np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(at_node)))


def _below(at_node: Ints, last: Ints) -> Ints:
    """Sum over each subtree: in preorder it is one range, so one difference of running sums."""
    running = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(at_node)))
    below: Ints = running[last + 1] - running[:-1]
    return below


def _from_children(callpaths: pl.DataFrame, own: Ints, has_own: Mask) -> tuple[Ints, Ints]:
    """(inclusive, Σ inclusive of the children) of each node, level by level from the deepest.

    Inclusive is a node's own value where it has one, else the sum over its children.
    """
    inclusive, children = own.copy(), np.zeros(len(own), dtype=np.int64)
    parent, depth = ints(callpaths["parent_id"]), ints(callpaths["depth"])
    by_depth = np.argsort(depth, kind="stable")
    levels = np.split(by_depth, np.cumsum(np.bincount(depth))[:-1]) if len(depth) else []
    for level in reversed(levels):
        inclusive[level] = np.where(has_own[level], own[level], children[level])
        if level[0] != ROOT_ID:
            np.add.at(children, parent[level], inclusive[level])
    return inclusive, children


def _has_layer(trace: Trace, layers: tuple[str, ...]) -> Mask:
    """Which nodes have a frame of one of these layers."""
    of_frame = trace.frames["layer"].cast(pl.String).is_in(layers).to_numpy()
    mask: Mask = of_frame[ints(trace.callpaths["frame_id"])] if len(of_frame) else np.empty(0, dtype=np.bool_)
    return mask


def _null_unless(values: Ints, known: Mask) -> pl.Series:
    return pl.select(pl.when(pl.Series(known)).then(pl.Series(values))).to_series()


def _calls(trace: Trace, window: Window | None, activities_at: Ints) -> pl.Series:
    """How often each frame itself was called; null for frames that are not calls."""
    calls = np.where(_has_layer(trace, GPU_LAYERS), activities_at, 0)
    for name in HOST_TABLES:
        table = usable(trace.table(name))
        started = starts_inside(ints(table["start_ns"]), window)
        calls += counts(ints(table["callpath_id"])[started], len(calls))
    return _null_unless(calls, _has_layer(trace, _counted_layers(trace, CALL_LAYERS + GPU_LAYERS)))


def _counted_layers(trace: Trace, layers: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the layers whose calls the trace recorded; a capture knows some frames from call stacks only."""
    not_recorded = trace.meta.properties.get(FRAMES_WITHOUT_CALLS, "").split(", ")
    return tuple(layer for layer in layers if layer not in not_recorded)


def _tree(trace: Trace, columns: dict[str, pl.Series]) -> pl.DataFrame:
    """The rows of `trace.callpaths` with their frames, and these columns behind them."""
    paths = trace.callpaths
    frames = trace.frames.select("layer", pl.col("function").alias("name"))[paths["frame_id"]]
    table = paths.select("callpath_id", "parent_id", "depth").hstack(frames)
    table = table.with_columns(**columns)
    return table.cast({name: SCHEMA[name] for name in table.columns})
