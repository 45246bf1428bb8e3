"""The picture that stands where scripts do not run: an SVG of the devices' time, and the main numbers as text."""

from __future__ import annotations

import base64
import html
from itertools import groupby

import numpy as np
import numpy.typing as npt
import polars as pl

from gpuviz.analysis.intervals import busy_before, union
from gpuviz.model import Trace
from gpuviz.view.report import headline, top_lines
from gpuviz.view.theme import LAYER_COLOURS
from gpuviz.view.wording import duration_text, printable

WIDTH = 960
_LEFT = 110
_LANE = 22
_BINS = 400
_KINDS = {
    "kernels": ("kernels", "kernel"),
    "graph_runs": ("graphs", "graph_run"),
    "memcpys": ("copies", "memcpy"),
    "memsets": ("fills", "memset"),
}


def escaped(text: str) -> str:
    """Text that stays text in HTML and SVG; control characters show as symbols."""
    return html.escape(printable(text))


def fallback_html(trace: Trace) -> str:
    """Picture and numbers of one trace, all of it escaped."""
    lines = "".join(f"<li>{escaped(line)}</li>" for line in [*headline(trace), *top_lines(trace, 5)])
    modelled = " <b>modelled</b>" if trace.meta.modelled else ""
    told = " ".join([*(["Modelled."] if trace.meta.modelled else []), *headline(trace)])
    # As an image, because JupyterLab takes inline SVG out of outputs that nobody trusts; images may stay.
    picture = base64.b64encode(summary_svg(trace).encode("utf-8")).decode("ascii")
    return (
        f'<div class="gpuviz-fallback"><p><b>{escaped(trace.meta.title)}</b>{modelled}</p>'
        f'<img src="data:image/svg+xml;base64,{picture}" alt="{escaped(told)}" style="width:100%">'
        f"<ul>{lines}</ul></div>"
    )


def summary_svg(trace: Trace) -> str:
    """Busy fraction over time, one lane per device and kind of work, as one SVG element."""
    lanes = _lanes(trace)
    height = _LANE * max(len(lanes), 1) + 30
    label = (
        ("modelled work over time" if trace.meta.modelled else "work over time") if lanes else "nothing was recorded"
    )
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="100%" role="img" '
        f'aria-label="{label}" font-family="Helvetica, Arial, sans-serif" font-size="12">'
    )
    parts = [opening, f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>']
    for index, (name, colour, busy) in enumerate(lanes):
        top = 4 + index * _LANE
        parts.append(f'<text x="{_LEFT - 8}" y="{top + 14}" text-anchor="end" fill="#222">{escaped(name)}</text>')
        parts.append(f'<path d="{_bars(busy, top)}" fill="{colour}"/>')
    if not lanes:
        parts.append(f'<text x="{_LEFT}" y="18" fill="#222">{label}</text>')
    bottom = height - 8
    parts.append(f'<text x="{_LEFT}" y="{bottom}" fill="#555">0</text>')
    if trace.meta.modelled:
        parts.append(f'<text x="{_LEFT - 8}" y="{bottom}" text-anchor="end" fill="#8A6100">modelled</text>')
    end = duration_text(trace.meta.end_ns)
    parts.append(f'<text x="{WIDTH}" y="{bottom}" text-anchor="end" fill="#555">{end}</text></svg>')
    return "".join(parts)


def _lanes(trace: Trace) -> list[tuple[str, str, npt.NDArray[np.float64]]]:
    """(label, colour, busy fraction per bin): the work of each device by kind, or the busiest threads without one."""
    lanes = []
    activities = trace.activities().filter(timing="ok")
    for device_id, ordinal in trace.devices.sort("ordinal").select("device_id", "ordinal").iter_rows():
        for table, (word, colour) in _KINDS.items():
            work = activities.filter(pl.col("table") == table, pl.col("device_id") == device_id)
            if work.height:
                lanes.append((f"GPU {ordinal} {word}", LAYER_COLOURS[colour], _busy_fraction(work, trace.meta.end_ns)))
    if not lanes:
        calls = trace.host_calls.filter(timing="ok").partition_by("thread_id", as_dict=True)
        names = dict(trace.threads.select("thread_id", "name").iter_rows())
        for (thread_id,), own in sorted(calls.items(), key=lambda item: -item[1].height)[:4]:
            colour = LAYER_COLOURS["host"]
            lanes.append((names.get(thread_id, "thread")[:18], colour, _busy_fraction(own, trace.meta.end_ns)))
    return lanes[:12]


def _busy_fraction(work: pl.DataFrame, span: int) -> npt.NDArray[np.float64]:
    """Share of each bin that at least one interval covers (`work` is sorted by start)."""
    edges = np.linspace(0, max(span, _BINS), _BINS + 1).astype(np.int64)
    busy = union(work["start_ns"].to_numpy(), work["end_ns"].to_numpy())
    return np.diff(busy_before(busy, edges)) / np.diff(edges)


def _bars(busy: npt.NDArray[np.float64], top: int) -> str:
    """The path of one lane: a bar per run of bins of equal height."""
    width = (WIDTH - _LEFT) / _BINS
    bottom = top + _LANE - 4
    bars = []
    position = 0
    for height, run in groupby(np.round((_LANE - 4) * busy, 1).tolist()):
        count = len(list(run))
        left, across = _LEFT + position * width, count * width
        if height > 0:
            bars.append(f"M{left:.1f} {bottom}h{across:.1f}v{-height}h{-across:.1f}z")
        position += count
    return "".join(bars)
