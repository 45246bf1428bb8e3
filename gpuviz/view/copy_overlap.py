"""The copy/compute overlap's figure: per device and direction, hidden against exposed time (drawn by the engine)."""

from __future__ import annotations

from bokeh.models import Range1d
from bokeh.plotting import figure

from gpuviz.view import plots


def copy_overlap_figure(time_range: Range1d) -> figure:
    """An empty figure over `time_range`, the same object as the timeline's."""
    made = plots.plot("copies", 140, time_range, Range1d(0, 1))
    plots.boxes(made, "copies-boxes")
    plots.labels(made, "copies-labels")
    plots.window_mark(made, "copies-window")
    return made
