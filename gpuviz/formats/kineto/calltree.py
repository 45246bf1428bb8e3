"""The call tree: host calls and API calls as they nest, and the GPU work as leaves below what launched it.

Work without a record of its launch hangs below a group of its own under the root. Threads share the root, so equal
paths of two threads are one node.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from gpuviz.formats.kineto.calls import Calls
from gpuviz.formats.kineto.links import ORPHANS
from gpuviz.model.callpaths import FrameTable, build_call_tree

# "torch/nn/modules/linear.py(116): forward"
_PYTHON_NAME = r"(?s)^(.+)\((\d{1,9})\): (.*)$"
_MODULE_PREFIX = "nn.Module: "
# "<built-in method append of list object at 0x7f65c9f38b40>": the address differs from call to call and from run to
# run, and would make a node of its own of each.
_ADDRESS = r" at 0x[0-9a-fA-F]+>$"


@dataclass(frozen=True)
class Tree:
    """The tables `frames` and `callpaths`, and the node of each row."""

    frames: pl.DataFrame
    callpaths: pl.DataFrame
    host: pl.Series
    api: pl.Series
    gpu: pl.Series


def build_tree(host: pl.DataFrame, api: pl.DataFrame, gpu: pl.DataFrame, calls: Calls) -> Tree:
    """One tree over all rows: host (layer, name), api (name), gpu (kind, name, launch, how)."""
    frames = FrameTable()
    frames.add("root", "all")
    groups = [how for how in ORPHANS if (gpu["how"] == how).any()]
    frame_ids = [
        _frame_ids(host.select("layer", "name"), frames),
        _frame_ids(api.select(pl.lit("api").alias("layer"), "name"), frames),
        _frame_ids(gpu.select(layer=pl.col("kind").cast(pl.String), name="name"), frames),
        np.array([frames.add("group", how) for how in groups], dtype=np.int64),
    ]
    sizes = [len(ids) for ids in frame_ids]
    first_group = sum(sizes[:3])
    launch = gpu["launch"].cast(pl.Int64).fill_null(-1).to_numpy()
    group = gpu["how"].replace_strict(
        {how: first_group + n for n, how in enumerate(groups)}, default=-1, return_dtype=pl.Int64
    )
    parent = np.concatenate(
        [
            calls.parent,
            np.where(launch >= 0, launch + calls.hosts, group.to_numpy()),
            np.full(len(groups), -1, dtype=np.int64),
        ]
    )
    table = frames.frames()
    tree = build_call_tree(parent, np.concatenate(frame_ids), table)
    host_node, api_node, gpu_node, _ = np.split(tree.node, np.cumsum(sizes)[:-1])
    return Tree(table, tree.callpaths, pl.Series(host_node), pl.Series(api_node), pl.Series(gpu_node))


def _frame_ids(rows: pl.DataFrame, frames: FrameTable) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The frame of each row (layer, name)."""
    rows = rows.cast(pl.String)
    places = rows.unique(maintain_order=True)
    ids = [frames.add(*place) for place in _places(places)]
    places = places.with_columns(pl.Series("frame_id", ids, dtype=pl.Int64))
    return rows.join(places, on=["layer", "name"], how="left", maintain_order="left")["frame_id"].to_numpy()


def _places(names: pl.DataFrame) -> Iterator[tuple[str, str, str | None, None, int | None]]:
    """Layer, function, file, cell and line of each name; a Python name holds three of them."""
    names = names.with_columns(pl.col("name").str.replace(_ADDRESS, ">"))
    parts = names["name"].str.extract_groups(_PYTHON_NAME).struct.unnest()
    for layer, name, file, line, function in names.hstack(parts).iter_rows():
        if layer == "python" and file is not None:
            yield layer, function, file, None, int(line)
        else:
            yield layer, name.removeprefix(_MODULE_PREFIX) if layer == "module" else name, None, None, None
