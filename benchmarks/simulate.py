"""What the simulated GPU costs: per operator while it is on, and while it captures, against eager PyTorch on the CPU.

    python benchmarks/simulate.py

Small operators are the worst case: the cost is per operator and does not grow with the tensors.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

import torch
import torch.nn.functional as functional
from torch.utils._python_dispatch import TorchDispatchMode

from gpuviz.capture.backend import CaptureRequest
from gpuviz.capture.simulate import Simulator

type Program = Callable[[str], Callable[[], Any]]
"""Device → something to call again and again."""


def one_addition(device: str) -> Callable[[], Any]:
    data = torch.ones(16, device=device)
    return lambda: data + data


def module_forward(device: str) -> Callable[[], Any]:
    model = torch.nn.Sequential(*(torch.nn.Linear(32, 32) for _ in range(10))).to(device)
    data = torch.ones(8, 32, device=device)

    def forward() -> Any:
        with torch.no_grad():
            return model(data)

    return forward


def train_step(device: str, width: int = 32) -> Callable[[], Any]:
    model = torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, 10)).to(device)
    updates = torch.optim.Adam(model.parameters(), foreach=True)
    data, labels = torch.randn(64, width, device=device), torch.zeros(64, dtype=torch.long, device=device)

    def step() -> None:
        updates.zero_grad()
        functional.cross_entropy(model(data), labels).backward()
        updates.step()

    return step


def wide_train_step(device: str) -> Callable[[], Any]:
    return train_step(device, width=2_048)


@dataclass
class Measured:
    """CPU seconds of one call in each state: the best of all rounds."""

    plain: float = inf
    on: float = inf
    capturing: float = inf
    finishing: float = inf  # per host call of the capture


def operators_of(body: Callable[[], Any]) -> int:
    """How many operators one call runs, below autograd and backward included."""
    count = 0

    class Counter(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal count
            count += 1
            return func(*args, **(kwargs or {}))

    body()
    with Counter():
        body()
    return count


def seconds(body: Callable[[], Any], repeats: int) -> float:
    """CPU seconds of one call after a first one; what else runs on the machine takes none of them."""
    body()
    began = time.process_time()
    for _ in range(repeats):
        body()
    return (time.process_time() - began) / repeats


def measure(program: Program, repeats: int, rounds: int = 7) -> Measured:
    """The three states in turn, each round with tensors of its own.

    Where their memory lies, and what shares its caches, changes the time of large operators by more than the simulator
    does; measured once each and one after the other, the simulator came out faster than no simulator.
    """
    best = Measured()
    for _ in range(rounds):
        best.plain = min(best.plain, seconds(program("cpu"), repeats))
        with Simulator("H100") as simulator:
            body = program("cuda")
            best.on = min(best.on, seconds(body, repeats))
            simulator.start(CaptureRequest())
            best.capturing = min(best.capturing, seconds(body, repeats))
            began = time.process_time()
            recording = simulator.stop_recording()
            finishing = time.process_time() - began
            best.finishing = min(best.finishing, finishing / len(recording.host_calls))
    return best


def main() -> None:
    torch.set_num_threads(1)
    print(f"{'':16} {'CPU':>11} {'on':>18} {'capturing':>18} {'finishing':>18}")
    print(f"{'':16} {'per call':>11} {'per operator':>18} {'per operator':>18} {'per host call':>18}")
    programs = ((one_addition, 2_000), (module_forward, 200), (train_step, 50), (wide_train_step, 4))
    for program, repeats in programs:
        operators, best = operators_of(program("cpu")), measure(program, repeats)
        on, capturing = (
            f"{value / best.plain:6.2f}× {(value - best.plain) / operators * 1e6:+6.1f} µs"
            for value in (best.on, best.capturing)
        )
        finishing = f"{best.finishing * 1e6:.1f} µs"
        print(f"{program.__name__:16} {best.plain * 1e6:8.1f} µs {on:>18} {capturing:>18} {finishing:>18}")


if __name__ == "__main__":
    main()
