"""What launched what: correlation ids, graphs, orphans, several processes; and the call tree that follows."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuviz.model.trace import Trace
from tests.formats.events import call, codes, kernel, launch, load_events, memcpy, path_of


def launch_of(trace: Trace) -> dict[int | None, int | None]:
    """correlation id → api_id of the activities."""
    return dict(trace.activities().select("correlation_id", "api_id").iter_rows())


def test_kernel_hangs_below_its_operator(tmp_path: Path) -> None:
    trace = load_events(
        tmp_path,
        call("train.py(12): step", 0, 100, cat="python_function"),
        call("nn.Module: Linear_0", 5, 90, cat="python_function"),
        call("aten::linear", 10, 50),
        launch(1, 20),
        kernel(1, 200, 7),
    )
    assert path_of(trace, trace.kernels["callpath_id"][0]) == [
        "step",
        "Linear_0",
        "aten::linear",
        "cudaLaunchKernel",
        "k",
    ]
    assert trace.host_calls["layer"].to_list() == ["python", "module", "op"]
    frame = trace.frames.filter(function="step").row(0, named=True)
    assert (frame["file"], frame["line"]) == ("train.py", 12)
    assert trace.api_calls.select("host_call_id", "parent_api_id", "depth").rows() == [(2, None, 3)]


def test_bleeding_launch_stays_in_its_operator(tmp_path: Path) -> None:
    trace = load_events(tmp_path, call("aten::linear", 0.0, 10.0), launch(1, 8.0, 2.4), kernel(1, 15, 1))
    assert trace.api_calls["host_call_id"].to_list() == [0]
    assert codes(trace) == {"bleeding_child": 1}


def test_crossing_calls_keep_their_rows(tmp_path: Path) -> None:
    trace = load_events(tmp_path, call("a", 0, 100), call("b", 10, 50), call("c", 40, 50), launch(1, 80, 2))
    assert trace.host_calls.select("name", "parent_id", "depth").rows() == [
        ("a", None, 0),
        ("b", 0, 1),
        ("c", 0, 2),
    ]
    assert trace.api_calls.select("host_call_id", "depth").rows() == [(2, 3)]
    assert codes(trace) == {"crossing_call": 1}


def test_threads_do_not_nest_in_each_other(tmp_path: Path) -> None:
    trace = load_events(tmp_path, call("a", 0, 100), call("a", 10, 50, tid=2), call("a", 10, 50, pid=2))
    assert trace.host_calls["parent_id"].to_list() == [None] * 3
    assert trace.callpaths.height == 2  # equal paths of several threads are one node


def test_external_id_does_not_link(tmp_path: Path) -> None:
    """The runtime call lies in another thread: its operator is unknown, whatever the ids say."""
    trace = load_events(
        tmp_path,
        call("aten::old", 1, 2, **{"External id": 17}),
        call("aten::mm", 9, 9, **{"External id": 4}),
        launch(17, 10, pid=100, tid=100, **{"External id": 17}),
        kernel(17, 20, 4),
    )
    assert trace.api_calls["host_call_id"].to_list() == [None]
    assert path_of(trace, trace.kernels["callpath_id"][0]) == ["cudaLaunchKernel", "k"]


def test_outermost_of_two_calls_is_the_launch(tmp_path: Path) -> None:
    trace = load_events(
        tmp_path,
        launch(4, 10, 10, name="cudaLaunchKernelExC"),
        launch(4, 10, 8, name="cuLaunchKernelEx", cat="cuda_driver"),
        kernel(4, 30, 2),
    )
    assert launch_of(trace) == {4: 0}
    assert trace.api_calls.select("api", "parent_api_id", "depth").rows() == [
        ("runtime", None, 0),
        ("driver", 0, 1),
    ]


@pytest.mark.parametrize("absent", [0, -1, None, "x", [1]])
def test_absent_correlation_never_joins(tmp_path: Path, absent: object) -> None:
    events = [launch(absent, 10 * n) for n in range(1, 4)] + [kernel(absent, 10 * n + 5, 1) for n in range(1, 4)]
    trace = load_events(tmp_path, *events)
    assert trace.kernels["api_id"].null_count() == 3
    assert codes(trace) == {"launch_missing": 3}


def test_clock_skew_is_counted(tmp_path: Path) -> None:
    trace = load_events(tmp_path, launch(1, 100, 30), kernel(1, 96.5, 4), launch(2, 140, 50), kernel(2, 150, 4))
    joined = trace.kernels.join(trace.api_calls, on="api_id", suffix="_api")
    assert (joined["start_ns"] - joined["start_ns_api"]).to_list() == [-3500, 10_000]
    assert codes(trace) == {"kernel_before_launch": 1}


def test_graph_launch_fans_out(tmp_path: Path) -> None:
    nodes = [
        kernel(5, 30 + 3 * n, 2.5, name=f"k{n % 3}", **{"graph id": 1, "graph node id": 100 + n}) for n in range(6)
    ]
    trace = load_events(tmp_path, launch(5, 10, 8, name="cudaGraphLaunch"), *nodes, memcpy(5, 60, 2))
    work = trace.activities()
    assert work["api_id"].to_list() == [0] * 7
    assert (work["start_ns"].min(), work["end_ns"].max()) == (20_000, 52_000)
    assert trace.kernels["graph_id"].to_list() == [1] * 6
    assert trace.kernels["graph_node_id"].to_list() == list(range(100, 106))
    assert trace.callpaths.height == 1 + 1 + 3 + 1
    assert codes(trace) == {}


def test_graph_replays_without_their_kernels(tmp_path: Path) -> None:
    graph = {"graph id": 3}
    replays = [launch(n, 10 * n, name="cudaGraphLaunch") for n in (1, 2, 3, 4)]
    full = [kernel(n, 100 * n + 5 * k, 1, **graph) for n in (1, 2) for k in range(6)]
    trace = load_events(tmp_path, *replays, *full, kernel(3, 400, 1, **graph))
    assert codes(trace) == {"graph_replay_without_kernels": 2}
    example = trace.diagnostics.filter(code="graph_replay_without_kernels")["first_example"][0]
    assert example.startswith("2 of 4 graph replays")


def test_orphans_before_the_window(tmp_path: Path) -> None:
    """Ids wrap and restart, so it is the time that says it here."""
    trace = load_events(tmp_path, kernel(900, 1, 3), kernel(901, 5, 2), launch(1, 10), kernel(1, 20, 4), launch(3, 50))
    assert trace.kernels["api_id"].to_list() == [None, None, 0]
    assert path_of(trace, trace.kernels["callpath_id"][0]) == ["launched before the window", "k"]
    assert trace.frames.filter(layer="group")["function"].to_list() == ["launched before the window"]
    assert codes(trace) == {"launched_before_window": 2}


def test_orphans_with_an_early_correlation_and_others(tmp_path: Path) -> None:
    trace = load_events(
        tmp_path, launch(50, 10), kernel(50, 20, 4), kernel(49, 30, 4), kernel(51, 40, 4), kernel(None, 50, 4)
    )
    groups = [path_of(trace, node)[0] for node in trace.kernels["callpath_id"]]
    assert groups == ["cudaLaunchKernel", "launched before the window", "no host record", "no host record"]
    assert codes(trace) == {"launched_before_window": 1, "launch_missing": 2}


def test_ambiguous_processes_link_to_none(tmp_path: Path) -> None:
    trace = load_events(
        tmp_path,
        launch(1, 10, pid=100),
        kernel(1, 20, 4, device=0),
        launch(1, 11, pid=200),
        kernel(1, 25, 4, device=1),
    )
    assert trace.kernels["api_id"].to_list() == [None, None]
    assert path_of(trace, trace.kernels["callpath_id"][0]) == ["several possible launches", "k"]
    assert codes(trace) == {"launch_ambiguous": 2}


def test_certain_links_tell_whose_device_it_is(tmp_path: Path) -> None:
    """Correlation 7 is recorded in one process only and ties device 0 to it; the same for 8 and device 1."""
    trace = load_events(
        tmp_path,
        *[launch(n, 10 * n, pid=100) for n in (1, 7)],
        *[launch(n, 10 * n + 1, pid=200) for n in (1, 8)],
        *[kernel(n, 200 + n, 0.5, device=0) for n in (1, 7)],
        *[kernel(n, 300 + n, 0.5, device=1) for n in (1, 8)],
    )
    threads = trace.api_calls["thread_id"].gather(trace.kernels["api_id"])
    pids = trace.processes["pid"].gather(trace.threads["process_id"].gather(threads))
    assert pids.to_list() == [100, 100, 200, 200]
    assert codes(trace) == {}


def test_one_calling_process_needs_no_tie(tmp_path: Path) -> None:
    trace = load_events(tmp_path, call("a", 1, 1, pid=5), launch(1, 10, pid=100), kernel(1, 20, 4))
    assert launch_of(trace) == {1: 0}
    assert trace.devices["process_id"].to_list() == [1]


def test_forward_by_flow(tmp_path: Path) -> None:
    flow = {"cat": "fwdbwd", "name": "fwdbwd", "id": 1, "pid": 1}
    trace = load_events(
        tmp_path,
        call("aten::mul", 10, 5, **{"Sequence number": 3, "Fwd thread id": 0}),
        call("MulBackward0", 50, 20, tid=2, **{"Sequence number": 3, "Fwd thread id": 1}),
        call("aten::mul", 55, 10, tid=2),
        launch(1, 56, 2, tid=2),
        kernel(1, 80, 4),
        {"ph": "s", "tid": 1, "ts": 10, **flow},
        {"ph": "f", "tid": 2, "ts": 50, "bp": "e", **flow},
    )
    forward = trace.host_calls["callpath_id"][0]
    assert trace.host_calls["forward_callpath_id"].to_list() == [None, forward, forward]
    assert trace.kernels["forward_callpath_id"].to_list() == [forward]
    assert path_of(trace, trace.kernels["callpath_id"][0])[0] == "MulBackward0"  # linked, not nested
    assert codes(trace) == {}


def test_forward_by_sequence_number(tmp_path: Path) -> None:
    """The last forward operator to start with a number made the node: here the inner one."""
    forward = {"Fwd thread id": 0}
    trace = load_events(
        tmp_path,
        call("aten::linear", 10, 9, **{"Sequence number": 3, **forward}),
        call("aten::addmm", 12, 5, **{"Sequence number": 3, **forward}),
        call("AddmmBackward0", 50, 20, tid=2, **{"Sequence number": 3, "Fwd thread id": 1}),
        call("LostBackward0", 80, 20, tid=2, **{"Sequence number": 99, "Fwd thread id": 1}),
    )
    expected = trace.host_calls["callpath_id"][1]
    assert trace.host_calls["forward_callpath_id"].to_list() == [None, None, expected, None]
    assert codes(trace) == {"forward_missing": 1}


def test_forward_is_unknown_where_two_threads_use_the_number(tmp_path: Path) -> None:
    trace = load_events(
        tmp_path,
        call("a", 10, 5, tid=1, **{"Sequence number": 3, "Fwd thread id": 0}),
        call("b", 12, 5, tid=2, **{"Sequence number": 3, "Fwd thread id": 0}),
        call("Backward", 50, 20, tid=3, **{"Sequence number": 3, "Fwd thread id": 1}),
    )
    assert trace.host_calls["forward_callpath_id"].null_count() == 3
    assert codes(trace) == {"forward_missing": 1}
