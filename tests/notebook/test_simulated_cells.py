"""Training code in a real kernel on a simulated GPU: from the line of a cell to the kernel, and what is said of it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.notebook.kernels import Kernel

pytestmark = pytest.mark.torch

MODEL = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 16)

    def forward(self, batch):
        return self.layer(batch).relu()

model = Net().to("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
STEP = """
def train_step(batch):
    optimizer.zero_grad()
    loss = model(batch).mean()
    loss.backward()
    optimizer.step()
    return loss.item()
"""
# Prints the call path of the first GPU activity whose name holds a text, from the root to the leaf.
PATHS = """
def path_to(text, trace):
    nodes = trace.callpaths.join(trace.frames, on="frame_id", how="left", maintain_order="left")
    parents = dict(nodes.select("callpath_id", "parent_id").iter_rows())
    named = dict(zip(nodes["callpath_id"].to_list(), nodes.select("layer", "function").rows()))
    work = trace.activities().filter(timing="ok")
    node = next(leaf for leaf, name in work.select("callpath_id", "name").iter_rows() if text in str(name))
    found = []
    while node is not None:
        found.append(tuple(map(str, named[node])))
        node = parents[node]
    return found[::-1]
"""


@pytest.fixture(scope="module")
def simulated(traces: Path) -> Iterator[Kernel]:
    with Kernel(traces) as kernel:
        kernel.run("%load_ext gpuviz")
        on = kernel.run("%gpuviz simulate H100")
        assert "simulate H100 (modelled)" in on.text, on.text + on.traceback
        for cell_id, cell in (("model", MODEL), ("step", STEP), ("paths", PATHS)):
            ran = kernel.run(cell, cell_id=cell_id)
            assert ran.status == "ok", ran.traceback
        yield kernel


def test_a_training_loop_from_its_line_to_the_kernel(simulated: Kernel) -> None:
    cell = """
        %%gpuprofile -o trace
        for number in range(2):
            batch = torch.ones(8, 16).to("cuda")
            print(train_step(batch) < 1)
        """
    ran = simulated.run(textwrap.dedent(cell), cell_id="loop")
    assert ran.kinds == ["stdout", "display"], ran.traceback or ran.sentences
    assert ran.text == "True\nTrue\n"
    assert len(ran.views) == 1
    assert "modelled" in ran.outputs[-1][1]["text/plain"].splitlines()[0]
    assert "modelled" in ran.views[0]
    path = simulated.value("path_to('gemm', trace)")
    assert [layer for layer, _ in path[:6]] == ["root", "cell", "line", "python", "line", "module"]
    assert path[1][1] == f"In [{ran.execution_count}]"
    assert path[2][1] == "print(train_step(batch) < 1)"
    assert path[3][1] == "train_step"
    assert path[4][1] == "loss = model(batch).mean()"
    assert path[5][1] == "Net"
    assert [layer for layer, _ in path[-2:]] == ["api", "kernel"]
    copied = simulated.value("path_to('HtoD', trace)")
    assert copied[2] == ("line", 'batch = torch.ones(8, 16).to("cuda")')


def test_each_function_belongs_to_the_cell_that_defined_it(simulated: Kernel) -> None:
    simulated.run("%%gpuprofile -q -o trace\ntrain_step(torch.ones(8, 16).to('cuda'))", cell_id="loop")
    rows = (
        "trace.frames.filter(layer='python').join(trace.cells, on='cell_id')"
        ".select('function', 'jupyter_cell_id').unique().rows()"
    )
    found = {(function.rpartition(".")[2], cell) for function, cell in simulated.value(rows)}
    assert {("train_step", "step"), ("forward", "model")} <= found
    sources = "dict(trace.cells.select('jupyter_cell_id', 'source').iter_rows())"
    assert simulated.value(sources)["step"] == STEP.lstrip("\n")
    assert simulated.value(sources)["loop"].startswith("%%gpuprofile -q -o trace\n")


@pytest.mark.parametrize(
    ("cell", "line"),
    [
        ("%%gpuprofile -q -o trace\n%%time\nx = 1\ntrain_step(torch.ones(8, 16).to('cuda'))", "train_step("),
        ("%%time\n%%gpuprofile -q -o trace\n\nx = 1\ntrain_step(torch.ones(8, 16).to('cuda'))", "train_step("),
        ("%%gpuprofile -q -o trace\nimport asyncio\nawait asyncio.sleep(0)\ntrain_step(torch.ones(8, 16).to('cuda'))",
         "train_step("),
        ("%gpuprofile -q -o trace train_step(torch.ones(8, 16).to('cuda'))", "%gpuprofile train_step("),
    ],
)  # fmt: skip
def test_lines_are_found_beside_other_magics(simulated: Kernel, cell: str, line: str) -> None:
    ran = simulated.run(cell, cell_id="other")
    assert ran.status == "ok", ran.traceback or ran.text
    lines = [text for layer, text in simulated.value("path_to('gemm', trace)") if layer == "line"]
    assert any(text.startswith(line) for text in lines), lines


def test_an_exception_shows_the_work_that_came_before(simulated: Kernel) -> None:
    ran = simulated.run("%%gpuprofile -o cut\ntrain_step(torch.ones(8, 16).to('cuda'))\n1 / 0")
    assert (ran.error_name, len(ran.views)) == ("ZeroDivisionError", 1)
    assert simulated.value("cut.kernels.height > 5 and cut.meta.modelled") is True


def test_steps_are_kept_and_warm_up_is_left_out(simulated: Kernel) -> None:
    cell = """
        %%gpuprofile -q -o stepped --steps 2 --warmup 1
        import gpuviz
        for number in range(4):
            train_step(torch.ones(8, 16).to("cuda"))
            gpuviz.step()
        """
    assert simulated.run(textwrap.dedent(cell)).status == "ok"
    names = simulated.value("stepped.ranges.filter(kind='step')['name'].cast(str).to_list()")
    assert names == ["step 2", "step 3"]


def test_a_cell_without_gpu_work_says_so(simulated: Kernel) -> None:
    (sentence,) = simulated.run("%%gpuprofile\nsum(range(10))").sentences
    assert "launched no GPU work" in sentence


def test_status_names_the_simulator_and_off_takes_it_away(simulated: Kernel) -> None:
    assert "uses simulate H100 (modelled)" in simulated.run("%gpuviz status").text
    refused = simulated.run("%gpuviz simulate T4")
    assert refused.error_name == "UsageError"
    assert "%gpuviz simulate off" in refused.text
    assert "Off: simulate H100" in simulated.run("%gpuviz simulate off").text
    assert "simulator  off" in simulated.run("%gpuviz status").text
    ran = simulated.run("%%gpuprofile --backend simulate:T4 -q -o once\ntorch.ones(3).to('cuda').sum()")
    assert ran.status == "ok", ran.traceback or ran.sentences
    assert simulated.value("once.devices['name'].item(), once.kernels.height > 0") == ("Tesla T4", True)
    assert "simulator  off" in simulated.run("%gpuviz status").text


def test_unload_turns_the_simulator_off(simulated: Kernel) -> None:
    simulated.run("%gpuviz simulate H100")
    assert simulated.value("torch.cuda.is_available()") is True
    simulated.run("%unload_ext gpuviz")
    assert simulated.value("torch.cuda.is_available()") is False
    simulated.run("%load_ext gpuviz")
    assert "simulator  off" in simulated.run("%gpuviz status").text
