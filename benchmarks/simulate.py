"""What the simulated GPU costs: per operator while it is on, and while it captures, against eager PyTorch on the CPU.

    python benchmarks/simulate.py

Small operators are the worst case: the cost is per operator and does not grow with the tensors.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as functional

from gpuviz.capture.backend import CaptureRequest
from gpuviz.capture.simulate import Simulator


def one_addition(device: str) -> tuple[Callable[[], Any], int]:
    data = torch.ones(16, device=device)
    return lambda: data + data, 1


def module_forward(device: str) -> tuple[Callable[[], Any], int]:
    model = torch.nn.Sequential(*(torch.nn.Linear(32, 32) for _ in range(10))).to(device)
    data = torch.ones(8, 32, device=device)

    def forward() -> Any:
        with torch.no_grad():
            return model(data)

    return forward, 10


def train_step(device: str, width: int = 32) -> tuple[Callable[[], Any], int]:
    model = torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, 10)).to(device)
    updates = torch.optim.Adam(model.parameters(), foreach=True)
    data, labels = torch.randn(64, width, device=device), torch.zeros(64, dtype=torch.long, device=device)

    def step() -> None:
        updates.zero_grad()
        functional.cross_entropy(model(data), labels).backward()
        updates.step()

    return step, 45  # operators below autograd


def wide_train_step(device: str) -> tuple[Callable[[], Any], int]:
    return train_step(device, width=2_048)


def seconds(body: Callable[[], Any], repeats: int, rounds: int = 5) -> float:
    """CPU seconds of one call, the best of some rounds; other work on the machine does not count."""
    best = float("inf")
    for _ in range(rounds):
        began = time.process_time()
        for _ in range(repeats):
            body()
        best = min(best, time.process_time() - began)
    return best / repeats


def main() -> None:
    torch.set_num_threads(1)
    print(f"{'':18} {'CPU':>10} {'on':>16} {'capturing':>16}   (per call; cost per operator)")
    programs = ((one_addition, 2_000), (module_forward, 300), (train_step, 100), (wide_train_step, 2))
    for program, repeats in programs:
        body, operators = program("cpu")
        plain = seconds(body, repeats)
        with Simulator("H100") as simulator:
            body, _ = program("cuda")
            on = seconds(body, repeats)
            body()
            simulator.start(CaptureRequest())
            capturing = seconds(body, repeats)
            began = time.process_time()
            recording = simulator.stop_recording()
            finishing = time.process_time() - began
        each = [f"{value / plain:6.2f}× {(value - plain) / operators * 1e6:5.1f} µs" for value in (on, capturing)]
        print(f"{program.__name__:18} {plain * 1e6:7.1f} µs {each[0]:>16} {each[1]:>16}", end="   ")
        calls = len(recording.host_calls)
        print(f"finish: {finishing / max(1, calls) * 1e6:.1f} µs per host call of {calls}")


if __name__ == "__main__":
    main()
