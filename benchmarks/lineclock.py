"""What LineClock costs the user's program: the same work with and without it, in turns, in one process.

    python benchmarks/lineclock.py [ROUNDS]

Each round runs a workload without the clock and with it, one right after the other, so that a busy machine slows both.
Times are CPU times of the process: waiting for a processor does not count. The table gives medians over the rounds:
the time of one unit of work, and the clock's share as the median difference.
Without PyTorch only the rows of pure Python are measured.
"""

from __future__ import annotations

import importlib.util
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from gpuviz.capture.backend import CellSource
from gpuviz.capture.lineclock import LineClock

CELL = "<benchmark cell>"
OPS_PER_CALL = 50
CALLS = 400
MODULES = 50


@dataclass(frozen=True)
class Workload:
    """`run` does `units` units of work; `goal` is the most that the clock may add: ns per unit, or a ratio.
    `sequence_numbers`: whether autograd's numbers are noted too."""

    name: str
    unit: str
    run: Callable[[], object]
    units: int
    goal: str = ""
    sequence_numbers: bool = False


def cell(source: str, **names: object) -> dict[str, object]:
    """The names that a cell with this source defines, as in a notebook."""
    space: dict[str, object] = dict(names)
    exec(compile(source, CELL, "exec"), space)
    return space


PURE_LOOP = """
def loop(count):
    total = 0
    for index in range(count):
        total += index & 7
        total -= 1
    return total
"""

PURE_CALLS = """
def helper(value):
    return value + 1

def loop(count):
    total = 0
    for index in range(count):
        total = helper(total)
    return total
"""


def python_workloads() -> Iterator[Workload]:
    """What costs most per unit: lines and functions that do next to nothing."""
    count = 2_000_000
    loop = cell(PURE_LOOP)["loop"]
    yield Workload("pure-Python loop", "iteration", lambda: loop(count), count, "ratio 1.3")  # type: ignore[operator]
    calls = cell(PURE_CALLS)["loop"]
    yield Workload("pure-Python calls", "call", lambda: calls(count // 10), count // 10)  # type: ignore[operator]


def torch_workloads() -> Iterator[Workload]:
    """Operators on lines of their own, library modules, a training step."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    lines = "".join("    value = value + one\n" for _ in range(OPS_PER_CALL))
    ops = cell(f"def ops(value, one):\n{lines}    return value\n")["ops"]
    value = torch.randn(4096)

    def run_ops() -> None:
        for _ in range(CALLS):
            ops(value, value)  # type: ignore[operator]

    yield Workload("one operator per line", "operator", run_ops, CALLS * OPS_PER_CALL, "310 ns")
    yield Workload("... and sequence numbers", "operator", run_ops, CALLS * OPS_PER_CALL, "310 ns", True)

    forward = cell("def forward(model, batch, count):\n    for _ in range(count):\n        model(batch)\n")["forward"]
    layers = torch.nn.TransformerEncoder(
        torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 4, enable_nested_tensor=False
    )
    sequences = torch.randn(2, 8, 32)
    operators = count_operators(lambda: layers(sequences))
    run_layers = partial(forward, layers, sequences, 20)  # type: ignore[arg-type, call-overload]
    yield Workload("transformer forward", "operator", run_layers, 20 * operators, "60 ns")

    model = torch.nn.Sequential(*(torch.nn.Linear(16, 16) for _ in range(MODULES)))
    run_model = partial(forward, model, torch.randn(4, 16), 100)  # type: ignore[arg-type, call-overload]
    yield Workload("Linear modules in a row", "module", run_model, 100 * MODULES)

    network = torch.nn.Sequential(
        *(layer for _ in range(6) for layer in (torch.nn.Linear(64, 64), torch.nn.GELU())), torch.nn.Linear(64, 8)
    )
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    step = cell(
        "def train(model, optimizer, batch, target, loss_of, count):\n"
        "    for _ in range(count):\n"
        "        optimizer.zero_grad()\n"
        "        output = model(batch)\n"
        "        loss = loss_of(output, target)\n"
        "        loss.backward()\n"
        "        optimizer.step()\n"
    )["train"]
    inputs = (torch.randn(32, 64), torch.randint(8, (32,)), torch.nn.functional.cross_entropy)
    yield Workload("training step", "step", lambda: step(network, optimizer, *inputs, 5), 5)  # type: ignore[operator]


def count_operators(run: Callable[[], object]) -> int:
    """ATen operators that reach the dispatcher."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Count(TorchDispatchMode):
        calls = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            self.calls += 1
            return function(*args, **(kwargs or {}))

    with Count() as count:
        run()
    return count.calls


def cpu_ns(run: Callable[[], object]) -> int:
    begin = time.process_time_ns()
    run()
    return time.process_time_ns() - begin


def cell_of(filename: str) -> CellSource | None:
    """Every workload is a cell of a notebook."""
    return CellSource("benchmark", 1, "") if filename == CELL else None


def measure(workload: Workload, rounds: int) -> tuple[float, float, float]:
    """Medians: ns per unit without the clock, what the clock adds to it, the ratio."""
    for _ in range(3):
        workload.run()
    without, added, ratios = [], [], []
    for round_number in range(rounds):
        pair = {}
        for clocked in (False, True) if round_number % 2 else (True, False):
            if not clocked:
                pair[False] = cpu_ns(workload.run)
                continue
            clock = LineClock(cell_of, sequence_numbers=workload.sequence_numbers)
            clock.start()
            try:
                workload.run()  # the first sight of each function is a cost per capture, not per unit
                pair[True] = cpu_ns(workload.run)
            finally:
                clock.stop()
        without.append(pair[False] / workload.units)
        added.append((pair[True] - pair[False]) / workload.units)
        ratios.append(pair[True] / pair[False])
    return statistics.median(without), statistics.median(added), statistics.median(ratios)


def fixed_cost_ms(rounds: int) -> float:
    """Start and stop around nothing."""
    costs = []
    for _ in range(rounds):
        clock = LineClock(cell_of)
        costs.append(cpu_ns(lambda clock=clock: (clock.start(), clock.stop())))  # type: ignore[misc]
    return statistics.median(costs) / 1e6


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 25
    workloads = list(python_workloads())
    if importlib.util.find_spec("torch") is not None:
        workloads = [*torch_workloads(), *workloads]
    print(f"Python {sys.version.split()[0]}, {rounds} rounds, medians")
    print(f"{'workload':28} {'unit':10} {'off (ns)':>12} {'added (ns)':>12} {'ratio':>7}  goal")
    for workload in workloads:
        off, added, ratio = measure(workload, rounds)
        print(f"{workload.name:28} {workload.unit:10} {off:12.0f} {added:12.0f} {ratio:7.3f}  {workload.goal}")
    print(f"start and stop around nothing: {fixed_cost_ms(rounds):.2f} ms")


if __name__ == "__main__":
    main()
