"""Idle time by HolisticTraceAnalysis' definition: the gaps between consecutive activities of one stream."""

from __future__ import annotations

import numpy as np
import polars as pl

from gpuviz.analysis.launches import launches
from gpuviz.analysis.selection import ints
from gpuviz.model import Trace, Window

HTA_CAUSES = ("host_wait", "kernel_wait", "other")


def idle_as_hta(trace: Trace, window: Window | None, kernel_delay_ns: int, columns: pl.Schema) -> pl.DataFrame:
    """The gap before each kernel, copy and fill that has one before it on its stream: one row each, by stream.

    Of the activities that start in the window and have a host record; HTA leaves the others out when it reads a
    file. The gap is start − end of the activity that started before it on the stream; it is negative where they
    overlap, and HTA adds it like that. Of HTA's three classes it is

    - ``host_wait`` where the launch (the start of the API call) lies after the end of the activity before it;
    - else ``kernel_wait`` where the gap is shorter than `kernel_delay_ns`;
    - else ``other``.

    HTA's default threshold is 30 of the file's unit, which is called nanoseconds in its documentation and is
    microseconds in its tables: 30 000 ns.
    """
    table = launches(trace, window).filter(pl.col("table") != "graph_runs", pl.col("api_id").is_not_null())
    table = table.sort("stream_id", "start_ns", maintain_order=True)
    stream, start, end = (ints(table[column]) for column in ("stream_id", "start_ns", "end_ns"))
    follows = np.flatnonzero(stream[1:] == stream[:-1]) + 1
    gap_start, gap_end = end[follows - 1], start[follows]
    launch = ints(table["launch_start_ns"])[follows]
    late = launch > gap_start
    short = gap_end - gap_start < kernel_delay_ns
    cause = np.where(late, 0, np.where(short, 1, 2))
    found = table[follows] if len(follows) else table.clear()
    rows = found.select(
        "device_id",
        "stream_id",
        start_ns=pl.Series(gap_start),
        end_ns=pl.Series(gap_end),
        duration_ns=pl.Series(gap_end - gap_start),
        cause=pl.Series(HTA_CAUSES, dtype=columns["cause"]).gather(cause),
        gap_start_ns=pl.Series(gap_start),
        gap_end_ns=pl.Series(gap_end),
    )
    absent = [pl.lit(None, dtype=dtype).alias(name) for name, dtype in columns.items() if name not in rows.columns]
    return rows.with_columns(absent).select(columns.names()).cast(columns)
