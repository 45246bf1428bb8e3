"""What was lost is counted under a known code, with its first example."""

from __future__ import annotations

import pytest

from gpuviz.model import Diagnostics, Trace
from gpuviz.model.diagnostics import CODES


def test_counts_and_the_first_example_are_kept() -> None:
    diagnostics = Diagnostics()
    diagnostics.add("time_missing", example="event 4")
    diagnostics.add("time_missing", 2, "event 9")
    diagnostics.add("file_truncated")
    diagnostics.add("copy_kind_unknown", 0, "none")
    assert diagnostics.count("time_missing") == 3
    assert diagnostics.count("event_unreadable") == 0
    table = diagnostics.table()
    assert table.select("code", "count", "first_example").rows() == [
        ("file_truncated", 1, None),
        ("time_missing", 3, "event 4"),
    ], "in the order of CODES"
    assert table["effect"].to_list() == [CODES["file_truncated"], CODES["time_missing"]]
    Trace({"diagnostics": table}).validate()


def test_an_unknown_code_is_a_mistake_of_the_program() -> None:
    with pytest.raises(KeyError, match="add it to"):
        Diagnostics().add("odd")


def test_nothing_to_say_is_a_table_without_rows() -> None:
    assert Diagnostics().table().equals(Trace({}).diagnostics)


def test_every_code_says_which_numbers_it_touches() -> None:
    for code, effect in CODES.items():
        assert code == code.lower()
        assert len(effect) > 10
