"""The same facts as text; no Bokeh."""

from __future__ import annotations

import polars as pl

from gpuviz.analysis import device_time, top_kernels
from gpuviz.model import Trace
from gpuviz.view.wording import count_text, duration_text, share_text


def headline(trace: Trace) -> list[str]:
    """One sentence per device, and one on what was lost or cannot be known."""
    lines = []
    for row in device_time(trace).iter_rows(named=True):
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
    rows = top_kernels(trace, limit=limit)
    return [
        f"{row['name']}: {duration_text(row['total_ns'])} in {row['activities']:,} "
        f"({share_text(row['share'], 1)} of the summed GPU time), p50 {duration_text(row['p50_ns'])}"
        for row in rows.iter_rows(named=True)
    ]


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
    return "\n".join(lines)


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
