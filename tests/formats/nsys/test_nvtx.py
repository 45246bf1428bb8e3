"""NVTX ranges, marks, domains and categories; sampled values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpuviz.model.trace import Trace
from tests.formats.nsys.exports import call, codes, kernel, kernels, pid, tid, trace_of

WORK = kernels(kernel(1000, 2000))


def nvtx(start: int, end: int | None, text: str | None = None, **more: Any) -> dict[str, Any]:
    return {"start": start, "end": end, "text": text, "globalTid": tid(), "eventType": 59, **more}


def ranges(trace: Trace, *columns: str) -> list[tuple[Any, ...]]:
    return trace.ranges.select(columns).rows()


def test_text_or_text_id(tmp_path: Path) -> None:
    rows = [nvtx(1, 9, "inline"), nvtx(2, 8, None, textId=2), nvtx(3, 7, "both", textId=2), nvtx(4, 6), nvtx(5, 5, "")]
    trace = trace_of(tmp_path, WORK, {"NVTX_EVENTS": rows})
    assert [name for (name,) in ranges(trace, "name")] == ["inline", "k", "both", "unnamed", ""]
    assert codes(trace)["name_unknown"] == 1


def test_push_and_pop_nest_within_their_thread(tmp_path: Path) -> None:
    rows = [
        nvtx(1, 100, "a"),
        nvtx(10, 50, "b"),
        nvtx(20, 30, "c"),
        nvtx(60, 70, "d"),
        nvtx(15, 40, "x", globalTid=tid(2)),
    ]
    trace = trace_of(tmp_path, WORK, {"NVTX_EVENTS": rows})
    found = ranges(trace, "name", "parent_id", "depth", "thread_id", "kind")
    assert found == [
        ("a", None, 0, 0, "nvtx"),
        ("b", 0, 1, 0, "nvtx"),
        ("x", None, 0, 1, "nvtx"),
        ("c", 1, 2, 0, "nvtx"),
        ("d", 0, 1, 0, "nvtx"),
    ]
    assert trace.frames.filter(layer="other").height == 0  # ranges are no levels of the call tree


def test_start_and_end_lie_in_a_lane_of_their_own(tmp_path: Path) -> None:
    """Two threads may start and end them, and nothing says that they nest."""
    rows = [
        nvtx(1, 100, "push"),
        nvtx(10, 60, "one", eventType=60, rangeId=7, endGlobalTid=tid(2)),
        nvtx(20, 50, "two", eventType=60, rangeId=8),
        nvtx(55, 90, "three", eventType=60, rangeId=9, globalTid=tid(3)),
    ]
    trace = trace_of(tmp_path, WORK, {"NVTX_EVENTS": rows})
    found = ranges(trace, "name", "parent_id", "depth", "thread_id")
    assert found == [("push", None, 0, 0), ("one", None, 0, None), ("two", None, 1, None), ("three", None, 1, None)]


def test_marks_have_no_length(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, WORK, {"NVTX_EVENTS": [nvtx(1, 100, "a"), nvtx(5, None, "mark", eventType=34)]})
    assert ranges(trace, "name", "kind", "start_ns", "end_ns", "timing")[1] == ("mark", "mark", 4, 4, "ok")


def test_domains_and_categories_count_per_process(tmp_path: Path) -> None:
    other = tid(1, 7)
    rows = [
        nvtx(1, None, "MPI", eventType=75, domainId=1),
        nvtx(1, None, "NCCL", eventType=75, domainId=1, globalTid=other),
        nvtx(1, None, "send", eventType=33, domainId=1, category=4),
        nvtx(10, 20, "a", domainId=1),
        nvtx(11, 19, "b", domainId=1, globalTid=other),
        nvtx(30, 40, "c", domainId=1, category=4),
        nvtx(50, 60, "d", domainId=2),
        nvtx(70, 80, "e", category=9),
        nvtx(90, 95, "f"),
    ]
    trace = trace_of(tmp_path, WORK, {"NVTX_EVENTS": rows})
    found = dict(ranges(trace, "name", "domain"))
    assert found == {"a": "MPI", "b": "NCCL", "c": "MPI: send", "d": "domain 2", "e": "category 9", "f": None}


def test_rows_that_are_no_ranges(tmp_path: Path) -> None:
    rows = [
        nvtx(1, None, "thread", eventType=39),
        nvtx(1, None, "d", eventType=76),
        nvtx(1, 2, "?", eventType=35),
        nvtx(1, 2, "?", eventType=None),
    ]
    trace = trace_of(tmp_path, WORK, {"NVTX_EVENTS": rows})
    assert trace.ranges.height == 0
    assert codes(trace)["record_kind_ignored"] == 2


def test_gpu_metrics(tmp_path: Path) -> None:
    names = [{"typeId": 256 + 1, "metricId": 3, "metricName": "SMs Active [Throughput %]"}]
    rows = [
        {"timestamp": 1500, "typeId": 257, "metricId": 3, "value": 40},
        {"timestamp": 900, "typeId": 257, "metricId": 3, "value": 30},
        {"timestamp": 1600, "typeId": 258, "metricId": 9, "value": 7},
    ]
    trace = trace_of(
        tmp_path, kernels(kernel(1000, 2000, deviceId=1)), {"GPU_METRICS": rows, "TARGET_INFO_GPU_METRICS": names}
    )
    assert trace.counters.rows() == [
        ("SMs Active [Throughput %]", "Throughput %", -100, 30.0, 0, None),
        ("SMs Active [Throughput %]", "Throughput %", 500, 40.0, 0, None),
        ("metric 9", "as recorded", 600, 7.0, None, None),
    ]


def test_memory_in_use(tmp_path: Path) -> None:
    rows = [
        {"start": 10, "globalPid": pid(), "deviceId": 0, "bytes": 100, "memKind": 2, "memoryOperationType": 0},
        {"start": 30, "globalPid": pid(), "deviceId": 0, "bytes": 100, "memKind": 2, "memoryOperationType": 1},
        {"start": 20, "globalPid": pid(), "deviceId": 0, "bytes": 7, "memKind": 2, "memoryOperationType": 0},
        {"start": 20, "globalPid": pid(), "deviceId": 0, "bytes": 5, "memKind": 4, "memoryOperationType": 0},
    ]
    trace = trace_of(tmp_path, kernels(kernel(10, 20)), {"CUDA_GPU_MEMORY_USAGE_EVENTS": rows})
    found = trace.counters.select("series", "time_ns", "value").rows()
    device = "device memory allocated since the start"
    assert found == [
        (device, 0, 100.0),
        (device, 10, 107.0),
        ("managed memory allocated since the start", 10, 5.0),
        (device, 20, 7.0),
    ]


def test_threads_on_cpus(tmp_path: Path) -> None:
    """Thread 2 is taken off a CPU first, so it was on one before."""
    rows = [(5, 1, 1), (10, 2, 0), (20, 1, 0), (30, 2, 1), (30, 1, 1)]
    events = [{"start": start, "cpu": 0, "isSchedIn": is_in, "globalTid": tid(thread)} for start, thread, is_in in rows]
    trace = trace_of(tmp_path, kernels(kernel(5, 20)), {"SCHED_EVENTS": events})
    assert trace.counters.select("time_ns", "value").rows() == [(0, 2.0), (5, 1.0), (15, 0.0), (25, 1.0), (25, 2.0)]
    assert trace.counters["process_id"].unique().to_list() == [0]


def test_cpu_samples_count_upwards_and_lose_their_stacks(tmp_path: Path) -> None:
    events = [{"id": n, "start": 10 * n, "globalTid": tid(process=4242 + n % 2), "cpuCycles": 1} for n in range(4)]
    trace = trace_of(tmp_path, kernels(kernel(5, 20)), {"COMPOSITE_EVENTS": events})
    assert trace.counters.select("process_id", "value").rows() == [(0, 1.0), (1, 1.0), (0, 2.0), (1, 2.0)]
    assert codes(trace)["record_kind_ignored"] == 4


def test_tables_that_no_table_of_a_trace_holds(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        WORK,
        {"CUDA_UM_GPU_PAGE_FAULT_EVENTS": [{"start": 1}, {"start": 2}], "FECS_EVENTS": [{"timestamp": 1}]},
    )
    assert codes(trace)["record_kind_ignored"] == 3
    ignored = trace.diagnostics.filter(code="record_kind_ignored")["first_example"][0]
    assert ignored == "CUDA_UM_GPU_PAGE_FAULT_EVENTS (2), FECS_EVENTS (1)"


def test_calls_of_other_libraries_become_host_calls(tmp_path: Path) -> None:
    tables = {
        "CUDNN_EVENTS": [call(10, 20, nameId=2)],
        "OPENMP_EVENT_KIND_TASK": [call(30, 40, nameId=2)],
        "MPI_COLLECTIVES_EVENTS": [call(50, 60, textId=2)],
    }
    trace = trace_of(tmp_path, WORK, tables)
    found = trace.host_calls.select("category", "name", "layer").rows()
    assert found == [("cudnn", "k", "other"), ("openmp_task", "k", "other"), ("mpi_collectives", "k", "other")]
    assert trace.host_calls["callpath_id"].null_count() == 0
