"""Outputs in notebooks: live in JupyterLab, reopened without a kernel, converted, many in one page."""

from __future__ import annotations

from pathlib import Path

import nbformat
import polars as pl
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import Page

from gpuviz.analysis import device_time, gpu_time
from tests.browser.conftest import ROOT, Lab
from tests.browser.pages import READY, Output, only_output
from tests.browser.traces import two_steps

LOAD = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import gpuviz
from tests.browser.traces import two_steps
trace = two_steps()
"""
SHOW = "gpuviz.show(trace)"
BUSY_NS = device_time(two_steps())["busy_ns"].to_list()
LINEAR = gpu_time(two_steps()).filter(pl.col("name") == "Linear")["callpath_id"].item()


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> NotebookNode:
    """A notebook that showed one trace twice, as its kernel left it."""
    notebook = new_notebook(cells=[new_code_cell(LOAD), new_code_cell(SHOW), new_code_cell(SHOW)])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    folder = tmp_path_factory.mktemp("executed")
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(folder)}}).execute()
    return notebook


def busy(output: Output) -> list[int]:
    return [row["busy_ns"] for row in output.numbers()["device_time"]]


def outputs(page: Page) -> list[Output]:
    located = page.locator(READY)
    return [Output(page, located.nth(index)) for index in range(located.count())]


def without_kernel(page: Page, address: str) -> None:
    """Open a notebook and send the question for a kernel away."""
    page.goto(address)
    page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60_000)
    dialog = page.locator(".jp-Dialog button", has_text="No Kernel")
    if dialog.count():
        dialog.first.click()


def test_a_live_cell_shows_the_views(page: Page, lab: Lab) -> None:
    notebook = new_notebook(cells=[new_code_cell(LOAD + SHOW)])
    page.set_viewport_size({"width": 1400, "height": 1000})
    lab.open_with_kernel(page, "live.ipynb", notebook)
    page.keyboard.press("Shift+Enter")
    output = only_output(page)
    assert busy(output) == BUSY_NS
    output.click_frame(LINEAR)
    assert output.numbers()["selected"]["inclusive"] == 28_000
    cells = page.locator(".jp-Notebook .jp-Cell").count()
    output.area("timeline")
    page.keyboard.press("d")  # in JupyterLab's command mode, D D would delete the cell
    page.keyboard.press("d")
    assert page.locator(".jp-Notebook .jp-Cell").count() == cells


def test_reopened_and_trusted_the_views_live_without_a_kernel(page: Page, lab: Lab, executed: NotebookNode) -> None:
    without_kernel(page, lab.write("trusted.ipynb", executed, trusted=True))
    page.wait_for_selector(READY, timeout=60_000)
    first = outputs(page)[0]
    assert busy(first) == BUSY_NS
    first.click_frame(LINEAR)
    assert first.numbers()["selected"]["inclusive"] == 28_000


def test_reopened_and_untrusted_a_picture_and_the_numbers_stay(page: Page, lab: Lab, executed: NotebookNode) -> None:
    notebook = nbformat.from_dict(executed)
    # Trust is a signature of the content: one more cell makes it a notebook that nobody has signed.
    notebook.cells = [*executed.cells, new_code_cell("# from somewhere else")]
    without_kernel(page, lab.write("untrusted.ipynb", notebook, trusted=False))
    page.wait_for_selector(".jp-OutputArea-output", timeout=60_000)
    page.wait_for_timeout(1_500)
    assert page.locator(READY).count() == 0
    shown = page.locator(".jp-OutputArea-output").first
    assert "busy 44.00 µs of 50.00 µs" in shown.inner_text()
    picture = shown.locator("img")
    assert picture.evaluate("(image) => image.complete && image.naturalWidth > 0")


def test_two_outputs_of_one_trace_keep_apart(page: Page, lab: Lab, executed: NotebookNode) -> None:
    page.set_viewport_size({"width": 1400, "height": 2600})
    without_kernel(page, lab.write("two.ipynb", executed, trusted=True))
    page.wait_for_function(f"document.querySelectorAll('{READY}').length === 2", timeout=60_000)
    first, second = outputs(page)
    second.act("set_window", [0, 20_000])
    assert first.state()["window"] is None
    assert busy(first) == BUSY_NS
    assert busy(second) == [15_000]


def test_a_converted_notebook_works_offline(page: Page, tmp_path: Path, executed: NotebookNode) -> None:
    exporter = HTMLExporter(template_name="lab")
    text, _ = exporter.from_notebook_node(executed)
    path = tmp_path / "converted.html"
    path.write_text(text, encoding="utf-8")
    # The template itself asks a network for MathJax and RequireJS; what we test is that gpuviz does not need it.
    page.route(
        "**/*", lambda route: route.fulfill(body="") if route.request.url.startswith("http") else route.continue_()
    )
    page.goto(path.as_uri())
    page.wait_for_function(f"document.querySelectorAll('{READY}').length === 2", timeout=60_000)
    assert [busy(output) for output in outputs(page)] == [BUSY_NS, BUSY_NS]


def test_among_sixty_cells_an_output_survives_scrolling_away_and_back(
    page: Page, lab: Lab, executed: NotebookNode
) -> None:
    filler = [new_code_cell(f"# cell {index}\n" + "\n" * 12) for index in range(58)]
    notebook = nbformat.from_dict(executed)
    notebook.cells = [*executed.cells[:2], *filler]
    without_kernel(page, lab.write("sixty.ipynb", notebook, trusted=True))
    page.wait_for_selector(READY, timeout=60_000)
    outputs(page)[0].act("set_window", [0, 20_000])
    panel = page.locator(".jp-WindowedPanel-outer, .jp-Notebook").first
    panel.evaluate("(element) => { element.scrollTop = element.scrollHeight }")
    page.wait_for_timeout(1_200)
    panel.evaluate("(element) => { element.scrollTop = 0 }")
    page.wait_for_selector(READY, timeout=30_000)
    output = outputs(page)[0]
    output.settle()
    assert busy(output) in ([15_000], BUSY_NS)  # JupyterLab may have rendered it anew, with nothing selected
    output.act("set_window", [0, 20_000])
    assert busy(output) == [15_000]
    area = output.area("timeline")
    assert area["width"] > 200
