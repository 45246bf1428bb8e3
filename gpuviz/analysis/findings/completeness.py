"""Warnings: what was lost, so that verdicts are not given or hold for a part only."""

from __future__ import annotations

from collections.abc import Iterator

from gpuviz.analysis.findings.facts import LOST, Facts
from gpuviz.analysis.findings.rule import Hit, Rule
from gpuviz.analysis.text import count_text
from gpuviz.model import schema

DOUBTS = (*LOST, "graph_replay_without_kernels", "out_of_range_records", "steps_missing")


def _look(facts: Facts) -> Iterator[Hit]:
    notes = facts.trace.diagnostics
    for code, count, effect in notes.select("code", "count", "effect").iter_rows():
        if code in DOUBTS:
            yield Hit(f"The recording is not whole: {code} × {count:,} ({effect}).")
    dropped = facts.trace.meta.dropped_records
    if dropped and "records_dropped" not in notes["code"]:
        yield Hit(f"The recording is not whole: {count_text(dropped, 'record')} were dropped.")
    for table in schema.ACTIVITY_TABLES:
        odd = int((facts.trace.table(table)["timing"] != "ok").sum())
        if odd:
            yield Hit(f"{count_text(odd, 'row')} of {table} have no usable times and are in no number.")


RULE = Rule(
    "incomplete_recording",
    "records that were dropped, lost or have no times",
    "diagnostics of the trace, and GPU records without usable times",
    "Record a shorter window, or fewer kinds of events, until nothing is lost.",
    "What the lost records were.",
    _look,
    needs=(),
)
