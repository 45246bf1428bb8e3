"""A simulated GPU for the length of a test, and proof that nothing of it stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gpuviz.capture.backend import CaptureRequest
from gpuviz.capture.simulate import Simulator, active
from gpuviz.model import Trace


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """No test leaves a simulator on."""
    yield
    left = active()
    if left is not None:
        left.uninstall()
    assert left is None


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    """A deterministic H100, on."""
    with Simulator("H100", deterministic=True) as made:
        yield made


@pytest.fixture
def capture(simulator: Simulator) -> Callable[[Callable[[], Any]], Trace]:
    """Run a function inside a capture; its trace, which keeps the laws of the model."""

    def run(body: Callable[[], Any]) -> Trace:
        simulator.start(CaptureRequest())
        try:
            body()
        finally:
            trace = simulator.stop()
        return trace.validate()

    return run
