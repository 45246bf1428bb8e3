"""Processes, threads, devices and streams: where events lie."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuviz.formats.kineto.identity import identity, natural_order
from tests.formats.events import Event, call, codes, kernel, launch, load_events


def test_gpu_rows_are_known_by_category_not_by_pid(tmp_path: Path) -> None:
    trace = load_events(tmp_path, call("init", 1, 50), kernel(1, 20, 4, device=1, stream=1), launch(1, 10))
    assert trace.processes["pid"].to_list() == [1]
    assert (trace.host_calls.height, trace.api_calls.height) == (1, 1)
    assert trace.devices["ordinal"].to_list() == [1]
    assert trace.streams.select("label", "number").rows() == [("1", 1)]


def test_devices_listed_and_unlisted(tmp_path: Path) -> None:
    listed = {
        "id": 0, "name": "NVIDIA H100", "totalGlobalMem": 85018279936, "computeMajor": 9, "computeMinor": 0,
        "maxThreadsPerMultiprocessor": 2048, "regsPerMultiprocessor": 65536, "warpSize": 32,
        "sharedMemPerMultiprocessor": 233472, "numSms": 132,
    }  # fmt: skip
    amd = {"id": 1, "name": "", "maxSharedMemoryPerMultiProcessor": 65536, "warpSize": 64}
    trace = load_events(tmp_path, kernel(1, 1, 1, device=9), deviceProperties=[listed, amd, "bad", {"id": "x"}])
    rows = trace.devices.drop("device_id", "process_id", "uuid", "link_bytes_per_s").rows()
    assert rows == [
        (0, "NVIDIA H100", "9.0", 132, 85018279936, 32, 2048, 65536, 233472),
        (1, None, None, None, None, 64, None, None, 65536),
        (9, None, None, None, None, None, None, None, None),
    ]
    assert trace.streams["device_id"].to_list() == [2]


def test_streams_of_any_type(tmp_path: Path) -> None:
    labels: list[Any] = [20, 7, "0x7f3e", "stream 10", "stream 9", -3, "7"]
    trace = load_events(tmp_path, *[kernel(n, n, 0.5, stream=label) for n, label in enumerate(labels, 1)])
    assert trace.streams["label"].to_list() == ["-3", "7", "20", "0x7f3e", "stream 9", "stream 10"]
    assert trace.streams["number"].to_list() == [-3, 7, 20, None, None, None]
    assert trace.kernels["stream_id"].to_list() == [2, 1, 3, 5, 4, 0, 1]


def test_contexts_are_streams_of_their_own(tmp_path: Path) -> None:
    annotation = {
        "ph": "X",
        "cat": "gpu_user_annotation",
        "name": "step",
        "pid": 0,
        "tid": 7,
        "ts": 1,
        "dur": 9,
    }
    trace = load_events(tmp_path, kernel(1, 1, 1, context=1), kernel(2, 3, 1, context=2), annotation)
    assert trace.streams.select("context", "label").rows() == [(1, "7"), (2, "7")]
    assert trace.ranges.select("kind", "stream_id", "thread_id").rows() == [("gpu_annotation", 0, None)]


def test_default_stream_is_named_on_nvidia_only(tmp_path: Path) -> None:
    nvidia = load_events(tmp_path, launch(1, 1), kernel(1, 10, 1), kernel(1, 20, 1, stream=8))
    assert nvidia.streams["kind"].to_list() == ["legacy", "unknown"]
    amd = load_events(tmp_path, launch(1, 1, name="hipLaunchKernel"), kernel(1, 10, 1))
    assert amd.streams["kind"].to_list() == ["unknown"]


def test_gpu_work_without_a_place_is_kept(tmp_path: Path) -> None:
    event = {"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1}
    trace = load_events(tmp_path, event, {**event, "pid": "GPU", "tid": ""})
    assert trace.kernels.height == 2
    assert set(trace.streams["label"]) == {"unknown"}
    assert codes(trace)["event_without_place"] >= 2


def test_host_work_without_a_place_is_kept(tmp_path: Path) -> None:
    trace = load_events(tmp_path, {"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 1})
    assert trace.threads.select("native_id", "name").rows() == [(None, "unknown thread")]
    assert trace.processes["pid"].to_list() == [None]
    assert codes(trace) == {"event_without_place": 1}


def test_overhead_of_the_profiler_belongs_to_the_only_process(tmp_path: Path) -> None:
    overhead = call("Buffer Flush", 5, 3, cat="overhead", pid=-1, tid=0)
    trace = load_events(tmp_path, call("a", 1, 20), overhead)
    assert trace.processes["pid"].to_list() == [1]
    assert trace.threads["name"].to_list() == ["thread 1", "profiler overhead"]
    assert trace.host_calls.select("layer", "category", "thread_id").row(1) == ("other", "overhead", 1)
    two = load_events(tmp_path, call("a", 1, 20), call("b", 1, 20, pid=2), overhead)
    assert two.processes["pid"].to_list() == [1, 2, None]


def test_names_of_processes_and_threads(tmp_path: Path) -> None:
    names: list[Event] = [
        {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "python3"}},
        {"ph": "M", "name": "process_labels", "pid": 4, "tid": 0, "args": {"labels": "CPU"}},
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "thread 1 (main) "}},
        {"ph": "M", "name": "process_sort_index", "pid": 1, "tid": 0, "args": {"sort_index": 3}},
        {"ph": "M", "name": "thread_name", "pid": [1], "tid": {}, "args": None},
    ]
    info = {"distributedInfo": {"rank": 3, "world_size": 8}, "host_name": "node7"}
    trace = load_events(tmp_path, *names, launch(1, 1), call("a", 3, 1, tid="worker 2"), **info)
    assert trace.processes.select("pid", "host", "rank").rows() == [(1, "node7", 3), (4, "node7", None)]
    assert trace.threads.select("native_id", "name").rows() == [(1, "thread 1 (main)"), (None, "worker 2")]
    assert trace.meta.properties["process 1"] == "python3"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2, 2),
        ("2", 2),
        ("2.0", 2),
        (" 7 ", 7),
        ("-1", -1),
        ("0x10", "0x10"),
        ("", None),
        (None, None),
        (2**70, str(2**70)),
    ],
)
def test_identity(value: object, expected: object) -> None:
    assert identity(value) == expected


def test_natural_order() -> None:
    labels = ["stream 10", 20, "stream 9", None, 3, "a"]
    assert sorted(labels, key=natural_order) == [3, 20, "a", "stream 9", "stream 10", None]
