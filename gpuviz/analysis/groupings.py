"""GPU work by kernel, by operator, by module, and by the shapes of an operator's inputs."""

from __future__ import annotations

import numpy as np
import polars as pl

from gpuviz.analysis.grouping import SUMS, Amounts, codes, compact
from gpuviz.analysis.intervals import Ints
from gpuviz.analysis.selection import ACTIVITY_KIND, Mask, exact_sums, ints
from gpuviz.analysis.work import nearest
from gpuviz.model import Trace, Window, schema

KERNEL_SCHEMA = pl.Schema({"table": ACTIVITY_KIND, "name": pl.Categorical(), **SUMS})
OP_SCHEMA = pl.Schema({"name": pl.Categorical(), **SUMS, "backward_ns": pl.Int64()})
SHAPE_SCHEMA = pl.Schema({"name": pl.Categorical(), "input_shapes": pl.Categorical(), **SUMS})


def by_kernel(trace: Trace, window: Window | None = None) -> pl.DataFrame:
    """GPU work by name: one row per (table, name) that has work in the window, most GPU time first.

    The columns of every grouping: ``activities`` start in the window; ``launches`` are the API calls whose first
    activity does; ``gpu_ns`` is the sum of durations cut to the window; ``busy_share_ns`` the sum of
    `gpuviz.analysis.busy_share` (so that groups add up to the devices' busy time), ``share`` that over the busy time
    of all devices (0 to 1; null when it is 0); ``exposed_copy_ns`` the sum over copies of their time with no kernel
    running. Over all devices. No rows in a trace that recorded no GPU work. Raises `AnalysisError` for an impossible
    window.
    """
    amounts = Amounts(trace, window)
    group = np.full(len(amounts.work.start), -1, dtype=np.int64)
    keys: list[pl.DataFrame] = []
    for table in schema.ACTIVITY_TABLES:
        rows = amounts.work.rows_of(table)
        names = _names_of(amounts, table)
        number = codes(names)
        distinct, place = compact(number, int(number.max(initial=-1)))
        group[rows] = place + sum(part.height for part in keys)
        example = np.full(len(distinct), 0, dtype=np.int64)
        example[place] = np.arange(len(place))
        kind = pl.Series([table], dtype=ACTIVITY_KIND).new_from_index(0, len(distinct))
        keys.append(pl.DataFrame({"table": kind, "name": names.gather(example)}))
    return amounts.table(pl.concat(keys), group).select(KERNEL_SCHEMA.names())


def _names_of(amounts: Amounts, table: str) -> pl.Series:
    """The names of the rows of `Work` of one table."""
    work, rows = amounts.work, amounts.work.rows_of(table)
    source = amounts.trace.table(table)
    if work.heights[table] == source.height:
        return source["name"]
    return source.filter(pl.col("activity_id").is_in(pl.Series(work.activity_id[rows]).cast(pl.Int32).implode()))[
        "name"
    ]


def by_op(trace: Trace, window: Window | None = None) -> pl.DataFrame:
    """GPU work by the innermost operator around its launch: one row per name; null for work below no operator.

    ``backward_ns`` is the part of ``gpu_ns`` that is known to be backward work of some forward work. The other
    columns, and errors, as in `by_kernel`.
    """
    return _by_layer(trace, window, "op")


def by_module(trace: Trace, window: Window | None = None) -> pl.DataFrame:
    """GPU work by the innermost ``nn.Module`` around its launch, backward work by the module of its forward work.

    One row per name; null for work below no module. Columns and errors as in `by_op`.
    """
    return _by_layer(trace, window, "module", forward=True)


def _by_layer(trace: Trace, window: Window | None, layer: str, *, forward: bool = False) -> pl.DataFrame:
    amounts = Amounts(trace, window)
    of_frame = (amounts.trace.frames["layer"] == layer).to_numpy()
    node = nodes_of_work(amounts, of_frame, forward=forward)
    frames = amounts.trace.frames["function"]
    frame = np.append(ints(amounts.trace.callpaths["frame_id"]), -1)[node]
    number = np.append(codes(frames), -1)
    of_work = number[frame]
    distinct, group = compact(of_work, int(number.max(initial=-1)))
    example = np.full(int(number.max(initial=-1)) + 2, -1, dtype=np.int64)
    example[number[:-1]] = np.arange(frames.len())
    names = frames.gather(pl.Series([None if n < 0 else int(example[n]) for n in distinct.tolist()], dtype=pl.UInt32))
    others = {"backward_ns": backward_sums(amounts, group, len(distinct))}
    return amounts.table(pl.DataFrame({"name": names}), group, others).select(OP_SCHEMA.names())


def nodes_of_work(amounts: Amounts, of_frame: Mask, *, forward: bool) -> Ints:
    """The innermost call path of each activity whose frame is wanted (a truth per frame); -1 where none is.

    `forward`: backward work answers with the call path of its forward work, where that has such a frame.
    """
    paths = amounts.trace.callpaths
    wanted = of_frame[ints(paths["frame_id"])] if paths.height else np.empty(0, dtype=np.bool_)
    found = nearest(amounts.trace, wanted)
    own = found[amounts.work.callpath]
    if not forward:
        return own
    there = found[amounts.work.forward]
    return np.where(there >= 0, there, own)


def backward_sums(amounts: Amounts, group: Ints, groups: int) -> pl.Series:
    """Σ durations of backward work per group, ns."""
    backward = np.where(amounts.work.forward >= 0, group, -1)
    return pl.Series(exact_sums(backward, amounts.work.clipped, groups))


def by_shape(trace: Trace, window: Window | None = None) -> pl.DataFrame:
    """GPU work by operator and shapes of its inputs: one row per (name, input_shapes).

    The operator is the innermost one that runs around the launch; a null name is work that no recorded operator of
    the window launched, null shapes an operator whose shapes were not recorded. No rows in a trace that recorded no
    shapes at all. The other columns, and errors, as in `by_kernel`.
    """
    amounts = Amounts(trace, window)
    operators = amounts.trace.host_calls
    if not operators["input_shapes"].null_count() < operators.height:
        return pl.DataFrame(schema=SHAPE_SCHEMA)
    place = _operator_of_work(amounts)
    pairs = pl.DataFrame({"name": operators["name"], "input_shapes": operators["input_shapes"]})
    name, shapes = codes(pairs["name"]), codes(pairs["input_shapes"])
    key = np.append(name * (int(shapes.max()) + 2) + shapes + 1, -1)
    distinct, group = np.unique(key[place], return_inverse=True)
    example = np.full(len(distinct), -1, dtype=np.int64)
    example[group] = place
    index = pl.Series([None if n < 0 else n for n in example.tolist()], dtype=pl.UInt32)
    keys = pairs.select(pl.all().gather(index))
    return amounts.table(keys, group).select(SHAPE_SCHEMA.names())


def _operator_of_work(amounts: Amounts) -> Ints:
    """Row in `host_calls` of the innermost operator around the launch of each activity; -1 where none is."""
    calls, operators = amounts.trace.api_calls, amounts.trace.host_calls
    ids = ints(operators["host_call_id"])
    row_of = np.full(int(ids.max(initial=-1)) + 2, -1, dtype=np.int64)
    row_of[ids] = np.arange(len(ids))
    highest = len(row_of) - 2

    def rows(of: Ints) -> Ints:
        return row_of[np.where(of > highest, -1, of)]

    above = rows(ints(operators["parent_id"]))
    is_operator = (operators["layer"] == "op").to_numpy()
    innermost = np.where(is_operator, np.arange(len(ids)), -1)
    open_ = np.flatnonzero(innermost < 0)
    following = above[open_]
    while len(open_):
        going = following >= 0
        open_, following = open_[going], following[going]
        done = is_operator[following]
        innermost[open_[done]] = following[done]
        open_, following = open_[~done], above[following[~done]]
    api_ids = ints(calls["api_id"])
    of_call = np.full(max(int(api_ids.max(initial=-1)), int(amounts.work.api.max(initial=-1))) + 2, -1, dtype=np.int64)
    of_call[api_ids] = np.append(innermost, -1)[rows(ints(calls["host_call_id"]))]
    return of_call[amounts.work.api]
