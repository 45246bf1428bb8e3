"""Which times are usable, and where time zero lies.

The rules are those for Kineto traces (`gpuviz.formats.kineto.times`): a row whose times cannot be right keeps its row
and says so. Exports hold millions of rows and hardly ever one such, so a few reductions first ask whether there is
any; only then is each row judged.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from gpuviz.formats.kineto.numbers import LIMIT_NS
from gpuviz.formats.kineto.times import Timeline
from gpuviz.formats.kineto.times import set_times as judge
from gpuviz.model import schema
from gpuviz.model.diagnostics import Diagnostics

_HOUR_NS = 3600 * 1_000_000_000


def set_times(tables: Mapping[str, pl.DataFrame], gpu: frozenset[str], diagnostics: Diagnostics) -> Timeline:
    """Tables with start_ns and end_ns on the clock of the export → times since the first, `timing`, sorted."""
    if not all(_is_clean(table, name in gpu) for name, table in tables.items()) or _is_far_apart(tables):
        with_durations = {name: _durations(table) for name, table in tables.items()}
        return judge(with_durations, gpu, diagnostics)
    starts = [table["start_ns"].min() for table in tables.values() if table.height]
    ends = [table["end_ns"].max() for table in tables.values() if table.height]
    if not starts:
        return Timeline({name: _rebased(table, 0) for name, table in tables.items()}, None, 0)
    first, last = min(map(_whole, starts)), max(map(_whole, ends))
    return Timeline({name: _rebased(table, first) for name, table in tables.items()}, first, last - first)


def _whole(value: object) -> int:
    assert isinstance(value, int)
    return value


def _durations(table: pl.DataFrame) -> pl.DataFrame:
    """As `judge` wants them; cut to what two can be subtracted from each other."""
    start, end = (pl.col(name).clip(-LIMIT_NS, LIMIT_NS) for name in ("start_ns", "end_ns"))
    return table.with_columns(start_ns=start, dur_ns=end - start).drop("end_ns")


def _is_clean(table: pl.DataFrame, is_gpu: bool) -> bool:
    """Whether each row has a start, and an end that is not before it."""
    start, end = pl.col("start_ns"), pl.col("end_ns")
    bad = [
        start.null_count() > 0,
        end.null_count() > 0,
        (end < start).any(),
        (start <= -LIMIT_NS).any(),
        (end >= LIMIT_NS).any(),
    ]
    if is_gpu:
        bad.append(((start == 0) & (end == 0)).any())
    return not table.select(pl.any_horizontal(bad)).item()


def _is_far_apart(tables: Mapping[str, pl.DataFrame]) -> bool:
    """Whether anything lies so far from everything else that its time may be absurd."""
    filled = [table for table in tables.values() if table.height]
    if not filled:
        return False
    first = min(_whole(table["start_ns"].min()) for table in filled)
    last = max(_whole(table["end_ns"].max()) for table in filled)
    return last - first > _HOUR_NS


def _rebased(table: pl.DataFrame, first: int) -> pl.DataFrame:
    timing = pl.lit("ok", dtype=pl.Enum(schema.TIMINGS))
    rebased = table.with_columns(pl.col("start_ns", "end_ns") - first, timing.alias("timing"))
    start, end = pl.col("start_ns"), pl.col("end_ns")
    out_of_order = (start.diff() < 0) | ((start.diff() == 0) & (end.diff() > 0))
    if not rebased.select(out_of_order.any()).item():
        return rebased
    return rebased.sort("start_ns", "end_ns", descending=[False, True], maintain_order=True)
