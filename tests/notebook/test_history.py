"""The history of profiles: its table, its limits, its traces."""

from __future__ import annotations

import polars as pl
import pytest

from gpuviz.errors import GpuvizError
from gpuviz.model import Trace
from gpuviz.notebook import history as module
from gpuviz.notebook.history import History
from tests.drawing import trace_from_text


def drawn(kernels: str = "..AA.B") -> Trace:
    return trace_from_text(f"stream 7: {kernels}")


def add(history: History, trace: Trace, label: str | None = None) -> None:
    history.add(trace, cell="c1", execution_count=4, label=label, wall_ns=9_000, backend="replay gpu.gpuviz")


def test_a_row_says_what_was_profiled() -> None:
    history = History()
    add(history, drawn(), "first")
    add(history, Trace({}))
    table = history.table()
    assert table["profile"].to_list() == [1, 2]
    assert table["busy_ns"].to_list() == [3_000, None]
    assert table["label"].to_list() == ["first", None]
    assert table.row(0, named=True) | {"when": None} == {
        "profile": 1,
        "cell": "c1",
        "execution_count": 4,
        "label": "first",
        "wall_ns": 9_000,
        "busy_ns": 3_000,
        "backend": "replay gpu.gpuviz",
        "modelled": False,
        "when": None,
        "has_trace": True,
    }


def test_the_empty_table_has_the_same_columns() -> None:
    history = History()
    empty = history.table()
    add(history, drawn())
    assert empty.schema == history.table().schema
    assert empty.height == 0


def test_a_trace_comes_back_by_number_and_from_the_end() -> None:
    history = History()
    first, second = drawn("A"), drawn("AA")
    add(history, first)
    add(history, second)
    assert history.trace(1) is first
    assert history.trace(-1) is second
    assert history.trace(-2) is first


def test_old_traces_make_room_and_their_rows_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_TRACES", 2)
    history = History()
    for _ in range(4):
        add(history, drawn())
    assert history.table()["has_trace"].to_list() == [False, False, True, True]
    assert history.totals[:2] == (4, 2)
    with pytest.raises(GpuvizError, match="made room"):
        history.trace(2)


def test_bytes_are_limited_but_the_last_trace_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 1)
    history = History()
    add(history, drawn())
    add(history, drawn())
    assert history.table()["has_trace"].to_list() == [False, True]
    assert history.totals[2] > 1


def test_rows_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_PROFILES", 3)
    history = History()
    for _ in range(5):
        add(history, drawn())
    assert history.table()["profile"].to_list() == [3, 4, 5]
    with pytest.raises(GpuvizError, match="3 to 5"):
        history.trace(1)


def test_nothing_profiled_is_said() -> None:
    with pytest.raises(GpuvizError, match="nothing was profiled"):
        History().trace(-1)


def test_busy_time_is_that_of_the_busiest_device() -> None:
    history = History()
    add(history, trace_from_text("stream 0/7: AA\nstream 1/7: .BBBB"))
    assert history.table()["busy_ns"].to_list() == [4_000]


def test_the_public_function_needs_no_shell() -> None:
    import gpuviz.notebook.history as public

    assert isinstance(public.history(), pl.DataFrame)
