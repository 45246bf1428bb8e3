"""What the first launch of each kernel cost more than the later ones: lazy loading, compiling, tuning."""

from __future__ import annotations

import polars as pl

from gpuviz.analysis.selection import ACTIVITY_KIND
from gpuviz.analysis.waterfall import launch_stages
from gpuviz.model import Trace, Window

SCHEMA = pl.Schema(
    {
        "device_id": pl.Int32(),
        "table": ACTIVITY_KIND,
        "name": pl.Categorical(),
        "launches": pl.Int64(),
        "api_id": pl.Int32(),
        "callpath_id": pl.Int32(),
        "launch_start_ns": pl.Int64(),
        "first_lead_ns": pl.Int64(),
        "first_api_ns": pl.Int64(),
        "first_overhead_ns": pl.Int64(),
        "later_lead_p50_ns": pl.Int64(),
        "later_api_p50_ns": pl.Int64(),
        "excess_ns": pl.Int64(),
    }
)


def first_calls(trace: Trace, window: Window | None = None) -> pl.DataFrame:
    """The first launch in the window of every name, beside the later ones: one row per device, table and name.

    By excess, most first, then by time. ``api_id``, ``callpath_id``, ``launch_start_ns``, ``first_lead_ns``,
    ``first_api_ns`` and ``first_overhead_ns`` are of the first launch (`launch_stages`); ``later_lead_p50_ns`` and
    ``later_api_p50_ns`` are medians (nearest rank) of the others. ``excess_ns``: (first lead + first API) − (later
    lead + later API), of the parts that are known on both sides; it may be negative.

    A kernel's first launch in a trace that began after the warm-up is a launch like all others, and its excess says
    so. Null: later values and excess of a name that was launched once; unknown stages. Raises `AnalysisError` for an
    impossible window.
    """
    stages = launch_stages(trace, window)
    keys = ["device_id", "table", "name"]
    first = stages.filter(pl.col("first")).select(
        *keys,
        "api_id",
        "callpath_id",
        "launch_start_ns",
        first_lead_ns="lead_ns",
        first_api_ns="api_ns",
        first_overhead_ns="overhead_ns",
    )
    later = stages.filter(~pl.col("first")).select(*keys, "lead_ns", "api_ns")
    medians = later.group_by(keys).agg(
        later_lead_p50_ns=_median("lead_ns"), later_api_p50_ns=_median("api_ns"), others=pl.len().cast(pl.Int64)
    )
    table = first.join(medians, on=keys, how="left", maintain_order="left")
    lead = pl.col("first_lead_ns") - pl.col("later_lead_p50_ns")
    api = pl.col("first_api_ns") - pl.col("later_api_p50_ns")
    excess = pl.when(lead.is_not_null() | api.is_not_null()).then(lead.fill_null(0) + api.fill_null(0))
    table = table.with_columns(launches=pl.col("others").fill_null(0) + 1, excess_ns=excess)
    table = table.sort(
        pl.col("excess_ns"), pl.col("launch_start_ns"), "api_id", descending=[True, False, False], nulls_last=True
    )
    return table.select(SCHEMA.names()).cast(SCHEMA)


def _median(column: str) -> pl.Expr:
    """The value at place ceil(n / 2) of the sorted known values. Exact: ns of a duration fit in a float's 53 bits."""
    return pl.col(column).quantile(0.5, interpolation="lower").cast(pl.Int64)
