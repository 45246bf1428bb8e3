"""Driving the linked views of an output with a real mouse and keyboard, and reading what they show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page

import gpuviz
from gpuviz.model import Trace

READY = '.gpuviz[data-ready="1"]'

# Where a label of a figure lies on the screen: its data coordinates through the figure's own scales.
_PLACE_OF_LABEL = """(root, [figure, text]) => {
  const document = globalThis.__gpuvizDocuments?.[root.id] ?? root.gpuviz.document;
  const model = document.get_model_by_name(figure);
  const labels = document.get_model_by_name(figure + "-labels").data;
  const index = [...labels.text].findIndex((label) => label.startsWith(text));
  if (index < 0) return null;
  const view = root.gpuviz.figure_view(figure);
  const area = view.canvas_view.el.getBoundingClientRect();
  return {
    x: area.x + view.frame.x_scale.compute(labels.x[index]) + 8,
    y: area.y + view.frame.y_scale.compute(labels.y[index]),
  };
}"""

_AREA = """(root, figure) => {
  const view = root.gpuviz.figure_view(figure);
  const area = view.canvas_view.el.getBoundingClientRect();
  const frame = view.frame.bbox;
  return {x: area.x + frame.left, y: area.y + frame.top, width: frame.width, height: frame.height};
}"""


@dataclass
class Output:
    """One output of gpuviz on a page."""

    page: Page
    root: Locator

    def state(self) -> dict[str, Any]:
        """What the engine says about its state."""
        return self.root.evaluate("(root) => root.gpuviz.state()")

    def numbers(self) -> dict[str, Any]:
        """The exact numbers behind what is shown."""
        return self.root.evaluate("(root) => root.gpuviz.numbers()")

    def area(self, figure: str) -> Mapping[str, float]:
        """The inner rectangle of a figure on the screen."""
        self.root.scroll_into_view_if_needed()
        return self.root.evaluate(_AREA, figure)

    def click_label(self, figure: str, text: str) -> None:
        """Click the box whose label starts with `text`."""
        self.area(figure)
        place = self.root.evaluate(_PLACE_OF_LABEL, [figure, text])
        assert place is not None, f"no label of {figure} starts with {text!r}"
        self.page.mouse.click(place["x"], place["y"])
        self.settle()

    def drag(self, figure: str, begin: float, end: float, height: float = 0.5) -> None:
        """Drag from one fraction of the figure's width to another."""
        area = self.area(figure)
        y = area["y"] + area["height"] * height
        self.page.mouse.move(area["x"] + area["width"] * begin, y)
        self.page.mouse.down()
        self.page.mouse.move(area["x"] + area["width"] * (begin + end) / 2, y)
        self.page.mouse.move(area["x"] + area["width"] * end, y)
        self.page.mouse.up()
        self.settle()

    def settle(self) -> None:
        """Wait for animations and redraws to end."""
        self.page.wait_for_timeout(450)


def open_page(page: Page, trace: Trace, folder: Path, name: str = "page.html") -> Output:
    """Save the trace as a page, open it without a network, and wait until it is drawn."""
    path = gpuviz.save_html(trace, folder / name)
    page.context.set_offline(True)
    page.goto(path.as_uri())
    return only_output(page)


def only_output(page: Page) -> Output:
    """The one output of this page, drawn."""
    page.wait_for_selector(READY, timeout=30_000)
    return Output(page, page.locator(READY).first)
