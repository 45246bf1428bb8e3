"""Which times are usable, and where time zero lies.

A record without usable times keeps its row. What counts as unusable:

- no start; a negative duration; a GPU record of time 0 and duration 0, which is CUPTI's "no timing";
- an end that lies further after the last start in the file than an hour, and than ten times the span of all starts
  (unsigned durations that ran over are centuries long; pytorch/kineto#1381 shows one of 15 days);
- a start on the GPU more than a day away from everything on the host, as long as most of the GPU records are not:
  then the clocks differ, and no record is to blame.

The last two are wide on purpose: a row that is called absurd must be so beyond doubt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from gpuviz.formats.kineto.numbers import LIMIT_NS
from gpuviz.model import schema
from gpuviz.model.diagnostics import Diagnostics

_SECOND_NS = 1_000_000_000
_HOUR_NS = 3600 * _SECOND_NS
_DAY_NS = 24 * _HOUR_NS
_SPANS = 10
_EPOCH_NS = (978_307_200 * _SECOND_NS, 4_102_444_800 * _SECOND_NS)
"""The years 2001 to 2100: times in there are counted since 1970, no clock since boot gets that far."""
_TIMING = pl.Enum(schema.TIMINGS)

# Why a row is not usable: code and condition, the first that holds counts.
_REASONS = {
    "time_missing": pl.col("start_ns").is_null(),
    "time_not_recorded": pl.col("is_gpu") & (pl.col("start_ns") == 0) & (pl.col("dur_ns").fill_null(0) == 0),
    "duration_negative": pl.col("dur_ns") < 0,
    "duration_missing": pl.col("dur_ns").is_null(),
}


@dataclass(frozen=True)
class Timeline:
    """Tables whose times count from t0: start_ns, end_ns, timing instead of dur_ns; sorted."""

    tables: Mapping[str, pl.DataFrame]
    t0_ns: int | None
    """Time zero on the file's own clock; None where no row has a usable time."""
    end_ns: int


def set_times(tables: Mapping[str, pl.DataFrame], gpu: frozenset[str], diagnostics: Diagnostics) -> Timeline:
    """Judge the times of all rows (start_ns on the file's clock, dur_ns) and count from the first usable start."""
    judged = {name: _judge(table, name in gpu) for name, table in tables.items()}
    judged = _judge_starts(judged, gpu)
    judged = _judge_ends(judged)
    _report(judged, diagnostics)
    usable = pl.concat(
        [table.filter(pl.col("timing") != "invalid").select("start_ns", "end_ns") for table in judged.values()]
    )
    first = usable["start_ns"].min()
    t0 = first if isinstance(first, int) else None
    last = usable.select(pl.max_horizontal(pl.col("end_ns").max(), pl.col("start_ns").max())).item()
    end_ns = 0 if t0 is None else last - t0
    return Timeline({name: _rebase(table, t0 or 0) for name, table in judged.items()}, t0, end_ns)


def _judge(table: pl.DataFrame, is_gpu: bool) -> pl.DataFrame:
    table = table.with_columns(
        pl.when(pl.col("start_ns").abs() < LIMIT_NS).then("start_ns"), pl.lit(is_gpu).alias("is_gpu")
    )
    reason = pl.coalesce(pl.when(condition).then(pl.lit(code)) for code, condition in _REASONS.items())
    return table.with_columns(
        reason.alias("reason"), (pl.col("start_ns") + pl.col("dur_ns")).alias("end_ns")
    ).with_columns(
        _timing(),
        # Half of an interval is kept where it is known, but 0 is no time at all, and an end before the start is none.
        pl.when(pl.col("reason").ne_missing("time_not_recorded")).then("start_ns"),
        pl.when(pl.col("reason").is_null()).then("end_ns"),
    )


def _timing() -> pl.Expr:
    reason = pl.col("reason")
    timing = pl.when(reason.is_null()).then(pl.lit("ok")).when(reason == "duration_missing").then(pl.lit("open"))
    return timing.otherwise(pl.lit("invalid")).cast(_TIMING).alias("timing")


def _starts(table: pl.DataFrame) -> pl.Series:
    return table.filter(pl.col("timing") != "invalid")["start_ns"]


def _judge_starts(tables: dict[str, pl.DataFrame], gpu: frozenset[str]) -> dict[str, pl.DataFrame]:
    host = pl.concat([_starts(table) for name, table in tables.items() if name not in gpu])
    on_gpu = pl.concat([_starts(table) for name, table in tables.items() if name in gpu])
    first, last = host.min(), host.max()
    if not isinstance(first, int) or not isinstance(last, int):
        return tables
    near = pl.col("start_ns").is_between(first - _DAY_NS, last + _DAY_NS)
    if 2 * on_gpu.is_between(first - _DAY_NS, last + _DAY_NS).sum() <= len(on_gpu):
        return tables
    absurd = ~near & (pl.col("timing") != "invalid")
    return {name: _mark(table, absurd, "start_absurd") if name in gpu else table for name, table in tables.items()}


def _judge_ends(tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    starts = pl.concat([_starts(table) for table in tables.values()])
    first, last = starts.min(), starts.max()
    if not isinstance(first, int) or not isinstance(last, int):
        return tables
    latest = min(last + max(_SPANS * (last - first), _HOUR_NS), 2**63 - 1)
    return {name: _mark(table, pl.col("end_ns") > latest, "end_absurd") for name, table in tables.items()}


def _mark(table: pl.DataFrame, absurd: pl.Expr, code: str) -> pl.DataFrame:
    start = pl.when(absurd).then(None).otherwise("start_ns") if code == "start_absurd" else pl.col("start_ns")
    return table.with_columns(
        pl.when(absurd).then(pl.lit(code)).otherwise("reason").alias("reason"),
        pl.when(absurd).then(pl.lit("invalid", dtype=_TIMING)).otherwise("timing").alias("timing"),
        start.alias("start_ns"),
        pl.when(absurd).then(None).otherwise("end_ns").alias("end_ns"),
    )


def _report(tables: Mapping[str, pl.DataFrame], diagnostics: Diagnostics) -> None:
    for table in tables.values():
        cases = table.drop_nulls("reason").group_by("reason", maintain_order=True).agg(pl.len(), pl.col("name").first())
        for code, count, name in cases.iter_rows():
            diagnostics.add(code, count, f"{name!r:.80}")


def _rebase(table: pl.DataFrame, t0: int) -> pl.DataFrame:
    return (
        table.with_columns(pl.col("start_ns", "end_ns") - t0)
        .drop("reason", "is_gpu", "dur_ns")
        .sort("start_ns", "end_ns", descending=[False, True], nulls_last=True, maintain_order=True)
    )


def unix_time(t0_ns: int, base_ns: int | None) -> int | None:
    """The wall-clock time of time zero: by the file's base, or because its times are plainly counted since 1970."""
    if base_ns is not None:
        return base_ns + t0_ns
    return t0_ns if _EPOCH_NS[0] <= t0_ns < _EPOCH_NS[1] else None


def report_unpadded_digits(times: list[object], diagnostics: Diagnostics) -> None:
    """Builds of 2024-03-18 to 04-03 wrote 47 ns as ``.47`` (pytorch/kineto#896): then no fraction begins with 0."""
    fractions = pl.Series(
        [text.partition(".")[2] for text in times if isinstance(text, str) and "." in text], dtype=pl.String
    )
    short = fractions.str.len_bytes() < 3
    padded = fractions.str.contains(r"^0\d")
    if len(fractions) >= 100 and not padded.any() and 20 * short.sum() > len(fractions):
        diagnostics.add(
            "sub_microsecond_digits_doubtful",
            len(fractions),
            f"fractions such as .{fractions.filter(short)[0]}",
        )
