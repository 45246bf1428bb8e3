"""How the calls of a thread nest: host calls and API calls together, so that rows which overlap never share a depth.

Links go by containment in time within a thread, and by nothing else: an External id may be the id of an operator, of
a correlation, or of neither (pytorch/kineto#1354).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from gpuviz.model.diagnostics import Diagnostics
from gpuviz.model.nesting import nest

type Ints = npt.NDArray[np.int64]

# Of calls with equal times, which a clock of whole microseconds makes common, the outer one is the one listed first.
_OUTER_FIRST = {"python": 0, "module": 0, "op": 1, "other": 1}
_API = 2


@dataclass(frozen=True)
class Nested:
    """Parent (index, -1 for none), level along the parents, and drawing row of each interval."""

    parent: Ints
    level: Ints
    depth: Ints
    bleeding: int = 0
    crossing: int = 0


@dataclass(frozen=True)
class Calls(Nested):
    """How two tables nest; their rows are numbered together, first all host calls, then all API calls."""

    hosts: int = 0

    @property
    def parent_host(self) -> Ints:
        """The nearest host call around each row, -1 for none."""
        above = self.parent.copy()
        while (is_api := above >= self.hosts).any():
            above[is_api] = self.parent[above[is_api]]
        return above

    @property
    def parent_api(self) -> Ints:
        """The API call directly around each row, as a row of `api_calls`, -1 for none."""
        return np.where(self.parent >= self.hosts, self.parent - self.hosts, -1)


def nest_calls(host: pl.DataFrame, api: pl.DataFrame, end_ns: int, diagnostics: Diagnostics) -> Calls:
    """Nest the rows of both tables, thread by thread."""
    rank = pl.col("layer").replace_strict(_OUTER_FIRST, return_dtype=pl.Int64)
    columns = ("start_ns", "end_ns", "timing", pl.col("thread_id").alias("lane"))
    both = pl.concat([host.select(*columns, rank=rank), api.select(*columns, rank=pl.lit(_API, dtype=pl.Int64))])
    nested = nest_rows(both, end_ns)
    diagnostics.add("bleeding_child", nested.bleeding)
    diagnostics.add("crossing_call", nested.crossing)
    return Calls(nested.parent, nested.level, nested.depth, hosts=host.height)


def nest_rows(rows: pl.DataFrame, end_ns: int) -> Nested:
    """Nest rows (lane, start_ns, end_ns, timing, rank) within their lanes; unusable ones stay outside.

    A row without an end lasts as long as the row that holds its start, or to the end of the trace.
    """
    usable = rows.with_row_index("row").filter(pl.col("timing") != "invalid")
    row, lane, start, rank = (usable[name].to_numpy().astype(np.int64) for name in ("row", "lane", "start_ns", "rank"))
    end = usable["end_ns"].fill_null(usable["start_ns"]).to_numpy().astype(np.int64)
    is_open = usable["end_ns"].is_null().to_numpy()
    if is_open.any():
        holder = _nest(lane, start, end, rank).parent
        end = np.where(is_open, np.where(holder >= 0, end[holder], max(end_ns, 0)), end)
        end = np.maximum(end, start)
    found = _nest(lane, start, end, rank)
    parent, level, depth = (np.full(rows.height, value, dtype=np.int64) for value in (-1, 0, 0))
    parent[row] = np.where(found.parent >= 0, row[found.parent], -1) if len(row) else -1
    level[row], depth[row] = found.level, found.depth
    return Nested(parent, level, depth, found.bleeding, found.crossing)


def _nest(lane: Ints, start: Ints, end: Ints, rank: Ints) -> Nested:
    """`gpuviz.model.nesting.nest` on rows in any order."""
    order = np.lexsort((rank, -end, start, lane))
    found = nest(lane[order], start[order], end[order])
    parent, level, depth = (np.empty(len(order), dtype=np.int64) for _ in range(3))
    parent[order] = np.where(found.parent >= 0, order[found.parent], -1) if len(order) else -1
    level[order], depth[order] = found.level, found.depth
    return Nested(parent, level, depth, found.bleeding, found.crossing)
