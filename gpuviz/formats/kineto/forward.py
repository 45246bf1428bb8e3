"""Which forward operator a backward operator belongs to. It ran in another thread: linked, never nested.

Two sources say so: ``fwdbwd`` flow events, which begin and end at the start of an operator, and, where they are
missing, the sequence number that both operators carry. Whatever a backward operator calls belongs to the same
forward operator.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from gpuviz.model.diagnostics import Diagnostics

type Ints = npt.NDArray[np.int64]


def forward_calls(host: pl.DataFrame, flows: pl.DataFrame, diagnostics: Diagnostics) -> Ints:
    """For each row of `host` (host_call_id, parent_id, level, …) the row of its forward call, -1 for none."""
    forward = np.full(host.height, -1, dtype=np.int64)
    backward = pl.col("forward_thread") > 0
    for pairs in (_by_sequence(host, backward), _by_flow(host, flows)):  # flows are exact, so they come last
        forward[pairs["backward"].to_numpy()] = pairs["forward"].to_numpy()
    _inherit(forward, host)
    unknown = host.filter(backward & pl.Series(forward < 0))
    example = f"{unknown['name'][0]!r:.80}, sequence number {unknown['sequence_number'][0]}" if unknown.height else None
    diagnostics.add("forward_missing", unknown.height, example)
    return forward


def _by_flow(host: pl.DataFrame, flows: pl.DataFrame) -> pl.DataFrame:
    """Pairs (forward, backward) from flows (phase, id, thread_id, process_id, start_ns)."""
    operators = host.filter(layer="op").select("host_call_id", "thread_id", "start_ns", "depth", "sequence_number")
    ends = flows.join(operators, on=["thread_id", "start_ns"])
    # Several operators may start at that instant, where the clock is coarse. Those in question have a sequence number.
    # The inner one made the node of the backward graph, the outer one holds all the work of the backward step.
    ends = ends.sort(pl.col("sequence_number").is_null(), "depth", maintain_order=True)
    key = ["process_id", "id"]
    forward = ends.filter(pl.col("phase") == "s").sort(pl.col("sequence_number").is_null(), -pl.col("depth"))
    forward = forward.unique(key, keep="first", maintain_order=True).select(*key, forward="host_call_id")
    backward = ends.filter(pl.col("phase") != "s").unique([*key, "start_ns", "thread_id"], keep="first")
    return backward.select(*key, backward="host_call_id").join(forward, on=key).select("forward", "backward")


def _by_sequence(host: pl.DataFrame, backward: pl.Expr) -> pl.DataFrame:
    """Pairs by sequence number.

    A forward operator carries the number that is next, and so do the operators that it calls; the last of them to
    start made the node (PyTorch matches in the same way). Numbers are counted per thread, and a backward operator
    names its thread by another count: where two threads use a number, it decides nothing.
    """
    key = ["process_id", "sequence_number"]
    numbered = host.filter(pl.col("sequence_number") >= 0)
    forward = numbered.filter(pl.col("forward_thread").fill_null(0) == 0)
    forward = (
        forward.filter(pl.col("thread_id").n_unique().over(key) == 1)
        .sort("start_ns", "depth", maintain_order=True)
        .unique(key, keep="last", maintain_order=True)
        .select(*key, forward="host_call_id", forward_ns="start_ns")
    )
    pairs = numbered.filter(backward).join(forward, on=key)
    return pairs.filter(pl.col("forward_ns") <= pl.col("start_ns")).select("forward", backward="host_call_id")


def _inherit(forward: Ints, host: pl.DataFrame) -> None:
    """Give each row the forward call of the row around it, unless it has one of its own; outer rows first."""
    parent = host["parent_id"].fill_null(-1).to_numpy().astype(np.int64)
    level = host["level"].to_numpy()
    order = np.argsort(level, kind="stable")
    for rows in np.split(order, np.cumsum(np.bincount(level))[:-1]) if len(order) else ():
        inherits = rows[(forward[rows] < 0) & (parent[rows] >= 0)]
        forward[inherits] = forward[parent[inherits]]
