"""The fast reader is an extra: where it is absent, tests that compare both readers are skipped and say so."""

from __future__ import annotations

import importlib.util

import pytest

from tests.formats.nsys import exports

LACKS_ADBC = importlib.util.find_spec("adbc_driver_sqlite") is None


@pytest.fixture(autouse=True, scope="session")
def readers() -> None:
    """Without the driver, the standard library is the only reader, and every other test still runs."""
    if LACKS_ADBC:
        exports.ADBC_AND_STDLIB = ("stdlib", "stdlib")


@pytest.fixture
def adbc() -> None:
    if LACKS_ADBC:
        pytest.skip("adbc-driver-sqlite is not installed (pip install gpuviz[nsys])")
