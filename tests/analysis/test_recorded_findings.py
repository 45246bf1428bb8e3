"""Recordings from real GPUs: groupings against independent figures, reasons, and which rules fire or abstain."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from gpuviz import analysis
from gpuviz.analysis.findings import RULES
from tests.analysis.test_recorded_traces import EVERY_RECORDING, kernels_by_operator, named, oracle

IDLE = {"idle_launching", "idle_nothing_recorded", "idle_queued"}
FOUND = {
    "a100_control_memcpy_overlap": {
        "copies_on_the_compute_stream",
        "copies_without_compute",
        "float32_matmul",
        "item_in_a_loop",
        "many_tiny_kernels",
        "unexplained_copies",
    }
    | IDLE,
    "h100_bert_with_stack": {"launch_bound", "low_utilisation", "idle_python", "idle_launching", "idle_queued"},
    "h100_owlv2_with_stack": {"data_loader_without_workers", "pageable_copies"},
    "mi300_vllm_decode_hip_graph": set(),
    "sampled_rank0": {"low_utilisation", "float32_matmul"} | IDLE,
}


@EVERY_RECORDING
def test_groups_add_up_to_the_figures_of_the_oracle(shared_traces: Path, file: str, ordinal: int) -> None:
    trace, figures = named(shared_traces, file), oracle(shared_traces, file)[f"dev{ordinal}_ns"]
    device = analysis.device_time(trace).row(by_predicate=pl.col("ordinal") == ordinal, named=True)
    shares = analysis.busy_share(trace).filter(device_id=device["device_id"])
    assert shares["busy_share_ns"].sum() == pytest.approx(figures["busy_union"], rel=1e-9)
    kernels = analysis.by_kernel(trace).filter(table="kernels")
    assert kernels["gpu_ns"].sum() == figures["kernel_sum"]
    for grouping in (analysis.by_op, analysis.by_module, analysis.by_line, analysis.by_step):
        table = grouping(trace)
        assert table["gpu_ns"].sum() == shares["duration_ns"].sum()
        assert table["activities"].sum() == figures.get("gpu_events", shares.height)


@pytest.mark.parametrize("name", ["h100_bert", "h100_owlv2"])
def test_kernels_by_operator_are_those_of_the_tree(shared_traces: Path, name: str) -> None:
    """`kernels_by_operator` equals the reports of another tool; `by_op` has its sums, and copies and fills too."""
    trace = named(shared_traces, f"{name}_with_stack")
    kernels = trace.replace(memcpys=trace.memcpys.clear(), memsets=trace.memsets.clear())
    expected: dict[str | None, float] = {}
    for (operator, _), (time, _) in kernels_by_operator(trace).items():
        expected[operator] = expected.get(operator, 0) + time
    found = {row["name"]: row["gpu_ns"] / 1e3 for row in analysis.by_op(kernels).iter_rows(named=True)}
    assert found == pytest.approx(expected)


@EVERY_RECORDING
def test_every_exposed_copy_has_one_reason(shared_traces: Path, file: str, ordinal: int) -> None:
    trace = named(shared_traces, file)
    table = analysis.copy_verdicts(trace)
    assert (table["reason"].is_null() == (table["exposed_ns"] == 0)).all()
    assert (table["saving_ns"] <= table["exposed_ns"]).all()
    pageable = table.filter((pl.col("src_kind") == "pageable") | (pl.col("dst_kind") == "pageable"))
    assert set(pageable["reason"].drop_nulls()) <= {"pageable_memory"}


@pytest.mark.parametrize("name", FOUND)
def test_what_is_found(shared_traces: Path, name: str) -> None:
    table = analysis.findings(named(shared_traces, name))
    assert set(table.filter(status="found")["rule"]) == FOUND[name]
    assert table.filter(status="warning").height == 0


def test_what_is_not_judged(shared_traces: Path) -> None:
    cpu_only = analysis.findings(named(shared_traces, "cpu_only"))
    assert dict(cpu_only["status"].value_counts().iter_rows()) == {"abstained": len(RULES) - 1}
    no_operators = analysis.findings(named(shared_traces, "old_1_12_on_demand")).filter(status="abstained")
    assert no_operators["rule"].to_list() == ["item_in_a_loop"]
    no_capability = analysis.findings(named(shared_traces, "sampled_rank0")).filter(status="abstained")
    assert no_capability["rule"].to_list() == ["float32_matmul"]
    outside = analysis.findings(named(shared_traces, "v100_ns_resolution")).filter(status="warning")
    assert "out_of_range_records" in outside["sentence"][0]
