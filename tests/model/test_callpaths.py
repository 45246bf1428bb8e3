"""The call tree against a trie of dictionaries."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from gpuviz.model import Trace
from gpuviz.model.callpaths import ROOT_ID, CallTree, FrameTable, ancestors, build_call_tree
from tests.drawing import trace_from_text, tree_to_text

KNOWN_KEY = 5167680707136616232


@st.composite
def rows(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Parents (in any order of rows, without cycles) and frames 1 to 4 (0 is the root's)."""
    count = draw(st.integers(0, 24))
    place = draw(st.permutations(range(count)))
    parent = [-1] * count
    for position, row in enumerate(place):
        above = draw(st.integers(-1, position - 1))
        parent[row] = -1 if above < 0 else place[above]
    return parent, draw(st.lists(st.integers(1, 4), min_size=count, max_size=count))


def frame_table() -> FrameTable:
    frames = FrameTable()
    frames.add("root", "root")
    for number in range(4):
        frames.add("python", f"function {number}", "train.py", None, number)
    return frames


def tree_of(parent: list[int], frame: list[int], frames: FrameTable | None = None) -> CallTree:
    table = (frames or frame_table()).frames()
    return build_call_tree(np.array(parent, dtype=np.int64), np.array(frame, dtype=np.int64), table)


def trie(parent: list[int], frame: list[int]) -> tuple[list[tuple[int, ...]], list[int]]:
    """(the path of frames of each node in preorder, the node of each row), by dictionaries.

    Children come in the order of their first row.
    """
    paths = []
    for start in range(len(parent)):
        path, row = [], start
        while row >= 0:
            path.append(frame[row])
            row = parent[row]
        paths.append(tuple(reversed(path)))
    first = {path: row for row, path in reversed(list(enumerate(paths)))}
    order: list[tuple[int, ...]] = []

    def visit(path: tuple[int, ...]) -> None:
        order.append(path)
        for child in sorted((one for one in first if one[:-1] == path and one), key=lambda one: first[one]):
            visit(child)

    visit(())
    return order, [order.index(path) for path in paths]


@given(rows())
def test_equals_a_trie_of_dictionaries(drawn: tuple[list[int], list[int]]) -> None:
    tree = tree_of(*drawn)
    order, node_of_row = trie(*drawn)
    assert tree.node.tolist() == node_of_row
    found = tree.callpaths
    assert found["frame_id"].to_list() == [path[-1] if path else 0 for path in order]
    assert found["depth"].to_list() == [len(path) for path in order]
    assert found["parent_id"].to_list() == [order.index(path[:-1]) if path else None for path in order]
    last = [max(place for place, other in enumerate(order) if other[: len(path)] == path) for path in order]
    assert found["last_id"].to_list() == last
    assert found["path_key"].n_unique() == found.height
    for node, path in enumerate(order):
        assert len(ancestors(found, node)) == len(path) + 1
        assert ancestors(found, node)[0] == ROOT_ID
    Trace({"frames": frame_table().frames(), "callpaths": found}).validate()


@given(rows(), st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_ids_and_nothing_else(drawn: tuple[list[int], list[int]], random: Any) -> None:
    parent, frame = drawn
    place = list(range(len(parent)))
    random.shuffle(place)
    moved_parent, moved_frame = [-1] * len(parent), [0] * len(parent)
    for row, target in enumerate(place):
        moved_parent[target] = -1 if parent[row] < 0 else place[parent[row]]
        moved_frame[target] = frame[row]
    one, other = tree_of(parent, frame), tree_of(moved_parent, moved_frame)
    assert set(one.callpaths["path_key"]) == set(other.callpaths["path_key"])
    keys, moved_keys = one.callpaths["path_key"].to_list(), other.callpaths["path_key"].to_list()
    for row, target in enumerate(place):
        assert keys[one.node[row]] == moved_keys[other.node[target]]


def test_keys_join_two_traces_and_know_no_lines() -> None:
    def keys(line: int, file: str = "train.py") -> list[int]:
        frames = FrameTable()
        frames.add("root", "root")
        called = frames.add("python", "step", file, None, line)
        return tree_of([-1, 0], [called, called], frames).callpaths["path_key"].to_list()

    assert keys(12) == keys(99)
    assert keys(12)[0] == keys(12, "other.py")[0]
    assert keys(12)[1:] != keys(12, "other.py")[1:]
    assert keys(12)[1] != keys(12)[2], "recursion is another path"
    assert keys(12)[1] == KNOWN_KEY, "the same on every machine and in every version: saved traces join by it"


def test_the_same_frame_gives_the_same_id() -> None:
    frames = FrameTable()
    first = frames.add("op", "aten::mm")
    assert frames.add("op", "aten::mm") == first
    assert frames.add("op", "aten::mm", line=3) != first
    assert frames.frames()["function"].to_list() == ["aten::mm", "aten::mm"]
    assert FrameTable().frames().height == 0


def test_deep_chains_do_not_recurse() -> None:
    depth = 5_000
    tree = tree_of([row - 1 for row in range(depth)], [1] * depth)
    assert tree.callpaths["depth"].to_list() == list(range(depth + 1))
    assert tree.callpaths["last_id"].unique().to_list() == [depth]


def test_gpu_activities_are_leaves_below_their_launch() -> None:
    trace = trace_from_text("""
        thread 1: ffff.ffff
        thread 1: .A....A..
        stream 7: ..AA...AA
    """)
    assert tree_to_text(trace) == "root\n  python f\n    api cudaLaunchKernel\n      kernel A"
    assert trace.kernels["callpath_id"].to_list() == [3, 3]
    assert trace.api_calls["callpath_id"].to_list() == [2, 2]
    assert trace.callpaths.schema["path_key"] == pl.UInt64()
