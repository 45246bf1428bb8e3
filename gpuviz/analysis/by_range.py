"""GPU work by the step, and by the named range, in which it was launched."""

from __future__ import annotations

import numpy as np
import polars as pl

from gpuviz.analysis.grouping import SUMS, Amounts
from gpuviz.analysis.intervals import Ints
from gpuviz.analysis.selection import counts, ints, starts_inside, usable
from gpuviz.analysis.work import containing, launch_places
from gpuviz.model import Trace, Window, schema

HOST_KINDS = ("step", "annotation", "nvtx", "region")
"""Kinds of ranges that a thread opens and closes around its work."""

STEP_SCHEMA = pl.Schema(
    {
        "range_id": pl.Int32(),
        "name": pl.Categorical(),
        "start_ns": pl.Int64(),
        "end_ns": pl.Int64(),
        **SUMS,
    }
)
RANGE_SCHEMA = pl.Schema(
    {
        "kind": pl.Enum(schema.RANGE_KINDS),
        "domain": pl.Categorical(),
        "name": pl.Categorical(),
        "ranges": pl.Int64(),
        **SUMS,
    }
)


def by_step(trace: Trace, window: Window | None = None) -> pl.DataFrame:
    """GPU work by step: one row per step that touches the window, by start, and one for work of no step.

    Work belongs to the step in which its *launch* begins, on whatever thread of the step's process: a kernel that a
    step launched runs late, often in the next one. The row with null ``range_id`` has the work that was launched in
    none of these steps, or whose launch is not known; it is there when there is such work, and in a trace without
    steps, where all of it is one step. ``start_ns``, ``end_ns`` are of the whole step. The other columns, and
    errors, as in `gpuviz.analysis.by_kernel`.
    """
    amounts = Amounts(trace, window)
    steps = _ranges(amounts, ("step",))
    process = np.append(ints(amounts.trace.threads["process_id"]), -1)
    launch = launch_places(amounts.work)
    lane = process[ints(steps["thread_id"])] if steps.height else np.empty(0, dtype=np.int64)
    found = containing(lane, ints(steps["start_ns"]), ints(steps["end_ns"]), process[launch.thread], launch.start)
    group = np.full(len(amounts.work.start), -1, dtype=np.int64)
    for level in found:
        group = np.where(level >= 0, level, group)
    group = np.where(group < 0, steps.height, group)
    if not amounts.recorded:
        return pl.DataFrame(schema=STEP_SCHEMA)
    keys = steps.select("range_id", "name", "start_ns", "end_ns")
    table = keys.select(pl.all().append(pl.lit(None))).with_columns(**amounts.sums(group, steps.height + 1))
    if steps.height and not (group == steps.height).any():
        table = table.head(steps.height)
    return table.select(STEP_SCHEMA.names()) if len(group) or steps.height else table.clear()


def by_range(trace: Trace, window: Window | None = None) -> pl.DataFrame:
    """GPU work by named range: one row per (kind, domain, name) of steps, annotations, NVTX ranges and regions.

    Work belongs to all ranges of the launching thread around the beginning of its launch, once to each (kind, domain,
    name): rows overlap where ranges nest, and do not add up to the whole. The row of null keys has the work that was
    launched in no range of the window, or whose launch is not known. ``ranges`` begin in the window. The other
    columns, and errors, as in `gpuviz.analysis.by_kernel`; no rows in a trace without such ranges.
    """
    amounts = Amounts(trace, window)
    ranges = _ranges(amounts, HOST_KINDS)
    if not ranges.height or not amounts.recorded:
        return pl.DataFrame(schema=RANGE_SCHEMA)
    keys = ranges.select("kind", "domain", "name").unique(maintain_order=True)
    numbered = keys.with_row_index("group")
    of_range = ints(
        ranges.join(numbered, on=keys.columns, how="left", nulls_equal=True, maintain_order="left")["group"]
    )
    launch = launch_places(amounts.work)
    start = ints(ranges["start_ns"])
    levels = containing(ints(ranges["thread_id"]), start, ints(ranges["end_ns"]), launch.thread, launch.start)
    groups = [np.where(level >= 0, of_range[level], -1) for level in levels]
    outside = np.all([group < 0 for group in groups], axis=0)
    groups.append(np.where(outside, keys.height, -1))
    summed = _sums_of_all(amounts, groups, keys.height + 1)
    begun = counts(of_range[starts_inside(start, amounts.work.window)], keys.height)
    table = keys.select(pl.all().append(pl.lit(None))).with_columns(
        ranges=pl.Series([*begun.tolist(), None], dtype=pl.Int64), **summed
    )
    table = table if outside.any() else table.head(keys.height)
    order = [pl.col("kind"), pl.col("domain").cast(pl.String), pl.col("name").cast(pl.String)]
    table = table.sort("gpu_ns", *order, descending=[True, False, False, False], nulls_last=True)
    return table.select(RANGE_SCHEMA.names())


def _ranges(amounts: Amounts, kinds: tuple[str, ...]) -> pl.DataFrame:
    """Usable ranges of these kinds on a thread, by start."""
    ranges = usable(amounts.trace.ranges)
    return ranges.filter(pl.col("kind").cast(pl.String).is_in(kinds) & pl.col("thread_id").is_not_null())


def _sums_of_all(amounts: Amounts, groups: list[Ints], height: int) -> dict[str, pl.Series]:
    """The sums of several groupings of the same work together, each activity once per group."""
    total: dict[str, pl.Series] = {}
    for place, group in enumerate(groups):
        for earlier in groups[:place]:
            group = np.where(group == earlier, -1, group)
        if place and not (group >= 0).any():
            continue
        for name, values in amounts.sums(group, height).items():
            total[name] = total[name] + values if name in total else values
    return total
