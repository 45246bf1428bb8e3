"""Which kernels and copies took the GPU's time, by name."""

from __future__ import annotations

import numpy as np
import polars as pl

from gpuviz.analysis import distribution
from gpuviz.analysis.intervals import Ints, clipped_durations
from gpuviz.analysis.selection import (
    ACTIVITY_KIND,
    counts,
    exact_sums,
    grouped,
    resolve_window,
    starts_inside,
    times,
    touching,
    usable,
)
from gpuviz.errors import AnalysisError
from gpuviz.model import Trace, Window, schema

NAMED_TABLES = ("kernels", "memcpys")

SCHEMA = pl.Schema(
    {
        "table": ACTIVITY_KIND,
        "name": pl.Categorical(),
        "activities": pl.Int64(),
        "total_ns": pl.Int64(),
        "share": pl.Float64(),
        "min_ns": pl.Int64(),
        "p50_ns": pl.Int64(),
        "p99_ns": pl.Int64(),
        "max_ns": pl.Int64(),
    }
)


def top_kernels(trace: Trace, window: Window | None = None, limit: int | None = None) -> pl.DataFrame:
    """Kernels and copies by name, most time first (then by name): one row per (table, name).

    ``activities`` start in the window; ``total_ns`` is the sum of their durations cut to it; ``share`` is that sum
    over the sum of all GPU activities there, fills and whole graph replays too (0 to 1; null when that is 0);
    ``min_ns``, ``p50_ns``, ``p99_ns``, ``max_ns`` are of whole durations, percentiles by nearest rank, null where no
    activity starts in the window. `limit` keeps so many rows. Raises `AnalysisError` for an impossible window or a
    `limit` below 1.
    """
    window = resolve_window(trace, window)
    if limit is not None and limit < 1:
        raise AnalysisError(
            f"The {limit} kernels with the most time were asked for; that leaves nothing to show. "
            "Give a limit of at least 1, or None for all."
        )
    parts = []
    total = 0
    for name in schema.ACTIVITY_TABLES:
        table = usable(trace.table(name))
        total += int(clipped_durations(*times(table), window).sum())
        if name in NAMED_TABLES:
            parts.append(_by_name(name, table, window))
    result = pl.concat(parts)
    share = pl.col("total_ns") / total if total else pl.lit(None, dtype=pl.Float64)
    by_name = pl.col("name").cast(pl.String)
    result = result.with_columns(share=share).sort(pl.col("total_ns"), by_name, descending=[True, False])
    return result.select(SCHEMA.names()).head(limit if limit is not None else result.height)


def _by_name(kind: str, table: pl.DataFrame, window: Window | None) -> pl.DataFrame:
    inside = touching(times(table), window)
    table = table if inside.all() else table.filter(pl.Series(inside))
    names, group = _groups(table["name"])
    spans = times(table)
    counted = np.flatnonzero(starts_inside(spans.start, window))
    activities = counts(group[counted], len(names))
    order = counted[grouped(group[counted], len(names))]
    begin = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(activities)))
    described = distribution.describe((spans.end - spans.start)[order], begin[:-1], begin[1:]).columns()
    columns = {
        "table": pl.Series([kind], dtype=ACTIVITY_KIND).new_from_index(0, len(names)),
        "name": names,
        "activities": pl.Series(activities),
        "total_ns": pl.Series(exact_sums(group, clipped_durations(*spans, window), len(names))),
        **{name: described[name] for name in ("min_ns", "p50_ns", "p99_ns", "max_ns")},
    }
    return pl.DataFrame(columns)


def _groups(names: pl.Series) -> tuple[pl.Series, Ints]:
    """The distinct names, and which of them each row has; by a table of the categories' codes."""
    codes = names.to_physical().to_numpy()
    row_of_code = np.full(int(codes.max(initial=0)) + 1, -1, dtype=np.int64)
    row_of_code[codes] = np.arange(len(codes))
    present = np.flatnonzero(row_of_code >= 0)
    group_of_code = np.zeros(len(row_of_code), dtype=np.int64)
    group_of_code[present] = np.arange(len(present))
    return names.gather(row_of_code[present]), group_of_code[codes]
