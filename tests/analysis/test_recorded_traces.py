"""Recordings from real GPUs: the figures of an independent program, to the nanosecond, and of another tool."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import gpuviz
from gpuviz import analysis
from gpuviz.model import Trace

DEVICES = [
    ("a100_control_memcpy_overlap.json.gz", 3),
    ("b200_vllm_eager.json.gz", 0),
    ("event_sync_multi_stream.json.gz", 0),
    ("h100_bert_with_stack.json.gz", 0),
    ("h100_owlv2_with_stack.json.gz", 0),
    ("mi250_minitoy_train.json.gz", 2),
    ("mi300_resnet_training.json.gz", 2),
    ("mi300_torch_compile_triton.json.gz", 2),
    ("mi300_vllm_decode_hip_graph.json.gz", 2),
    ("old_1_12_on_demand.json.gz", 0),
    ("sampled_rank0.json.gz", 0),
    ("sampled_rank1.json.gz", 1),
    ("triton_example.json.gz", 0),
    ("v100_cuda_graph_test.json.gz", 1),
    ("v100_ns_resolution.json.gz", 0),
    ("worker0_step_12.1694128201545.pt.trace.json", 0),
    ("worker3_step_12.1694128201557.pt.trace.json", 3),
]
EVERY_RECORDING = pytest.mark.parametrize(("file", "ordinal"), DEVICES, ids=[file.split(".")[0] for file, _ in DEVICES])


@cache
def recording(path: Path) -> Trace:
    return gpuviz.load(path)


def named(shared_traces: Path, file: str) -> Trace:
    (path,) = (shared_traces / "kineto").rglob(f"{file}*")
    return recording(path)


def oracle(shared_traces: Path, file: str) -> dict[str, Any]:
    figures: dict[str, dict[str, Any]] = json.loads((shared_traces / "ORACLES.json").read_text(encoding="utf-8"))
    return next(known for name, known in figures.items() if name.startswith(file))


@EVERY_RECORDING
def test_device_time_is_that_of_the_oracle(shared_traces: Path, file: str, ordinal: int) -> None:
    trace, figures = named(shared_traces, file), oracle(shared_traces, file)[f"dev{ordinal}_ns"]
    row = analysis.device_time(trace).row(by_predicate=pl.col("ordinal") == ordinal, named=True)
    assert row["kernel_ns"] == figures["kernel_union"]
    assert row["copy_ns"] == figures["memcpy_union"]
    assert row["hidden_copy_ns"] == figures["memcpy_x_kernel"]
    assert row["busy_ns"] == figures["busy_union"]
    kernels = analysis.top_kernels(trace).filter(table="kernels")
    assert kernels["total_ns"].sum() == figures["kernel_sum"]


@EVERY_RECORDING
def test_launches_are_those_of_the_oracle(shared_traces: Path, file: str, ordinal: int) -> None:
    trace, figures = named(shared_traces, file), oracle(shared_traces, file)
    table = analysis.launches(trace)
    assert table.height == figures["gpu_events"]
    assert table["launch_index"].null_count() == figures["no_launch_record"]
    assert table["before_launch"].sum() == figures["start_before_launch"]
    assert table["launch_index"].max() == figures["max_gpu_events_per_launch"] - 1


@EVERY_RECORDING
def test_the_tree_holds_all_gpu_time_and_all_copies_are_hidden_or_exposed(
    shared_traces: Path, file: str, ordinal: int
) -> None:
    trace = named(shared_traces, file)
    everything = trace.activities().filter(timing="ok").select((pl.col("end_ns") - pl.col("start_ns")).sum()).item()
    assert analysis.gpu_time(trace)["inclusive_ns"][0] == everything
    device = analysis.device_time(trace).row(by_predicate=pl.col("ordinal") == ordinal, named=True)
    table = analysis.copies(trace)
    assert table["duration_ns"].sum() >= device["copy_ns"]
    assert (table["hidden_ns"] + table["exposed_ns"] == table["duration_ns"]).all()


@EVERY_RECORDING
def test_halves_of_the_trace_add_up(shared_traces: Path, file: str, ordinal: int) -> None:
    trace = named(shared_traces, file)
    middle, end = trace.meta.end_ns // 2, trace.meta.end_ns + 1
    for analyse, columns in (
        (analysis.device_time, ["busy_ns", "kernel_ns", "hidden_copy_ns", "exposed_copy_ns", "idle_ns"]),
        (analysis.gpu_time, ["activities", "exclusive_ns", "inclusive_ns"]),
    ):
        first, second, whole = (analyse(trace, window) for window in ((0, middle), (middle, end), (0, end)))
        for column in columns:
            assert (first[column] + second[column]).equals(whole[column]), column
        assert analyse(trace.window(middle, end)).equals(second)


@pytest.mark.parametrize("name", ["h100_bert", "h100_owlv2"])
def test_another_tool_agrees(shared_traces: Path, name: str) -> None:
    """TraceLens on the same file: its device timeline (computation includes fills) and kernels by parent operator."""
    trace, reports = named(shared_traces, f"{name}_with_stack"), shared_traces / "peer_reports"
    timeline = pl.read_csv(reports / f"{name}_gpu_timeline.csv")
    theirs = dict(zip(timeline["type"], timeline["time ms"], strict=True))
    (ours,) = analysis.device_time(trace).to_dicts()
    computing = ours["kernel_ns"] + ours["exposed_memset_ns"]
    for figure, value in (
        ("computation_time", computing),
        ("exposed_memcpy_time", ours["exposed_copy_ns"]),
        ("busy_time", ours["busy_ns"]),
        ("idle_time", ours["idle_ns"]),
        ("total_time", ours["span_ns"]),
    ):
        assert value / 1e6 == pytest.approx(theirs[figure], abs=1e-5), figure
    report = (
        pl.read_csv(reports / f"{name}_kernel_summary.csv")
        .group_by("Parent cpu_op", "Kernel name")
        .agg(pl.col("Kernel duration (µs)_sum").sum(), pl.col("Kernel duration (µs)_count").sum())
    )
    expected = {(row[0], row[1]): (pytest.approx(row[2], abs=1e-3), row[3]) for row in report.iter_rows()}
    assert kernels_by_operator(trace) == expected


def kernels_by_operator(trace: Trace) -> dict[tuple[str | None, str], tuple[float, int]]:
    """(innermost operator, kernel) → (µs, executions), from the tree."""
    operator: dict[int | None, str | None] = {None: None}
    sums: dict[tuple[str | None, str], tuple[int, int]] = defaultdict(lambda: (0, 0))
    for node in analysis.gpu_time(trace, distributions=False).iter_rows(named=True):
        own = node["name"] if node["layer"] == "op" else operator[node["parent_id"]]
        operator[node["callpath_id"]] = own
        if node["layer"] == "kernel":
            time, count = sums[own, node["name"]]
            sums[own, node["name"]] = time + node["exclusive_ns"], count + node["activities"]
    return {key: (time / 1e3, count) for key, (time, count) in sums.items()}
