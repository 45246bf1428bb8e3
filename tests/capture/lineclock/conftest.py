from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from gpuviz.capture.lineclock.clock import TOOL_NAME
from tests.capture.lineclock.probing import Notebook


@pytest.fixture
def notebook() -> Notebook:
    return Notebook()


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """No test leaves a clock behind."""
    yield
    assert [tool for tool in range(6) if sys.monitoring.get_tool(tool) == TOOL_NAME] == []
