"""Causes of idle time on drawn traces: every cause, and what nearly is one."""

from __future__ import annotations

import textwrap

import polars as pl
import pytest

from gpuviz.analysis import idle, idle_summary
from gpuviz.analysis.host_kinds import HOST_KINDS, api_kinds, special_kinds
from gpuviz.errors import AnalysisError
from gpuviz.model import Trace
from tests.drawing import trace_from_text

GAP = "\nstream 7: KK........KK"


def causes(trace: Trace) -> list[tuple[str, int]]:
    """The pieces: cause and µs."""
    return [(cause, length // 1_000) for cause, length in idle(trace).select("cause", "duration_ns").iter_rows()]


@pytest.mark.parametrize(
    ("host", "cause"),
    [
        ("thread 1: ....LLLL....", "launching"),
        ("thread 1: ....oooo....\nthread 1: ....LL.F....", "launching"),
        ("thread 1: ....oooo....", "operator"),
        ("thread 1: ....oooo....\nthread 1: ....FFFF....", "other_call"),
        ("thread 1: ....MMMM....", "copy_call"),
        ("thread 1: ....SSSS....", "sync"),
        ("thread 1: ....AAAA....", "allocator"),
        ("thread 1: ....ffff....", "python"),
        ("thread 1: ....dddd....\nthread 1: ....ffoo....", "data_loader"),
        ("thread 1: ....cccc....\nthread 1: ....fSSS....", "collective"),
        ("thread 1: ....wwww....", "waiting"),
        ("thread 1: ....wwww....\nthread 2: ....ffff....", "python"),
        ("thread 1: ....SSSS....\nthread 2: ....LLLL....", "launching"),
        ("range 1: ....eeee....\nthread 1: ....ffff....", "data_loader"),
        ("range 1: ....ssss....\nthread 1: ....ffff....", "python"),
    ],
)
def test_each_cause(host: str, cause: str) -> None:
    meanings = """
        L = api cudaLaunchKernel
        M = api cudaMemcpyAsync
        S = api cudaStreamSynchronize
        A = api cudaMalloc
        F = api cudaFuncSetAttribute
        o = op aten::mm
        f = python step
        d = python 'torch/utils/data/dataloader.py(703): __next__'
        c = op 'c10d::wait_tensor'
        w = python 'threading.py(323): wait'
        e = range 'enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__'
        s = range 'ProfilerStep#3'
    """
    trace = trace_from_text(host + GAP + textwrap.dedent(meanings))
    parts = causes(trace)
    assert (parts[0], parts[-1]) == (("nothing_recorded", 2), ("nothing_recorded", 2))
    assert {name for name, _ in parts[1:-1]} == {cause}
    assert sum(length for _, length in parts[1:-1]) == 4


def test_what_has_been_launched_is_queued() -> None:
    trace = trace_from_text("""
        thread 1: ffffffffffff
        thread 1: .....LL.....
        stream 7: KK........LL
        f = python step train.py:12
    """)
    assert causes(trace) == [("python", 3), ("launching", 2), ("queued", 3)]
    assert idle(trace)["line"].to_list() == [12, 12, 12]
    assert idle(trace)["doing"].to_list() == ["step", "cudaLaunchKernel", "cudaLaunchKernel"]


def test_a_row_that_goes_on_after_another_one() -> None:
    trace = trace_from_text("thread 1: ..ffffffff..\nthread 1: ....SS......" + GAP + "\nS = api cudaStreamSynchronize")
    assert causes(trace) == [("python", 2), ("sync", 2), ("python", 4)]


def test_overhead_comes_first() -> None:
    trace = trace_from_text("thread 1: ..LLLLLLLL..\nthread 2: ....xx......" + GAP + "\nx = other flush")
    overhead = pl.when(pl.col("layer") == "other").then(pl.lit("overhead")).cast(pl.Categorical)
    trace = trace.replace(host_calls=trace.host_calls.with_columns(category=overhead))
    assert causes(trace) == [("launching", 2), ("overhead", 2), ("launching", 4)]


def test_edges_of_a_window_are_told_apart() -> None:
    trace = trace_from_text("stream 7: ..KK..KK....\nthread 1: ...........f")
    table = idle(trace, (0, 12_000))
    assert table.select("position", "duration_ns").rows() == [
        ("before_first", 2_000),
        ("between", 2_000),
        ("after_last", 3_000),
        ("after_last", 1_000),
    ]
    assert table["gap_end_ns"].to_list() == [2_000, 6_000, 12_000, 12_000]
    assert idle(trace, (4_000, 6_000))["position"].to_list() == ["no_activity"]
    assert idle(trace)["duration_ns"].to_list() == [2_000]


def test_causes_of_each_device() -> None:
    trace = trace_from_text("thread 1: .S.\nstream 0/7: K.K\nstream 1/7: KKK\nS = api cudaDeviceSynchronize")
    assert idle(trace).select("device_id", "cause").rows() == [(0, "sync")]
    both = idle_summary(trace, (0, 4_000))
    assert both.select("device_id", "cause", "time_ns", "share", "gaps").rows() == [
        (0, "sync", 1_000, 0.25, 1),
        (0, "nothing_recorded", 1_000, 0.25, 1),
        (1, "nothing_recorded", 1_000, 0.25, 1),
    ]


def test_threads_of_other_processes_do_not_count() -> None:
    trace = trace_from_text("thread 1: ..ffffffff.." + GAP)
    other = trace.processes.vstack(trace.processes.with_columns(process_id=pl.lit(1, pl.Int32)))
    elsewhere = trace.threads.with_columns(process_id=pl.lit(1, pl.Int32))
    assert causes(trace.replace(processes=other, threads=elsewhere)) == [("nothing_recorded", 8)]


HTA = """
    thread 1: A...BC......D.......
    stream 7: .AAAA.BBCCC......D..
    stream 8: ....................
"""


def test_the_classes_of_hta() -> None:
    trace = trace_from_text(HTA)
    columns = ["cause", "duration_ns"]
    assert idle(trace, None, "hta", kernel_delay_ns=2_000).select(columns).rows() == [
        ("kernel_wait", 1_000),  # B was launched while A ran, and waited less than the threshold
        ("kernel_wait", 0),
        ("host_wait", 6_000),  # D was launched after C had ended
    ]
    summary = idle_summary(trace, None, "hta", kernel_delay_ns=1_000)
    assert summary.select("cause", "time_ns").rows() == [("host_wait", 6_000), ("other", 1_000), ("kernel_wait", 0)]
    assert summary["share"].to_list() == pytest.approx([6 / 7, 1 / 7, 0])


def test_unknown_classes_are_refused() -> None:
    with pytest.raises(AnalysisError, match="'gpuviz' or 'hta'"):
        idle(trace_from_text(HTA), None, "nsight")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("launch_call", ["cudaLaunchKernelExC_v11060", "cuLaunchKernel", "hipModuleLaunchKernel", "cudaGraphLaunch"]),
        ("copy_call", ["cudaMemcpyAsync", "hipMemcpyWithStream", "cuMemsetD8Async", "cudaMemPrefetchAsync"]),
        ("sync", ["cudaDeviceSynchronize", "hipEventSynchronize", "cuStreamSynchronize"]),
        ("allocator", ["cudaMalloc", "cudaFreeAsync", "cuMemAlloc_v2", "hipHostFree", "cuMemMap", "cudaHostRegister"]),
        ("other_call", ["cudaEventQuery", "cudaStreamWaitEvent", "cudaFuncGetAttributes", "cudaMemGetInfo"]),
    ],
)
def test_kinds_of_api_calls(kind: str, names: list[str]) -> None:
    found = api_kinds(pl.Series(names, dtype=pl.Categorical))
    assert [HOST_KINDS[code] for code in found] == [kind] * len(names)


def test_kinds_of_waits() -> None:
    names = {
        "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__": "data_loader",
        "torch/utils/data/dataloader.py(762): _next_data": "data_loader",
        "torch/utils/data/dataloader.py(461): __setattr__": "python",
        "c10d::barrier": "collective",
        "All2All_Pooled_Wait": "collective",
        "nccl:all_reduce": "python",
        "torch/cuda/nccl.py(35): version": "python",
        "<built-in method acquire of _thread.lock object at 0x7ce2>": "waiting",
        "threading.py(637): wait": "waiting",
        "<built-in function sleep>": "waiting",
        "train.py(3): wait_for_it": "python",
    }
    found = special_kinds(pl.Series(list(names), dtype=pl.Categorical))
    assert [HOST_KINDS[code] for code in found] == list(names.values())
