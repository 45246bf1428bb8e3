"""The same facts as text; no Bokeh."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import polars as pl

from gpuviz.analysis import device_time, top_kernels
from gpuviz.analysis.by_line import by_line
from gpuviz.analysis.by_range import by_step
from gpuviz.analysis.findings import RULES, explain, findings
from gpuviz.analysis.findings.facts import place_text
from gpuviz.errors import AnalysisError
from gpuviz.model import Trace, Window
from gpuviz.view.wording import count_text, duration_text, printable, share_text


def headline(trace: Trace, window: Window | None = None) -> list[str]:
    """One sentence per device, and one on what was lost or cannot be known."""
    lines = []
    for row in device_time(trace, window).iter_rows(named=True):
        if row["busy_ns"] is None:
            lines.append(f"GPU {row['ordinal']}: no GPU work was recorded; its times are unknown.")
            continue
        span = row["span_ns"]
        doubt = "" if row["reliable"] else " (unreliable: graph replays lack kernel records)"
        busy, compute, hidden, exposed, idle = (
            duration_text(row[f"{name}_ns"]) for name in ("busy", "kernel", "hidden_copy", "exposed_copy", "idle")
        )
        lines.append(
            f"GPU {row['ordinal']}: busy {busy} of {duration_text(span)} ({share_text(row['busy_ns'], span)}){doubt}; "
            f"compute {compute}, hidden copy {hidden}, exposed copy {exposed}, idle {idle}."
        )
    if not lines:
        lines.append("No GPU was recorded; GPU times are unknown.")
    notes = trace.diagnostics
    if notes.height:
        lines.append(
            f"{count_text(notes.height, 'note')}: "
            + ", ".join(f"{c} ({n:,})" for c, n in notes.select("code", "count").iter_rows())
            + "."
        )
    return lines


def top_lines(trace: Trace, limit: int) -> list[str]:
    """The names with the most GPU time, one line each."""
    return [_kernel_line(row) for row in top_kernels(trace, limit=limit).iter_rows(named=True)]


def _kernel_line(row: Mapping[str, Any]) -> str:
    return (
        f"{printable(row['name'], LONGEST_NAME)}: {duration_text(row['total_ns'])} in {row['activities']:,} "
        f"({share_text(row['share'], 1)} of the summed GPU time), p50 {duration_text(row['p50_ns'])}"
    )


def text_report(trace: Trace) -> str:
    """What `gpuviz info` prints: the capture, the devices, the main kernels, the notes."""
    meta = trace.meta
    lines = [f"{meta.title}{' (modelled)' if meta.modelled else ''}"]
    lines += [f"  source   {meta.source or 'this process'}", f"  length   {duration_text(meta.end_ns)}"]
    counts = [f"{trace.table(name).height:,} {name}" for name in _COUNTED if trace.table(name).height]
    lines += [f"  tables   {', '.join(counts) or 'empty'}", ""]
    lines += [f"  {line}" for line in headline(trace)]
    top = top_lines(trace, 10)
    if top:
        lines += ["", "  most GPU time:"] + [f"    {line}" for line in top]
    if trace.diagnostics.height:
        lines += ["", "  notes:"]
        columns = trace.diagnostics.select("code", "count", "effect", pl.col("first_example").fill_null(""))
        lines += [f"    {c} × {n:,}: {e}{f' (first: {x})' if x else ''}" for c, n, e, x in columns.iter_rows()]
    return "\n".join(printable(line) for line in lines)


MOST = 10
"""Rows of a list in a report."""

LONGEST_NAME = 100
"""Characters of a kernel's name in a report for people; templates run to thousands."""


def report(trace: Trace, window: Window | None = None, *, format: str = "text") -> str:  # noqa: A002
    """What happened and what to do about it: findings with their evidence, devices, kernels, lines, steps, notes.

    `format` is ``text``, ``markdown`` (for an issue or a wiki), or ``json`` (for machines: the same facts, numbers in
    the units of their names, ``rules`` with the answer of every rule). Raises `AnalysisError` for another format and
    for an impossible window.
    """
    if format not in _FORMATS:
        raise AnalysisError(f"A report as {format!r} was asked for; it comes as {', '.join(_FORMATS)}.")
    return _FORMATS[format](_facts(trace, window))


def _facts(trace: Trace, window: Window | None) -> dict[str, Any]:
    meta = trace.meta
    found = findings(trace, window)
    lines = [
        {"place": place_text(trace, row) if row["line"] is not None else None} | row
        for row in by_line(trace, window).head(MOST).iter_rows(named=True)
    ]
    return {
        "title": meta.title,
        "source": meta.source,
        "modelled": meta.modelled,
        "end_ns": meta.end_ns,
        "window": list(window or meta.window or []) or None,
        "rows": {name: trace.table(name).height for name in _COUNTED if trace.table(name).height},
        "headline": headline(trace, window),
        "device_time": device_time(trace, window).to_dicts(),
        "rules": _answers(found),
        "findings": found.to_dicts(),
        "top_kernels": top_kernels(trace, window, limit=MOST).to_dicts(),
        "lines": lines,
        "steps": by_step(trace, window).drop_nulls("range_id").to_dicts(),
        "diagnostics": trace.diagnostics.to_dicts(),
    }


def _answers(found: pl.DataFrame) -> dict[str, str]:
    """Every rule and what it said: found, warning, abstained, or nothing (it looked and found nothing)."""
    said = dict(found.select(pl.col("rule", "status").cast(pl.String)).reverse().iter_rows())
    return {name: said.get(name, "nothing") for name in RULES}


def _as_json(facts: Mapping[str, Any]) -> str:
    return json.dumps(facts, indent=2, default=str)


def _as_text(facts: Mapping[str, Any]) -> str:
    blocks = [[_title(facts), *(f"  {line}" for line in facts["headline"])]]
    judged = [row for row in facts["findings"] if row["status"] != "abstained"]
    told = [f"{number}. {explain(row)}".replace("\n", "\n   ") for number, row in enumerate(judged, 1)]
    blocks.append(["Findings", *(told or ["  none"])])
    for title, rows in _lists(facts):
        blocks.append([title, *(f"  {row}" for row in rows)])
    return "\n\n".join("\n".join(block) for block in blocks)


def _as_markdown(facts: Mapping[str, Any]) -> str:
    blocks = [[f"# {_escaped(_title(facts))}", "", *_bullets(facts["headline"])]]
    for row in facts["findings"]:
        if row["status"] != "abstained":
            sentence, *others = explain(row).splitlines()
            details = [line.strip().split(maxsplit=1) for line in others]
            blocks.append([f"## {_escaped(sentence)}", "", *(f"- {name}: {_escaped(text)}" for name, text in details)])
    blocks += [[f"## {title}", "", *_bullets(rows)] for title, rows in _lists(facts)]
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _title(facts: Mapping[str, Any]) -> str:
    return f"{printable(facts['title'])}{' (modelled)' if facts['modelled'] else ''}"


def _bullets(rows: list[str]) -> list[str]:
    return [f"- {_escaped(row)}" for row in rows]


def _escaped(text: str) -> str:
    """Text that Markdown shows as it is: names of kernels are full of marks."""
    for mark in "\\`*_<>|":
        text = text.replace(mark, f"\\{mark}")
    return text


def _lists(facts: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """The lists of a report that have rows, as (title, rows)."""
    clear = [name for name, said in facts["rules"].items() if said == "nothing"]
    lists = [
        ("Most GPU time", [_kernel_line(row) for row in facts["top_kernels"]]),
        ("Lines", [_place_line(row) for row in facts["lines"] if row["place"] is not None]),
        ("Steps", [_step_line(row) for row in facts["steps"][:MOST]]),
        ("Not judged", _not_judged(facts["findings"])),
        ("Looked for and not found", [", ".join(clear)] if clear else []),
        ("Notes", [f"{row['code']} × {row['count']:,}: {row['effect']}" for row in facts["diagnostics"]]),
    ]
    return [(title, [printable(row) for row in rows]) for title, rows in lists if rows]


def _not_judged(findings: Iterable[Mapping[str, Any]]) -> list[str]:
    """One line per missing piece of data, with the rules that wanted it."""
    rules: dict[str, list[str]] = {}
    for row in findings:
        if row["status"] == "abstained":
            reason = row["sentence"].rstrip(".").rpartition(": ")[2]
            rules.setdefault(reason, []).append(row["rule"])
    return [f"{reason}: {', '.join(names)}" for reason, names in rules.items()]


def _place_line(row: Mapping[str, Any]) -> str:
    launches = count_text(row["launches"], "launch", "launches")
    return (
        f"{row['place']}: {duration_text(row['gpu_ns'])} of GPU time in {launches}, "
        f"{share_text(row['share'], 1)} of the busy time, exposed copies {duration_text(row['exposed_copy_ns'])}"
    )


def _step_line(row: Mapping[str, Any]) -> str:
    launches = count_text(row["launches"], "launch", "launches")
    return (
        f"{row['name']}: {duration_text(row['end_ns'] - row['start_ns'])}, {duration_text(row['gpu_ns'])} of GPU time "
        f"in {launches}, exposed copies {duration_text(row['exposed_copy_ns'])}"
    )


_FORMATS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "text": _as_text,
    "markdown": _as_markdown,
    "json": _as_json,
}

_COUNTED = (
    "kernels",
    "memcpys",
    "memsets",
    "graph_runs",
    "api_calls",
    "host_calls",
    "syncs",
    "ranges",
    "counters",
)
