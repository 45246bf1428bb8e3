"""What becomes of each kind of event: the rows of the tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuviz.formats.kineto.copies import copy_facts
from tests.formats.events import Event, call, codes, kernel, launch, load_events, memcpy


@pytest.mark.parametrize(
    ("category", "table"),
    [
        ("kernel", "kernels"),
        ("Kernel", "kernels"),
        ("gpu_memcpy", "memcpys"),
        ("Memcpy", "memcpys"),
        ("gpu_memset", "memsets"),
        ("Memset", "memsets"),
        ("cuda_runtime", "api_calls"),
        ("Runtime", "api_calls"),
        ("cuda_driver", "api_calls"),
        ("cuda_sync", "syncs"),
        ("cpu_op", "host_calls"),
        ("python_function", "host_calls"),
        ("overhead", "host_calls"),
        ("user_annotation", "ranges"),
        ("gpu_user_annotation", "ranges"),
        ("Trace", "ranges"),
    ],
)
def test_categories(tmp_path: Path, category: str, table: str) -> None:
    trace = load_events(tmp_path, kernel(1, 10, 1, cat=category))
    filled = [name for name, rows in trace.tables.items() if rows.height and ("start_ns" in rows.columns)]
    assert filled == [table]
    assert "category_unknown" not in codes(trace)


def test_unknown_categories_pass_through(tmp_path: Path) -> None:
    trace = load_events(
        tmp_path,
        call("dma", 1, 1, cat="mtia_ccp_events"),
        call("b", 3, 1, cat=["x"]),
        call("c", 5, 1, cat=None),
    )
    assert trace.host_calls.select("layer", "category", "name").rows() == [
        ("other", "mtia_ccp_events", "dma"),
        ("other", "['x']", "b"),
        ("other", None, "c"),
    ]
    assert codes(trace) == {"category_unknown": 2}


def test_kernel_columns(tmp_path: Path) -> None:
    shape = {"grid": [8, 4, 2], "block": [128, 2, 1], "registers per thread": 90, "shared memory": 49152}
    trace = load_events(tmp_path, launch(1, 1), kernel(1, 10, 4, **shape), kernel(1, 20, 4, grid=[1, "x"], block="?"))
    first, second = trace.kernels.iter_rows(named=True)
    assert [first[f"{kind}_{axis}"] for kind in ("grid", "block") for axis in "xyz"] == [8, 4, 2, 128, 2, 1]
    assert (first["registers_per_thread"], first["shared_memory_bytes"]) == (90, 49152)
    assert second["grid_x"] is second["block_x"] is second["registers_per_thread"] is None
    assert first["queued_ns"] is None


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("Memcpy HtoD (Pinned -> Device)", None, ("HtoD", "pinned", "device")),
        ("Memcpy DtoH (Device -> Pageable)", None, ("DtoH", "device", "pageable")),
        ("Memcpy DtoD (Device -> Device)", "DtoD", ("DtoD", "device", "device")),
        ("Memcpy HtoH (Pinned -> Pinned)", None, ("HtoH", "pinned", "pinned")),
        ("Memcpy PtoP (Device -> Device)", None, ("PtoP", "device", "device")),
        ("Memcpy HtoD (Managed -> Device)", None, ("HtoD", "managed", "device")),
        ("Memcpy HtoA (Pageable -> Array)", None, ("HtoD", "pageable", "array")),
        ("Memcpy HtoD (Host -> Device)", "HtoD", ("HtoD", "unknown", "device")),
        ("CopyHostToDevice", None, ("HtoD", "unknown", "device")),
        ("CopyDeviceToDevice", None, ("DtoD", "device", "device")),
        ("Memcpy Unknown (Unknown -> Unknown)", None, ("other", "unknown", "unknown")),
        ("Memset (Unknown)", None, ("other", "unknown", "unknown")),
        ("copy", "DtoH", ("DtoH", "unknown", "unknown")),
        ("copy", "sideways", ("other", "unknown", "unknown")),
        ("", None, ("other", "unknown", "unknown")),
    ],
)
def test_copy_names(name: str, kind: str | None, expected: tuple[str, str, str]) -> None:
    assert copy_facts(name, kind) == expected


def test_copies_are_never_dropped(tmp_path: Path) -> None:
    trace = load_events(
        tmp_path,
        memcpy(1, 10, 2, "Memset (Unknown)", bytes=4096),
        memcpy(2, 20, 2, "CopyHostToDevice", bytes="77"),
        memcpy(3, 30, 2, "Memcpy PtoP (Device -> Device)", fromDevice=0, toDevice=1),
        *[launch(n, n, 0.5) for n in (1, 2, 3)],
    )
    assert trace.memcpys.select("copy_kind", "size_bytes").rows() == [
        ("other", 4096),
        ("HtoD", 77),
        ("PtoP", None),
    ]
    assert trace.memcpys.select("src_device_id", "dst_device_id").row(2) == (0, 1)
    assert codes(trace) == {"copy_kind_unknown": 1}


def test_syncs_are_waits_not_work(tmp_path: Path) -> None:
    def sync(kind: str, correlation: int, stream: int, tid: int, **more: Any) -> Event:
        args = {
            "stream": stream,
            "device": 0,
            "context": 1,
            "cuda_sync_kind": kind,
            "correlation": correlation,
            **more,
        }
        return {
            "ph": "X",
            "cat": "cuda_sync",
            "name": kind,
            "pid": 0,
            "tid": tid,
            "ts": 18,
            "dur": 8,
            "args": args,
        }

    waits = {"wait_on_stream": 20, "wait_on_cuda_event_id": 9, "wait_on_cuda_event_record_corr_id": 32}
    nothing = {"wait_on_stream": -1, "wait_on_cuda_event_id": -1, "wait_on_cuda_event_record_corr_id": -1}
    trace = load_events(
        tmp_path,
        launch(1, 10),
        kernel(1, 20, 4),
        *[launch(n, 11 + n, 1, name="cudaSync") for n in (4, 5, 6, 7, 8)],
        sync("Stream Sync", 4, 7, 7),
        sync("Stream Sync", 5, 7, 1_000_007),
        sync("Event Sync", 6, -1, -1, **nothing),
        sync("Stream Wait Event", 7, 7, 7, **waits),
        sync("Context Sync", 8, -1, -1),
        sync("Odd Sync", 99, -1, -1),
    )
    assert trace.kernels.height == 1
    assert trace.streams["label"].to_list() == ["7", "20"]
    columns = ("sync_kind", "device_id", "stream_id", "thread_id", "api_id", "event_id", "waited_stream_id")
    assert trace.syncs.select(*columns, "waited_correlation_id").rows() == [
        ("stream", 0, 0, 0, 1, None, None, None),
        ("stream", 0, 0, 0, 2, None, None, None),
        ("event", 0, None, 0, 3, None, None, None),
        ("stream_wait_event", 0, 0, None, 4, 9, 1, 32),
        ("context", 0, None, 0, 5, None, None, None),
        ("unknown", 0, None, None, None, None, None, None),
    ]


def test_sync_on_its_own_lane_without_arguments(tmp_path: Path) -> None:
    bare = {
        "ph": "X",
        "cat": "cuda_sync",
        "name": "Stream Sync",
        "pid": 0,
        "tid": 1_000_007,
        "ts": 1,
        "dur": 2,
    }
    trace = load_events(tmp_path, bare)
    assert trace.streams["label"].to_list() == ["7"]
    assert trace.syncs["sync_kind"].to_list() == ["stream"]


def test_steps_are_ranges_never_levels(tmp_path: Path) -> None:
    trace = load_events(
        tmp_path,
        call("ProfilerStep#3", 100, 50, cat="user_annotation"),
        call("loop.py(9): step", 140, 60, cat="python_function"),
        call("ProfilerStep#4", 151, 49, cat="user_annotation"),
        call("my part", 160, 10, cat="user_annotation"),
    )
    assert trace.ranges.select("kind", "name", "parent_id", "depth").rows() == [
        ("step", "ProfilerStep#3", None, 0),
        ("step", "ProfilerStep#4", None, 0),
        ("annotation", "my part", 1, 1),
    ]
    assert trace.host_calls.select("parent_id", "depth").rows() == [(None, 0)]
    assert trace.callpaths.height == 2


def test_profiler_span_and_marks(tmp_path: Path) -> None:
    span = {
        "ph": "X",
        "cat": "Trace",
        "name": "PyTorch Profiler (0)",
        "pid": "Spans",
        "tid": "P",
        "ts": 0,
        "dur": 50,
    }
    mark = {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 60}
    of_thread = {"ph": "I", "s": "t", "cat": "note", "name": "here", "pid": 1, "tid": 1, "ts": 5}
    trace = load_events(tmp_path, span, mark, of_thread)
    assert trace.ranges.select("kind", "name", "domain", "start_ns", "end_ns", "thread_id").rows() == [
        ("profiler", "PyTorch Profiler (0)", "Trace", 0, 50_000, None),
        ("mark", "here", "note", 5000, 5000, 0),
        ("mark", "Record Window End", None, 60_000, 60_000, None),
    ]
    assert trace.processes.height == 1


def test_memory_events_are_counters(tmp_path: Path) -> None:
    def memory(ts: float, device_type: int, device: int, **args: Any) -> Event:
        args = {"Device Type": device_type, "Device Id": device, "Bytes": 512, **args}
        return {"ph": "i", "s": "t", "name": "[memory]", "pid": 1, "tid": 1, "ts": ts, "args": args}

    trace = load_events(
        tmp_path,
        call("a", 0, 9),
        memory(1, 1, 0, **{"Total Allocated": 100, "Total Reserved": 400}),
        memory(2, 0, -1, **{"Total Allocated": 8, "Total Reserved": 0}),
        memory(3, 1, 0),
    )
    assert trace.counters.select("series", "unit", "time_ns", "value", "device_id", "process_id").rows() == [
        ("device memory allocated", "bytes", 1000, 100.0, 0, None),
        ("device memory reserved", "bytes", 1000, 400.0, 0, None),
        ("host memory allocated", "bytes", 2000, 8.0, None, 0),
        ("host memory reserved", "bytes", 2000, 0.0, None, 0),
        ("device memory change", "bytes", 3000, 512.0, 0, None),
    ]
    assert trace.ranges.height == 0


def test_counters(tmp_path: Path) -> None:
    first = {"ph": "C", "name": "Idle", "pid": 2, "ts": 20, "args": {"idle": 1}}
    second = {"ph": "C", "name": "queue", "pid": 1, "ts": 10, "args": {"depth": "2.5", "bad": [1]}}
    trace = load_events(tmp_path, call("a", 5, 1), first, second)
    assert trace.counters.select("series", "time_ns", "value", "process_id").rows() == [
        ("queue: depth", 5000, 2.5, 0),
        ("queue: bad", 5000, None, 0),
        ("Idle", 15_000, 1.0, None),
    ]


def test_a_sample_without_a_time_is_counted(tmp_path: Path) -> None:
    sample = {"ph": "C", "name": "Idle", "pid": 2, "args": {"idle": 1}}
    trace = load_events(tmp_path, sample)
    assert trace.counters.height == 0
    assert codes(trace) == {"time_missing": 1}


def test_begin_and_end_events(tmp_path: Path) -> None:
    def half(phase: str, name: str | None, ts: float, **more: Any) -> Event:
        event = {"ph": phase, "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": ts, **more}
        return {key: value for key, value in event.items() if value is not None}

    trace = load_events(
        tmp_path,
        half("B", "outer", 10),
        half("B", "inner", 12, args={"Input Dims": [[2, 3]]}),
        half("E", None, 15.25),
        half("E", "outer", 20),
        half("E", "never began", 21),
        half("B", "open", 30),
        half("B", "other thread", 11, tid=2),
        half("E", "other thread", 16, tid=2),
    )
    assert trace.host_calls.select("name", "start_ns", "end_ns", "parent_id").rows() == [
        ("outer", 0, 10_000, None),
        ("other thread", 1000, 6000, None),
        ("inner", 2000, 5250, 0),
        ("open", 20_000, None, None),
    ]
    assert trace.host_calls["input_shapes"].to_list() == [None, None, "[[2, 3]]", None]
    assert codes(trace) == {"phase_ignored": 1, "duration_missing": 1}


def test_async_pairs_are_ranges(tmp_path: Path) -> None:
    def half(phase: str, name: str, ts: float, **more: Any) -> Event:
        return {"ph": phase, "cat": "NVTX", "name": name, "pid": 1, "tid": 1, "ts": ts, "id": 5, **more}

    trace = load_events(
        tmp_path,
        half("b", "request", 10),
        half("b", "part", 11),
        half("e", "part", 12, tid=2),
        half("e", "request", 20),
        half("b", "request", 15, id=6, cat="jobs"),
        half("e", "request", 25, id=6, cat="jobs"),
    )
    assert trace.ranges.select("kind", "domain", "name", "start_ns", "end_ns").rows() == [
        ("nvtx", "NVTX", "request", 0, 10_000),
        ("nvtx", "NVTX", "part", 1000, 2000),
        ("region", "jobs", "request", 5000, 15_000),
    ]
    assert codes(trace) == {}


def test_flows_and_phases_that_are_not_used(tmp_path: Path) -> None:
    flow = {"ph": "s", "id": 1, "pid": 1, "tid": 1, "ts": 1, "name": "f"}
    others = [{"ph": "O", "name": "object", "ts": 1}, {"name": "no phase"}, {**flow, "cat": "mine"}]
    trace = load_events(tmp_path, call("a", 1, 1), {**flow, "cat": "ac2g"}, {**flow, "cat": "async_gpu"}, *others)
    assert codes(trace) == {"phase_ignored": 3}
    example = trace.diagnostics.filter(code="phase_ignored")["first_example"][0]
    assert "flow 'mine' (1)" in example


def test_versions_and_properties(tmp_path: Path) -> None:
    trace = load_events(
        tmp_path,
        call("a", 1, 1),
        cuda_runtime_version=12040,
        cuda_driver_version=13000,
        cupti_version=22,
        hip_runtime_version="60443483",
        torch_version="2.9.0",
        INFO=["INFO: Record counts: Out-of-range = 38, Blocklisted runtime = 5"] + ["line"] * 200,
        traceName="/tmp/x.json",
        metadata={"long": "x" * 900},
        with_stack=1,
    )
    assert trace.meta.versions == {
        "cuda_runtime": "12.4",
        "cuda_driver": "13.0",
        "cupti": "22",
        "hip_runtime": "60443483",
        "torch": "2.9.0",
    }
    properties = trace.meta.properties
    assert (properties["traceName"], properties["with_stack"]) == ("/tmp/x.json", "1")
    assert len(properties["metadata"]) == 500
    assert "INFO" not in properties
    assert codes(trace) == {"out_of_range_records": 38}
    assert trace.meta.dropped_records is None


def test_unknown_is_a_name_of_its_own(tmp_path: Path) -> None:
    """Kineto writes "unknown" for frames that it could not read; that is no function of the user."""
    names = ["unknown", "mine.py(3): unknown"]
    trace = load_events(tmp_path, *[call(name, 10 * n, 1, cat="python_function") for n, name in enumerate(names)])
    assert trace.callpaths.height == 3
