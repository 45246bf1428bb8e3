"""What PyTorch says about the device, and what it refuses."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gpuviz.capture.backend import CaptureRequest
from gpuviz.capture.simulate import Simulator, gpu_named
from gpuviz.errors import CaptureError

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("simulator")]


def test_the_device_introduces_itself() -> None:
    import torch

    assert torch.cuda.is_available()
    assert torch.cuda.is_initialized()
    assert torch.cuda.device_count() == 1
    assert torch.cuda.current_device() == 0
    assert torch.cuda.get_device_name(0) == "NVIDIA H100 80GB HBM3"
    assert torch.cuda.get_device_capability("cuda:0") == (9, 0)
    assert torch.cuda.get_device_properties("cuda").multi_processor_count == 132
    assert torch.cuda.is_bf16_supported(including_emulation=False)
    assert torch.accelerator.is_available()
    assert torch.accelerator.current_accelerator() == torch.device("cuda")
    assert torch.accelerator.current_device_index() == 0
    assert torch.get_device_module("cuda").device_count() == 1
    torch.cuda.set_device(0)
    torch.cuda.init()
    with torch.cuda.device(0):
        torch.cuda.synchronize()
    with torch.accelerator.device_index(0):
        torch.accelerator.synchronize()


def test_a_t4_does_not_know_bfloat16(simulator: Simulator) -> None:
    import torch

    simulator.uninstall()
    with Simulator("T4"):
        assert not torch.cuda.is_bf16_supported(including_emulation=False)
        assert torch.cuda.get_device_capability() == (7, 5)


def test_tensors_say_where_they_are() -> None:
    import torch

    host, there = torch.ones(2), torch.ones(2, device="cuda")
    device = torch.device("cuda", 0)
    assert (host.device, there.device) == (torch.device("cpu"), device)
    assert (host.is_cuda, there.is_cuda, host.is_cpu, there.is_cpu) == (False, True, True, False)
    assert (host.get_device(), there.get_device()) == (-1, 0)
    assert (host.type(), there.type()) == ("torch.FloatTensor", "torch.cuda.FloatTensor")
    assert there.type("torch.cuda.DoubleTensor").dtype == torch.float64
    assert repr(there) == "tensor([1., 1.], device='cuda:0')"
    assert f"{there.sum():.1f}" == "2.0"
    assert "cuda:0" in f"{there}"
    assert there[1:].device == there.view(1, 2).device == (there + 1).device == (there + host).device == device
    assert torch.zeros_like(there).device == there.new_zeros(3).device == there.new_tensor([1]).device == device
    assert torch.zeros_like(there, device="cpu").device.type == "cpu"
    assert copy.deepcopy(there).device == copy.copy(there).detach().clone().device == device
    assert torch.nn.Parameter(there).device == device
    assert there.to("cpu").device.type == there.cpu().device.type == host.device.type == "cpu"
    assert torch.tensor([1.0], device=0).device == torch.as_tensor(host, device="cuda").device == device
    assert torch.tensor([1.0], device="cuda", requires_grad=True).is_leaf
    assert pickle.loads(pickle.dumps(there)).device.type == "cpu"
    assert host.add_(there).device.type == "cpu"


def test_moving_only_where_it_must() -> None:
    import torch

    host, there = torch.ones(2), torch.ones(2, device="cuda")
    assert there.to("cuda") is there.cuda() is there
    assert host.to("cpu") is host.cpu() is host
    moved = host.to(there)
    assert moved.is_cuda
    assert moved.data_ptr() != host.data_ptr()
    assert there.to("cuda", copy=True) is not there
    assert there.to(torch.float64).is_cuda
    assert host.to("cuda", torch.float16, non_blocking=True).dtype == torch.float16
    assert host.to(device="cuda", dtype=torch.float64, copy=True).dtype == torch.float64
    assert host.to(0).is_cuda
    module = torch.nn.Linear(2, 2)
    weight = module.weight
    assert module.to(device="cuda", dtype=torch.float64).weight is weight
    assert weight.is_cuda
    assert not module.cpu().weight.is_cuda


def test_numpy_is_refused_as_on_a_gpu() -> None:
    import numpy as np
    import torch

    there = torch.arange(3, device="cuda")
    with pytest.raises(TypeError, match=r"Use Tensor\.cpu\(\)"):
        there.numpy()
    with pytest.raises(TypeError, match=r"Use Tensor\.cpu\(\)"):
        np.asarray(there)
    assert there.numpy(force=True).tolist() == there.tolist() == there.cpu().numpy().tolist() == [0, 1, 2]


def test_gradients_live_where_their_tensors_do() -> None:
    import torch

    data = torch.ones(2, device="cuda", requires_grad=True)
    (data * 3).sum().backward()
    assert data.grad.is_cuda
    (gradient,) = torch.autograd.grad((data * data).sum(), data)
    assert gradient.is_cuda
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        (torch.tanh(data) * data).sum().backward()
    assert data.grad.is_cuda


def test_pinned_memory() -> None:
    import torch

    pinned = torch.ones(2).pin_memory()
    assert pinned.is_pinned()
    assert pinned.pin_memory() is pinned
    assert torch.empty(2, pin_memory=True).is_pinned()
    assert not torch.empty(2).is_pinned()
    assert not pinned.is_cuda
    assert pinned.to("cuda").cpu().is_pinned() is False
    assert pinned.to("cuda").to("cpu", non_blocking=True).is_pinned()


def test_memory_is_counted_and_given_back() -> None:
    import torch

    before = torch.cuda.memory_allocated()
    data = torch.zeros(1_000_000, device="cuda")
    view = data[:10]
    assert torch.cuda.memory_allocated() - before == 4_000_256  # rounded up to 512 bytes
    assert torch.cuda.memory_reserved() >= torch.cuda.memory_allocated()
    del data
    assert torch.cuda.memory_allocated() > before  # the view keeps it
    del view
    assert torch.cuda.memory_allocated() == before
    assert torch.cuda.max_memory_allocated() >= 4_000_256
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.empty_cache()
    assert torch.cuda.max_memory_allocated() == before
    free, total = torch.cuda.mem_get_info()
    assert total == 80 << 30
    assert free <= total
    assert torch.cuda.memory_stats()["allocated_bytes.all.current"] == before


def test_out_of_memory(simulator: Simulator) -> None:
    import torch

    # An expanded tensor has little memory here; what counts is what it would need on the device.
    simulator.uninstall()
    with Simulator("T4"):
        kept = [torch.empty(6 << 30, dtype=torch.int8, device="cuda") for _ in range(2)]  # never touched, never there
        with pytest.raises(torch.OutOfMemoryError, match=r"Tried to allocate 6\.00 GiB"):
            torch.empty(6 << 30, dtype=torch.int8, device="cuda")
        assert len(kept) == 2


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("memory_bytes", [1 << 20, 80 << 30])
def test_too_big_is_out_of_memory_before_the_host_fills(
    simulator: Simulator, memory_bytes: int, captured: bool
) -> None:
    import torch

    count = memory_bytes + 1024
    attempts: list[Callable[[], Any]] = [
        lambda: torch.empty(count, dtype=torch.int8, device="cuda"),
        lambda: torch.ones((count // 8, 8), dtype=torch.uint8, device="cuda"),
        lambda: torch.zeros(count, device="cuda"),
        lambda: torch.rand(size=(2, count), device="cuda", generator=torch.Generator()),
        lambda: torch.arange(0, count, device="cuda"),
        lambda: torch.full_like(torch.empty(count, device="meta"), 1, device="cuda"),
        lambda: torch.ones(1).new_zeros(count, device="cuda"),
        lambda: torch.ones(1).expand(count).cuda(),
        lambda: torch.ones(1, dtype=torch.int8).expand(count).to("cuda", torch.float64),
        lambda: torch.nn.Linear(count, 1, device="meta").to_empty(device="cuda"),
    ]
    simulator.uninstall()
    with Simulator(replace(gpu_named("H100"), memory_bytes=memory_bytes)) as small:
        if captured:
            small.start(CaptureRequest())
        for attempt in attempts:
            with pytest.raises(torch.OutOfMemoryError, match="CUDA out of memory"):
                attempt()
        assert torch.ones(8, device="cuda").sum().item() == 8
        if captured:
            small.stop().validate()


def test_streams_and_events_outside_of_a_capture() -> None:
    import torch

    stream, start, end = torch.cuda.Stream(), torch.cuda.Event(True), torch.cuda.Event(enable_timing=True)
    with pytest.raises(ValueError, match="must be recorded"):
        start.elapsed_time(end)
    start.record()
    with torch.cuda.stream(stream):
        assert torch.cuda.current_stream() == stream
    assert torch.cuda.current_stream() == torch.cuda.default_stream() != stream
    with stream:
        assert torch.accelerator.current_stream() == stream
    stream.wait_stream(torch.cuda.current_stream())
    end.record(stream)
    end.synchronize()
    assert end.query()
    assert stream.query()
    with pytest.warns(UserWarning, match="outside of a capture"):
        assert math.isnan(start.elapsed_time(end))
    with pytest.raises(ValueError, match="enable_timing"):
        torch.cuda.Event().elapsed_time(end)
    assert isinstance(stream, torch.cuda.Stream)
    assert isinstance(stream, torch.Stream)


def test_seeding_by_either_name() -> None:
    import torch

    torch.manual_seed(5)
    first = torch.rand(3, device="cuda")
    torch.cuda.manual_seed_all(5)
    assert torch.equal(first, torch.rand(3, device="cuda"))
    state = torch.cuda.get_rng_state()
    second = torch.rand(3, device="cuda")
    torch.cuda.set_rng_state(state)
    assert torch.equal(second, torch.rand(3, device="cuda"))
    generator = torch.Generator("cuda")
    assert generator.device == torch.device("cuda", 0)
    assert torch.Generator().device == torch.device("cpu")
    assert isinstance(torch.default_generator, torch.Generator)


def test_compile_is_left_eager() -> None:
    import torch

    with pytest.warns(UserWarning, match="left eager"):
        compiled = torch.compile(lambda x: x * 2)
    with pytest.warns(UserWarning, match="left eager"):

        @torch.compile(mode="max-autotune")
        def decorated(x: Any) -> Any:
            return x + 1

    assert decorated(compiled(torch.ones(1, device="cuda"))).item() == 3


@pytest.mark.parametrize(
    "attempt",
    [
        lambda torch: torch.cuda.CUDAGraph(),
        lambda torch: torch.cuda.graph(None),
        lambda torch: torch.cuda.make_graphed_callables(None, ()),
        lambda torch: torch.cuda.utilization(),
        lambda torch: torch.cuda.memory_summary(),
        lambda torch: torch.cuda.ExternalStream(1),
    ],
)
def test_what_is_not_modelled_says_so(attempt: Callable[[Any], Any]) -> None:
    import torch

    with pytest.raises(CaptureError, match="does not model"):
        attempt(torch)


def test_there_is_no_second_gpu() -> None:
    import torch

    for attempt in (
        lambda: torch.ones(1, device="cuda:1"),
        lambda: torch.ones(1).to("cuda:1"),
        lambda: torch.ones(1).cuda(1),
        lambda: torch.cuda.get_device_name(1),
    ):
        with pytest.raises(RuntimeError, match="invalid device ordinal"):
            attempt()


def test_sparse_tensors_stay_on_the_host() -> None:
    import torch

    sparse = torch.eye(2).to_sparse().to("cuda")
    assert sparse.device.type == "cpu"
    assert torch.sparse.mm(sparse, torch.ones(2, 2, device="cuda")).sum().item() == 4


def test_transforms_of_functions_know_the_device() -> None:
    import torch

    data = torch.ones(2, 2, device="cuda")
    assert torch.func.grad(lambda x: (x**2).sum())(data).is_cuda
    assert torch.vmap(lambda x: x * 2)(data).is_cuda


def test_data_parallel_with_one_gpu_is_its_module() -> None:
    import torch

    model = torch.nn.DataParallel(torch.nn.Linear(2, 2).to("cuda"))
    assert model(torch.ones(1, 2)).is_cuda
