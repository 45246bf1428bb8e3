"""A backend on a fake CUPTI, and the check that it has left nothing behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from gpuviz._native import cupti_buffers
from gpuviz.capture.cupti.backend import CuptiBackend
from gpuviz.capture.cupti.call_stacks import LineSourceFor, no_lines
from gpuviz.capture.cupti.pool import DEFAULT_BYTES
from tests.capture.cupti_backend.fakes import FakeCupti, FakeDriver

type BackendOf = Callable[..., CuptiBackend]


@pytest.fixture
def backend_of() -> BackendOf:
    def make(
        cupti: FakeCupti,
        driver: FakeDriver | None = None,
        *,
        memory_bytes: int = DEFAULT_BYTES,
        lines: LineSourceFor = no_lines,
        fence_timeout_s: float = 2.0,
    ) -> CuptiBackend:
        used = FakeDriver(cupti) if driver is None else driver
        return CuptiBackend(
            memory_bytes=memory_bytes,
            lines=lines,
            fence_timeout_s=fence_timeout_s,
            open_control=lambda: cupti,
            open_driver=lambda: used,
        )

    return make


@pytest.fixture(autouse=True)
def nothing_is_left_in_the_pool() -> Iterator[None]:
    yield
    if cupti_buffers.available():
        stats = cupti_buffers.stats()
        assert (stats.with_reader, stats.resident - stats.with_cupti - stats.filled) == (0, 0)
