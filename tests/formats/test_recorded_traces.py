"""Recorded traces against figures that were computed from the same files by other means, to the nanosecond.

`ORACLES.json` holds counts and exact sums, `peer_reports` what TraceLens says about two of the traces.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from gpuviz.formats import load
from gpuviz.formats.kineto.categories import family_of
from gpuviz.model.trace import Trace

pytestmark = pytest.mark.shared

FILES = [
    "a100_control_memcpy_overlap",
    "b200_vllm_eager",
    "cpu_only",
    "event_sync_multi_stream",
    "h100_bert_with_stack",
    "h100_owlv2_with_stack",
    "mi250_minitoy_train",
    "mi300_resnet_training",
    "mi300_torch_compile_triton",
    "mi300_vllm_decode_hip_graph",
    "mtia_455k_events",
    "old_1_12_on_demand",
    "sampled_rank0",
    "sampled_rank1",
    "triton_example",
    "v100_cuda_graph_test",
    "v100_ns_resolution",
    *[f"worker{rank}_" for rank in range(8)],
]

# Diagnostics of each file: nothing is lost silently, and nothing is made up. Files that are not here have none.
KNOWN_LOSSES = {
    "b200_vllm_eager": {"bleeding_child": 3, "crossing_call": 3},
    "cpu_only": {"no_gpu_activity": 1},
    "mi300_resnet_training": {"launched_before_window": 968},
    "mtia_455k_events": {"crossing_call": 3453, "category_unknown": 29267, "no_gpu_activity": 1},
    "sampled_rank0": {"forward_missing": 375},
    "sampled_rank1": {"forward_missing": 386},
    "v100_cuda_graph_test": {"launched_before_window": 614},
    "v100_ns_resolution": {"out_of_range_records": 3829},
    "worker1_": {"launched_before_window": 64},
    "worker3_": {"launched_before_window": 64},
}


@pytest.fixture(scope="module")
def opened(shared_traces: Path) -> Any:
    """A trace by the beginning of its file name; each is loaded once."""

    @cache
    def open_trace(name: str) -> Trace:
        (path,) = shared_traces.glob(f"kineto/**/{name}*")
        return load(path)

    return open_trace


@pytest.fixture(scope="module")
def oracles(shared_traces: Path) -> dict[str, Any]:
    return json.loads((shared_traces / "ORACLES.json").read_text())


def union_ns(intervals: list[tuple[int, int]]) -> int:
    """Length of the union, the slow and plain way."""
    total, until = 0, None
    for start, end in sorted(intervals):
        begin = start if until is None else max(start, until)
        total += max(0, end - begin)
        until = end if until is None else max(until, end)
    return total


def oracle_of(oracles: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = (figures for file, figures in oracles.items() if file.startswith(name))
    return found


@pytest.mark.parametrize("name", FILES)
def test_laws(opened: Any, name: str) -> None:
    opened(name).validate()


@pytest.mark.parametrize("name", FILES)
def test_every_event_is_in_a_table(opened: Any, oracles: dict[str, Any], name: str) -> None:
    trace, oracle = opened(name), oracle_of(oracles, name)
    expected: dict[str, int] = {}
    for key, count in oracle["by_cat"].items():
        phase, _, category = key.partition(":")
        family = family_of(category) if phase == "X" else {"i": "mark"}.get(phase, "")
        if category == "cpu_instant_event":
            family = "counter"
            count *= 2  # allocated and reserved
        expected[family] = expected.get(family, 0) + count
    expected.pop("", None)
    host = trace.host_calls["category"].cast(pl.String).to_list()
    found = {
        **{family: sum(family_of(category) == family for category in host) for family in map(family_of, set(host))},
        "runtime": trace.api_calls.filter(api="runtime").height,
        "driver": trace.api_calls.filter(api="driver").height,
        "kernel": trace.kernels.height,
        "memcpy": trace.memcpys.height,
        "memset": trace.memsets.height,
        "sync": trace.syncs.height,
        "annotation": trace.ranges.filter(pl.col("kind").is_in(["step", "annotation"])).height,
        "gpu_annotation": trace.ranges.filter(kind="gpu_annotation").height,
        "profiler": trace.ranges.filter(kind="profiler").height,
        "mark": trace.ranges.filter(kind="mark").height,
        "counter": trace.counters.height,
    }
    assert {family: count for family, count in found.items() if count} == expected


@pytest.mark.parametrize("name", FILES)
def test_work_per_stream(opened: Any, oracles: dict[str, Any], name: str) -> None:
    trace, oracle = opened(name), oracle_of(oracles, name)
    streams = trace.streams.join(trace.devices.select("device_id", "ordinal"), on="device_id")
    counts = trace.activities().join(streams.select("stream_id", "ordinal", "label"), on="stream_id")
    counts = counts.group_by("ordinal", "label").len()
    assert {f"{ordinal}/{label}": count for ordinal, label, count in counts.iter_rows()} == oracle.get("streams", {})


@pytest.mark.parametrize("name", FILES)
def test_times_on_each_device(opened: Any, oracles: dict[str, Any], name: str) -> None:
    trace, oracle = opened(name), oracle_of(oracles, name)
    work = trace.activities()
    assert set(work["timing"]) <= {"ok"}
    found = {}
    for device_id, ordinal in trace.devices.select("device_id", "ordinal").iter_rows():
        of_device = work.filter(device_id=device_id)
        spans = {
            table: of_device.filter(table=table).select("start_ns", "end_ns").rows()
            for table in ("kernels", "memcpys", "memsets")
        }
        kernels, copies = spans["kernels"], spans["memcpys"]
        if kernels:
            found[f"dev{ordinal}_ns"] = {
                "kernel_sum": sum(end - start for start, end in kernels),
                "kernel_union": union_ns(kernels),
                "memcpy_union": union_ns(copies),
                "memcpy_x_kernel": union_ns(kernels) + union_ns(copies) - union_ns(kernels + copies),
                "busy_union": union_ns(kernels + copies + spans["memsets"]),
            }
    assert found == {key: value for key, value in oracle.items() if key.startswith("dev")}


@pytest.mark.parametrize("name", FILES)
def test_launches(opened: Any, oracles: dict[str, Any], name: str) -> None:
    trace, oracle = opened(name), oracle_of(oracles, name)
    work = trace.activities()
    joined = work.join(trace.api_calls.select("api_id", launch="name", launch_ns="start_ns"), on="api_id", how="left")
    per_launch = joined.drop_nulls("api_id").group_by("api_id").agg(pl.len(), pl.col("launch").first())
    graphs = per_launch.filter(pl.col("launch").cast(pl.String).str.contains("GraphLaunch"))
    assert work.height == oracle.get("gpu_events", 0)
    assert joined["api_id"].null_count() == oracle.get("no_launch_record", 0)
    assert joined.filter(pl.col("start_ns") < pl.col("launch_ns")).height == oracle.get("start_before_launch", 0)
    assert graphs.height == oracle.get("graph_launches", 0)
    if "max_gpu_events_per_launch" in oracle:
        assert per_launch["len"].max() == oracle["max_gpu_events_per_launch"]


@pytest.mark.parametrize("name", FILES)
def test_time_zero(opened: Any, oracles: dict[str, Any], name: str) -> None:
    meta, oracle = opened(name).meta, oracle_of(oracles, name)
    whole, _, fraction = oracle["ts_first"].partition(".")
    assert meta.t0_source_ns == int(whole) * 1000 + int(fraction.ljust(3, "0") or 0)
    assert meta.t0_unix_ns == meta.t0_source_ns + int(oracle.get("baseTimeNanoseconds", 0))


@pytest.mark.parametrize("name", FILES)
def test_diagnostics(opened: Any, name: str) -> None:
    trace = opened(name)
    assert dict(trace.diagnostics.select("code", "count").iter_rows()) == KNOWN_LOSSES.get(name, {})


@pytest.mark.parametrize("name", FILES)
def test_leaves_and_links_agree(opened: Any, name: str) -> None:
    """The parent of each leaf is the node of its launch, or a group; groups hold the work without a launch."""
    trace = opened(name)
    nodes = trace.callpaths.join(trace.frames.select("frame_id", "layer", "function"), on="frame_id")
    above = nodes.select(parent_id="callpath_id", above_layer="layer")
    leaves = trace.activities().join(nodes.select("callpath_id", "parent_id", "layer"), on="callpath_id")
    leaves = leaves.join(above, on="parent_id").join(
        trace.api_calls.select("api_id", launch_node="callpath_id"), on="api_id", how="left"
    )
    assert leaves.height == trace.activities().height
    assert (leaves["table"].cast(pl.String).str.strip_suffix("s") == leaves["layer"].cast(pl.String)).all()
    linked = leaves.drop_nulls("api_id")
    assert (linked["launch_node"] == linked["parent_id"]).all()
    assert (leaves.filter(pl.col("api_id").is_null())["above_layer"] == "group").all()


@pytest.mark.parametrize("name", FILES)
def test_saved_and_opened_again(opened: Any, name: str, tmp_path: Path) -> None:
    trace = opened(name)
    again = load(trace.save(tmp_path / "trace.gpuviz"))
    assert again.meta == trace.meta
    for table, rows in trace.tables.items():
        assert again.table(table).equals(rows), table


def test_backward_is_linked_to_forward(opened: Any) -> None:
    """905 pairs of flow events in this trace; each backward operator has its forward call."""
    trace = opened("v100_ns_resolution")
    backward = trace.host_calls.drop_nulls("forward_callpath_id")
    assert backward.height >= 905
    assert trace.kernels["forward_callpath_id"].drop_nulls().len() > 1000
    names = trace.frames["function"].cast(pl.String).gather(trace.callpaths["frame_id"])
    pairs = backward.select(pl.col("name").cast(pl.String), forward=names.gather(backward["forward_callpath_id"]))
    assert set(pairs.filter(name="ReluBackward0")["forward"]) <= {
        "aten::relu",
        "aten::relu_",
        "aten::clamp_min_",
    }


def test_amd_devices_that_nothing_lists(opened: Any) -> None:
    trace = opened("mi300_torch_compile_triton")
    assert trace.devices["ordinal"].to_list() == [0, 2]
    assert trace.devices["name"].to_list() == ["AMD Instinct MI300X", None]


def test_ranks(opened: Any) -> None:
    assert [opened(f"worker{rank}_").processes["rank"].to_list() for rank in range(8)] == [[rank] for rank in range(8)]


# TraceLens. Its figures are floats of microseconds, some of them float32: that is the tolerance.


def operators_of(trace: Trace) -> pl.DataFrame:
    """Each activity with the operator that launched it."""
    host = trace.host_calls.select("host_call_id", "parent_id", "layer", "name").rows()

    def operator(host_call_id: int | None) -> str | None:
        while host_call_id is not None and host[host_call_id][2] != "op":
            host_call_id = host[host_call_id][1]
        return None if host_call_id is None else host[host_call_id][3]

    work = trace.activities().with_columns(pl.col("table", "name").cast(pl.String))
    callers = trace.api_calls["host_call_id"].gather(work["api_id"])
    return work.with_columns(
        operator=pl.Series([operator(caller) for caller in callers]), ns=pl.col("end_ns") - pl.col("start_ns")
    )


PEERS = [("h100_bert", "h100_bert_with_stack"), ("h100_owlv2", "h100_owlv2_with_stack")]


@pytest.mark.parametrize(("peer", "name"), PEERS)
def test_kernels_by_operator_as_tracelens_has_them(opened: Any, shared_traces: Path, peer: str, name: str) -> None:
    theirs = pl.read_csv(shared_traces / f"peer_reports/{peer}_kernel_summary.csv").select(
        operator="Parent cpu_op",
        name="Kernel name",
        ns=(pl.col("Kernel duration (µs)_sum") * 1000).round().cast(pl.Int64),
        count="Kernel duration (µs)_count",
    )
    ours = operators_of(opened(name)).filter(table="kernels")
    ours = ours.group_by("operator", "name").agg(pl.col("ns").sum(), pl.len().cast(pl.Int64).alias("count"))
    order = ["operator", "name"]
    assert ours.sort(order).rows() == theirs.sort(order).rows()


@pytest.mark.parametrize(("peer", "name"), PEERS)
def test_operators_as_tracelens_has_them(opened: Any, shared_traces: Path, peer: str, name: str) -> None:
    """Its kernel time of an operator counts copies and fills too.

    It subtracts epoch-sized times as float64 of microseconds, so each duration may be off by a fraction of a ns.
    """
    theirs = pl.read_csv(shared_traces / f"peer_reports/{peer}_ops_summary.csv")
    ours = operators_of(opened(name)).group_by("operator").agg(pl.col("ns").sum(), pl.len())
    joined = theirs.join(ours, left_on="name", right_on="operator", how="full")
    assert joined.height == theirs.height
    error = (joined["total_direct_kernel_time_sum"] * 1000 - joined["ns"]).abs()
    assert (error <= 0.25 * joined["len"]).all()


@pytest.mark.parametrize(("peer", "name"), PEERS)
def test_timeline_as_tracelens_has_it(opened: Any, shared_traces: Path, peer: str, name: str) -> None:
    """Its computation is kernels and fills; its total runs from the first to the last GPU activity."""
    rows = pl.read_csv(shared_traces / f"peer_reports/{peer}_gpu_timeline.csv").select("type", "time ms").rows()
    theirs = {kind: ms * 1e6 for kind, ms in rows}
    work = opened(name).activities()
    spans = {table: work.filter(table=table).select("start_ns", "end_ns").rows() for table in set(work["table"])}
    everything = [span for part in spans.values() for span in part]
    compute = spans["kernels"] + spans.get("memsets", [])
    busy, total = union_ns(everything), work["end_ns"].max() - work["start_ns"].min()
    ours = {
        "computation_time": union_ns(compute),
        "exposed_memcpy_time": busy - union_ns(compute),
        "busy_time": busy,
        "idle_time": total - busy,
        "total_time": total,
        "total_memcpy_time": union_ns(spans["memcpys"]),
    }
    for kind, ns in ours.items():
        assert theirs[kind] == pytest.approx(ns, rel=1e-6, abs=1), kind
