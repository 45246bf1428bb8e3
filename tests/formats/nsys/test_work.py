"""Kernels, copies, fills, graphs and waits."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.formats.nsys.exports import call, calls, codes, kernel, kernels, names, pid, trace_of


def copies(*rows: dict[str, object]) -> dict[str, object]:
    return {
        "CUPTI_ACTIVITY_KIND_MEMCPY": [
            {**kernel(1000 + n, 2000 + n, globalPid=pid()), **row} for n, row in enumerate(rows)
        ]
    }


def syncs(*rows: dict[str, object]) -> dict[str, object]:
    return {
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": [{**kernel(1000 + n, 2000 + n), **row} for n, row in enumerate(rows)]
    }


def test_columns_of_a_kernel(tmp_path: Path) -> None:
    sizes = {"gridX": 93600, "gridY": 2, "gridZ": 3, "blockX": 128, "blockY": 4, "blockZ": 5, "registersPerThread": 18}
    shared = {"staticSharedMemory": 16, "dynamicSharedMemory": 1024}
    trace = trace_of(tmp_path, kernels(kernel(1000, 2000, 5, **sizes, **shared)))
    row = trace.kernels.row(0, named=True)
    wanted = (
        "grid_x",
        "grid_y",
        "grid_z",
        "block_x",
        "block_y",
        "block_z",
        "registers_per_thread",
        "shared_memory_bytes",
    )
    assert [row[name] for name in wanted] == [93600, 2, 3, 128, 4, 5, 18, 1040]
    assert (row["name"], row["start_ns"], row["end_ns"]) == ("void k<float>(float*)", 0, 1000)


def test_columns_that_are_not_recorded(tmp_path: Path) -> None:
    row = trace_of(tmp_path, kernels(kernel(1000, 2000))).kernels.row(0, named=True)
    assert row["grid_x"] is row["shared_memory_bytes"] is row["graph_id"] is row["registers_per_thread"] is None


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        ({"demangledName": 1, "shortName": 2}, "void k<float>(float*)"),
        ({"demangledName": None, "mangledName": 2}, "k"),
        ({"demangledName": None, "shortName": 2}, "k"),
    ],
)
def test_fullest_name_of_a_kernel(tmp_path: Path, columns: dict[str, int | None], shown: str) -> None:
    assert names(trace_of(tmp_path, kernels(kernel(1, 2, **columns))), "kernels") == [shown]


def test_names_that_nothing_resolves(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        kernels(kernel(1, 2, demangledName=99), kernel(2, 3, demangledName=None)),
        calls(call(1, 2, nameId=98)),
    )
    assert names(trace, "kernels") == ["kernel name 99", "unnamed"]
    assert names(trace, "api_calls") == ["API call 98"]
    assert codes(trace)["name_unknown"] == 3


def test_kinds_of_copies(tmp_path: Path) -> None:
    rows = [
        (1, 0, 2),
        (2, 2, 1),
        (8, 2, 2),
        (9, 0, 0),
        (10, 2, 2),
        (3, 1, 3),
        (7, 2, 3),
        (11, 4, 6),
        (0, 7, 7),
        (99, None, 5),
    ]
    trace = trace_of(
        tmp_path, copies(*[dict(zip(("copyKind", "srcKind", "dstKind"), row, strict=True)) for row in rows])
    )
    assert names(trace, "memcpys") == [
        "Memcpy HtoD (Pageable -> Device)",
        "Memcpy DtoH (Device -> Pinned)",
        "Memcpy DtoD (Device -> Device)",
        "Memcpy HtoH (Pageable -> Pageable)",
        "Memcpy PtoP (Device -> Device)",
        "Memcpy HtoD (Pinned -> Array)",
        "Memcpy DtoD (Device -> Array)",
        "Unified Memcpy HtoD (Managed -> Managed)",
        "Memcpy other (Unknown -> Unknown)",
        "Memcpy other (Unknown -> Device)",
    ]
    assert codes(trace)["copy_kind_unknown"] == 2
    assert trace.memcpys["size_bytes"].to_list() == [64] * 10


def test_an_export_that_numbers_kinds_otherwise(tmp_path: Path) -> None:
    enums = {
        "ENUM_CUDA_MEMCPY_OPER": [{"id": 21, "name": "CUDA_MEMCPY_KIND_DTOH", "label": "x"}],
        "ENUM_CUDA_MEM_KIND": [{"id": 2, "name": "CUDA_MEMOPR_MEMORY_KIND_PINNED", "label": "x"}],
    }
    trace = trace_of(tmp_path, copies({"copyKind": 21, "srcKind": 2, "dstKind": 1}), enums)
    assert names(trace, "memcpys") == ["Memcpy DtoH (Pinned -> Pinned)"]


def test_devices_of_a_copy_between_gpus(tmp_path: Path) -> None:
    rows = [
        {"copyKind": 10, "srcDeviceId": 0, "dstDeviceId": 3},
        {"copyKind": 1, "srcDeviceId": None, "dstDeviceId": 2**32 - 1},
    ]
    trace = trace_of(tmp_path, copies(*rows))
    assert trace.memcpys.select("src_device_id", "dst_device_id").rows() == [(None, 1), (None, None)]
    assert trace.devices["ordinal"].to_list() == [0, 3]


def test_fills(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path, {"CUPTI_ACTIVITY_KIND_MEMSET": [kernel(1, 2, memKind=2, value=255, bytes=4), kernel(2, 3)]}
    )
    assert trace.memsets.select("value", "size_bytes").rows() == [(255, 4), (0, 64)]
    assert names(trace, "memsets") == ["Memset (Device)", "Memset (Unknown)"]


def test_graph_mode_is_busy_time_without_kernels(tmp_path: Path) -> None:
    """The kernels inside are not recorded: the run is busy time, and no kernel."""
    graphs = {"CUPTI_ACTIVITY_KIND_GRAPH_TRACE": [kernel(5000, 9000, 120, graphId=7, graphExecId=9)]}
    modes = {"META_DATA_CAPTURE": [{"name": "PROCESS_0:CUDA_GRAPH_TRACE_OPTIONS:MODE", "value": "Graph"}]}
    trace = trace_of(
        tmp_path,
        kernels(kernel(1000, 2000, 99)),
        graphs,
        calls(call(900, 950, 99), call(4000, 4100, 120, nameId=5)),
        modes,
        strings={1: "k", 3: "cudaLaunchKernel", 5: "cudaGraphLaunch_v10000"},
    )
    assert (trace.kernels.height, trace.graph_runs.height) == (1, 1)
    assert trace.graph_runs.select("name", "graph_id", "api_id").row(0) == ("graph 7", 7, 1)
    assert codes(trace) == {"graph_replay_without_kernels": 1}
    (example,) = trace.diagnostics["first_example"].to_list()
    assert "--cuda-graph-trace=node" in example
    assert "mode Graph" in example


def test_graph_launches_without_any_record(tmp_path: Path) -> None:
    rows = [call(100 * n, 100 * n + 10, n, nameId=5) for n in (1, 2, 3)]
    trace = trace_of(
        tmp_path, kernels(kernel(1000, 2000, 2)), calls(*rows), strings={1: "k", 5: "cudaGraphLaunch_v10000"}
    )
    assert codes(trace) == {"graph_replay_without_kernels": 2}
    assert "2 of 3 graph launches" in trace.diagnostics["first_example"][0]


def test_graph_node_mode_launches_many(tmp_path: Path) -> None:
    rows = [
        kernel(1000 + 10 * n, 1005 + 10 * n, 5, graphNodeId=4294967296 + n, graphId=0 if n else 3) for n in range(7)
    ]
    trace = trace_of(
        tmp_path, kernels(*rows), calls(call(900, 950, 5, nameId=5)), strings={1: "k", 5: "cudaGraphLaunch"}
    )
    assert trace.kernels["api_id"].to_list() == [0] * 7
    assert trace.kernels["graph_id"].to_list() == [3, *[None] * 6]
    assert trace.kernels["graph_node_id"].to_list() == [4294967296 + n for n in range(7)]
    assert codes(trace) == {}


def test_kinds_of_waits(tmp_path: Path) -> None:
    none = 2**32 - 1
    rows = [
        {"syncType": 1, "eventId": 18, "streamId": none, "correlationId": 1},
        {"syncType": 2, "eventId": 19, "correlationId": 2},
        {"syncType": 3, "eventId": none, "correlationId": 3},
        {"syncType": 4, "eventId": none, "streamId": none},
        {"syncType": 77},
    ]
    trace = trace_of(
        tmp_path, kernels(kernel(500, 600)), syncs(*rows), calls(*[call(900, 3000, n, nameId=9) for n in (1, 2, 3)])
    )
    found = trace.syncs.select("sync_kind", "stream_id", "waited_stream_id", "event_id", "thread_id").rows()
    assert found == [
        ("event", None, None, 18, 0),
        ("stream_wait_event", 0, None, 19, None),
        ("stream", None, 0, None, 0),
        ("context", None, None, None, None),
        ("unknown", None, None, None, None),
    ]
    assert trace.activities().height == 1  # a wait is no work


def test_a_wait_whose_call_says_more_than_its_type(tmp_path: Path) -> None:
    """2026.1 writes the type of a stream wait for cudaStreamSynchronize; there a thread waits."""
    trace = trace_of(
        tmp_path,
        kernels(kernel(500, 600)),
        syncs({"syncType": 2, "eventId": 2**32 - 1, "correlationId": 1}),
        calls(call(900, 3000, 1, nameId=9)),
        strings={1: "k", 9: "cudaStreamSynchronize_v3020"},
    )
    assert trace.syncs.select("name", "sync_kind", "thread_id", "waited_stream_id").row(0) == (
        "Stream Sync",
        "stream",
        0,
        0,
    )


def test_a_wait_lies_where_its_context_is(tmp_path: Path) -> None:
    """Exports of 2026 write device 0 for waits on any device."""
    trace = trace_of(
        tmp_path, kernels(kernel(1, 2, deviceId=1, contextId=2, streamId=15)), syncs({"contextId": 2, "streamId": 15})
    )
    assert trace.devices["ordinal"].to_list() == [1]
    assert trace.syncs.select("device_id", "waited_stream_id").row(0) == (0, 0)
    listed = {
        "TARGET_INFO_CUDA_CONTEXT_INFO": [{"hwId": 0, "vmId": 1, "processId": 4242, "contextId": 3, "deviceId": 4}]
    }
    trace = trace_of(tmp_path, kernels(kernel(1, 2)), syncs({"contextId": 3, "streamId": 15}), listed)
    assert trace.devices["ordinal"].to_list() == [0, 4]
    assert trace.syncs["device_id"].to_list() == [1]


def test_what_a_wait_for_an_event_waits_for(tmp_path: Path) -> None:
    recorded = {"contextId": 1, "streamId": 9, "deviceId": 0, "globalPid": pid()}
    trace = trace_of(
        tmp_path,
        kernels(kernel(1, 2), kernel(1, 2, streamId=9)),
        syncs({"syncType": 2, "eventId": 4, "eventSyncId": 31}, {"syncType": 2, "eventId": 4, "eventSyncId": 0}),
        {"CUPTI_ACTIVITY_KIND_CUDA_EVENT": [{**recorded, "correlationId": 44, "eventSyncId": 31}]},
    )
    assert trace.syncs.select("waited_stream_id", "waited_correlation_id").rows() == [(1, 44), (None, None)]
