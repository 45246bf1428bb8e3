"""Drawn traces: every expected number can be counted in the drawing (a column is 1 µs, here written as ns)."""

from __future__ import annotations

import polars as pl
import pytest

from gpuviz.analysis import (
    copies,
    copy_time,
    cpu_time,
    device_time,
    gpu_time,
    launch_summary,
    launches,
    top_kernels,
)
from tests.drawing import trace_from_text, tree_to_text

STEP = """
    thread 1: ffffffffffffffff........
    thread 1: .ooo..oo................
    thread 1: ..A...>..GGG....SSSSSSSS
    stream 7: ....AAAAAA...PPPQQ.R....
    stream 8: .......>>>>>>...........
    stream 1/7: ..0.....................
    f = python step train.py:12
    o = op aten::mm
    A = kernel gemm
    > = copy HtoD pageable device 6000
    S = api cudaDeviceSynchronize
    G = api cudaGraphLaunch
    G -> PQR
"""


def test_device_time() -> None:
    first, second = device_time(trace_from_text(STEP)).to_dicts()
    assert first == {
        "device_id": 0,
        "ordinal": 0,
        "span_ns": 16_000,
        "busy_ns": 15_000,
        "kernel_ns": 12_000,
        "copy_ns": 6_000,
        "memset_ns": 0,
        "hidden_copy_ns": 3_000,
        "exposed_copy_ns": 3_000,
        "exposed_memset_ns": 0,
        "idle_ns": 1_000,
        "reliable": True,
    }
    assert (second["span_ns"], second["memset_ns"], second["exposed_memset_ns"]) == (1_000, 1_000, 1_000)


def test_device_time_of_a_window() -> None:
    first, second = device_time(trace_from_text(STEP), (8_000, 14_000)).to_dicts()
    assert (first["span_ns"], first["kernel_ns"], first["exposed_copy_ns"], first["idle_ns"]) == (
        6_000,
        3_000,
        3_000,
        0,
    )
    assert (second["span_ns"], second["busy_ns"], second["idle_ns"]) == (6_000, 0, 6_000)


def test_waits_and_annotations_are_never_busy() -> None:
    trace = trace_from_text("""
        range 1:  rrrrrrrrrr
        wait 7:   ..wwww....
        stream 7: KK....KK..
    """)
    assert device_time(trace)["busy_ns"].to_list() == [4_000]


def test_a_whole_graph_replay_is_busy_but_no_kernel() -> None:
    trace = trace_from_text("""
        stream 7: ***.KK
        stream 8: .>>>>.
    """)
    (row,) = device_time(trace).to_dicts()
    assert (row["kernel_ns"], row["hidden_copy_ns"], row["exposed_copy_ns"]) == (5_000, 3_000, 1_000)
    assert top_kernels(trace)["name"].to_list() == ["Memcpy HtoD", "K"]


def test_graph_replays_without_kernels_make_idle_unreliable() -> None:
    trace = trace_from_text("stream 7: KK.K")
    row = {"code": "graph_replay_without_kernels", "count": 3, "first_example": None, "effect": ""}
    doubtful = trace.replace(diagnostics=pl.DataFrame([row], schema=trace.diagnostics.schema))
    assert device_time(trace)["reliable"].to_list() == [True]
    assert device_time(doubtful)["reliable"].to_list() == [False]


def test_a_device_without_activity_is_unknown_without_a_window() -> None:
    trace = trace_from_text("""
        stream 0/7: KK.K
        wait 1/7:   .w..
    """)
    known, unknown = device_time(trace).rows(named=True)
    assert known["idle_ns"] == 1_000
    assert [value for column, value in unknown.items() if column.endswith("_ns")] == [None] * 9
    idle = device_time(trace, (1_000, 4_000)).row(1, named=True)
    assert (idle["busy_ns"], idle["idle_ns"]) == (0, 3_000), "it has a stream: it was recorded, and idle"
    no_stream = trace.replace(streams=trace.streams.head(1), syncs=trace.syncs.clear())
    assert device_time(no_stream, (1_000, 4_000))["idle_ns"].to_list() == [1_000, None]


def test_a_trace_without_gpu_work_knows_no_gpu_times() -> None:
    trace = trace_from_text("thread 1: fff")
    assert gpu_time(trace)["inclusive_ns"].to_list() == [None, None]
    assert cpu_time(trace)["inclusive_ns"].to_list() == [3_000, 3_000]
    assert launches(trace).height == copies(trace).height == top_kernels(trace).height == 0


def test_launches() -> None:
    table = launches(trace_from_text(STEP))
    columns = ["name", "launch_latency_ns", "api_ns", "queue_delay_ns", "before_launch", "launch_index"]
    assert table.select(columns).rows() == [
        ("Memset", None, None, None, None, None),
        ("gemm", 2_000, 1_000, 1_000, False, 0),
        ("Memcpy HtoD", 1_000, 1_000, 0, False, 0),
        ("P", 4_000, 3_000, 1_000, False, 0),
        ("Q", 7_000, 3_000, None, False, 1),
        ("R", 10_000, 3_000, None, False, 2),
    ]
    later = launches(trace_from_text(STEP), (16_000, 24_000))
    assert later["launch_index"].to_list() == [1, 2], "a graph's first activity stays the first in every window"


def test_a_launch_that_has_not_returned_delays_nothing() -> None:
    (row,) = launches(trace_from_text("thread 1: AAAAA\nstream 7: ..A..")).to_dicts()
    assert (row["launch_latency_ns"], row["api_ns"], row["queue_delay_ns"]) == (2_000, 5_000, 0)


def test_clock_skew_is_kept_flagged_and_out_of_percentiles() -> None:
    trace = trace_from_text("""
        thread 1: ..A...B.
        stream 7: A......B
    """)
    assert launches(trace)["launch_latency_ns"].to_list() == [-2_000, 1_000]
    (row,) = launch_summary(trace).to_dicts()
    assert (row["activities"], row["launches"], row["before_launch"], row["without_launch"]) == (2, 2, 1, 0)
    assert row["launch_latency_p50_ns"] == row["launch_latency_p99_ns"] == 1_000


def test_a_launch_that_never_returned_has_a_latency_and_no_api_time() -> None:
    (row,) = launches(trace_from_text("thread 1: AA~\nstream 7: .AA")).to_dicts()
    assert (row["launch_latency_ns"], row["api_ns"], row["queue_delay_ns"]) == (1_000, None, None)


def test_copies() -> None:
    trace = trace_from_text("""
        stream 7: ..KKKK......
        stream 8: >>>>....<<..
        stream 9: .PPPP.......
        P = copy HtoD pinned device
    """)
    columns = ["copy_kind", "size_bytes", "duration_ns", "hidden_ns", "exposed_ns"]
    assert copies(trace).select(columns).rows() == [
        ("HtoD", None, 4_000, 2_000, 2_000),
        ("HtoD", None, 4_000, 3_000, 1_000),
        ("DtoH", None, 2_000, 0, 2_000),
    ]
    assert copy_time(trace).drop("device_id", "ordinal").rows() == [
        ("HtoD", 2, None, 2, 5_000, 3_000, 2_000),
        ("DtoH", 1, None, 1, 2_000, 0, 2_000),
    ]


def test_throughput_is_of_the_whole_copy() -> None:
    (row,) = copies(trace_from_text(STEP), (9_000, 10_000)).to_dicts()
    assert (row["duration_ns"], row["start_ns"], row["end_ns"]) == (1_000, 7_000, 13_000)
    assert row["bytes_per_s"] == pytest.approx(1e9)


def test_gpu_time_tree() -> None:
    trace = trace_from_text(STEP)
    table = gpu_time(trace)
    assert tree_to_text(trace, table, "calls", "activities", "exclusive_ns", "inclusive_ns") == "\n".join(
        [
            "root | - | 6 | 0 | 19000",
            "  python step train.py:12 | 1 | 5 | 0 | 18000",
            "    op aten::mm | 2 | 2 | 0 | 12000",
            "      api cudaLaunchKernel | 1 | 1 | 0 | 6000",
            "        kernel gemm | 1 | 1 | 6000 | 6000",
            "      api cudaMemcpyAsync | 1 | 1 | 0 | 6000",
            "        memcpy Memcpy HtoD | 1 | 1 | 6000 | 6000",
            "    api cudaGraphLaunch | 1 | 3 | 0 | 6000",
            "      kernel P | 1 | 1 | 3000 | 3000",
            "      kernel Q | 1 | 1 | 2000 | 2000",
            "      kernel R | 1 | 1 | 1000 | 1000",
            "  api cudaDeviceSynchronize | 1 | 0 | 0 | 0",
            "  group no host record | - | 1 | 0 | 1000",
            "    memset Memset | 1 | 1 | 1000 | 1000",
        ]
    )
    root = table.row(0, named=True)
    assert (root["min_ns"], root["p50_ns"], root["p99_ns"], root["max_ns"]) == (1_000, 2_000, 6_000, 6_000)
    assert root["mean_ns"] == pytest.approx(19_000 / 6)
    assert sum(root["histogram"]) == 6
    assert root["histogram"][0] == 2, "two of the shortest"
    assert root["histogram"][23] == 2, "two of the longest"
    assert table.filter(name="cudaDeviceSynchronize")["histogram"].to_list() == [None]


def test_cpu_time_tree() -> None:
    trace = trace_from_text(STEP)
    assert tree_to_text(trace, cpu_time(trace), "calls", "exclusive_ns", "inclusive_ns") == "\n".join(
        [
            "root | - | 0 | 24000",
            "  python step train.py:12 | 1 | 8000 | 16000",
            "    op aten::mm | 2 | 3000 | 5000",
            "      api cudaLaunchKernel | 1 | 1000 | 1000",
            "        kernel gemm | - | 0 | 0",
            "      api cudaMemcpyAsync | 1 | 1000 | 1000",
            "        memcpy Memcpy HtoD | - | 0 | 0",
            "    api cudaGraphLaunch | 1 | 3000 | 3000",
            "      kernel P | - | 0 | 0",
            "      kernel Q | - | 0 | 0",
            "      kernel R | - | 0 | 0",
            "  api cudaDeviceSynchronize | 1 | 8000 | 8000",
            "  group no host record | - | 0 | 0",
            "    memset Memset | - | 0 | 0",
        ]
    )


def test_top_kernels() -> None:
    table = top_kernels(trace_from_text(STEP), limit=2)
    assert table.select("table", "name", "activities", "total_ns", "p50_ns").rows() == [
        ("memcpys", "Memcpy HtoD", 1, 6_000, 6_000),
        ("kernels", "gemm", 1, 6_000, 6_000),
    ]
    assert table["share"].to_list() == pytest.approx([6 / 19, 6 / 19])


def test_rows_without_usable_times_stay_out() -> None:
    trace = trace_from_text("""
        thread 1: fff.gg~......
        stream 7: KK..KKK!.LLL~
    """)
    assert trace.kernels.height == 3
    assert device_time(trace)["kernel_ns"].to_list() == [2_000]
    assert launches(trace).height == 1
    assert gpu_time(trace).filter(name="K")["activities"].to_list() == [1]
    assert gpu_time(trace).filter(name="g")["calls"].to_list() == [0]
