"""Nested, linked columns → the tables of `gpuviz.model.schema`."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from gpuviz.formats.kineto.calls import nest_rows
from gpuviz.model import schema
from gpuviz.model.diagnostics import Diagnostics

_SYNC_KINDS = {
    "event sync": "event",
    "stream wait event": "stream_wait_event",
    "stream sync": "stream",
    "context sync": "context",
}


def conform(name: str, table: pl.DataFrame) -> pl.DataFrame:
    """The columns of the table `name`, in order, with its dtypes; what was not recorded is null."""
    wanted = schema.TABLES[name].polars_schema
    return table.select(
        (pl.col(column) if column in table.columns else pl.lit(None)).cast(dtype, strict=False).alias(column)
        for column, dtype in wanted.items()
    )


def activity_tables(gpu: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """`gpu` (kind, activity_id, …) as kernels, memcpys and memsets."""
    kinds = {"kernels": "kernel", "memcpys": "memcpy", "memsets": "memset"}
    return {name: conform(name, gpu.filter(kind=kind)) for name, kind in kinds.items()}


def sync_table(syncs: pl.DataFrame, api: pl.DataFrame) -> pl.DataFrame:
    """The waits. The thread that waits is the one that made the call; a stream that waits for an event blocks none."""
    kind = pl.col("kind").str.to_lowercase().str.strip_chars()
    threads = api.select(launch="api_id", caller="thread_id")
    table = (
        syncs.with_columns(sync_kind=kind.replace_strict(_SYNC_KINDS, default="unknown", return_dtype=pl.String))
        .join(threads, on="launch", how="left", maintain_order="left")
        .with_columns(thread_id=pl.when(pl.col("sync_kind") != "stream_wait_event").then("caller"))
        .with_columns(api_id=pl.col("launch"), sync_id=pl.int_range(pl.len()))
    )
    return conform("syncs", table)


def range_table(host: pl.DataFrame, gpu: pl.DataFrame, end_ns: int) -> pl.DataFrame:
    """All ranges, nested lane by lane: a lane is a thread, a stream, or neither."""
    both = pl.concat([host, gpu.drop("device_id")], how="diagonal").sort(
        "start_ns", "end_ns", descending=[False, True], nulls_last=True, maintain_order=True
    )
    lane = pl.struct("thread_id", "stream_id").rank("dense").cast(pl.Int64)
    nested = nest_rows(both.select("start_ns", "end_ns", "timing", lane=lane, rank=pl.lit(0, dtype=pl.Int64)), end_ns)
    table = both.with_columns(
        range_id=pl.int_range(pl.len()),
        parent_id=pl.Series(nested.parent).replace(-1, None),
        depth=pl.Series(nested.depth),
    )
    return conform("ranges", table)


def counter_table(counters: pl.DataFrame, t0_ns: int, diagnostics: Diagnostics) -> pl.DataFrame:
    """The samples that have a time, in order of time."""
    timed = counters.drop_nulls("start_ns").with_columns(time_ns=pl.col("start_ns") - t0_ns)
    diagnostics.add("time_missing", counters.height - timed.height, "a sample of a counter, which is left out")
    return conform("counters", timed.sort("time_ns", maintain_order=True))


def with_ids(tables: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The interval tables with the row ids that links refer to."""
    ids = {"host": "host_call_id", "api": "api_id", "gpu": "activity_id"}
    return {
        name: table.with_columns(pl.int_range(pl.len(), dtype=pl.Int32).alias(ids[name])) if name in ids else table
        for name, table in tables.items()
    }
