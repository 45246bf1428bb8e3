"""Which call launched what: per process, the outermost call, and what happens to work without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.formats.nsys.exports import call, calls, codes, kernel, kernels, leaf_parents, names, pid, tid, trace_of


def launch_starts(trace: object) -> list[int | None]:
    api = trace.api_calls["start_ns"]  # type: ignore[attr-defined]
    return [None if row is None else api[row] for row in trace.kernels["api_id"].to_list()]  # type: ignore[attr-defined]


def test_correlation_ids_count_per_process(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        kernels(kernel(1000, 2000, 55), kernel(9000, 9500, 55, globalPid=pid(7), deviceId=1, contextId=2, streamId=15)),
        calls(call(900, 950, 55), call(8900, 8950, 55, globalTid=tid(3, 7))),
    )
    assert launch_starts(trace) == [0, 8000]
    assert trace.processes["pid"].to_list() == [7, 4242]
    assert codes(trace) == {}


def test_outermost_of_two_calls_is_the_launch(tmp_path: Path) -> None:
    inner = call(910, 940, 5, nameId=4)
    outer = call(900, 950, 5)
    for rows in ((inner, outer), (outer, inner)):
        trace = trace_of(tmp_path, kernels(kernel(1000, 2000, 5)), calls(*rows))
        assert launch_starts(trace) == [0]
        assert trace.api_calls["parent_api_id"].to_list() == [None, 0]
        assert trace.api_calls["depth"].to_list() == [0, 1]
    assert leaf_parents(trace) == [("void k<float>(float*)", "cudaLaunchKernel")]


def test_outer_call_of_equal_times_is_the_first(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, kernels(kernel(1000, 2000, 5)), calls(call(900, 950, 5), call(900, 950, 5, nameId=4)))
    assert names(trace, "api_calls") == ["cudaLaunchKernel", "cudaMemcpyAsync"]
    assert trace.kernels["api_id"].to_list() == [0]


@pytest.mark.parametrize("never", [0, -1, None, 2**32 - 1])
def test_ids_that_mean_nothing_never_join(tmp_path: Path, never: int | None) -> None:
    trace = trace_of(tmp_path, kernels(kernel(1000, 2000, never)), calls(call(900, 950, never)))
    assert trace.kernels["api_id"].to_list() == [None]
    assert codes(trace) == {"launch_missing": 1}
    assert leaf_parents(trace)[0][1] == "no host record"


def test_ids_that_lie_far_apart(tmp_path: Path) -> None:
    rows = [(number * 10**11 + 1, 100 * number + 1) for number in range(50)]
    trace = trace_of(
        tmp_path,
        kernels(*[kernel(start + 50, start + 60, number) for number, start in rows]),
        calls(*[call(start, start + 10, number) for number, start in rows]),
    )
    assert trace.kernels["api_id"].to_list() == list(range(50))


def test_work_launched_before_the_window(tmp_path: Path) -> None:
    work = kernels(kernel(800, 850, 90), kernel(1000, 1100, 3), kernel(1200, 1300, 7), kernel(1400, 1500, 12))
    trace = trace_of(tmp_path, work, calls(call(900, 950, 5), call(960, 970, 12)))
    assert trace.kernels["api_id"].to_list() == [None, None, None, 1]
    assert [above for _, above in leaf_parents(trace)] == [
        "launched before the window",  # starts before any call
        "launched before the window",  # its id is smaller than that of any call
        "no host record",
        "cudaLaunchKernel",
    ]
    assert codes(trace) == {"launched_before_window": 2, "launch_missing": 1}


def test_one_process_begins_later_than_another(tmp_path: Path) -> None:
    """Ids and starts are compared within a process: 5 is small for process 7, and not for process 4242."""
    trace = trace_of(
        tmp_path,
        kernels(kernel(5000, 5100, 5, globalPid=pid(7)), kernel(5000, 5100, 5)),
        calls(call(900, 950, 1), call(4000, 4100, 40, globalTid=tid(3, 7))),
    )
    assert [above for _, above in leaf_parents(trace)] == ["launched before the window", "no host record"]


def test_kernel_that_starts_before_its_launch(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, kernels(kernel(1000, 2000, 5)), calls(call(4500, 4600, 5)))
    assert trace.kernels["api_id"].to_list() == [0]
    assert codes(trace) == {"kernel_before_launch": 1}


def test_no_api_calls_at_all(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, kernels(kernel(1000, 2000, 5)))
    assert trace.kernels["api_id"].to_list() == [None]
    assert codes(trace) == {"launch_missing": 1}


def without_process(start: int, correlation: int, **more: int) -> dict[str, object]:
    return {
        name: value for name, value in kernel(start, start + 10, correlation, **more).items() if name != "globalPid"
    }


def test_exports_that_do_not_tell_the_process(tmp_path: Path) -> None:
    """Alone, a process has launched everything; of several, only one may know the id."""
    work = [without_process(1000, 5), without_process(2000, 6, deviceId=1), without_process(3000, 7)]
    alone = trace_of(tmp_path, kernels(*work), calls(call(900, 950, 5), call(1900, 1950, 6), call(2900, 2950, 7)))
    assert alone.kernels["api_id"].to_list() == [0, 1, 2]
    assert codes(alone) == {}
    several = trace_of(
        tmp_path,
        kernels(*work),
        calls(call(900, 950, 5), call(1900, 1950, 6, globalTid=tid(1, 7)), call(2900, 2950, 7)),
    )
    assert several.kernels["api_id"].to_list() == [0, 1, 2]
    same_id = trace_of(tmp_path, kernels(*work[:1]), calls(call(900, 950, 5), call(910, 950, 5, globalTid=tid(1, 7))))
    assert same_id.kernels["api_id"].to_list() == [None]
    assert codes(same_id) == {"launch_ambiguous": 1}


def test_calls_in_calls_and_their_paths(tmp_path: Path) -> None:
    """OS runtime calls are levels of the tree, above and below API calls."""
    trace = trace_of(
        tmp_path,
        kernels(kernel(1000, 2000, 5)),
        calls(call(900, 950, 5)),
        {"OSRT_API": [call(800, 980, nameId=20), call(910, 920, nameId=21), call(985, 990, nameId=21)]},
        strings={1: "k", 3: "cudaLaunchKernel_v7000", 20: "pthread_once", 21: "ioctl"},
    )
    functions = trace.frames["function"].cast(str).to_list()
    tree = [(depth, functions[frame]) for depth, frame in trace.callpaths.select("depth", "frame_id").iter_rows()]
    assert tree == [
        *[(0, "all"), (1, "pthread_once"), (2, "cudaLaunchKernel"), (3, "ioctl"), (3, "k"), (1, "ioctl")],
    ]
    assert trace.host_calls["category"].cast(str).to_list() == ["osrt"] * 3
    assert trace.host_calls["parent_id"].to_list() == [None, 0, None]
    assert trace.api_calls["host_call_id"].to_list() == [0]
    assert codes(trace) == {}


def test_overhead_calls_nothing(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        kernels(kernel(1000, 2000, 5)),
        calls(call(900, 950, 5), call(700, 800, 4)),
        {
            "PROFILER_OVERHEAD": [call(890, 960, nameId=20), call(895, 899, nameId=20)],
            "CUPTI_ACTIVITY_KIND_OVERHEAD": [
                call(710, 720, nameId=21, overheadType=6),
                call(730, 740, nameId=21, overheadType=3),
            ],
        },
        strings={1: "k", 3: "cudaLaunchKernel_v7000", 20: "CUPTI Buffer flush", 21: "Runtime module loading"},
    )
    assert trace.host_calls["callpath_id"].to_list() == [None] * 4
    assert trace.api_calls["host_call_id"].to_list() == [None, None]
    assert trace.api_calls["depth"].to_list() == [0, 1]  # drawn below the overhead that lies around it
    assert trace.host_calls["category"].cast(str).unique().to_list() == ["overhead"]
    assert trace.meta.overhead_ns == 70 + 10  # the union; module loading is CUDA's own
    assert trace.callpaths.height == 3
