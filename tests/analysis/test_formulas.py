"""docs/formulas.md has a word on every number that an analysis computes."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuviz import analysis
from gpuviz.model import Trace, schema

PAGE = (Path(__file__).parents[2] / "docs" / "formulas.md").read_text(encoding="utf-8")
COLUMNS_OF_THE_MODEL = {column.name for table in schema.TABLES.values() for column in table.columns}


@pytest.mark.parametrize("name", analysis.__all__)
def test_every_number_has_its_formula(name: str) -> None:
    assert f"`{name}`" in PAGE
    computed = set(getattr(analysis, name)(Trace({})).columns) - COLUMNS_OF_THE_MODEL - {"table"}
    assert not {column for column in computed if f"`{column}`" not in PAGE}
