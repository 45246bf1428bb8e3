"""The laws that the tables of a trace keep; every reader's tests call `validate`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from gpuviz.errors import TraceError
from gpuviz.model import schema

if TYPE_CHECKING:
    from gpuviz.model.trace import Trace


def validate(trace: Trace) -> None:
    """Check every law; raises `TraceError` naming table and column at the first one that is broken."""
    for name, definition in schema.TABLES.items():
        table = trace.table(name)
        _check_nulls(definition, table)
        if definition.is_interval:
            _check_interval(name, table)
    whole = trace.meta.window is None
    for name, row_id in schema.ROW_IDS.items():
        _check_row_ids(name, row_id, trace.table(name)[row_id], whole)
    if whole:
        for name in schema.TABLES:
            _check_references(trace, name)
    _check_activity_ids(trace)
    _check_callpaths(trace)
    latest = [trace.table(name).filter(timing="ok")["end_ns"].max() for name in schema.INTERVAL_TABLES]
    if whole and any(isinstance(end, int) and end > trace.meta.end_ns for end in latest):
        raise TraceError(f"The trace was checked: meta.end_ns is {trace.meta.end_ns}, but a row ends later.")


def _broken(table: str, column: str | None, law: str, rows: pl.DataFrame) -> TraceError:
    example = rows.row(0, named=True) if rows.height else None
    return TraceError(
        f"The table {table!r} was checked: {law} ({rows.height} rows; the first: {example}). "
        "A reader or a capture made it wrong; please report it with the file.",
        table=table,
        column=column,
    )


def _check_nulls(definition: schema.Table, table: pl.DataFrame) -> None:
    for column in definition.columns:
        if not column.nullable and table[column.name].null_count():
            bad = table.filter(pl.col(column.name).is_null())
            raise _broken(definition.name, column.name, f"{column.name!r} is null where it never may be", bad)


def _check_interval(name: str, table: pl.DataFrame) -> None:
    start, end, timing = pl.col("start_ns"), pl.col("end_ns"), pl.col("timing")
    laws = {
        "timing 'ok' wants 0 <= start <= end": (timing == "ok") & ~((start >= 0) & (start <= end)).fill_null(False),
        "timing 'open' wants a start and no end": (timing == "open") & (start.is_null() | end.is_not_null()),
    }
    for law, broken in laws.items():
        bad = table.filter(broken)
        if bad.height:
            raise _broken(name, "timing", law, bad)
    starts = table["start_ns"]
    if starts.null_count() and starts.head(len(starts) - starts.null_count()).null_count():
        raise _broken(name, "start_ns", "rows without a start come last", table.filter(start.is_null()))
    if not starts.drop_nulls().is_sorted():
        raise _broken(name, "start_ns", "rows are sorted by start_ns", table.filter(start.diff() < 0))


def _check_row_ids(name: str, row_id: str, ids: pl.Series, whole: bool) -> None:
    if whole and not (ids == pl.int_range(len(ids), eager=True, dtype=pl.Int32)).all():
        raise _broken(name, row_id, f"{row_id!r} numbers the rows from 0", ids.to_frame())
    if not whole and ids.n_unique() != len(ids):
        raise _broken(name, row_id, f"{row_id!r} is unique", ids.to_frame().filter(ids.is_duplicated()))


def _check_references(trace: Trace, name: str) -> None:
    table = trace.table(name)
    own = schema.ROW_IDS.get(name)
    for column in table.columns:
        target = name if column == "parent_id" else schema.REFERENCES.get(column)
        if target is None or column == own:
            continue
        height = trace.table(target).height
        bad = table.filter(~pl.col(column).is_between(0, height, closed="left"))
        if bad.height:
            raise _broken(name, column, f"{column!r} names a row of {target!r} (which has {height})", bad)


def _check_activity_ids(trace: Trace) -> None:
    ids = pl.concat([trace.table(name)["activity_id"] for name in schema.ACTIVITY_TABLES])
    if ids.n_unique() != len(ids):
        raise _broken("kernels", "activity_id", "activity_id is unique over all GPU activities", ids.to_frame())


def _check_callpaths(trace: Trace) -> None:
    table = trace.callpaths
    if not table.height:
        return
    above = table.select(
        pl.col("callpath_id").alias("parent_id"),
        pl.col("last_id").alias("parent_last_id"),
        pl.col("depth").alias("parent_depth"),
    )
    nodes = pl.col("last_id") - pl.col("callpath_id") + 1
    below = table.group_by(pl.col("parent_id").alias("callpath_id")).agg(nodes.sum().alias("nodes_below"))
    joined = table.join(above, on="parent_id", how="left", maintain_order="left")
    joined = joined.join(below, on="callpath_id", how="left", maintain_order="left")
    node, parent, last = pl.col("callpath_id"), pl.col("parent_id"), pl.col("last_id")
    laws = {
        "only the first node is the root": parent.is_null() != (node == 0),
        "parents come before children": parent >= node,
        "last_id lies at or below the parent's": (last < node) | (last > pl.col("parent_last_id")),
        "depth is one more than the parent's": pl.col("depth") != pl.col("parent_depth").fill_null(-1) + 1,
        # With the laws above: as many ids as nodes below, all of them within (node, last], so the numbers are preorder.
        "last_id is the last of the nodes below": nodes != pl.col("nodes_below").fill_null(0) + 1,
    }
    for law, broken in laws.items():
        bad = joined.filter(broken)
        if bad.height:
            raise _broken("callpaths", "callpath_id", law, bad)
