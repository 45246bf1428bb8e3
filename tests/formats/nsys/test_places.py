"""Processes, threads, devices, streams."""

from __future__ import annotations

from pathlib import Path

from tests.formats.nsys.exports import MACHINE, call, calls, codes, kernel, kernels, pid, tid, trace_of

GPU = {
    "vmId": MACHINE,
    "id": 0,
    "name": "NVIDIA H100",
    "uuid": "74e128b2-90b6",
    "computeMajor": 9,
    "computeMinor": 0,
    "smCount": 132,
    "totalMemory": 85899345920,
    "threadsPerWarp": 32,
    "maxWarpsPerSm": 64,
    "maxRegistersPerSm": 65536,
    "maxShmemPerSm": 233472,
    "memoryBandwidth": 3352320000000,
}


def test_ids_of_the_upper_half_are_negative(tmp_path: Path) -> None:
    """hwId 200 makes bit 63 one: SQLite holds the id as a negative number."""
    machine = ((200 << 8 | 3) << 48) - (1 << 64)
    assert tid(77, 99, machine) < 0
    trace = trace_of(
        tmp_path,
        kernels(kernel(1000, 2000, 5, globalPid=pid(99, machine))),
        calls(call(900, 950, 5, globalTid=tid(77, 99, machine))),
        {"TARGET_INFO_GPU": [{**GPU, "vmId": machine}]},
    )
    assert trace.processes["pid"].to_list() == [99]
    assert trace.threads.select("native_id", "name").row(0) == (77, "thread 77")
    assert trace.kernels["api_id"].to_list() == [0]
    assert trace.devices["name"].to_list() == ["NVIDIA H100"]


def test_equal_pids_of_two_machines(tmp_path: Path) -> None:
    other = 2 << 48
    trace = trace_of(
        tmp_path,
        kernels(kernel(1000, 2000, 5), kernel(1000, 2000, 5, globalPid=pid(machine=other))),
        calls(call(900, 950, 5), call(800, 950, 5, globalTid=tid(machine=other))),
        {"TARGET_INFO_SYSTEM_ENV": [{"globalVid": MACHINE, "name": "Hostname", "value": "a"},
                                    {"globalVid": other, "name": "Hostname", "value": "b"}]},
    )  # fmt: skip
    assert trace.processes.select("pid", "host").rows() == [(4242, "a"), (4242, "b")]
    assert trace.devices["ordinal"].to_list() == [0, 0]
    assert trace.devices["process_id"].to_list() == [0, 1]
    assert trace.api_calls["start_ns"].gather(trace.kernels["api_id"]).to_list() == [100, 0]


def test_facts_of_a_device(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, kernels(kernel(1000, 2000)), {"TARGET_INFO_GPU": [GPU, {**GPU, "id": 1, "smCount": 0}]})
    first, second = trace.devices.drop("device_id", "process_id").rows()
    facts = ("GPU-74e128b2-90b6", "NVIDIA H100", "9.0", 132, 85899345920, 32, 2048, 65536, 233472, None)
    assert first == (0, *facts)
    assert second == (1, *facts[:3], None, *facts[4:])
    assert trace.meta.properties["GPU 0 memory bandwidth in bytes/s"] == "3352320000000"


def test_facts_of_2020(tmp_path: Path) -> None:
    old = {
        "deviceId": 0,
        "name": "Quadro GV100",
        "numMultiprocessors": 80,
        "globalMemorySize": 34087305216,
        "computeCapabilityMajor": 7,
        "computeCapabilityMinor": 0,
        "numThreadsPerWarp": 32,
        "vmId": MACHINE,
        "maxWarpsPerMultiprocessor": 64,
        "coreClockRate": 1627000,
    }
    trace = trace_of(
        tmp_path,
        kernels(kernel(1000, 2000)),
        {"TARGET_INFO_CUDA_GPU": [old], "TARGET_INFO_GPU": [{"vmId": MACHINE, "deviceId": 0, "name": "Quadro GV100"}]},
    )
    wanted = ("name", "compute_capability", "sm_count", "memory_bytes", "max_threads_per_sm")
    assert trace.devices.select(wanted).rows() == [("Quadro GV100", "7.0", 80, 34087305216, 2048)]


def test_processes_that_see_different_gpus(tmp_path: Path) -> None:
    """Both say 0. With TARGET_INFO_CUDA_DEVICE these are two devices, without it nobody can know."""
    work = kernels(kernel(1000, 2000), kernel(1500, 2500, globalPid=pid(7)))
    listed = [{"gpuId": 3, "cudaId": 0, "pid": 4242}, {"gpuId": 1, "cudaId": 0, "pid": 7}]
    told = trace_of(tmp_path, work, {"TARGET_INFO_CUDA_DEVICE": listed})
    assert told.devices.select("ordinal", "process_id").rows() == [(1, 0), (3, 1)]
    assert told.streams["device_id"].to_list() == [0, 1]
    untold = trace_of(tmp_path, work)
    assert untold.devices.select("ordinal", "process_id").rows() == [(0, None)]
    assert untold.streams.height == 2  # streams of two processes are two streams


def test_streams(tmp_path: Path) -> None:
    rows = [
        kernel(1000, 2000, streamId=7),
        kernel(2000, 3000, streamId=13),
        kernel(3000, 4000, streamId=15, contextId=2, deviceId=1),
        kernel(4000, 5000, streamId=15),
    ]
    stream = {"hwId": 0, "vmId": 1, "processId": 4242, "contextId": 1}
    trace = trace_of(
        tmp_path,
        kernels(*rows),
        {
            "TARGET_INFO_CUDA_STREAM": [
                {**stream, "streamId": 7, "flag": 3},
                {**stream, "streamId": 13, "flag": 2},
                {**stream, "streamId": 15, "flag": 1},
                {**stream, "streamId": 99, "flag": 1},
            ],
            "TARGET_INFO_CUDA_CONTEXT_INFO": [{**stream, "contextId": 2, "nullStreamId": 15, "deviceId": 1}],
        },
    )
    found = trace.streams.select("context", "label", "number", "kind").rows()
    assert found == [
        (1, "7", 7, "legacy"),
        (1, "13", 13, "non_blocking"),
        (1, "15", 15, "blocking"),
        (2, "15", 15, "legacy"),
    ]
    assert trace.kernels["stream_id"].to_list() == [0, 1, 3, 2]


def test_names_of_threads_and_processes(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        kernels(kernel(1000, 2000, 5)),
        calls(call(900, 950, 5), call(910, 920, 6, globalTid=tid(2)), call(910, 920, 7, globalTid=tid(3))),
        {
            "ThreadNames": [
                {"globalTid": tid(1), "nameId": 10, "priority": 10},
                {"globalTid": tid(1), "nameId": 11, "priority": 20},
                {"globalTid": tid(1), "nameId": 12, "priority": 5},
            ],
            "NVTX_EVENTS": [{"start": 1, "eventType": 39, "text": "loader", "globalTid": tid(2)}],
            "PROCESSES": [
                {"globalPid": pid(), "pid": 4242, "name": "/home/alice/bin/python3"},
                {"globalPid": pid(1), "pid": 1, "name": "init"},
            ],
        },
        strings={1: "k", 3: "cudaLaunchKernel", 10: "worker", 11: "main", 12: "other"},
    )
    assert trace.threads["name"].to_list() == ["main", "loader", "thread 3"]
    assert trace.processes.height == 1
    assert trace.meta.properties["process 4242"] == "python3"
    assert "process 1" not in trace.meta.properties


def test_rows_without_a_place(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        kernels(
            kernel(1000, 2000, 5, deviceId=None), kernel(2000, 3000, 5, streamId=None), kernel(3000, 4000, streamId=-1)
        ),
        calls(call(900, 950, 5), call(900, 950, 6, globalTid=None)),
    )
    assert codes(trace) == {"event_without_place": 4, "launch_missing": 1}
    assert trace.threads["name"].to_list() == ["thread 1", "unknown thread"]
    assert trace.devices["ordinal"].to_list() == [0, 1]
    assert sorted(trace.streams["label"].to_list()) == ["7", "unknown"]
    assert trace.kernels["api_id"].to_list() == [0, 0, None]


def test_device_numbers_beyond_any_device(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, kernels(kernel(1000, 2000, deviceId=2**40), kernel(1000, 2000, deviceId=-5)))
    assert trace.devices["ordinal"].to_list() == [0]
    assert trace.kernels.height == 2
