"""A cell profiled in JupyterLab by real keys and clicks: from its line to the modelled kernel."""

from __future__ import annotations

import pytest
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import Page

from tests.browser.conftest import ROOT, Lab
from tests.browser.pages import only_output

SETUP = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
%load_ext gpuviz
%gpuviz simulate H100
import torch
from torch import nn
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)).to("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = [torch.randn(32, 64) for _ in range(3)]
""".lstrip()

PROFILED = """
%%gpuprofile -o trace
for batch in batches:
    loss = model(batch.to("cuda")).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print("loss is a number:", loss.item() >= 0)
""".strip()

CHECK = """
import polars as pl
tree = gpuviz.analysis.gpu_time(trace)
line = tree.filter(pl.col("name") == "loss.backward()")
print("backward", line["callpath_id"].item(), line["inclusive_ns"].item())
""".strip()


def run_cell(page: Page, number: int) -> None:
    """Run the cell that has the focus and wait until it has run as In [number]."""
    page.keyboard.press("Shift+Enter")
    page.wait_for_selector(f"text='[{number}]:'", timeout=90_000)


@pytest.mark.torch
def test_a_profiled_cell_from_its_line_to_the_kernel(page: Page, lab: Lab) -> None:
    cells = [new_code_cell(SETUP), new_code_cell(PROFILED), new_code_cell("import gpuviz\n" + CHECK)]
    notebook = new_notebook(cells=cells)
    page.set_viewport_size({"width": 1400, "height": 1100})
    lab.open_with_kernel(page, "profiled.ipynb", notebook)
    run_cell(page, 1)
    run_cell(page, 2)
    output = only_output(page, seconds=60)
    run_cell(page, 3)
    printed = page.locator("text=/backward \\d+ \\d+/").last
    printed.wait_for(timeout=60_000)

    # The cell's own output comes first, then the views, which say that the numbers are a model's.
    profiled = page.locator(".jp-Cell").nth(1)
    outputs = profiled.locator(".jp-OutputArea-output")
    assert "loss is a number: True" in outputs.nth(0).inner_text()
    assert output.root.locator("text=modelled").first.is_visible()

    backward, gpu_ns = (int(number) for number in printed.inner_text().split()[1:])
    output.click_frame(backward)
    assert output.state()["selected_node"] == backward
    assert output.numbers()["selected"]["inclusive"] == gpu_ns > 0

    # The annotated source: a click on the optimiser's line selects it.
    output.root.locator(".gpuviz-line[data-line='5'] button").last.click()
    output.settle()
    assert output.state()["selected_node"] not in (None, backward)
    assert "optimizer.step()" in output.root.locator(".gpuviz-details").inner_text()
