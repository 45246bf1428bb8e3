"""Decode and assemble: hand-made buffers whose numbers can be counted by hand."""

from __future__ import annotations

import polars as pl

from gpuviz.capture.assemble import assemble
from gpuviz.capture.backend import CellSource
from gpuviz.capture.cupti.layouts import Kind
from gpuviz.capture.ranges import RecordedRange
from gpuviz.capture.recording import ClockPair, CounterSample, DeviceFacts, HostCalls, StackFrame
from gpuviz.model import Trace
from tests.capture.recordings import (
    DRIVER_LAUNCH,
    MAIN,
    MEMCPY_ASYNC,
    PROCESS,
    T0,
    WORKER,
    api,
    buffer,
    kernel,
    memcpy,
    record,
    recording,
)


def codes(trace: Trace) -> dict[str, int]:
    return dict(trace.diagnostics.select("code", "count").iter_rows())


def path(trace: Trace, callpath_id: int | None) -> list[str]:
    """The functions from below the root down to this node."""
    functions = []
    while callpath_id is not None:
        node = trace.callpaths.row(callpath_id, named=True)
        frame = trace.frames.row(node["frame_id"], named=True)
        functions.append(frame["function"])
        callpath_id = node["parent_id"]
    return functions[-2::-1]


def test_two_launches() -> None:
    trace = assemble(
        recording(
            api(100, 200, 1),
            kernel(250, 400, 1, grid_x=3, grid_y=1, grid_z=1, block_x=128, registers_per_thread=40),
            api(300, 350, 2),
            kernel(400, 450, 2, name=0xB000, static_shared_memory=16, dynamic_shared_memory=32),
        )
    ).validate()
    assert trace.meta.t0_unix_ns == T0 + 100
    assert trace.meta.end_ns == 350
    assert trace.api_calls["name"].to_list() == ["cudaLaunchKernel"] * 2
    assert trace.api_calls["start_ns"].to_list() == [0, 200]
    kernels = trace.kernels
    assert kernels["name"].to_list() == ["gemm", "relu"]
    assert kernels["start_ns"].to_list() == [150, 300]
    assert kernels["end_ns"].to_list() == [300, 350]
    assert kernels["api_id"].to_list() == [0, 1]
    assert kernels["grid_x"].to_list() == [3, None]
    assert kernels["registers_per_thread"].to_list() == [40, None]
    assert kernels["shared_memory_bytes"].to_list() == [0, 48]
    assert kernels["queued_ns"].null_count() == 2
    assert path(trace, kernels["callpath_id"][1]) == ["cudaLaunchKernel", "relu"]
    assert codes(trace) == {}
    assert trace.processes["pid"].to_list() == [PROCESS]
    assert trace.threads["native_id"].to_list() == [MAIN]
    assert trace.meta.dropped_records is None


def test_the_outermost_call_of_a_correlation_id_is_the_launch() -> None:
    inner = api(120, 180, 5, DRIVER_LAUNCH, kind=Kind.DRIVER)
    trace = assemble(recording(inner, api(100, 200, 5), kernel(300, 400, 5))).validate()
    assert trace.api_calls["name"].to_list() == ["cudaLaunchKernel", "cuLaunchKernel"]
    assert trace.api_calls["api"].to_list() == ["runtime", "driver"]
    assert trace.api_calls["parent_api_id"].to_list() == [None, 0]
    assert trace.kernels["api_id"].to_list() == [0]
    assert path(trace, trace.kernels["callpath_id"][0]) == ["cudaLaunchKernel", "gemm"]


def test_correlation_id_zero_joins_nothing() -> None:
    trace = assemble(recording(api(100, 200, 0), kernel(300, 400, 0))).validate()
    assert trace.kernels["api_id"].to_list() == [None]
    assert trace.kernels["correlation_id"].to_list() == [None]
    assert codes(trace) == {"launch_missing": 1}
    assert path(trace, trace.kernels["callpath_id"][0]) == ["no host record", "gemm"]


def test_calls_of_another_process_launch_nothing_here() -> None:
    trace = assemble(recording(api(100, 200, 1, process_id=77), kernel(300, 400, 1))).validate()
    assert trace.kernels["api_id"].to_list() == [None]
    assert trace.processes["pid"].to_list() == [PROCESS, 77]


def test_one_graph_launch_has_many_kernels() -> None:
    nodes = [kernel(300 + 10 * i, 305 + 10 * i, 9, graph_id=4, graph_node_id=100 + i) for i in range(5)]
    trace = assemble(recording(api(100, 200, 9, 311), *nodes)).validate()
    assert trace.kernels["api_id"].to_list() == [0] * 5
    assert trace.kernels["graph_node_id"].to_list() == [100, 101, 102, 103, 104]
    assert trace.api_calls["name"].to_list() == ["cudaGraphLaunch"]


def test_kernels_without_times_keep_their_row() -> None:
    trace = assemble(recording(api(100, 200, 1), kernel(None, None, 1), kernel(300, None, 1))).validate()
    assert trace.kernels["timing"].to_list() == ["open", "invalid"]
    assert trace.kernels["start_ns"].to_list() == [200, None]
    assert codes(trace) == {"time_not_recorded": 1, "end_not_recorded": 1}


def test_negative_and_absurd_times() -> None:
    trace = assemble(recording(kernel(400, 300, 1), kernel(10**18, 10**18 + 5, 2), kernel(100, 200, 3))).validate()
    assert sorted(trace.kernels["timing"].to_list()) == ["invalid", "invalid", "ok"]
    assert trace.meta.t0_unix_ns == T0 + 100
    assert codes(trace)["duration_negative"] == 1
    assert codes(trace)["end_absurd"] == 1


def test_work_from_before_the_recording_has_a_group() -> None:
    trace = assemble(
        recording(
            kernel(-500, -300, 3), kernel(50, 90, 2), api(100, 200, 10), kernel(300, 400, 10), kernel(500, 600, 11)
        )
    ).validate()
    assert codes(trace) == {"launched_before_window": 2, "launch_missing": 1}
    groups = [path(trace, node)[0] for node in trace.kernels["callpath_id"]]
    assert groups == [
        "launched before the window",
        "launched before the window",
        "cudaLaunchKernel",
        "no host record",
    ]


def test_copies_and_fills() -> None:
    peer = record(
        Kind.MEMCPY2,
        start=500,
        end=600,
        correlation_id=4,
        copy_kind=10,
        source_kind=3,
        destination_kind=3,
        bytes=64,
        context_id=1,
        stream_id=7,
        source_device_id=0,
        destination_device_id=1,
    )
    fill = record(
        Kind.MEMSET, start=700, end=710, correlation_id=5, bytes=256, value=0, memory_kind=3, context_id=1, stream_id=8
    )
    trace = assemble(
        recording(
            api(0, 10, 1, MEMCPY_ASYNC),
            memcpy(100, 200, 1, copy_kind=1, source_kind=1, destination_kind=3, bytes=4096),
            memcpy(200, 300, 2, copy_kind=2, source_kind=3, destination_kind=2, bytes=8, channel_id=3, channel_type=2),
            memcpy(300, 400, 3, copy_kind=0, bytes=1),
            peer,
            fill,
        )
    ).validate()
    copies = trace.memcpys
    assert copies["copy_kind"].to_list() == ["HtoD", "DtoH", "other", "PtoP"]
    assert copies["name"].to_list() == [
        "Memcpy HtoD (Pageable -> Device)",
        "Memcpy DtoH (Device -> Pinned)",
        "Memcpy other (Unknown -> Unknown)",
        "Memcpy PtoP (Device -> Device)",
    ]
    assert copies["size_bytes"].to_list() == [4096, 8, 1, 64]
    assert copies["channel_id"].to_list() == [None, 3, None, None]
    assert copies["src_device_id"].to_list() == [None] * 4
    assert copies["dst_device_id"].to_list() == [None, None, None, 1]
    assert trace.memsets["size_bytes"].to_list() == [256]
    assert trace.memsets["value"].to_list() == [0]
    assert trace.devices["ordinal"].to_list() == [0, 1]
    assert trace.streams["label"].to_list() == ["7", "8"]
    assert codes(trace)["copy_kind_unknown"] == 1
    assert trace.memsets["activity_id"].to_list() == [4]


def test_devices_contexts_and_streams() -> None:
    device = record(
        Kind.DEVICE,
        device_id=0,
        name_address=0xC000,
        multiprocessor_count=132,
        threads_per_warp=32,
        max_warps_per_multiprocessor=64,
        compute_capability_major=9,
        global_memory_size=80 * 2**30,
        uuid=list(range(16)),
    )
    records = [
        device,
        record(Kind.CONTEXT, context_id=1, device_id=0, null_stream_id=7),
        record(Kind.STREAM, context_id=1, stream_id=13, flag=2),
        kernel(0, 5, 1, stream_id=7),
        kernel(5, 9, 1, stream_id=13),
        kernel(9, 12, 1, stream_id=20),
    ]
    facts = {0: DeviceFacts(name="not asked", link_bytes_per_s=10**9)}
    trace = assemble(recording(*records, names={0xC000: "H100"}, devices=facts)).validate()
    row = trace.devices.row(0, named=True)
    assert (row["name"], row["sm_count"], row["max_threads_per_sm"]) == ("H100", 132, 2048)
    assert (row["compute_capability"], row["memory_bytes"], row["link_bytes_per_s"]) == ("9.0", 80 * 2**30, 10**9)
    assert row["uuid"] == "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert trace.streams["kind"].to_list() == ["legacy", "non_blocking", "unknown"]
    assert codes(trace)["name_unknown"] == 3


def test_waits() -> None:
    stream = record(
        Kind.SYNCHRONIZATION, synchronization_type=3, start=10, end=90, correlation_id=1, context_id=1, stream_id=7
    )
    event = record(
        Kind.SYNCHRONIZATION,
        synchronization_type=2,
        start=100,
        end=110,
        correlation_id=2,
        context_id=1,
        stream_id=7,
        event_id=33,
    )
    whole = record(Kind.SYNCHRONIZATION, synchronization_type=4, start=200, end=210, context_id=1, stream_id=2**32 - 1)
    trace = assemble(
        recording(api(0, 95, 1, 131), api(98, 99, 2, 147), kernel(20, 80, 3), stream, event, whole)
    ).validate()
    syncs = trace.syncs
    assert syncs["sync_kind"].to_list() == ["stream", "stream_wait_event", "context"]
    assert syncs["thread_id"].to_list() == [0, None, None]
    assert syncs["stream_id"].to_list() == [None, 0, None]
    assert syncs["waited_stream_id"].to_list() == [0, None, None]
    assert syncs["event_id"].to_list() == [None, 33, None]
    assert syncs["device_id"].to_list() == [0, 0, 0]
    assert syncs["api_id"].to_list() == [0, 1, None]


def test_call_paths_from_cell_to_kernel() -> None:
    cell = StackFrame("cell", "In [3]", cell="<cell>")
    line = StackFrame("line", "loss = model(batch)", cell="<cell>", line=5)
    module = StackFrame("module", "Net")
    forward = StackFrame("python", "forward", file="net.py", line=10)
    inner = StackFrame("line", "return self.fc(x)", file="net.py", line=12)
    stacks = [(cell, line), (cell, line, module, forward, inner)]
    calls = HostCalls()
    net = calls.add("module", "Net", T0 + 10, T0 + 900, MAIN, stack_id=0)
    calls.add("op", "aten::linear", T0 + 100, T0 + 500, MAIN, stack_id=1, sequence_number=7, input_shapes="[[2, 3]]")
    calls.add("op", "aten::addmm", T0 + 120, T0 + 480, MAIN, stack_id=1)
    calls.add("op", "AddmmBackward0", T0 + 1000, T0 + 1400, WORKER, stack_id=0, forward_of=net + 1)
    trace = assemble(
        recording(
            api(200, 300, 1),
            kernel(400, 450, 1),
            api(1100, 1200, 2, thread_id=WORKER),
            kernel(1300, 1350, 2, name=0xB000),
            api(2000, 2100, 3),
            kernel(2200, 2250, 3),
            host_calls=calls,
            stacks=stacks,
            api_stacks={(MAIN, 3): 1, (MAIN, 1): 1},
            cells={"<cell>": CellSource("abc", 3, "x = 1\n")},
            threads={MAIN: "MainThread"},
        )
    ).validate()
    paths = [path(trace, node) for node in trace.kernels["callpath_id"]]
    top, below = ["In [3]", "loss = model(batch)"], ["Net", "forward", "return self.fc(x)"]
    assert paths == [
        [*top, *below, "aten::linear", "aten::addmm", "cudaLaunchKernel", "gemm"],
        [*top, "AddmmBackward0", "cudaLaunchKernel", "relu"],
        [*top, *below, "cudaLaunchKernel", "gemm"],
    ]
    forward_path = trace.kernels["forward_callpath_id"].to_list()
    assert forward_path[0] is None
    assert path(trace, forward_path[1]) == [*top, *below, "aten::linear"]
    assert trace.host_calls["parent_id"].to_list() == [None, 0, 1, None]
    assert trace.host_calls["sequence_number"].to_list() == [None, 7, None, None]
    assert trace.api_calls["host_call_id"].to_list() == [2, 3, None]
    assert trace.threads["name"].to_list() == ["MainThread", f"thread {WORKER}"]
    assert trace.cells["jupyter_cell_id"].to_list() == ["abc"]
    lines = trace.frames.filter(pl.col("layer") == "line")
    assert lines["cell_id"].to_list() == [0, None]
    assert lines["file"].to_list() == [None, "net.py"]


def test_path_keys_do_not_depend_on_when_a_cell_ran() -> None:
    def keys(count: int, order: list[str]) -> set[int]:
        cells = {name: CellSource(f"id of {name}", count, name) for name in order}
        stacks = [(StackFrame("cell", f"In [{count}]", cell="a"), StackFrame("line", "f()", cell="a", line=count))]
        trace = assemble(
            recording(api(0, 5, 1), kernel(9, 12, 1), cells=cells, stacks=stacks, api_stacks={(MAIN, 1): 0})
        )
        return set(trace.callpaths["path_key"])

    assert keys(1, ["a", "b"]) == keys(2, ["b", "a"])


def test_overhead_is_beside_the_calls() -> None:
    overhead = record(
        Kind.OVERHEAD, overhead_kind=1 << 16, object_kind=2, process_id=PROCESS, thread_id=MAIN, start=90, end=400
    )
    other = record(Kind.OVERHEAD, overhead_kind=5 << 16, start=500, end=600)
    trace = assemble(recording(api(100, 200, 1), kernel(250, 300, 1), overhead, other, overhead_ns=1000)).validate()
    assert trace.host_calls["name"].to_list() == ["CUPTI buffer flush", "lazy function loading"]
    assert trace.host_calls["category"].to_list() == ["overhead"] * 2
    assert trace.host_calls["callpath_id"].to_list() == [None, None]
    assert trace.meta.overhead_ns == 1310
    assert trace.api_calls["host_call_id"].to_list() == [None]
    assert trace.api_calls["depth"].to_list() == [1]
    assert path(trace, trace.kernels["callpath_id"][0]) == ["cudaLaunchKernel", "gemm"]


def test_ranges_and_counters() -> None:
    ranges = [
        RecordedRange("step", "step 1", T0 + 50, T0 + 900, MAIN),
        RecordedRange("region", "load", T0 + 100, T0 + 200, MAIN),
        RecordedRange("region", "open", T0 + 300, None, WORKER),
    ]
    counters = [CounterSample("allocated", "bytes", T0 + 400, 12.0, 0), CounterSample("clock", "MHz", T0 + 60, None)]
    trace = assemble(recording(ranges=ranges, counters=counters)).validate()
    assert trace.meta.t0_unix_ns == T0 + 50
    assert trace.ranges["parent_id"].to_list() == [None, 0, None]
    assert trace.ranges["depth"].to_list() == [0, 1, 0]
    assert trace.ranges["timing"].to_list() == ["ok", "ok", "open"]
    assert trace.counters["time_ns"].to_list() == [10, 350]
    assert trace.counters["device_id"].to_list() == [None, 0]


def test_clocks_that_run_apart() -> None:
    clock = (ClockPair(1_000_000, T0), ClockPair(1_000_000 + 10**9, T0 + 10**9 + 1000))
    middle = 1_000_000 + 5 * 10**8
    raw = kernel(0, 0, 1)
    raw["start"], raw["end"] = middle, middle + 2 * 10**6
    trace = assemble(recording(raw, clock=clock)).validate()
    assert trace.meta.t0_unix_ns == T0 + 5 * 10**8 + 500
    assert trace.kernels["end_ns"].to_list() == [2 * 10**6 + 2]


def test_losses_are_told() -> None:
    whole = buffer([api(100, 200, 1), kernel(300, 400, 1)])
    unknown = (250).to_bytes(8, "little") + bytes(32)
    trace = assemble(
        recording(buffers=[whole, buffer([api(500, 600, 2)]) + unknown, whole[:-8]], dropped_records=12)
    ).validate()
    assert trace.kernels.height == 1
    assert trace.api_calls.height == 3
    assert codes(trace) == {"records_dropped": 12, "records_undecoded": 40 + 208}
    assert trace.meta.dropped_records == 12


def test_everything_lost() -> None:
    trace = assemble(recording(api(100, 200, 1), api(300, 400, 2))).validate()
    assert codes(trace) == {"no_gpu_activity": 1}


def test_nothing_recorded() -> None:
    trace = assemble(recording(dropped_records=0)).validate()
    assert codes(trace) == {}
    assert trace.callpaths.height == 1
    assert trace.meta.t0_unix_ns == T0


def test_names_of_calls() -> None:
    trace = assemble(
        recording(
            api(0, 10, 1, 9999),
            api(20, 30, 2, 9998),
            callback_names={("runtime", 9998): "cudaNewCall_v14000"},
        )
    ).validate()
    assert trace.api_calls["name"].to_list() == ["runtime call 9999", "cudaNewCall"]
    assert codes(trace)["name_unknown"] == 1
