"""torch.profiler's own times of operators, joined to the clock: every operator is on its own line."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from gpuviz.capture.ranges import thread_key
from gpuviz.capture.recording import Stack
from tests.capture.lineclock.probing import Notebook

pytestmark = pytest.mark.torch

SETUP = """
import torch, torch.nn.functional as F
def block(h, w):
    h = h @ w
    h = F.gelu(h)
    return h
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(64, 64)
    def forward(self, x):
        x = self.inner(x)
        return torch.sigmoid(x)
net = Net()
"""

CELL = """
w = torch.randn(64, 64, requires_grad=True)
x = torch.randn(32, 64)
for i in range(5):
    h = block(x, w)
    h = torch.softmax(h, dim=-1)
    h = net(h)
    loss = (h * h).mean()
    loss.backward()
    with torch.no_grad():
        w.sub_(w.grad)
        w.grad = None
"""

# operator → the innermost line that runs it
FORWARD = {
    "aten::matmul": {"h = h @ w"},
    "aten::gelu": {"h = F.gelu(h)"},
    "aten::softmax": {"h = torch.softmax(h, dim=-1)"},
    "aten::linear": {"x = self.inner(x)"},
    "aten::sigmoid": {"return torch.sigmoid(x)"},
    "aten::mean": {"loss = (h * h).mean()"},
    "aten::sub_": {"w.sub_(w.grad)"},
    "aten::gelu_backward": {"loss.backward()"},
    "aten::sigmoid_backward": {"loss.backward()"},
    "aten::randn": {"w = torch.randn(64, 64, requires_grad=True)", "x = torch.randn(32, 64)"},
}
# backward node → the forward line that made it
BACKWARD = {
    "MmBackward0": "h = h @ w",
    "GeluBackward0": "h = F.gelu(h)",
    "SoftmaxBackward0": "h = torch.softmax(h, dim=-1)",
    "AddmmBackward0": "x = self.inner(x)",
    "SigmoidBackward0": "return torch.sigmoid(x)",
    "MulBackward0": "loss = (h * h).mean()",
    "MeanBackward0": "loss = (h * h).mean()",
}


def innermost_line(stack: Stack) -> str | None:
    return next((frame.function for frame in reversed(stack) if frame.layer == "line"), None)


def test_every_operator_is_on_its_own_line(notebook: Notebook) -> None:
    torch = pytest.importorskip("torch")
    notebook.define(SETUP)()
    cell = notebook.define(CELL)
    cell()
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    with profiler, notebook.clocked(sequence_numbers=True) as records:
        cell()
    record = records[0]
    events = profiler.profiler.kineto_results.events()
    names = [event.name() for event in events]
    # CPU backward runs in the thread that called it, and all others run here too.
    ids = record.stack_ids(threading.get_native_id(), [event.start_ns() for event in events], numbers="native")
    lines = [innermost_line(record.stack(stack_id)) for stack_id in ids.tolist()]
    for operator, expected in FORWARD.items():
        found = [line for line, name in zip(lines, names, strict=True) if name == operator]
        assert len(found) >= 2
        assert set(found) == expected, operator
    linear = record.stack(int(ids[names.index("aten::linear")]))
    assert [(frame.layer, frame.function) for frame in linear][-4:] == [
        ("line", "h = net(h)"),
        ("python", "Net.forward"),
        ("line", "x = self.inner(x)"),
        ("module", "Linear"),
    ]

    nodes = [event for event in events if event.name().startswith("autograd::engine::evaluate_function: ")]
    forward = record.forward_stack_of([event.sequence_nr() for event in nodes])
    by_node: dict[str, set[str | None]] = {}
    for event, stack_id in zip(nodes, forward.tolist(), strict=True):
        node = event.name().rpartition(" ")[2]
        by_node.setdefault(node, set()).add(innermost_line(record.stack(stack_id)))
    for node, line in BACKWARD.items():
        assert by_node[node] == {line}, node


def test_sequence_numbers_that_were_not_seen(notebook: Notebook) -> None:
    torch = pytest.importorskip("torch")
    notebook.names["torch"] = torch
    earlier = torch._C._autograd._get_sequence_nr() - 1
    record = notebook.run("x = torch.ones(2, requires_grad=True) * 2\ny = x + 1\nz = 1\n", sequence_numbers=True)
    made = [earlier + 1, earlier + 2]
    later = torch._C._autograd._get_sequence_nr()
    (torch.ones(2, requires_grad=True) * 2).sum()
    found = record.forward_stack_of([earlier, *made, later])
    lines = [innermost_line(record.stack(stack_id)) for stack_id in found.tolist()]
    assert lines == [None, "x = torch.ones(2, requires_grad=True) * 2", "y = x + 1", None]
    assert (record.forward_stack_of(made, thread_key()) == found[1:3]).all()


def test_without_sequence_numbers_no_forward_line_is_known(notebook: Notebook) -> None:
    torch = pytest.importorskip("torch")
    notebook.names["torch"] = torch
    record = notebook.run("x = torch.ones(2, requires_grad=True) * 2\n")
    assert record.forward_stack_of(np.arange(5)).tolist() == [-1] * 5


def test_the_forward_pass_of_each_thread_counts_for_itself(notebook: Notebook) -> None:
    torch = pytest.importorskip("torch")
    notebook.names |= {"torch": torch, "threading": threading, "made": [], "get": torch._C._autograd._get_sequence_nr}
    record = notebook.run(
        "def work(leaf):\n"
        "    first = get()\n"
        "    y = leaf * 2\n"
        "    z = y + leaf\n"
        "    made.append((threading.get_ident() & 0xFFFFFFFF, first))\n"
        "threads = [threading.Thread(target=work, args=(torch.ones(2, requires_grad=True),)) for i in range(2)]\n"
        "for thread in threads: thread.start(); thread.join()\n"
        "work(torch.ones(2, requires_grad=True))\n",
        sequence_numbers=True,
    )
    made = notebook.names["made"]
    assert isinstance(made, list)
    thread, first = made[-1]
    found = record.forward_stack_of([first, first + 1], thread)
    assert [innermost_line(record.stack(i)) for i in found.tolist()] == ["y = leaf * 2", "z = y + leaf"]
