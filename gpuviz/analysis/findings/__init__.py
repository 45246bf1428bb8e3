"""Findings: patterns that cost time, each with evidence, formula, lines, advice, and what it does not know.

A rule is an entry in one of the files beside this one. It answers with findings, with nothing (it looked and found
nothing), or abstains because data is missing. Nothing is judged from incomplete data: where records were dropped or
lost, a warning says so and the rules abstain.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import polars as pl

from gpuviz.analysis.findings import completeness, exposed_copies, idle_time, kernels, waits
from gpuviz.analysis.findings.facts import Facts
from gpuviz.analysis.findings.rule import Abstain, Hit, Rule
from gpuviz.analysis.text import duration_text
from gpuviz.model import Trace, Window

STATUSES = ("warning", "found", "abstained")

_IN_ORDER = (completeness.RULE, *idle_time.RULES, *kernels.RULES, *exposed_copies.RULES, *waits.RULES)
RULES: Mapping[str, Rule] = MappingProxyType({rule.name: rule for rule in _IN_ORDER})
"""All rules by name."""

SCHEMA = pl.Schema(
    {
        "rule": pl.Enum(list(RULES)),
        "status": pl.Enum(STATUSES),
        "device_id": pl.Int32(),
        "share": pl.Float64(),
        "time_ns": pl.Int64(),
        "sentence": pl.String(),
        "lines": pl.List(pl.String()),
        "callpath_ids": pl.List(pl.Int32()),
        "evidence_table": pl.String(),
        "evidence_ids": pl.List(pl.Int32()),
        "start_ns": pl.Int64(),
        "end_ns": pl.Int64(),
        "formula": pl.String(),
        "advice": pl.String(),
        "limits": pl.String(),
    }
)


def findings(trace: Trace, window: Window | None = None) -> pl.DataFrame:
    """What costs time in the window: one row per finding, warnings first, then by share of the window.

    ``status``: ``found``; ``warning`` (the recording is not whole); ``abstained`` (``sentence`` says which data is
    missing). A rule of `RULES` without a row has looked and found nothing. ``share`` is ``time_ns`` over the device's
    window (without a window, from its first to its last activity), 0 to 1; findings overlap, so that shares do not add
    up. ``evidence_ids`` (at most ten thousand) are ids of rows of ``evidence_table``; ``start_ns`` to ``end_ns`` is
    where to look; ``lines`` and their ``callpath_ids`` come most time first. ``formula``, ``advice`` (what to try) and
    ``limits`` (what the finding does not know) are those of the rule; `explain` puts a row into words. Raises
    `AnalysisError` for an impossible window.
    """
    facts = Facts(trace, window)
    rows = [row for rule in RULES.values() for row in _ask(rule, facts)]
    table = pl.DataFrame(rows, schema=SCHEMA)
    return table.sort("status", "share", "rule", descending=[False, True, False], nulls_last=True, maintain_order=True)


def _ask(rule: Rule, facts: Facts) -> list[dict[str, Any]]:
    """The rows of one rule."""
    missing = [facts.missing[need] for need in rule.needs]
    reasons = [reason for reason in missing if reason is not None]
    if reasons:
        return [_abstained(rule, reasons[0])]
    status = "warning" if rule is completeness.RULE else "found"
    rows: list[dict[str, Any]] = []
    try:
        rows.extend(_found(rule, hit, status) for hit in rule.look(facts))
    except Abstain as reason:
        rows.append(_abstained(rule, str(reason)))
    return rows


def _found(rule: Rule, hit: Hit, status: str) -> dict[str, Any]:
    row = {name: getattr(hit, name) for name in SCHEMA if hasattr(hit, name)}
    lists = {name: list(row[name]) for name in ("lines", "callpath_ids", "evidence_ids")}
    return row | lists | rule.about() | {"status": status}


def _abstained(rule: Rule, reason: str) -> dict[str, Any]:
    nothing: dict[str, Any] = {"lines": [], "callpath_ids": [], "evidence_ids": []}
    return nothing | rule.about() | {"status": "abstained", "sentence": f"Not judged, {rule.title}: {reason}."}


def explain(finding: Mapping[str, Any] | pl.DataFrame) -> str:
    """One row of `findings` (as a mapping, or as a table of one row) in words, a fact per line."""
    row = finding.row(0, named=True) if isinstance(finding, pl.DataFrame) else finding
    lines: list[str] = [row["sentence"]]
    if row["status"] == "abstained":
        return lines[0]
    if row["start_ns"] is not None:
        lines.append(f"  when      {duration_text(row['start_ns'])} to {duration_text(row['end_ns'])}")
    if row["lines"]:
        lines.append(f"  lines     {', '.join(row['lines'])}")
    if row["evidence_ids"]:
        ids = row["evidence_ids"]
        some = ", ".join(str(one) for one in ids[:5])
        lines.append(f"  evidence  {len(ids):,} of {row['evidence_table']}: {some}{' …' if len(ids) > 5 else ''}")
    lines.append(f"  formula   {row['formula']}")
    lines.append(f"  try       {row['advice']}")
    lines.append(f"  unknown   {row['limits']}")
    return "\n".join(lines)


__all__ = ["RULES", "SCHEMA", "STATUSES", "explain", "findings"]
