"""Which API call launched which GPU work: by correlation id, per process, one to many.

0, -1 and absent never join. Of several API calls with one id (cudaLaunchKernelExC around cuLaunchKernelEx), the outer
one is the launch. Correlation ids are counted per process: in a file of several processes a link is made only where
one process alone can have launched the work.
"""

from __future__ import annotations

import polars as pl

from gpuviz.model.diagnostics import Diagnostics

LINKED = "linked"
BEFORE_THE_WINDOW = "launched before the window"
NO_RECORD = "no host record"
AMBIGUOUS = "several possible launches"
ORPHANS = (BEFORE_THE_WINDOW, NO_RECORD, AMBIGUOUS)

_NEVER_JOIN = (0, -1)
_FEWER = 2
"""A replay with fewer than 1/2 of the records of the fullest replay of its graph is short of records."""


def launches(api: pl.DataFrame) -> pl.DataFrame:
    """The launch of each (process_id, correlation_id): the outermost call, as launch (its row) and launch_ns."""
    return (
        api.filter(~pl.col("correlation_id").is_in(_NEVER_JOIN))
        .sort("start_ns", "level", nulls_last=True, maintain_order=True)
        .unique(["process_id", "correlation_id"], keep="first", maintain_order=True)
        .select("process_id", "correlation_id", launch="api_id", launch_ns="start_ns")
    )


def link(rows: pl.DataFrame, launches: pl.DataFrame, processes: int) -> pl.DataFrame:
    """`rows` (correlation_id, device_id) with launch, launch_ns and how: linked, or one of ORPHANS but the first."""
    rows = rows.with_row_index("row")
    pairs = rows.select("row", "correlation_id", "device_id").join(launches, on="correlation_id")
    certain = _certain(pairs) if processes > 1 else pairs
    doubtful = pairs["row"].unique().implode()
    how = (
        pl.when(pl.col("launch").is_not_null())
        .then(pl.lit(LINKED))
        .when(pl.col("row").is_in(doubtful))
        .then(pl.lit(AMBIGUOUS))
        .otherwise(pl.lit(NO_RECORD))
    )
    found = certain.select("row", "launch", "launch_ns")
    return rows.join(found, on="row", how="left", maintain_order="left").with_columns(how.alias("how")).drop("row")


def _certain(pairs: pl.DataFrame) -> pl.DataFrame:
    """The pairs without an alternative. They tie devices to processes, which decides some of the others."""
    pairs = pairs.with_columns((pl.len().over("row") == 1).alias("only"))
    owner = pl.col("process_id").unique()
    owners = pairs.filter("only").group_by("device_id").agg(owner.len().alias("owners"), owner.first().alias("owner"))
    owners = owners.filter(owners=1).select("device_id", "owner")
    pairs = pairs.join(owners, on="device_id", how="left", maintain_order="left")
    return pairs.filter(pl.col("only") | (pl.col("owner") == pl.col("process_id")).fill_null(False))


def before_the_window(gpu: pl.DataFrame, api: pl.DataFrame) -> pl.DataFrame:
    """Tell apart, among the work without a record, what was launched before the recording began.

    Work that starts before the first recorded API call was launched earlier still. So was work with a smaller
    correlation id than any recorded call, because a process counts them upwards.
    """
    first_ns = api["start_ns"].min()
    smallest = api.filter(pl.col("correlation_id") > 0)["correlation_id"].min()
    earlier = (pl.col("start_ns") < first_ns) if first_ns is not None else pl.lit(False)
    smaller = pl.col("correlation_id").is_between(1, smallest, closed="left") if smallest is not None else pl.lit(False)
    before = (pl.col("how") == NO_RECORD) & (earlier.fill_null(False) | smaller.fill_null(False))
    return gpu.with_columns(pl.when(before).then(pl.lit(BEFORE_THE_WINDOW)).otherwise("how").alias("how"))


def report_links(gpu: pl.DataFrame, diagnostics: Diagnostics) -> None:
    """Count the work without a launch, and the work that starts before its launch."""
    codes = {
        BEFORE_THE_WINDOW: "launched_before_window",
        NO_RECORD: "launch_missing",
        AMBIGUOUS: "launch_ambiguous",
    }
    for how, code in codes.items():
        _count(gpu.filter(how=how), code, diagnostics)
    _count(gpu.filter(pl.col("start_ns") < pl.col("launch_ns"), timing="ok"), "kernel_before_launch", diagnostics)


def _count(rows: pl.DataFrame, code: str, diagnostics: Diagnostics) -> None:
    if rows.height:
        name, correlation = rows.row(0, named=True)["name"], rows["correlation_id"][0]
        diagnostics.add(code, rows.height, f"{name!r:.80}, correlation {correlation}")


def report_graph_replays(gpu: pl.DataFrame, api: pl.DataFrame, diagnostics: Diagnostics) -> None:
    """Count graph launches with no records, or far fewer than another replay of the same graph has."""
    is_replay = pl.col("name").str.contains("GraphLaunch")
    replays = api.filter(is_replay & pl.col("parent_api_id").is_null()).select(launch="api_id", call="name")
    if not replays.height:
        return
    records = gpu.group_by("launch").agg(pl.len().alias("records"), pl.col("graph_id").drop_nulls().first())
    replays = replays.join(records, on="launch", how="left").with_columns(pl.col("records").fill_null(0))
    fullest = pl.col("records").max().over("graph_id")
    short = (pl.col("records") == 0) | (pl.col("graph_id").is_not_null() & (_FEWER * pl.col("records") < fullest))
    bad = replays.filter(short)
    example = f"{bad.height} of {replays.height} graph replays have no or too few records of their kernels"
    diagnostics.add("graph_replay_without_kernels", bad.height, example)
