"""Which API call launched which GPU work: by process and correlation id.

Correlation ids are counted per process, and the processes of one export share hundreds of them: joined by id alone,
work of one rank hangs below calls of another (`TL#577`: AMD-AGI/TraceLens#577). 0, -1 and absent never join. Of the
calls with one id the outermost is the launch: a runtime call and what it calls in the driver have one, and exports of
2022 write a call once more for its backtrace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from gpuviz.formats.kineto.links import AMBIGUOUS, BEFORE_THE_WINDOW, LINKED, NO_RECORD, report_links
from gpuviz.formats.kineto.links import link as link_by_device
from gpuviz.formats.nsys.gpus import NO_ID
from gpuviz.model.diagnostics import Diagnostics

ORPHANS = (BEFORE_THE_WINDOW, NO_RECORD, AMBIGUOUS)

_NEVER_JOIN = (0, -1, NO_ID)
_NO_ROW = -1
_ROOM, _ROOM_AT_LEAST = 8, 1 << 20
"""A table may have 8 places per row, and a million in any case."""
_HOW = pl.Enum((LINKED, *ORPHANS))
_HINT = "record again with nsys profile --cuda-graph-trace=node to see the kernels inside"


@dataclass(frozen=True)
class Launches:
    """The launch of each (process_id, correlation_id): the outermost call, the earliest of those."""

    api: pl.DataFrame
    rows: pl.DataFrame
    """Of the calls that can be a launch: process_id, correlation_id, launch (row of `api`), launch_ns."""

    @staticmethod
    def among(api: pl.DataFrame) -> Launches:
        """The launches among API calls (process_id, correlation_id, level, start_ns, api_id), sorted by start."""
        usable = api.filter(~pl.col("correlation_id").is_in(_NEVER_JOIN))
        columns = ("process_id", "correlation_id", pl.col("api_id").alias("launch"))
        rows = usable.select(*columns, pl.col("start_ns").alias("launch_ns"), "level")
        if (rows["level"] > 0).any():  # inner calls come later, whenever they start
            rows = rows.sort("level", maintain_order=True)
        return Launches(api, rows.drop("level"))

    def of(self, asked: pl.DataFrame) -> pl.Series:
        """The launch of each (process_id, correlation_id), null where there is none."""
        first, last = self.rows["correlation_id"].min(), self.rows["correlation_id"].max()
        processes = self.rows["process_id"].max()
        if not isinstance(first, int) or not isinstance(last, int) or not isinstance(processes, int):
            return pl.Series("launch", [None], dtype=pl.Int32).new_from_index(0, asked.height)
        width = last - first + 1
        if width * (processes + 1) > _ROOM * (self.rows.height + asked.height) + _ROOM_AT_LEAST:
            return self._joined(asked)
        # A process counts its ids upwards, so that a table with a place for each is small, and faster than a join.
        place = self.rows["process_id"].to_numpy().astype(np.int64) * width
        place += self.rows["correlation_id"].to_numpy() - first
        table = np.full(width * (processes + 1) + 1, _NO_ROW, dtype=np.int32)
        table[place[::-1]] = self.rows["launch"].to_numpy()[::-1]  # the last one written stays: the outermost
        can_join = (
            pl.col("correlation_id").is_between(first, last) & pl.col("process_id").is_between(0, processes)
        ).fill_null(False)
        wanted = pl.col("process_id").cast(pl.Int64) * width + (pl.col("correlation_id") - first)
        places = asked.select(pl.when(can_join).then(wanted).otherwise(len(table) - 1)).to_series().to_numpy()
        found = pl.Series("launch", table[places])
        return found.set(found == _NO_ROW, None)

    def _joined(self, asked: pl.DataFrame) -> pl.Series:
        """The same where ids lie too far apart for a table."""
        key = ["process_id", "correlation_id"]
        rows = self.rows.unique(key, keep="first", maintain_order=True)
        return asked.select(key).join(rows, on=key, how="left", maintain_order="left")["launch"]


def link(rows: pl.DataFrame, launches: Launches) -> pl.DataFrame:
    """`rows` (process_id, correlation_id, device_id, start_ns) with launch, launch_ns and how."""
    launch = launches.of(rows)
    found = rows.with_columns(launch, launches.api["start_ns"].gather(launch).alias("launch_ns"))
    if not launch.null_count():
        return found.with_columns(how=pl.lit(LINKED, dtype=_HOW))
    is_linked = pl.col("launch").is_not_null()
    how = pl.when(is_linked).then(pl.lit(LINKED, dtype=_HOW)).otherwise(pl.lit(NO_RECORD, dtype=_HOW))
    found = found.with_columns(how=how)
    homeless = found["process_id"].is_null() & found["correlation_id"].is_not_null()
    if homeless.any():
        found = _without_process(found, homeless, launches.rows)
    return _before_the_window(found, launches.api)


def _without_process(rows: pl.DataFrame, homeless: pl.Series, launches: pl.DataFrame) -> pl.DataFrame:
    """Work that does not say its process: only what one process alone can have launched is linked."""
    numbered = rows.with_row_index("order")
    known, unknown = numbered.filter(~homeless), numbered.filter(homeless)
    asked = unknown.drop("launch", "launch_ns", "how")
    distinct = launches.unique(["process_id", "correlation_id"], keep="first", maintain_order=True)
    answered = link_by_device(asked, distinct, distinct["process_id"].n_unique())
    answered = answered.with_columns(pl.col("how").cast(_HOW)).select(known.columns)
    return pl.concat([known, answered]).sort("order").drop("order")


def _before_the_window(rows: pl.DataFrame, api: pl.DataFrame) -> pl.DataFrame:
    """Tell apart, among the work without a record, what was launched before the recording began.

    Of each process: work that starts before its first recorded call, and work with a smaller correlation id than any
    of its calls, because a process counts them upwards.
    """
    firsts = api.group_by("process_id").agg(
        first_ns=pl.col("start_ns").min(),
        smallest=pl.col("correlation_id").filter(pl.col("correlation_id") > 0).min(),
    )
    firsts = pl.concat(
        [firsts, firsts.select(pl.lit(None, pl.Int32).alias("process_id"), pl.all().exclude("process_id").min())]
    )
    firsts = firsts.unique("process_id", keep="first")
    orphans = rows.join(firsts, on="process_id", how="left", nulls_equal=True, maintain_order="left")
    earlier = (pl.col("start_ns") < pl.col("first_ns")).fill_null(False)
    smaller = pl.col("correlation_id").is_between(1, pl.col("smallest") - 1).fill_null(False)
    before = (pl.col("how") == NO_RECORD) & (earlier | smaller)
    how = pl.when(before).then(pl.lit(BEFORE_THE_WINDOW, dtype=_HOW)).otherwise("how")
    return orphans.with_columns(how=how).drop("first_ns", "smallest")


def report(work: Mapping[str, pl.DataFrame], api: pl.DataFrame, mode: str | None, diagnostics: Diagnostics) -> None:
    """Count the work without a launch, the work that starts before its launch, and replays that lack their kernels."""
    for table in work.values():
        report_links(table, diagnostics)
    runs = work["graph_runs"].height
    is_replay = pl.col("name").cast(pl.String).str.contains("GraphLaunch")
    names = api.select(pl.col("name").unique()).filter(is_replay)
    replays = api.filter(pl.col("name").is_in(names["name"].implode()) & pl.col("parent_api_id").is_null())
    launched = pl.concat([table["launch"] for table in work.values()]).drop_nulls().unique()
    empty = replays.filter(~pl.col("api_id").is_in(launched.implode())).height
    if not runs + empty:
        return
    parts = [f"{runs} graph runs without their kernels"] if runs else []
    parts += [f"{empty} of {replays.height} graph launches without any record"] if empty else []
    recorded = f" (recorded with graph trace mode {mode})" if mode else ""
    diagnostics.add("graph_replay_without_kernels", runs + empty, f"{', '.join(parts)}{recorded}; {_HINT}")
