"""No test leaves a session running."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpuviz.capture import active_session


@pytest.fixture(autouse=True)
def no_session_is_left() -> Iterator[None]:
    """Own the clock, leave nothing running: a session that outlives its test would fail the next ones."""
    assert active_session() is None
    yield
    left = active_session()
    if left is not None:
        left.stop()
    assert left is None, "the test has left a session running"
