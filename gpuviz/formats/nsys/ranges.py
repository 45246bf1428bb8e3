"""NVTX: ranges and marks. They are lanes of their own, never levels of the call tree.

Push and pop nest within a thread. Start and end may lie on two threads and promise no nesting, so such a range lies on
no thread and has no parent. A mark has no length.
"""

from __future__ import annotations

import polars as pl

from gpuviz.formats.kineto.tables import conform
from gpuviz.formats.nsys.calls import nest_lanes
from gpuviz.formats.nsys.hosts import Hosts
from gpuviz.formats.nsys.layout import column
from gpuviz.formats.nsys.lookup import Names
from gpuviz.model.diagnostics import Diagnostics

# ENUM_NSYS_EVENT_TYPE. From 64 on the same for NVTX events that other programs have written into text files.
PUSH_POP, START_END, MARKS = (59, 70), (60, 71), (34, 65)
_CATEGORY, _THREAD_NAME, _DOMAIN = (33, 64), (39, 72), (75,)
_SAID_ELSEWHERE = (*_CATEGORY, *_THREAD_NAME, *_DOMAIN, 73, 74, 76)


def nvtx_texts(table: pl.DataFrame, names: Names) -> pl.Series:
    """The text of each row: inline, or registered beforehand and named by its id."""
    inline = column(table, "text", pl.String())
    registered = column(table, "textId")
    if registered.null_count() == len(registered):
        return inline.cast(pl.Categorical())
    by_id = names.known(registered.set(inline.is_not_null(), None), "text")
    return inline.cast(pl.Categorical()).zip_with(inline.is_not_null(), by_id)


def nvtx_ranges(table: pl.DataFrame, texts: pl.Series, hosts: Hosts, diagnostics: Diagnostics) -> pl.DataFrame:
    """The rows of `ranges`, with `lane` and the times of the export."""
    event_type = table["eventType"]
    wanted = event_type.is_in([*PUSH_POP, *START_END, *MARKS]).fill_null(False)
    others = event_type.filter(~(wanted | event_type.is_in(_SAID_ELSEWHERE).fill_null(False)))
    kinds = ", ".join(map(str, others.unique(maintain_order=True).to_list()[:5]))
    diagnostics.add("record_kind_ignored", len(others), f"NVTX_EVENTS of the types {kinds}")
    domains = _domains(table, texts)
    rows = pl.DataFrame(
        {
            "name": texts,
            "start_ns": table["start"],
            "end_ns": column(table, "end"),
            "event_type": event_type,
            "thread_id": hosts.thread_of(column(table, "globalTid")),
            "domain": domains,
        }
    ).filter(wanted)
    is_mark, is_free = pl.col("event_type").is_in(MARKS), pl.col("event_type").is_in(START_END)
    unnamed = rows["name"].null_count()
    diagnostics.add("name_unknown", unnamed, "NVTX ranges without a text")
    return rows.with_columns(
        name=pl.col("name").fill_null(pl.lit("unnamed", dtype=pl.Categorical())),
        end_ns=pl.when(is_mark).then("start_ns").otherwise("end_ns"),
        kind=pl.when(is_mark).then(pl.lit("mark")).otherwise(pl.lit("nvtx")),
        thread_id=pl.when(~is_free).then("thread_id"),
        is_free=is_free,
    ).drop("event_type")


def _domains(table: pl.DataFrame, texts: pl.Series) -> pl.Series:
    """``domain``, ``domain: category`` or ``category`` of each row; null for the default domain without a category.

    Rows of the types 75 and 33 name both; their numbers count within one process.
    """
    rows = pl.DataFrame(
        {
            "process": _process(column(table, "globalTid")),
            "domain": column(table, "domainId").fill_null(0),
            "category": column(table, "category").fill_null(0),
        }
    )
    if rows.select(((pl.col("domain") == 0) & (pl.col("category") == 0)).all()).item():
        return pl.Series([None], dtype=pl.Categorical()).new_from_index(0, table.height)
    key = ("process", "domain", "category")
    says = table["eventType"].is_in([*_CATEGORY, *_DOMAIN]).fill_null(False)
    facts = rows.with_columns(type=table["eventType"], text=texts).filter(says).cast({"text": pl.String})
    named_domains: dict[tuple[int, int], str] = {}
    named_categories: dict[tuple[int, int, int], str] = {}
    for process, domain, category, event_type, text in facts.iter_rows():
        if event_type in _DOMAIN:
            named_domains[process, domain] = text
        else:
            named_categories[process, domain, category] = text
    distinct = rows.select(key).unique(maintain_order=True)
    labels = []
    for process, domain, category in distinct.iter_rows():
        parts = [named_domains.get((process, domain)) or f"domain {domain}"] if domain else []
        parts += [named_categories.get((process, domain, category)) or f"category {category}"] if category else []
        labels.append(": ".join(parts) or None)
    found = distinct.with_columns(pl.Series("label", labels, dtype=pl.Categorical()))
    return rows.select(key).join(found, on=key, how="left", nulls_equal=True, maintain_order="left")["label"]


def _process(ids: pl.Series) -> pl.Series:
    """The global id without its thread; exact, also for negative ids."""
    return ids // (1 << 24)


def range_table(rows: pl.DataFrame, end_ns: int) -> pl.DataFrame:
    """The table `ranges`; `rows` with timing, sorted."""
    lane = pl.when("is_free").then(pl.lit(0)).otherwise(pl.col("thread_id").cast(pl.Int64) + 1).fill_null(0)
    nested = nest_lanes(
        rows.select("start_ns", "end_ns", "timing", lane=lane.cast(pl.Int64), rank=pl.lit(0, dtype=pl.Int64)), end_ns
    )
    parent = pl.Series(nested.parent)
    table = rows.with_columns(
        range_id=pl.int_range(pl.len()),
        parent_id=parent.set(pl.Series(nested.parent < 0) | rows["is_free"], None),
        depth=pl.Series(nested.depth),
    )
    return conform("ranges", table)
