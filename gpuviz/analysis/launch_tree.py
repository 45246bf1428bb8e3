"""The stages of launches, summed by call path."""

from __future__ import annotations

import numpy as np
import polars as pl

from gpuviz.analysis.intervals import Ints
from gpuviz.analysis.launched import null_unless
from gpuviz.analysis.selection import counts, exact_sums, ints
from gpuviz.analysis.waterfall import STAGES, launch_stages
from gpuviz.model import Trace, Window, schema

_KNOWN = {stage: f"{stage.removesuffix('_ns')}_known" for stage in STAGES if stage != "gpu_ns"}

SCHEMA = pl.Schema(
    {
        "callpath_id": pl.Int32(),
        "parent_id": pl.Int32(),
        "depth": pl.Int32(),
        "layer": pl.Enum(schema.FRAME_LAYERS),
        "name": pl.Categorical(),
        "launches": pl.Int64(),
        "first": pl.Int64(),
        "before_launch": pl.Int64(),
        **dict.fromkeys(STAGES, pl.Int64()),
        **dict.fromkeys(_KNOWN.values(), pl.Int64()),
    }
)


def launch_tree(trace: Trace, window: Window | None = None) -> pl.DataFrame:
    """The stages of `launch_stages` by call path: one row per node of `trace.callpaths`, in its order.

    ``launches``: launches at or below the node (an API call launches at its own node) that start in the window,
    ``first`` and ``before_launch`` of them flagged so. ``lead_ns``, ``python_ns``, ``dispatch_ns``, ``api_ns``,
    ``queue_delay_ns``, ``gpu_ns``: Σ over them, where the stage is known; ``lead_known`` … say of how many. Queue
    delays of flagged launches (clock skew) are not in the sum. Sums over threads and streams, not unions.

    Null: a sum of which no part is known. Raises `AnalysisError` for an impossible window.
    """
    stages = launch_stages(trace, window)
    paths = trace.callpaths
    last, node = ints(paths["last_id"]), ints(stages["callpath_id"])
    flagged = stages["before_launch"].to_numpy()

    def count(rows: np.ndarray) -> Ints:
        return _below(counts(node[rows], paths.height), last)

    everything = count(np.ones(len(node), dtype=np.bool_))
    columns = {
        "launches": pl.Series(everything),
        "first": pl.Series(count(stages["first"].to_numpy())),
        "before_launch": pl.Series(count(flagged)),
    }
    for stage in STAGES:
        values = ints(stages[stage])
        is_known = stages[stage].is_not_null().to_numpy()
        if stage == "queue_delay_ns":
            is_known = is_known & ~flagged
        known = count(is_known)
        total = _below(exact_sums(node[is_known], values[is_known], paths.height), last)
        columns[stage] = null_unless((known > 0) | (everything == 0), total)
        if stage in _KNOWN:
            columns[_KNOWN[stage]] = pl.Series(known)
    frames = trace.frames.select("layer", pl.col("function").alias("name"))[paths["frame_id"]]
    table = paths.select("callpath_id", "parent_id", "depth").hstack(frames).with_columns(**columns)
    return table.select(SCHEMA.names()).cast(SCHEMA)


def _below(at_node: Ints, last: Ints) -> Ints:
    """Sum over each subtree: in preorder it is one range."""
    running = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(at_node)))
    below: Ints = running[last + 1] - running[:-1]
    return below
