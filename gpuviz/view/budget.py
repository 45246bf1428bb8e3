"""Keep one output small: what a trace with too many intervals shows, and what it leaves out.

An output holds about `BOX_BUDGET` intervals exactly (some 1 MB). Beyond that the views show less and say so; the
tables of the trace stay whole.
"""

from __future__ import annotations

import polars as pl

from gpuviz.model import Trace, schema
from gpuviz.view.wording import duration_text

BOX_BUDGET = 300_000
_ACTIVITY_SHARE = 0.7
"""Of the budget at most this part goes to GPU activities, so that some of what launched them is left."""


def within_budget(trace: Trace, budget: int = BOX_BUDGET) -> tuple[Trace, str | None]:
    """The trace cut to the budget, and a sentence on what was left out (None when nothing was).

    Too many GPU activities: only the beginning of the trace, whole. Still too many intervals: the longest host calls
    only, so that GPU times stay exact and CPU times become lower bounds.
    """
    said: list[str] = []
    limit = int(budget * _ACTIVITY_SHARE)
    starts = trace.activities()["start_ns"].drop_nulls()
    if len(starts) > limit:
        cut = int(starts[limit])
        said.append(
            f"only the first {duration_text(cut)} of {duration_text(trace.meta.end_ns)} are shown "
            f"({limit:,} of {len(starts):,} GPU activities); use trace.window(start_ns, end_ns) for the rest"
        )
        end = max(cut, 1)
        trace = trace.window(0, end)
        for name in schema.ACTIVITY_TABLES:  # without what was only queued by then
            trace = trace.replace(meta=None, **{name: trace.table(name).filter(pl.col("start_ns") < end)})
    others = sum(trace.table(name).height for name in schema.INTERVAL_TABLES if name != "host_calls")
    room = max(budget - others, 0)
    calls = trace.host_calls
    if calls.height > room:
        longest = calls.select("host_call_id", (pl.col("end_ns") - pl.col("start_ns")).alias("length"))
        kept = longest.top_k(room, by="length")["host_call_id"] if room else longest["host_call_id"].clear()
        said.append(
            f"only the {room:,} longest of {calls.height:,} host calls are shown, so that CPU times and call counts "
            "are lower bounds; GPU times are exact"
        )
        trace = trace.replace(host_calls=calls.filter(pl.col("host_call_id").is_in(kept.implode())))
    return trace, "; ".join(said) or None
