"""How intervals nest: the walk in Python, and the compiled one, which must agree on everything."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuviz.model import nesting
from gpuviz.model.nesting import Nesting, nest, nest_in_python, nesting_order

ROWS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(0, 8)).map(
        lambda row: (row[0], row[1], row[1] + row[2])
    ),
    max_size=30,
)


def arrays(rows: list[tuple[int, int, int]]) -> list[np.ndarray]:
    columns = list(np.array(rows, dtype=np.int64).reshape(-1, 3).T)
    order = nesting_order(*columns)
    return [column[order] for column in columns]


def answer(found: Nesting) -> tuple[list[int], list[int], list[int], int, int]:
    return found.parent.tolist(), found.depth.tolist(), found.level.tolist(), found.bleeding, found.crossing


@pytest.mark.native
@given(ROWS, st.integers(0, 3))
def test_compiled_and_python_agree(rows: list[tuple[int, int, int]], tolerance: int) -> None:
    columns = arrays(rows)
    assert answer(nest(*columns, tolerance)) == answer(nest_in_python(*columns, tolerance))


@given(ROWS)
def test_without_tolerance_the_parent_is_the_innermost_interval_that_holds_the_row(
    rows: list[tuple[int, int, int]],
) -> None:
    """Brute force where intervals nest without crossing: look at every row before."""
    thread, start, end = (column.tolist() for column in arrays(rows))
    found = nest_in_python(*arrays(rows), 0)
    if found.crossing:
        return
    for row in range(len(start)):
        holders = [
            other
            for other in range(row)
            if thread[other] == thread[row]
            and start[other] <= start[row]
            and end[row] <= end[other]
            and (start[row] < end[other] or start[row] == start[other])
        ]
        assert found.parent[row] == max(holders, default=-1)
        assert found.level[row] == found.depth[row] == len(holders)


@given(ROWS, st.integers(0, 3))
def test_rows_that_overlap_by_more_than_the_tolerance_never_share_a_drawing_row(
    rows: list[tuple[int, int, int]], tolerance: int
) -> None:
    thread, start, end = (column.tolist() for column in arrays(rows))
    depth = nest_in_python(*arrays(rows), tolerance).depth.tolist()
    for row in range(len(start)):
        for other in range(row):
            overlap = min(end[row], end[other]) - max(start[row], start[other])
            if thread[row] == thread[other] and overlap > tolerance:
                assert depth[row] != depth[other]


def test_without_the_compiled_library_python_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nesting.native, "available", lambda: False)
    found = nest(*arrays([(0, 0, 9_000), (0, 1_000, 9_500), (0, 2_000, 3_000)]))
    assert answer(found) == ([-1, 0, 1], [0, 1, 2], [0, 1, 2], 1, 0)


def test_narrow_and_strided_arrays_are_taken() -> None:
    columns = [np.array([0, 0, 0, 0], dtype=np.int32)[::2], np.array([0, 9, 1, 9])[::2], np.array([5, 9, 2, 9])[::2]]
    assert nest(*columns, 0).parent.tolist() == [-1, 0]
