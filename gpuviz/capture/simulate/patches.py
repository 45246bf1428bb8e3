"""What of `torch` is exchanged while the simulator is installed, and for what."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from gpuviz.capture.simulate import framework
from gpuviz.capture.simulate.devices import is_simulated
from gpuviz.capture.simulate.machine import Machine
from gpuviz.capture.simulate.patcher import Patcher
from gpuviz.capture.simulate.residence import is_pinned, pin
from gpuviz.capture.simulate.streams import UseStream, make_types
from gpuviz.capture.simulate.timeline import DEFAULT_STREAM
from gpuviz.errors import CaptureError


def _words(text: str) -> list[str]:
    return text.split()


_NOT_MODELLED = _words(
    """utilization temperature power_draw clock_rate memory_usage device_memory_used memory_summary memory_snapshot
    list_gpu_processes get_stream_from_external current_blas_handle current_solver_handle cudart _sleep
    make_graphed_callables graph_pool_handle set_per_process_memory_fraction caching_allocator_alloc
    change_current_allocator memory_stats_as_nested_dict host_memory_stats"""
)
_SAME_IN_ACCELERATOR = _words(
    """is_available device_count current_stream set_stream synchronize empty_cache memory_allocated memory_stats
    memory_reserved max_memory_allocated max_memory_reserved reset_peak_memory_stats reset_accumulated_memory_stats"""
)
_GRAPHS = ("CUDAGraph", "graph")


def refusal(what: str) -> Callable[..., Any]:
    """A function that says that the simulator does not model this."""

    def refuse(*args: object, **kwargs: object) -> Any:
        raise CaptureError(
            f"Tried to use {what}, which the simulated GPU does not model (gpuviz.capture.simulate lists its limits). "
            "Leave it out, or run this on a GPU with the simulator off (`%gpuviz simulate off`)."
        )

    return refuse


def cuda_functions(machine: Machine) -> Mapping[str, Any]:
    """Name in `torch.cuda` → what it is instead."""
    import torch

    gpu, allocator = machine.gpu, machine.allocator
    stream_class, event_class = make_types(machine)

    def checked(device: Any) -> None:
        if device is not None:
            is_simulated(device)

    def answer(value: Any) -> Callable[..., Any]:
        def ask(device: Any = None, *args: Any, **kwargs: Any) -> Any:
            checked(device)
            return value() if callable(value) else value

        return ask

    def synchronize(device: Any = None) -> None:
        checked(device)
        with machine.direct_calls() as timeline:
            if timeline is not None:
                timeline.synchronize_device()

    def current_stream(device: Any = None) -> Any:
        checked(device)
        return stream_class(stream_id=machine.stream)

    def empty_cache() -> None:
        given_back = allocator.empty_cache()
        with machine.direct_calls() as timeline:
            if timeline is not None and given_back:
                timeline.free()

    properties = SimpleNamespace(
        name=gpu.name,
        major=gpu.compute_capability[0],
        minor=gpu.compute_capability[1],
        total_memory=gpu.memory_bytes,
        multi_processor_count=gpu.sm_count,
        warp_size=gpu.warp_size,
        max_threads_per_multi_processor=gpu.max_threads_per_sm,
        regs_per_multiprocessor=gpu.registers_per_sm,
        shared_memory_per_multiprocessor=gpu.shared_memory_per_sm_bytes,
        is_integrated=0,
        is_multi_gpu_board=0,
    )
    has_bfloat16 = gpu.compute_capability >= (8, 0)
    nothing = answer(None)
    # The device has no generator of its own: what it draws comes from that of the CPU, so that values are the same.
    return {
        **{name: refusal(f"torch.cuda.{name}") for name in _NOT_MODELLED},
        **{name: _refused_class(name, "CUDA graphs") for name in _GRAPHS},
        "ExternalStream": _refused_class("ExternalStream", "torch.cuda.ExternalStream"),
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "init": lambda: None,
        "_lazy_init": refusal("a part of torch.cuda (or a thread other than the one that turned the simulator on)"),
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": nothing,
        "_exchange_device": lambda device: 0,
        "_maybe_exchange_device": lambda device: 0,
        "get_device_name": answer(gpu.name),
        "get_device_capability": answer(gpu.compute_capability),
        "get_device_properties": answer(properties),
        "get_arch_list": lambda: [f"sm_{gpu.compute_capability[0]}{gpu.compute_capability[1]}"],
        "can_device_access_peer": lambda device, peer: False,
        "is_bf16_supported": lambda including_emulation=True: has_bfloat16 or including_emulation,
        "is_tf32_supported": lambda: has_bfloat16,
        "is_current_stream_capturing": lambda: False,
        "synchronize": synchronize,
        "Stream": stream_class,
        "Event": event_class,
        "stream": UseStream,
        "StreamContext": UseStream,
        "current_stream": current_stream,
        "default_stream": answer(lambda: stream_class(stream_id=DEFAULT_STREAM)),
        "set_stream": lambda stream: None if stream is None else machine.use_stream(stream.stream_id),
        "ipc_collect": lambda: None,
        "empty_cache": empty_cache,
        "memory_allocated": answer(lambda: allocator.allocated),
        "max_memory_allocated": answer(lambda: allocator.peak_allocated),
        "memory_reserved": answer(lambda: allocator.reserved),
        "max_memory_reserved": answer(lambda: allocator.peak_reserved),
        "memory_cached": answer(lambda: allocator.reserved),
        "max_memory_cached": answer(lambda: allocator.peak_reserved),
        "reset_peak_memory_stats": answer(allocator.reset_peaks),
        "reset_max_memory_allocated": answer(allocator.reset_peaks),
        "reset_max_memory_cached": answer(allocator.reset_peaks),
        "reset_accumulated_memory_stats": nothing,
        "mem_get_info": answer(lambda: (gpu.memory_bytes - allocator.reserved, gpu.memory_bytes)),
        "memory_stats": answer(
            lambda: {
                "allocated_bytes.all.current": allocator.allocated,
                "allocated_bytes.all.peak": allocator.peak_allocated,
                "reserved_bytes.all.current": allocator.reserved,
                "reserved_bytes.all.peak": allocator.peak_reserved,
                "allocation.all.allocated": allocator.allocations,
                "segment.all.allocated": allocator.segments,
                "num_ooms": 0,
            }
        ),
        "manual_seed": lambda seed: torch.default_generator.manual_seed(int(seed)) and None,
        "manual_seed_all": lambda seed: torch.default_generator.manual_seed(int(seed)) and None,
        "seed": lambda: torch.default_generator.seed() and None,
        "seed_all": lambda: torch.default_generator.seed() and None,
        "initial_seed": lambda: torch.default_generator.initial_seed(),
        "get_rng_state": answer(lambda: torch.default_generator.get_state()),
        "get_rng_state_all": lambda: [torch.default_generator.get_state()],
        "set_rng_state": lambda new_state, device=None: torch.default_generator.set_state(new_state) and None,
        "set_rng_state_all": lambda states: [torch.default_generator.set_state(state) for state in states] and None,
    }


def _refused_class(name: str, what: str) -> type:
    return type(name, (), {"__init__": refusal(what), "__doc__": "Not modelled by the simulated GPU."})


def accelerator_functions(cuda: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same for `torch.accelerator`, from what `torch.cuda` got."""
    return {
        **{name: cuda[name] for name in _SAME_IN_ACCELERATOR},
        "current_accelerator": lambda check_available=False: _cuda_without_number(),
        "current_device_index": cuda["current_device"],
        "current_device_idx": cuda["current_device"],
        "set_device_index": cuda["set_device"],
        "set_device_idx": cuda["set_device"],
        "get_memory_info": cuda["mem_get_info"],
        "Graph": _refused_class("Graph", "CUDA graphs"),
        "empty_host_cache": lambda: None,
    }


def _cuda_without_number() -> Any:
    import torch

    return torch.device("cuda")


def apply(machine: Machine, patcher: Patcher, leave_child: Callable[[], None]) -> None:
    """Exchange everything; `leave_child` is called in a worker process, where there shall be no simulator."""
    import torch
    import torch.utils.data._utils.worker as worker

    cuda = cuda_functions(machine)
    for name, value in cuda.items():
        original = getattr(torch.cuda, name, None)
        patcher.set(torch.cuda, name, value)
        for part in (torch.cuda.memory, torch.cuda.random, torch.cuda.streams, torch.cuda.graphs):
            if original is not None and vars(part).get(name) is original:
                patcher.set(part, name, value)
    accelerator = getattr(torch, "accelerator", None)
    for name, value in accelerator_functions(cuda).items():
        if accelerator is not None:
            patcher.set(accelerator, name, value)
    for name in ("_accelerator_exchangeDevice", "_accelerator_maybeExchangeDevice"):
        patcher.set(torch._C, name, lambda device: 0)
    patcher.set(torch, "Stream", cuda["Stream"])
    patcher.set(torch, "Event", cuda["Event"])
    patcher.set(torch, "Generator", framework.generator_type())
    patcher.set(torch, "compile", _left_eager)
    patcher.set(torch.Tensor, "pin_memory", _pin_memory)
    patcher.set(torch.Tensor, "is_pinned", lambda tensor, device=None: is_pinned(tensor))
    # Tells the allocator about another stream; the model of the allocator needs no telling.
    patcher.set(torch.Tensor, "record_stream", lambda tensor, stream: None)
    # Asks the library by way of C++; the answer decides whether recurrent layers call cuDNN on their weights.
    patcher.set(torch.backends.cudnn, "is_acceptable", lambda tensor: False)
    # With one GPU, it is its module, after the inputs were brought to the GPU.
    patcher.set(torch.nn.DataParallel, "forward", _data_parallel_forward)
    framework.patch_autograd(machine, patcher)
    framework.patch_autocast(patcher)
    framework.patch_default_device(machine, patcher)
    framework.patch_grouping(patcher)
    loop = worker._worker_loop

    @functools.wraps(loop)
    def worker_loop(*args: Any, **kwargs: Any) -> Any:
        leave_child()
        return loop(*args, **kwargs)

    patcher.set(worker, "_worker_loop", worker_loop)


def _pin_memory(tensor: Any, device: Any = None) -> Any:
    """A method of the class, and not of the mode, because data loaders call it from a thread of their own."""
    if is_pinned(tensor):
        return tensor
    pinned = tensor.clone()
    pin(pinned)
    return pinned


def _data_parallel_forward(parallel: Any, *inputs: Any, **options: Any) -> Any:
    import torch
    from torch.utils._pytree import tree_map_only

    inputs, options = tree_map_only(torch.Tensor, lambda tensor: tensor.to("cuda"), (inputs, options))
    return parallel.module(*inputs, **options)


def _left_eager(model: Any = None, **options: Any) -> Any:
    warnings.warn(
        "torch.compile was called while the simulated GPU is on: its compiler writes kernels for a real one, so the "
        "code is left eager and runs (and is modelled) as without torch.compile.",
        stacklevel=2,
    )
    return (lambda function: function) if model is None else model
