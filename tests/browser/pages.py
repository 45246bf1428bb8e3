"""Driving the linked views of an output with a real mouse and keyboard, and reading what they show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Locator, Page

import gpuviz
from gpuviz.model import Trace
from gpuviz.view.geometry import build_scene

READY = '.gpuviz[data-ready="1"]'


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

    def area(self, view: str) -> Mapping[str, float]:
        """Where a view's plot lies on the screen: x, y, width and height in pixels."""
        plot = self.root.locator(f'.gpuviz-view[data-view="{view}"] .gpuviz-plot')
        plot.scroll_into_view_if_needed()
        box = plot.bounding_box()
        assert box is not None
        return box

    def click_frame(self, callpath_id: int) -> None:
        """Click a frame of the flamegraph."""
        self.area("flamegraph")
        self._click(self.root.evaluate("(root, node) => root.gpuviz.position_of_node(node)", callpath_id))

    def click_interval(self, trace: Trace, start_ns: int, callpath_id: int) -> None:
        """Click the interval of the timeline that starts then and belongs to this node of the call tree."""
        boxes = build_scene(trace).boxes
        (box,) = np.flatnonzero((boxes.start == start_ns) & (boxes.node == callpath_id)).tolist()
        self.area("timeline")
        self._click(self.root.evaluate("(root, box) => root.gpuviz.position_of_box(box)", box))

    def _click(self, place: Mapping[str, float] | None) -> None:
        assert place is not None, "what was to be clicked is not drawn"
        self.page.mouse.click(place["x"], place["y"])
        self.settle()

    def drag(self, view: str, begin: float, end: float, height: float = 0.5) -> None:
        """Drag from one fraction of the plot's width to another."""
        area = self.area(view)
        y = area["y"] + area["height"] * height
        self.page.mouse.move(area["x"] + area["width"] * begin, y)
        self.page.mouse.down()
        self.page.mouse.move(area["x"] + area["width"] * end, y, steps=8)
        self.page.mouse.up()
        self.settle()

    def act(self, action: str, *arguments: object) -> None:
        """One of the engine's actions, without a mouse."""
        self.root.evaluate(
            "(root, [name, values]) => { root.gpuviz.actions[name](...values) }", [action, list(arguments)]
        )
        self.settle()

    def settle(self) -> None:
        """Wait until nothing moves and nothing waits to be drawn."""
        self.page.wait_for_timeout(60)  # Bokeh hands gestures over a few frames later
        self.page.wait_for_function("(root) => root.gpuviz.state().is_settled", arg=self.root.element_handle())


def open_page(page: Page, trace: Trace, folder: Path, name: str = "page.html") -> Output:
    """Save the trace as a page, open it without a network, and wait until it is drawn."""
    path = gpuviz.save_html(trace, folder / name)
    page.context.set_offline(True)
    page.goto(path.as_uri())
    return only_output(page)


def only_output(page: Page, seconds: int = 30) -> Output:
    """The one output of this page, drawn."""
    page.wait_for_selector(READY, timeout=1_000 * seconds)
    return Output(page, page.locator(READY).first)
