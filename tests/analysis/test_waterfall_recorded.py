"""The waterfall and idle analyses on recordings from real GPUs: laws, HTA's numbers, and what abstains."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from gpuviz import analysis
from tests.analysis.test_recorded_traces import EVERY_RECORDING, named

HTA = {
    "a100_control_memcpy_overlap.json.gz": {
        7: (133_311, 17_152, 32_751),
        20: (424_456, 739, 9_684),
        21: (285_806, 78, 0),
        22: (340_772, 1_515, 0),
    },
    "v100_cuda_graph_test.json.gz": {
        7: (2_960, 51_853, 48_809),
        14: (684_265, 1_299, 15_297),
        15: (413_501, 169, 51_125),
        16: (521_074, 982, 0),
    },
}
"""What HolisticTraceAnalysis 0.5.0 says of recordings in whole microseconds: per stream (host wait, kernel wait,
other), µs, with its default threshold."""


@pytest.mark.parametrize("file", HTA)
def test_the_classes_of_hta(shared_traces: Path, file: str) -> None:
    trace = named(shared_traces, file)
    summary = analysis.idle_summary(trace, None, "hta").join(trace.streams, on="stream_id")
    ours = {(row["number"], row["cause"]): row["time_ns"] for row in summary.iter_rows(named=True)}
    for stream, times in HTA[file].items():
        for cause, time in zip(("host_wait", "kernel_wait", "other"), times, strict=True):
            assert ours.get((stream, cause), 0) == time * 1_000, (stream, cause)


@EVERY_RECORDING
def test_the_laws(shared_traces: Path, file: str, ordinal: int) -> None:
    trace = named(shared_traces, file)
    end = trace.meta.end_ns
    middle = (end // 3, 2 * end // 3)
    for window in (None, middle):
        idle = analysis.device_time(trace, window).select("device_id", "idle_ns").filter(pl.col("idle_ns") > 0)
        sums = analysis.idle_summary(trace, window).group_by("device_id").agg(idle_ns=pl.col("time_ns").sum())
        assert sums.sort("device_id").equals(idle)
        budget = analysis.launch_budget(trace, window).group_by("side", "thread_id", "device_id")
        length = end if window is None else window[1] - window[0]
        assert (budget.agg(pl.col("time_ns").sum())["time_ns"] == length).all()
    for analyse in (analysis.launch_stages, analysis.idle, analysis.queue_depth, analysis.launch_bound):
        assert analyse(trace.window(*middle), None).equals(analyse(trace, middle))


def test_stages_are_known_where_python_and_operators_are_recorded(shared_traces: Path) -> None:
    table = analysis.launch_stages(named(shared_traces, "h100_bert_with_stack.json.gz"))
    assert table.height == 61
    assert table.select("lead_ns", "python_ns", "dispatch_ns", "api_ns").null_count().sum_horizontal().item() == 0
    assert table["overhead_ns"].null_count() == 61, "the recording has no records of overhead"


def test_python_is_unknown_where_only_operators_are_recorded(shared_traces: Path) -> None:
    table = analysis.launch_stages(named(shared_traces, "a100_control_memcpy_overlap.json.gz"))
    second_in_operator = table.filter(pl.col("python_ns").is_not_null())
    assert (second_in_operator["python_ns"] == 0).all()
    assert table["lead_ns"].null_count() == 0


def test_nothing_is_known_of_the_host_without_host_calls(shared_traces: Path) -> None:
    table = analysis.launch_stages(named(shared_traces, "old_1_12_on_demand.json.gz"))
    assert table["dispatch_ns"].null_count() == table["python_ns"].null_count() == table.height == 4


def test_a_graph_launch_of_a_real_decoder(shared_traces: Path) -> None:
    table = analysis.launch_stages(named(shared_traces, "mi300_vllm_decode_hip_graph.json.gz"))
    (graph,) = table.filter(pl.col("launch") == "hipGraphLaunch").to_dicts()
    assert graph["activities"] == 421
    assert graph["gpu_ns"] == graph["end_ns"] - graph["start_ns"]


def test_a_launch_bound_recording(shared_traces: Path) -> None:
    (row,) = analysis.launch_bound(named(shared_traces, "h100_bert_with_stack.json.gz")).to_dicts()
    assert (row["launch_bound"], row["nsys_ai_launch_bound"], row["median_depth"]) == (True, False, 0)
    assert row["short_kernels"] == 39
