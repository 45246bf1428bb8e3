"""The kernel timeline's figure: streams, waits, ranges and threads as lanes (drawn by the engine)."""

from __future__ import annotations

import numpy as np
from bokeh.models import BoxSelectTool, Range1d
from bokeh.plotting import figure

from gpuviz.view import plots


def timeline_figure(time_range: Range1d) -> figure:
    """An empty figure over `time_range`: boxes, one image for what is shorter than two pixels, arrows, the window."""
    select = BoxSelectTool(dimensions="width", persistent=False, name="timeline-select")
    made = plots.plot("timeline", 360, time_range, Range1d(0, 1), [select])
    made.toolbar.active_drag = select
    nothing = np.zeros((1, 1), dtype=np.uint32)
    occupancy = plots.source("timeline-image", {"image": [nothing], "x": [0], "y": [0], "dw": [1], "dh": [1]})
    made.image_rgba(
        image="image",
        x="x",
        y="y",
        dw="dw",
        dh="dh",
        source=occupancy,
        origin="top_left",
        anchor="bottom_left",
    )
    plots.boxes(made, "timeline-boxes")
    plots.labels(made, "timeline-labels")
    plots.arrows(made, "timeline-arrows")
    plots.window_mark(made, "timeline-window")
    return made
