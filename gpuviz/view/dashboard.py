"""The three linked views as one Bokeh layout, and the payload that the engine fills them from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl
from bokeh.layouts import column
from bokeh.models import LayoutDOM, Range1d

from gpuviz.model import Trace
from gpuviz.view.budget import within_budget
from gpuviz.view.copy_overlap import copy_overlap_figure
from gpuviz.view.flamegraph import flamegraph_figure
from gpuviz.view.geometry import build_scene
from gpuviz.view.payload import encode_payload
from gpuviz.view.timeline import timeline_figure
from gpuviz.view.wording import count_text, duration_text

VIEWS = ("flamegraph", "timeline", "copies")


@dataclass(frozen=True)
class Dashboard:
    """`layout`: one Bokeh layout named "gpuviz-plots". `payload`: base64 text for the engine."""

    layout: LayoutDOM
    payload: str


def build_dashboard(trace: Trace, views: tuple[str, ...] = VIEWS) -> Dashboard:
    """Figures and data for one trace; `views` names the figures. A trace too large for one output is cut, and its
    header says to what."""
    shown, left_out = within_budget(trace)
    payload = encode_payload(shown, build_scene(shown), header_meta(trace, left_out))
    # Times are sent as floats: Bokeh turns int64 columns into slow JSON lists (exact in a double up to 104 days).
    span = float(max(trace.meta.end_ns, 1))
    time_range = Range1d(0.0, span, bounds=(-0.02 * span, 1.02 * span), min_interval=20)
    figures = [flamegraph_figure(), timeline_figure(time_range), copy_overlap_figure(time_range)]
    asked_for = [figure for view, figure in zip(VIEWS, figures, strict=True) if view in views]
    return Dashboard(column(*asked_for, name="gpuviz-plots", sizing_mode="stretch_width"), payload)


def header_meta(trace: Trace, left_out: str | None) -> dict[str, Any]:
    """What the header of the views says about the capture."""
    meta = trace.meta
    return {
        "title": meta.title,
        "subtitle": subtitle(trace),
        "modelled": meta.modelled,
        "end_ns": meta.end_ns,
        "left_out": left_out,
        "facts": [[label, text] for label, text in facts(trace)],
        "notes": trace.diagnostics.select(
            "code", "count", pl.col("first_example").alias("example"), "effect"
        ).to_dicts(),
    }


def subtitle(trace: Trace) -> str:
    """Devices, length and counts in one line."""
    parts = [*_device_names(trace), duration_text(trace.meta.end_ns)]
    counts = (
        (trace.kernels, "kernel", "kernels"),
        (trace.memcpys, "copy", "copies"),
        (trace.host_calls, "host call", "host calls"),
    )
    parts += [count_text(table.height, one, many) for table, one, many in counts if table.height]
    return " · ".join(parts)


def _device_names(trace: Trace) -> list[str]:
    """ "8 × NVIDIA A100", or "NVIDIA A100 (GPU 3)" for a single one."""
    ordinals: dict[str | None, list[int]] = {}
    for ordinal, name in trace.devices.select("ordinal", "name").sort("ordinal").iter_rows():
        ordinals.setdefault(name, []).append(ordinal)
    names = []
    for name, numbers in ordinals.items():
        if len(numbers) > 1:
            names.append(f"{len(numbers)} × {name or 'GPU'}")
        else:
            names.append(f"GPU {numbers[0]}" if name is None else f"{name} (GPU {numbers[0]})")
    return names


def facts(trace: Trace) -> list[tuple[str, str]]:
    """Label and text of what is known about the capture; what nobody recorded says so."""
    meta = trace.meta
    dropped = "unknown" if meta.dropped_records is None else f"{meta.dropped_records:,}"
    known = [
        ("source", meta.source or "this kernel"),
        ("format", meta.format or "unknown"),
        ("dropped records", dropped),
    ]
    if meta.overhead_ns is not None:
        known.append(("profiler overhead", duration_text(meta.overhead_ns)))
    return known + sorted(meta.versions.items()) + sorted(meta.properties.items())
