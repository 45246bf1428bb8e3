"""The names that a program gives to its own work: `record_function` (also PyTorch's optimisers and data loaders use it)
and NVTX ranges become ranges of the trace."""

from __future__ import annotations

from typing import Any

from gpuviz.capture.ranges import RecordedRange, thread_key
from gpuviz.capture.simulate.machine import Machine
from gpuviz.capture.simulate.patcher import Patcher


def apply(machine: Machine, patcher: Patcher) -> None:
    """Exchange the entries and the ends of both; what they did before they still do."""
    import torch

    record_function = torch.autograd.profiler.record_function
    enter, leave = record_function.__enter__, record_function.__exit__
    push, pop = torch.cuda.nvtx.range_push, torch.cuda.nvtx.range_pop
    entered: dict[int, RecordedRange] = {}
    pushed: list[RecordedRange | None] = []

    def begin(kind: str, name: str) -> RecordedRange | None:
        recorder = machine.active_recorder
        if recorder is None or thread_key() != recorder.main_thread:
            return None
        made = RecordedRange(kind, name, recorder.clock.now(), None, recorder.main_thread)
        recorder.ranges.ranges.append(made)
        return made

    def end(begun: RecordedRange | None) -> None:
        if begun is not None and machine.recorder is not None:
            begun.end_ns = machine.recorder.clock.now()

    def __enter__(context: Any) -> Any:  # noqa: N807
        result = enter(context)
        begun = begin("annotation", context.name)
        if begun is not None:
            entered[id(context)] = begun
        return result

    def __exit__(context: Any, *error: Any) -> Any:  # noqa: N807
        end(entered.pop(id(context), None))
        return leave(context, *error)

    def range_push(message: str) -> Any:
        pushed.append(begin("nvtx", message))
        return push(message)

    def range_pop() -> Any:
        if pushed:
            end(pushed.pop())
        return pop()

    patcher.set(record_function, "__enter__", __enter__)
    patcher.set(record_function, "__exit__", __exit__)
    patcher.set(torch.cuda.nvtx, "range_push", range_push)
    patcher.set(torch.cuda.nvtx, "range_pop", range_pop)
