"""`Trace.validate`: a lawful trace passes; every law, broken once, is named with its table and column."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuviz.errors import TraceError
from gpuviz.model import Trace, TraceMeta
from tests.drawing import trace_from_text

type Change = Callable[[pl.DataFrame], pl.DataFrame]

DRAWN = """
    thread 1: fffffffff.
    thread 1: .A..B.>.G.
    stream 7: ..AAAABB..
    stream 8: .......>0.
    range 1:  rrrrrr....
    wait 8:   ..www.....
    A = kernel gemm
"""


@pytest.fixture(scope="module")
def lawful() -> Trace:
    return trace_from_text(DRAWN)


def put(column: str, value: object, row: int = 0) -> Change:
    """The table with another value in one row."""

    def change(table: pl.DataFrame) -> pl.DataFrame:
        here = pl.int_range(pl.len()) == row
        new = pl.lit(value).cast(table.schema[column])
        return table.with_columns(pl.when(here).then(new).otherwise(pl.col(column)).alias(column))

    return change


def both(*changes: Change) -> Change:
    def change(table: pl.DataFrame) -> pl.DataFrame:
        for one in changes:
            table = one(table)
        return table

    return change


BROKEN: dict[str, tuple[str, str | None, str, Change]] = {
    "null where it never may be": ("kernels", "name", "null where it never may be", put("name", None)),
    "end before start": ("kernels", "timing", "0 <= start <= end", put("end_ns", 0)),
    "negative start": ("host_calls", "timing", "0 <= start <= end", put("start_ns", -1)),
    "ok without end": ("memcpys", "timing", "0 <= start <= end", put("end_ns", None)),
    "open with an end": ("host_calls", "timing", "wants a start and no end", put("timing", "open")),
    "open without start": (
        "host_calls",
        "timing",
        "wants a start and no end",
        both(put("timing", "open"), put("start_ns", None), put("end_ns", None)),
    ),
    "null starts first": (
        "kernels",
        "start_ns",
        "rows without a start come last",
        both(put("timing", "invalid"), put("start_ns", None)),
    ),
    "not sorted": ("kernels", "start_ns", "sorted by start_ns", lambda table: table.reverse()),
    "row ids from 1": ("threads", "thread_id", "numbers the rows from 0", put("thread_id", 1)),
    "row ids with a gap": ("api_calls", "api_id", "numbers the rows from 0", put("api_id", 9, row=3)),
    "a stream that is not there": ("kernels", "stream_id", "names a row of 'streams'", put("stream_id", 2)),
    "a negative reference": ("kernels", "api_id", "names a row of 'api_calls'", put("api_id", -1)),
    "a parent that is not there": ("host_calls", "parent_id", "names a row of 'host_calls'", put("parent_id", 1)),
    "a device that is not there": ("streams", "device_id", "names a row of 'devices'", put("device_id", 5)),
    "one activity id twice": ("memcpys", "activity_id", "unique over all GPU activities", put("activity_id", 0)),
    "a second root": ("callpaths", "callpath_id", "only the first node is the root", put("parent_id", None, row=2)),
    "the root below a node": ("callpaths", "callpath_id", "only the first node is the root", put("parent_id", 0)),
    "a child before its parent": (
        "callpaths",
        "callpath_id",
        "parents come before children",
        put("parent_id", 3, row=2),
    ),
    "last id below the node": ("callpaths", "callpath_id", "last_id lies at or below", put("last_id", 1, row=2)),
    "last id beyond the parent's": ("callpaths", "callpath_id", "last_id lies at or below", put("last_id", 90, row=3)),
    "another depth": ("callpaths", "callpath_id", "depth is one more", put("depth", 5, row=1)),
    "a leaf that claims its sibling": ("callpaths", "callpath_id", "the last of the nodes", put("last_id", 4, row=3)),
    "a node that claims the next": ("callpaths", "callpath_id", "the last of the nodes", put("last_id", 6, row=2)),
    "a root that is not the top": ("callpaths", "callpath_id", "depth is one more", put("depth", 1)),
}


def test_a_drawn_trace_is_lawful(lawful: Trace) -> None:
    assert lawful.validate() is lawful
    assert Trace({}).validate().meta.end_ns == 0


@pytest.mark.parametrize("case", BROKEN)
def test_every_law_broken_once(lawful: Trace, case: str) -> None:
    table, column, law, change = BROKEN[case]
    broken = lawful.replace(**{table: change(lawful.table(table))})
    assert not broken.table(table).equals(lawful.table(table))
    with pytest.raises(TraceError, match=law) as caught:
        broken.validate()
    found_column = caught.value.column
    assert found_column == column
    if table != "memcpys" or column != "activity_id":
        assert caught.value.table == table


@given(st.data())
def test_a_change_of_the_tree_is_found_or_lawful(lawful: Trace, data: st.DataObject) -> None:
    table = lawful.callpaths
    column = data.draw(st.sampled_from(["parent_id", "last_id", "depth"]))
    row = data.draw(st.integers(0, table.height - 1))
    changed = put(column, data.draw(st.none() | st.integers(-1, table.height)), row)(table)
    trace = lawful.replace(callpaths=changed)
    if is_preorder_tree(changed):
        trace.validate()
    else:
        with pytest.raises(TraceError):
            trace.validate()


def is_preorder_tree(callpaths: pl.DataFrame) -> bool:
    """Whether parents, depths and last ids are those of a walk over the tree."""
    if callpaths.select("last_id", "depth").null_count().sum_horizontal().item():
        return False
    open_nodes: list[int] = []
    parents, depths = callpaths["parent_id"].to_list(), callpaths["depth"].to_list()
    for node, parent in enumerate(parents):
        while open_nodes and open_nodes[-1] != parent:
            open_nodes.pop()
        if (node > 0) != bool(open_nodes) or depths[node] != len(open_nodes) or (node == 0) != (parent is None):
            return False
        open_nodes.append(node)
    below = [{node} for node in range(len(parents))]
    for node in range(len(parents) - 1, 0, -1):
        below[parents[node]] |= below[node]
    return [max(nodes) for nodes in below] == callpaths["last_id"].to_list()


def test_no_row_ends_after_the_trace(lawful: Trace) -> None:
    with pytest.raises(TraceError, match=r"meta\.end_ns is 5, but a row ends later"):
        lawful.replace(meta=TraceMeta(end_ns=5)).validate()


def test_a_cut_trace_keeps_ids_with_gaps_but_never_twice(lawful: Trace) -> None:
    cut = lawful.window(6_000, 9_000).validate()
    assert cut.api_calls["api_id"].to_list() == [1, 2, 3]
    with pytest.raises(TraceError, match="is unique"):
        cut.replace(api_calls=put("api_id", 2)(cut.api_calls)).validate()
