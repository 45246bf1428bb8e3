"""How recorded intervals of a thread nest.

Recorded intervals are never split or clamped. Real traces hold intervals that cross (a profiler's own
``_record_function_enter`` crosses the annotation it opens), that stick out of their parent by less than the clock's
resolution, and whole families of zero width at the same microsecond; each keeps its row, and the answer says how many
there were.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuviz._native import nesting as native

BLEED_TOLERANCE_NS = 1_000
"""A child may end this much after its parent and still be a child: sub-microsecond digits of host clocks differ."""


@dataclass(frozen=True)
class Nesting:
    """Answer of `nest`, in the order of its input.

    `parent`: index of the row around this one, -1 for none. `depth`: drawing row; rows of a thread that overlap by
    more than the tolerance never share one. `level`: distance to the outermost row along `parent`. `bleeding`: children
    that stick out of their parent by at most the tolerance. `crossing`: rows that partly overlap the row before them,
    so that their parent is further out.
    """

    parent: npt.NDArray[np.int32]
    depth: npt.NDArray[np.int32]
    level: npt.NDArray[np.int32]
    bleeding: int
    crossing: int


def nesting_order(
    thread: npt.NDArray[np.int64], start: npt.NDArray[np.int64], end: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """The order that `nest` wants: thread, start, longest first, then as given."""
    return np.lexsort((-end, start, thread))


def nest(
    thread: npt.NDArray[np.int64],
    start: npt.NDArray[np.int64],
    end: npt.NDArray[np.int64],
    tolerance_ns: int = BLEED_TOLERANCE_NS,
) -> Nesting:
    """Find the parent and the drawing row of each interval.

    The three arrays have one element per interval and are sorted as `nesting_order` says; times are in ns. An interval
    that starts where another ends is its sibling; one that starts where another of equal or greater length starts
    lies in it. Uses the compiled walk where there is one; both give the same answer.
    """
    thread, start, end = (np.ascontiguousarray(values, dtype=np.int64) for values in (thread, start, end))
    if native.available():
        return Nesting(*native.nest(thread, start, end, tolerance_ns))
    return nest_in_python(thread, start, end, tolerance_ns)


def nest_in_python(
    thread: npt.NDArray[np.int64],
    start: npt.NDArray[np.int64],
    end: npt.NDArray[np.int64],
    tolerance_ns: int,
) -> Nesting:
    """The reference for the compiled walk (gpuviz/_native/nesting.c); some 100 times slower."""
    count = len(start)
    parent = np.full(count, -1, dtype=np.int32)
    depth = np.zeros(count, dtype=np.int32)
    level = np.zeros(count, dtype=np.int32)
    bleeding = crossing = 0
    open_rows: list[tuple[int, int, int]] = []  # row, start, effective end
    current = None
    rows = zip(thread.tolist(), start.tolist(), end.tolist(), strict=True)
    for row, (row_thread, row_start, row_end) in enumerate(rows):
        if row_thread != current:
            open_rows.clear()
            current = row_thread
        while open_rows and not _holds(open_rows[-1], row_start, row_end):
            open_rows.pop()
        effective_end = row_end
        for position in range(len(open_rows) - 1, -1, -1):
            above = open_rows[position]
            if above[2] + tolerance_ns >= row_end and _holds(above, row_start, row_end):
                parent[row] = above[0]
                level[row] = level[above[0]] + 1
                if row_end > above[2]:
                    bleeding += 1
                    effective_end = above[2]
                break
        if open_rows:
            depth[row] = depth[open_rows[-1][0]] + 1
            crossing += int(parent[row] != open_rows[-1][0])
        open_rows.append((row, row_start, effective_end))
    return Nesting(parent, depth, level, bleeding, crossing)


def _holds(above: tuple[int, int, int], start: int, end: int) -> bool:
    """Whether the open row `above` has not ended when (start, end) begins; equal starts nest, even at zero width."""
    _, above_start, above_end = above
    return above_end > start or (above_start == start and end <= above_end)
