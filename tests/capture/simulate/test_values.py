"""The user's code computes what it computes on a CPU, bit for bit, whether it is captured or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpuviz.capture.backend import CaptureRequest
from gpuviz.capture.simulate import Simulator
from tests.capture.simulate.programs import PROGRAMS

pytestmark = pytest.mark.torch


def assert_same(left: Any, right: Any) -> None:
    import torch

    if isinstance(left, torch.Tensor):
        assert left.dtype == right.dtype
        assert torch.equal(left, right)
    elif isinstance(left, list):
        assert len(left) == len(right)
        for one, other in zip(left, right, strict=True):
            assert_same(one, other)
    else:
        assert left == right


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_installed(program: Callable[[str], Any]) -> None:
    expected = program("cpu")
    with Simulator("H100"):
        found = program("cuda")
    assert_same(expected, found)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_captured(program: Callable[[str], Any]) -> None:
    expected, found = program("cpu"), []
    simulator = Simulator("T4")
    simulator.start(CaptureRequest())
    try:
        found.append(program("cuda"))
    finally:
        trace = simulator.stop()
    assert_same(expected, found[0])
    trace.validate()
    assert trace.meta.modelled
    assert trace.memcpys.height
    assert trace.kernels.filter(timing="ok").height == trace.kernels.height
