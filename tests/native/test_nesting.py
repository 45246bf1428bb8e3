"""The compiled nesting against a brute force without a stack, which looks at every earlier row each time."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpuviz import _native
from gpuviz._native import nesting

pytestmark = pytest.mark.native

type Row = tuple[int, int, int]  # thread, start, end


def nested(rows: list[Row], tolerance: int = 0) -> nesting.Answer:
    ordered = in_order(rows)
    thread, start, end = (np.array([row[i] for row in ordered], dtype=np.int64) for i in range(3))
    return nesting.nest(thread, start, end, tolerance)


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row[0], row[1], -row[2]))


def brute_force(rows: list[Row], tolerance: int) -> tuple[list[int], list[int], list[int], int, int]:
    """Each row asks every earlier row of its thread whether it is still open: quadratic, and plain.

    A row has left for good once it had ended and everything that started after it had left too.
    """
    rows = in_order(rows)
    parent, depth, level, effective = [-1] * len(rows), [0] * len(rows), [0] * len(rows), [0] * len(rows)
    left: set[int] = set()
    bleeding = crossing = 0
    for row, (thread, start, end) in enumerate(rows):

        def is_open(other: int, start: int = start, end: int = end) -> bool:
            return effective[other] > start or (rows[other][1] == start and end <= rows[other][2])

        present = [other for other in range(row) if rows[other][0] == thread and other not in left]
        last_open = max((other for other in present if is_open(other)), default=-1)
        left.update(other for other in present if other > last_open)
        above = [other for other in present if other <= last_open]
        fitting = [other for other in above if is_open(other) and end <= effective[other] + tolerance]
        effective[row] = end
        if fitting:
            parent[row] = fitting[-1]
            level[row] = level[fitting[-1]] + 1
            effective[row] = min(end, effective[fitting[-1]])
            bleeding += end > effective[fitting[-1]]
        if above:
            depth[row] = depth[above[-1]] + 1
            crossing += parent[row] != above[-1]
    return parent, depth, level, bleeding, crossing


@st.composite
def intervals(draw: st.DrawFn) -> Row:
    start = draw(st.integers(0, 12))
    return draw(st.integers(0, 2)), start, start + draw(st.integers(0, 8))


@given(st.lists(intervals(), max_size=40), st.integers(0, 3))
@example([(0, 0, 10), (0, 5, 20), (0, 12, 14)], 0)  # the outer row ends while a crossing one is open above it
@example([(0, 0, 10), (0, 2, 12), (0, 11, 12)], 3)  # a bleeding child does not hold what follows its parent
def test_equals_brute_force(rows: list[Row], tolerance: int) -> None:
    parent, depth, level, bleeding, crossing = nested(rows, tolerance)
    answer = (parent.tolist(), depth.tolist(), level.tolist(), bleeding, crossing)
    assert answer == brute_force(rows, tolerance)


@given(st.lists(intervals(), max_size=40))
def test_rows_that_overlap_never_share_a_depth(rows: list[Row]) -> None:
    depth = nested(rows)[1]
    ordered = in_order(rows)
    for i, (thread, start, end) in enumerate(ordered):
        for j in range(i):
            overlap = ordered[j][0] == thread and max(start, ordered[j][1]) < min(end, ordered[j][2])
            assert not (overlap and depth[i] == depth[j])


@pytest.mark.parametrize(
    ("rows", "tolerance", "parents", "bleeding", "crossing"),
    [
        pytest.param([], 0, [], 0, 0, id="nothing"),
        pytest.param([(0, 0, 9), (0, 1, 5), (0, 2, 4), (0, 5, 9)], 0, [-1, 0, 1, 0], 0, 0, id="a plain tree"),
        pytest.param([(0, 0, 5), (0, 5, 9)], 0, [-1, -1], 0, 0, id="one ends where the next starts"),
        pytest.param([(0, 0, 5), (1, 1, 2)], 0, [-1, -1], 0, 0, id="threads never nest in each other"),
        pytest.param([(0, 3, 3), (0, 3, 3), (0, 3, 3)], 0, [-1, 0, 1], 0, 0, id="zero width at one instant"),
        pytest.param([(0, 0, 5), (0, 3, 6)], 1, [-1, 0], 1, 0, id="sticks out by the tolerance"),
        pytest.param([(0, 0, 5), (0, 3, 7)], 1, [-1, -1], 0, 1, id="sticks out by more: crosses"),
        pytest.param([(0, 0, 9), (0, 1, 5), (0, 3, 7)], 0, [-1, 0, 0], 0, 1, id="crosses inside a parent"),
    ],
)
def test_countable_by_eye(rows: list[Row], tolerance: int, parents: list[int], bleeding: int, crossing: int) -> None:
    answer = nested(rows, tolerance)
    assert answer[0].tolist() == parents
    assert answer[3:] == (bleeding, crossing)


def test_deep_nesting_grows_the_stack() -> None:
    rows = [(0, i, 20_000 - i) for i in range(10_000)]
    parent, depth, _, _, _ = nested(rows)
    assert parent.tolist() == list(range(-1, 9_999))
    assert depth[-1] == 9_999


def test_times_at_the_edge_of_64_bits() -> None:
    low, high = -(2**63), 2**63 - 1
    assert nested([(0, low, high), (0, low, 0), (0, 1, high)], 2**62)[0].tolist() == [-1, 0, 0]


def test_arrays_of_different_lengths_are_refused() -> None:
    one, two = np.zeros(1, dtype=np.int64), np.zeros(2, dtype=np.int64)
    with pytest.raises(ValueError, match="one length"):
        nesting.nest(one, two, two, 0)


def test_the_library_can_be_switched_off() -> None:
    code = "from gpuviz import _native; print(_native.library())"
    answer = subprocess.run(
        [sys.executable, "-c", code],
        env={"GPUVIZ_NATIVE": "off", "PYTHONPATH": str(_native.__file__).partition("/gpuviz/_native")[0]},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.strip() == "None"
