"""The flamegraph's figure: call paths as an icicle, width = summed time below a frame (drawn by the engine)."""

from __future__ import annotations

from bokeh.models import Range1d
from bokeh.plotting import figure

from gpuviz.view import plots


def flamegraph_figure() -> figure:
    """An empty figure for the call tree; its x axis is summed time, not the time line."""
    made = plots.plot("flamegraph", 240, Range1d(0, 1), Range1d(0, 1))
    made.axis.visible = False
    made.grid.visible = False
    plots.boxes(made, "flamegraph-boxes", outlined=True)
    plots.labels(made, "flamegraph-labels")
    return made
