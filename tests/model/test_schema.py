"""The written schema keeps its own conventions, and the page made from it is up to date."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import polars as pl
import pytest

from gpuviz.model import schema

ROOT = Path(__file__).parents[2]
COLUMNS = [(table.name, column) for table in schema.TABLES.values() for column in table.columns]


def test_data_model_page_is_up_to_date() -> None:
    path = ROOT / "tools" / "write_data_model.py"
    spec = importlib.util.spec_from_file_location("write_data_model", path)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    written = (ROOT / "docs" / "data-model.md").read_text(encoding="utf-8")
    assert written == tool.data_model_markdown(), "run: python tools/write_data_model.py"


@pytest.mark.parametrize(("table", "column"), COLUMNS, ids=[f"{name}.{column.name}" for name, column in COLUMNS])
def test_names_say_units_and_kinds(table: str, column: schema.Column) -> None:
    if column.name.endswith("_ns") or column.name.endswith("_bytes"):
        assert column.dtype == pl.Int64()
    if column.name.endswith("_id") and column.name in schema.REFERENCES:
        assert column.dtype == pl.Int32(), "row ids are 32 bits wide"
    assert column.meaning, "every column has a meaning"


def test_references_and_row_ids_name_tables_and_columns() -> None:
    assert set(schema.REFERENCES.values()) <= set(schema.TABLES)
    for table, row_id in schema.ROW_IDS.items():
        assert schema.TABLES[table].columns[0].name == row_id
    assert set(schema.ACTIVITY_TABLES) <= set(schema.INTERVAL_TABLES) <= set(schema.TABLES)


def test_an_empty_table_has_all_columns() -> None:
    for name, table in schema.TABLES.items():
        empty = schema.empty(name)
        assert empty.height == 0
        assert empty.columns == [column.name for column in table.columns]
