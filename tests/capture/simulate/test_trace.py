"""A capture becomes a trace whose numbers can be worked out by hand, and whose paths are lines of this file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from gpuviz.capture import Session
from gpuviz.capture.backend import CaptureRequest, CellSource
from gpuviz.capture.simulate import Simulator
from gpuviz.capture.simulate.gpus import H100
from gpuviz.model import Trace
from tests.capture.simulate import programs

pytestmark = pytest.mark.torch

type Capture = Callable[[Callable[[], Any]], Trace]

LIMITS = H100.assumed


def path(trace: Trace, callpath_id: int | None) -> list[str]:
    """The functions from the root to this node."""
    named = trace.callpaths.join(trace.frames, on="frame_id", how="left").sort("callpath_id")
    parents, functions = named["parent_id"].to_list(), named["function"].cast(pl.String).to_list()
    found = []
    while callpath_id is not None:
        found.append(functions[callpath_id])
        callpath_id = parents[callpath_id]
    return found[::-1]


def test_one_matrix_product(simulator: Simulator, capture: Capture) -> None:
    import torch

    left = torch.ones(2_048, 1_024, dtype=torch.bfloat16, device="cuda")
    right = torch.ones(1_024, 4_096, dtype=torch.bfloat16, device="cuda")
    trace = capture(lambda: left @ right)
    kernel = trace.kernels.row(0, named=True)
    flops = 2 * 2_048 * 1_024 * 4_096  # a multiplication and an addition each
    assert kernel["end_ns"] - kernel["start_ns"] == round(flops / (989.5e12 * LIMITS.compute_efficiency) * 1e9)
    assert (kernel["grid_x"], kernel["grid_y"], kernel["grid_z"]) == (16, 32, 1)
    assert "gemm_bf16" in kernel["name"]
    call = trace.api_calls.filter(api_id=kernel["api_id"]).row(0, named=True)
    assert call["name"] == "cudaLaunchKernel"
    assert call["end_ns"] - call["start_ns"] == LIMITS.host_launch_ns + LIMITS.host_first_launch_ns
    assert kernel["start_ns"] - call["end_ns"] == LIMITS.device_launch_latency_ns
    assert trace.host_calls["name"].to_list() == ["aten::matmul", "aten::mm"]
    assert trace.host_calls["input_shapes"].to_list()[-1] == "[[2048, 1024], [1024, 4096]]"


def test_flops_are_those_of_pytorchs_counter(capture: Capture) -> None:
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    torch.backends.cudnn.allow_tf32, before = False, torch.backends.cudnn.allow_tf32
    try:
        data = torch.randn(8, 64, 56, 56, device="cuda", requires_grad=True)
        weight = torch.randn(64, 64, 3, 3, device="cuda", requires_grad=True)
        with FlopCounterMode(display=False) as counter:
            torch.nn.functional.conv2d(data, weight, padding=1).sum().backward()
        trace = capture(lambda: torch.nn.functional.conv2d(data, weight, padding=1).sum().backward())
    finally:
        torch.backends.cudnn.allow_tf32 = before
    products = trace.kernels.filter(pl.col("name").cast(pl.String).str.contains("implicit_gemm_f32"))
    assert products.height == 3  # forward, and one each for the gradients of data and weight
    modelled = products.select(pl.col("end_ns") - pl.col("start_ns")).sum().item()
    expected = counter.get_total_flops() / (67e12 * LIMITS.compute_efficiency) * 1e9
    assert modelled == pytest.approx(expected, abs=3)


def test_an_elementwise_kernel_is_bound_by_memory(capture: Capture) -> None:
    import torch

    data = torch.ones(10_000_000, device="cuda")
    trace = capture(lambda: data + data)
    kernel = trace.kernels.row(0, named=True)
    moved = 3 * 40_000_000  # two reads and a write
    assert kernel["end_ns"] - kernel["start_ns"] == round(moved / (3_350e9 * LIMITS.memory_efficiency) * 1e9)
    assert kernel["name"] == "vectorized_elementwise_kernel<4, add, float32>"


def test_copies_take_their_bytes_through_the_link(capture: Capture) -> None:
    import torch

    size = 64 << 20
    pageable = torch.zeros(size, dtype=torch.int8)
    pinned = pageable.pin_memory()

    def body() -> Any:
        kept = pageable.to("cuda")  # kept, so that the next one needs memory of its own
        there = pinned.to("cuda", non_blocking=True)
        return kept, there.cpu()

    trace = capture(body)
    durations = trace.memcpys.select(pl.col("end_ns") - pl.col("start_ns")).to_series().to_list()
    rates = [LIMITS.pageable_bytes_per_s, LIMITS.pinned_bytes_per_s, LIMITS.pageable_bytes_per_s]
    assert durations == [LIMITS.device_copy_fixed_ns + round(size / rate * 1e9) for rate in rates]
    assert trace.memcpys["copy_kind"].to_list() == ["HtoD", "HtoD", "DtoH"]
    assert trace.memcpys["src_kind"].to_list() == ["pageable", "pinned", "device"]
    assert trace.memcpys["dst_kind"].to_list() == ["device", "device", "pageable"]
    assert trace.memcpys["size_bytes"].to_list() == [size] * 3
    # Blocking copies are followed by a synchronize; an asynchronous one of pinned memory is not.
    assert trace.api_calls["name"].to_list() == [
        *("cudaMalloc", "cudaMemcpyAsync", "cudaStreamSynchronize"),
        *("cudaMalloc", "cudaMemcpyAsync", "cudaMemcpyAsync", "cudaStreamSynchronize"),
    ]
    calls = trace.api_calls.filter(name="cudaMemcpyAsync")
    spent = calls.select(pl.col("end_ns") - pl.col("start_ns")).to_series().to_list()
    assert spent[0] > durations[0]  # pageable: the host waits
    assert spent[1] == LIMITS.host_copy_call_ns  # pinned: it does not
    assert trace.syncs["sync_kind"].to_list() == ["stream", "stream"]


def test_a_copy_hides_under_a_kernel_of_another_stream(capture: Capture) -> None:
    import torch

    square = torch.ones(8_192, 8_192, device="cuda")
    pinned = torch.zeros(32 << 20, dtype=torch.int8).pin_memory()

    def body() -> None:
        square @ square
        with torch.cuda.stream(torch.cuda.Stream()):
            pinned.to("cuda", non_blocking=True)
        torch.cuda.synchronize()

    trace = capture(body)
    kernel, transfer = trace.kernels.row(0, named=True), trace.memcpys.row(0, named=True)
    assert kernel["end_ns"] - kernel["start_ns"] == round(2 * 8_192**3 / (67e12 * LIMITS.compute_efficiency) * 1e9)
    assert kernel["start_ns"] < transfer["start_ns"] < transfer["end_ns"] < kernel["end_ns"]
    assert kernel["stream_id"] != transfer["stream_id"]
    waits = trace.syncs.row(0, named=True)
    assert (waits["sync_kind"], waits["end_ns"]) == ("context", kernel["end_ns"])


def test_events_measure_modelled_time(capture: Capture) -> None:
    import torch

    square = torch.ones(4_096, 4_096, device="cuda")
    elapsed: list[float] = []

    def body() -> None:
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        square @ square
        start.record()
        square @ square
        end.record()
        with pytest.raises(RuntimeError, match="must be completed"):
            start.elapsed_time(end)
        end.synchronize()
        elapsed.append(start.elapsed_time(end))

    trace = capture(body)
    kernels = trace.kernels.sort("start_ns")
    between = (kernels["end_ns"][1] - kernels["end_ns"][0]) / 1e6
    assert elapsed == [between]
    assert trace.api_calls["name"].cast(pl.String).to_list().count("cudaEventRecord") == 2
    assert "event" in trace.syncs["sync_kind"].to_list()


def test_host_work_is_not_gpu_work(capture: Capture) -> None:
    import torch

    def body() -> None:
        batch = torch.stack([torch.rand(3) for _ in range(4)])  # what a data loader does
        (batch.to("cuda") * 2).sum().item()

    trace = capture(body)
    names = trace.kernels["name"].cast(pl.String).to_list()
    assert [name.split("<")[0] for name in names] == ["vectorized_elementwise_kernel", "reduce_kernel"]
    assert trace.memcpys["copy_kind"].to_list() == ["HtoD", "DtoH"]


def test_what_depends_on_data_waits(capture: Capture) -> None:
    import torch

    data = torch.arange(10.0, device="cuda")
    trace = capture(lambda: data[data > 3])
    assert trace.memcpys["copy_kind"].to_list() == ["DtoH"]
    assert trace.syncs.height == 1
    trace = capture(lambda: print(data))
    assert trace.memcpys["size_bytes"].to_list() == [40]
    assert not trace.kernels.height


def test_views_launch_nothing(capture: Capture) -> None:
    import torch

    data = torch.ones(4, 4, device="cuda")
    trace = capture(lambda: data.view(2, 8).T[0].unsqueeze(0).expand(3, 2).detach())
    assert not trace.api_calls.height
    assert {"aten::view", "aten::unsqueeze", "aten::detach"} <= set(trace.host_calls["name"].cast(pl.String))


def forward_and_backward(model: Any, data: Any) -> None:
    hidden = model(data)
    loss = hidden.square().sum()
    loss.backward()


def test_backward_belongs_to_its_forward(capture: Capture) -> None:
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Tanh()).to("cuda")
    data = torch.ones(4, 16, device="cuda")
    trace = capture(lambda: forward_and_backward(model, data))
    threads = trace.threads["name"].to_list()
    engine = threads.index("pt_autograd_0")
    backward = trace.host_calls.filter(thread_id=engine)
    assert {"TanhBackward0", "AddmmBackward0"} <= set(backward["name"].cast(pl.String))
    kernels = trace.kernels.join(trace.api_calls.select("api_id", "thread_id"), on="api_id").filter(thread_id=engine)
    forwards = {}
    for row in kernels.iter_rows(named=True):
        if row["forward_callpath_id"] is not None:
            forwards[row["name"].split("<")[0]] = path(trace, row["forward_callpath_id"])
    product = next(value for name, value in forwards.items() if "gemm" in name)
    assert "hidden = model(data)" in product
    assert "Linear" in product
    # Where it was called from is the line of `backward`, in the thread that waited for the engine.
    launched = path(trace, kernels["callpath_id"][0])
    assert "loss.backward()" in launched
    assert "forward_and_backward" in launched


def test_paths_are_lines_of_this_file(capture: Capture) -> None:
    import torch

    model = programs.classifier().to("cuda")
    data = torch.ones(2, 3, 16, 16, device="cuda")
    trace = capture(lambda: forward_and_backward(model, data))
    convolution = trace.kernels.filter(pl.col("name").cast(pl.String).str.contains("fprop"))["callpath_id"][0]
    names = path(trace, convolution)
    expected = ["forward_and_backward", "hidden = model(data)", "Sequential", "Conv2d", "aten::conv2d"]
    assert [name for name in names if name in expected] == expected
    assert names[-2] == "cudaLaunchKernel"
    lines = trace.frames.filter(layer="line", function="hidden = model(data)")
    assert lines["file"].cast(pl.String).to_list() == [__file__]
    source = Path(__file__).read_text().splitlines()
    assert source[lines["line"][0] - 1].strip() == "hidden = model(data)"
    assert not trace.frames.filter(pl.col("file").cast(pl.String).str.contains("site-packages")).height


def test_functions_belong_to_their_cells(simulator: Simulator) -> None:
    sources = {
        "<cell 1>": "import torch\ndef double(x):\n    return x * 2\n",
        "<cell 2>": "y = double(torch.ones(3, device='cuda'))\ntorch.cuda.synchronize()\n",
    }
    cells = {name: CellSource(f"id {name}", number, text) for number, (name, text) in enumerate(sources.items(), 1)}
    namespace: dict[str, Any] = {}
    exec(compile(sources["<cell 1>"], "<cell 1>", "exec"), namespace)
    simulator.start(CaptureRequest(cell_of=cells.get))
    exec(compile(sources["<cell 2>"], "<cell 2>", "exec"), namespace)
    trace = simulator.stop().validate()
    multiplied = trace.kernels.filter(pl.col("name").cast(pl.String).str.contains("mul"))["callpath_id"][0]
    names = path(trace, multiplied)
    at = names.index("In [2]")
    assert names[at : at + 4] == ["In [2]", "y = double(torch.ones(3, device='cuda'))", "double", "return x * 2"]
    wait = trace.api_calls.filter(name="cudaDeviceSynchronize")["callpath_id"][0]
    assert path(trace, wait)[-2:] == ["torch.cuda.synchronize()", "cudaDeviceSynchronize"]
    assert set(trace.cells["source"]) == set(sources.values())


def test_two_runs_give_the_same_bytes() -> None:
    def run() -> tuple[list[bytes], list[Any]]:
        simulator = Simulator("H100", deterministic=True)
        simulator.start(CaptureRequest())
        programs.adam_foreach("cuda")
        programs.streams("cuda")
        recording = simulator.stop_recording()
        calls = vars(recording.host_calls)
        del calls["sequence_number"]  # autograd numbers its nodes through the life of the process
        return list(recording.buffers), list(calls.values())

    assert run() == run()


def test_two_captures_in_a_row(capture: Capture) -> None:
    import torch

    data = torch.ones(10, device="cuda")
    first, second = capture(lambda: data + 1), capture(lambda: data + 1)
    assert first.kernels.height == second.kernels.height == 1
    spent = [trace.api_calls["end_ns"][0] - trace.api_calls["start_ns"][0] for trace in (first, second)]
    assert spent == [LIMITS.host_launch_ns + LIMITS.host_first_launch_ns, LIMITS.host_launch_ns]


def test_what_ran_before_the_capture_is_loaded(capture: Capture) -> None:
    import torch

    data = torch.ones(10, device="cuda")
    data.mul(2)
    trace = capture(lambda: (data.mul(3), data.exp()))
    assert trace.api_calls.select(pl.col("end_ns") - pl.col("start_ns")).to_series().to_list() == [
        LIMITS.host_launch_ns,
        LIMITS.host_launch_ns + LIMITS.host_first_launch_ns,
    ]


def test_real_time_of_the_users_own_code_passes() -> None:
    import time

    import torch

    with Simulator("H100") as simulator:
        data = torch.ones(3, device="cuda")
        simulator.start(CaptureRequest())
        data + 1
        time.sleep(0.05)
        data + 1
        trace = simulator.stop().validate()
    starts = trace.kernels["start_ns"].to_list()
    assert starts[1] - starts[0] > 45_000_000


def test_foreach_and_fused_optimisers_launch_a_kernel_for_a_group(capture: Capture) -> None:
    import torch

    parameters = [torch.ones(100, device="cuda", requires_grad=True) for _ in range(5)]
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    fused = torch.optim.Adam(parameters, fused=True)
    fused.step()
    names = capture(fused.step).kernels["name"].cast(pl.String).to_list()
    assert names.count("multi_tensor_apply_kernel<FusedAdamMathFunctor, float32>") == 1
    default = torch.optim.SGD(parameters)  # chooses foreach by itself, as on a GPU
    names = capture(default.step).kernels["name"].cast(pl.String).to_list()
    assert names == ["multi_tensor_apply_kernel<add, float32>"]


def test_steps_and_regions_are_on_the_modelled_clock(simulator: Simulator) -> None:
    import torch

    import gpuviz

    data = torch.ones(3, device="cuda")
    with Session(simulator, label="two steps") as session:
        for _ in range(2):
            with gpuviz.region("add"):
                data + 1
            gpuviz.step()
    trace = session.trace.validate()
    assert trace.ranges["kind"].to_list().count("step") == 2
    regions = trace.ranges.filter(kind="region")
    for start, end, call in zip(
        regions["start_ns"], regions["end_ns"], trace.host_calls.filter(name="aten::add")["start_ns"], strict=True
    ):
        assert start <= call < end


def test_facts_about_the_capture(capture: Capture) -> None:
    import torch

    trace = capture(lambda: torch.ones(3, device="cuda"))
    assert trace.meta.modelled
    assert trace.meta.dropped_records == 0
    assert trace.devices.row(0, named=True)["name"] == "NVIDIA H100 80GB HBM3"
    assert trace.devices["sm_count"].to_list() == [132]
    assert trace.counters.filter(series="allocated device memory")["value"].max() == 512
    assert "modelled" in repr(trace)


def test_names_that_the_program_gives_are_ranges(capture: Capture) -> None:
    import torch

    data = torch.ones(3, device="cuda", requires_grad=True)
    updates = torch.optim.SGD([data])

    def body() -> None:
        with torch.profiler.record_function("forward"):
            loss = data.sum()
        torch.cuda.nvtx.range_push("backward")
        loss.backward()
        torch.cuda.nvtx.range_pop()
        updates.step()

    trace = capture(body)
    kinds = dict(zip(trace.ranges["name"], trace.ranges["kind"], strict=True))
    assert kinds["forward"] == kinds["Optimizer.step#SGD.step"] == "annotation"
    assert kinds["backward"] == "nvtx"
    assert trace.ranges.filter(timing="ok").height == trace.ranges.height
    span = trace.ranges.filter(name="forward").row(0, named=True)
    call = trace.host_calls.filter(name="aten::sum").row(0, named=True)
    assert span["start_ns"] <= call["start_ns"] < call["end_ns"] <= span["end_ns"]
