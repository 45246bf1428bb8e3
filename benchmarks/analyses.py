"""Times every analysis on a synthetic trace, and puts it in relation to a sort of as many numbers in the same run.

Times drift from machine to machine, ratios less so. ``python benchmarks/analyses.py [ROWS]`` (default 1,000,000 GPU
activities: kernels and copies on 4 streams of one device, as many API calls, a call tree of some 20,000 nodes) prints
a table: best time of some tries, its ratio to ``numpy.sort`` of that many random int64, and the goal where there is
one. `brute` is the plain way to the same number with NumPy or Polars, where one exists that ends in time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
import polars as pl

from gpuviz import analysis
from gpuviz.analysis import intervals
from gpuviz.analysis.launches import join_launches
from gpuviz.model import Trace, TraceMeta, schema
from gpuviz.model.callpaths import FrameTable, build_call_tree

SEED = 7
TRIES = 5
NODES = 20_000


def synthetic_trace(rows: int, seed: int = SEED, *, deep: bool = False) -> Trace:
    """A trace of `rows` GPU activities (an eighth are copies), one launch each, below a random call tree."""
    random = np.random.default_rng(seed)
    gpu_start = np.cumsum(random.integers(500, 6_000, rows))
    gpu_end = gpu_start + random.lognormal(8, 1, rows).astype(np.int64)
    api_start = np.maximum(gpu_start - random.integers(5_000, 200_000, rows), 0)
    by_start = np.argsort(api_start, kind="stable")
    api_id = np.empty(rows, dtype=np.int64)
    api_id[by_start] = np.arange(rows)
    api_start = api_start[by_start]
    frames, tree, leaf_nodes, call_nodes = synthetic_tree(random, deep)
    leaf = random.integers(0, len(leaf_nodes), rows)
    node, call_node = leaf_nodes[leaf], call_nodes[leaf]
    is_copy = random.random(rows) < 1 / 8
    common = {
        "activity_id": np.arange(rows),
        "correlation_id": api_id + 1,
        "api_id": api_id,
        "name": [f"kernel {number % 300}" for number in range(rows)],
        "start_ns": gpu_start,
        "end_ns": gpu_end,
        "timing": ["ok"] * rows,
        "stream_id": random.integers(0, 4, rows),
        "callpath_id": node,
    }
    activities = pl.DataFrame(common)
    copies = activities.filter(is_copy).with_columns(
        copy_kind=pl.lit("HtoD"), src_kind=pl.lit("pinned"), dst_kind=pl.lit("device"), size_bytes=pl.lit(4096)
    )
    api_end = api_start + random.integers(2_000, 20_000, rows)
    calls = pl.DataFrame(
        {
            "api_id": np.arange(rows),
            "depth": np.zeros(rows, dtype=np.int32),
            "correlation_id": np.arange(rows) + 1,
            "api": ["runtime"] * rows,
            "name": ["cudaLaunchKernel"] * rows,
            "start_ns": api_start,
            "end_ns": api_end,
            "timing": ["ok"] * rows,
            "thread_id": np.zeros(rows, dtype=np.int32),
            "callpath_id": call_node[by_start],
        }
    )
    streams = {"stream_id": range(4), "device_id": [0] * 4, "label": list("0123"), "kind": ["unknown"] * 4}
    tables = {
        "processes": pl.DataFrame({"process_id": [0]}),
        "threads": pl.DataFrame({"thread_id": [0], "process_id": [0], "name": ["main"]}),
        "devices": pl.DataFrame({"device_id": [0], "ordinal": [0]}),
        "streams": pl.DataFrame(streams),
        "kernels": activities.filter(~is_copy),
        "memcpys": copies,
        "api_calls": calls,
        "frames": frames,
        "callpaths": tree,
    }
    typed = {name: as_table(name, table) for name, table in tables.items()}
    end = int(max(gpu_end.max(), api_end.max()))
    return Trace(typed, TraceMeta(title="synthetic", end_ns=end)).validate()


def with_ranges_and_operators(trace: Trace, steps: int = 1_000) -> Trace:
    """The trace with steps, two levels of annotations in each, and an operator with shapes around each launch."""
    calls = trace.api_calls
    edges = np.linspace(0, trace.meta.end_ns, steps + 1).astype(np.int64)
    middles = (edges[:-1] + edges[1:]) // 2
    parts = [
        {"kind": kind, "name": name, "start_ns": start, "end_ns": end, "depth": depth}
        for depth, (kind, name, start, end) in enumerate(
            (
                ("step", "step", edges[:-1], edges[1:]),
                ("annotation", "forward", edges[:-1], middles),
                ("annotation", "layer", edges[:-1], (edges[:-1] + middles) // 2),
            )
        )
    ]
    ranges = pl.concat([pl.DataFrame(part) for part in parts]).sort("start_ns", "depth").with_row_index("range_id")
    ranges = ranges.with_columns(timing=pl.lit("ok"), thread_id=pl.lit(0))
    number = pl.col("api_id")
    operators = calls.select(
        host_call_id="api_id",
        depth=pl.lit(0),
        layer=pl.lit("op"),
        name=pl.format("aten::op{}", number % 50),
        start_ns="start_ns",
        end_ns="end_ns",
        timing="timing",
        thread_id="thread_id",
        input_shapes=pl.format("[[{}]]", number % 100),
    )
    tables = {"ranges": as_table("ranges", ranges), "host_calls": as_table("host_calls", operators)}
    return trace.replace(api_calls=calls.with_columns(host_call_id="api_id"), **tables)


def synthetic_tree(
    random: np.random.Generator, deep: bool
) -> tuple[pl.DataFrame, pl.DataFrame, np.ndarray, np.ndarray]:
    """Frames, call paths, and (activity leaf, its launch) for each of some thousand launching places.

    Some 40 levels deep like recordings with Python stacks; `deep`: some 500, like runaway recursion.
    """
    inner, leaves = NODES // 2, NODES // 4
    frames = FrameTable()
    frames.add("root", "root")
    functions = np.array(
        [frames.add("python", f"function {number}", "train.py", None, number) for number in range(400)]
    )
    call, kernel = frames.add("api", "cudaLaunchKernel"), frames.add("kernel", "kernel")
    place = np.arange(inner)
    parent = np.maximum(place - random.integers(1, 40, inner) if deep else (place * random.uniform(0.6, 1, inner)), -1)
    parent = np.minimum(parent.astype(np.int64), place - 1)
    below = random.integers(0, inner, leaves)
    frame = np.concatenate((random.choice(functions, inner), np.full(leaves, call), np.full(leaves, kernel)))
    parents = np.concatenate((parent, below, inner + np.arange(leaves)))
    tree = build_call_tree(parents, frame, frames.frames())
    return frames.frames(), tree.callpaths, tree.node[inner + leaves :], tree.node[inner : inner + leaves]


def as_table(name: str, table: pl.DataFrame) -> pl.DataFrame:
    """The table with all columns of the data model, absent ones null."""
    wanted = schema.TABLES[name].polars_schema
    missing = [pl.lit(None).alias(column) for column in wanted if column not in table.columns]
    return table.with_columns(missing).select(wanted.names()).cast(dict(wanted))


def best_ms(work: Callable[[], object]) -> float:
    """The shortest of some tries, ms."""
    shortest = float("inf")
    for _ in range(TRIES):
        begin = time.perf_counter()
        work()
        shortest = min(shortest, time.perf_counter() - begin)
    return shortest * 1e3


def plain_union(start: np.ndarray, end: np.ndarray) -> int:
    """The union by +1 at each start and −1 at each end, sorted."""
    times = np.concatenate((start, end))
    steps = np.concatenate((np.ones(len(start), dtype=np.int64), np.full(len(end), -1)))
    order = np.argsort(times, kind="stable")
    running = np.cumsum(steps[order])
    return int(np.diff(times[order])[running[:-1] > 0].sum())


def plain_join(trace: Trace) -> pl.DataFrame:
    """The launch join as a hash join of Polars, without index, queue delay and order."""
    calls = trace.api_calls.select("api_id", launch_start="start_ns", launch_end="end_ns")
    return trace.kernels.join(calls, on="api_id", how="left")


def plain_tree(trace: Trace) -> list[int]:
    """Inclusive time by a loop over the nodes from the last to the first."""
    total = [0] * trace.callpaths.height
    sums = trace.activities().group_by("callpath_id").agg((pl.col("end_ns") - pl.col("start_ns")).sum())
    for node, value in sums.iter_rows():
        total[node] = value
    for node, parent in reversed(list(enumerate(trace.callpaths["parent_id"]))):
        if parent is not None:
            total[parent] += total[node]
    return total


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    trace, deep = synthetic_trace(rows), synthetic_trace(rows, deep=True)
    annotated = with_ranges_and_operators(trace)
    start, end = (trace.kernels[column].to_numpy() for column in ("start_ns", "end_ns"))
    kernels = intervals.union(start, end)
    copies = intervals.union(*(trace.memcpys[column].to_numpy() for column in ("start_ns", "end_ns")))
    half = len(start) // 2
    first, second = (intervals.union(start[part], end[part]) for part in (slice(0, None, 2), slice(1, None, 2)))
    api_id, first_of_call = trace.kernels["api_id"].to_numpy().astype(np.int64), np.zeros(len(start), dtype=np.int64)
    window = (trace.meta.end_ns // 4, trace.meta.end_ns // 2)
    small = (trace.meta.end_ns // 2, trace.meta.end_ns // 2 + trace.meta.end_ns // 1_000)
    numbers = np.random.default_rng(SEED).integers(0, 2**62, rows)
    sort = best_ms(lambda: np.sort(numbers))
    work: list[tuple[str, Callable[[], object], float | None, Callable[[], object] | None]] = [
        ("union length", lambda: intervals.union_length(start, end), 25, lambda: plain_union(start, end)),
        ("union as intervals", lambda: intervals.union(start, end), 25, None),
        (f"overlap of {half:,} with {half:,}", lambda: intervals.overlap_length(first, second), 15, None),
        ("per copy: F(end) − F(start)", lambda: intervals.covered_in(kernels, *copies), None, None),
        ("device_time", lambda: analysis.device_time(trace), None, None),
        ("device_time, a window", lambda: analysis.device_time(trace, window), None, None),
        ("launch join", lambda: join_launches(trace, start, api_id, first_of_call), 25, lambda: plain_join(trace)),
        ("launches: join, index, order", lambda: analysis.launches(trace), None, None),
        ("launch_summary", lambda: analysis.launch_summary(trace), None, None),
        ("copies", lambda: analysis.copies(trace), None, None),
        ("copy_time", lambda: analysis.copy_time(trace), None, None),
        ("gpu_time, times only", lambda: analysis.gpu_time(trace, distributions=False), 50, lambda: plain_tree(trace)),
        ("gpu_time, with percentiles", lambda: analysis.gpu_time(trace), None, None),
        ("the same, call tree 500 deep", lambda: analysis.gpu_time(deep), None, None),
        ("cpu_time, with percentiles", lambda: analysis.cpu_time(trace), None, None),
        ("top_kernels", lambda: analysis.top_kernels(trace), None, None),
        ("busy_share", lambda: analysis.busy_share(trace), 250, None),
        ("by_kernel", lambda: analysis.by_kernel(trace), 250, None),
        ("by_op", lambda: analysis.by_op(trace), 250, None),
        ("by_module", lambda: analysis.by_module(trace), 250, None),
        ("by_line", lambda: analysis.by_line(trace), 250, None),
        ("by_step, 1,000 steps", lambda: analysis.by_step(annotated), 250, None),
        ("by_range, 3 deep", lambda: analysis.by_range(annotated), 250, None),
        ("by_shape, as many operators", lambda: analysis.by_shape(annotated), 250, None),
        ("copy_verdicts", lambda: analysis.copy_verdicts(trace), 250, None),
        ("copy_verdicts, a window", lambda: analysis.copy_verdicts(trace, window), None, None),
        ("serialized_copies", lambda: analysis.serialized_copies(trace), 250, None),
        ("launch_stages", lambda: analysis.launch_stages(trace), 250, None),
        ("launch_stages, a small window", lambda: analysis.launch_stages(trace, small), 20, None),
        ("launch_tree", lambda: analysis.launch_tree(trace), 250, None),
        ("launch_budget", lambda: analysis.launch_budget(trace), 250, None),
        ("launch_budget, a small window", lambda: analysis.launch_budget(trace, small), 20, None),
        ("queue_depth", lambda: analysis.queue_depth(trace), 250, None),
        ("queue_depth, a small window", lambda: analysis.queue_depth(trace, small), 20, None),
        ("launch_bound", lambda: analysis.launch_bound(trace), 250, None),
        ("first_calls", lambda: analysis.first_calls(trace), 250, None),
        ("idle", lambda: analysis.idle(trace), 250, None),
        ("idle, a small window", lambda: analysis.idle(trace, small), 20, None),
        ("idle, HTA's classes", lambda: analysis.idle(trace, None, "hta"), 250, None),
        ("graph_gain", lambda: analysis.graph_gain(trace), 250, None),
        ("findings, all rules", lambda: analysis.findings(trace), None, None),
    ]
    depth = trace.callpaths["depth"].max()
    print(f"{rows:,} activities, {trace.callpaths.height:,} call paths up to {depth} deep; ", end="")
    print(f"numpy.sort of as many int64: {sort:.1f} ms")
    print(f"{'analysis':<32} {'ms':>9} {'÷ sort':>8} {'goal ms':>8} {'brute ms':>9}")
    for name, run, goal, brute in work:
        taken = best_ms(run)
        wanted = "" if goal is None else f"{goal:.0f}"
        plain = "" if brute is None else f"{best_ms(brute):.1f}"
        print(f"{name:<32} {taken:>9.1f} {taken / sort:>8.1f} {wanted:>8} {plain:>9}")


if __name__ == "__main__":
    main()
