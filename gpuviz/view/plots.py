"""Pieces that every figure of the linked views is made of."""

from __future__ import annotations

from typing import Any

from bokeh.core.properties import value
from bokeh.models import BoxAnnotation, ColumnDataSource, PanTool, Range1d, Tool
from bokeh.plotting import figure

from gpuviz.view.theme import LABEL_FONT, LABEL_SIZE, LEFT_BORDER


def plot(name: str, height: int, x_range: Range1d, y_range: Range1d, tools: list[Tool] | None = None) -> figure:
    """An empty figure that the engine fills; it is found in the document by its name.

    Bokeh's own level of detail is off (`lod_threshold`): it drops glyphs silently while panning. Wheel and hover are
    the engine's: a bare wheel must scroll the notebook.
    """
    pan = PanTool(dimensions="width", name=f"{name}-pan")
    made = figure(
        name=name,
        height=height,
        x_range=x_range,
        y_range=y_range,
        tools=[*(tools or []), pan],
        toolbar_location=None,
        sizing_mode="stretch_width",
        output_backend="canvas",
        lod_threshold=None,
        min_border_left=LEFT_BORDER,
        min_border_right=12,
    )
    made.ygrid.visible = False
    made.yaxis.visible = False
    return made


def boxes(target: figure, name: str, *, outlined: bool = False) -> None:
    """Quads from the source `name`: left, right, bottom, top, fill (and line, line_width when `outlined`)."""
    columns: dict[str, list[Any]] = {key: [] for key in ("left", "right", "bottom", "top", "fill")}
    line: dict[str, Any] = {"line_color": None}
    if outlined:
        columns |= {"line": [], "line_width": []}
        line = {"line_color": "line", "line_width": "line_width"}
    renderer = target.quad(
        left="left",
        right="right",
        bottom="bottom",
        top="top",
        fill_color="fill",
        source=source(name, columns),
        **line,
    )
    renderer.nonselection_glyph = None
    renderer.selection_glyph = None


def labels(target: figure, name: str) -> None:
    """Texts from the source `name`: x, y, text, color."""
    target.text(
        x="x",
        y="y",
        text="text",
        text_color="color",
        text_font=value(LABEL_FONT),
        text_font_size=LABEL_SIZE,
        text_baseline="middle",
        source=source(name, {"x": [], "y": [], "text": [], "color": []}),
    )


def arrows(target: figure, name: str) -> None:
    """Line segments from the source `name`: x0, y0, x1, y1."""
    target.segment(
        x0="x0",
        y0="y0",
        x1="x1",
        y1="y1",
        line_width=1.5,
        name=f"{name}-lines",
        source=source(name, {"x0": [], "y0": [], "x1": [], "y1": []}),
    )


def window_mark(target: figure, name: str) -> None:
    """The marked time window; hidden until one is selected."""
    mark = BoxAnnotation(
        name=name,
        left=0,
        right=1,
        visible=False,
        editable=False,
        propagate_hover=True,
        fill_color="#F0E442",
        fill_alpha=0.18,
        line_color="#8A6100",
    )
    target.add_layout(mark)


def source(name: str, columns: dict[str, list[Any]]) -> ColumnDataSource:
    """A data source that the engine finds by its name."""
    return ColumnDataSource(columns, name=name)
