"""What of `torch` is exchanged while the simulator is installed, and for what."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

from gpuviz.capture.simulate.devices import is_simulated, the_device
from gpuviz.capture.simulate.machine import Machine
from gpuviz.capture.simulate.patcher import Patcher
from gpuviz.capture.simulate.residence import is_pinned, on_device, pin, tensors_in
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
    patcher.set(torch, "Generator", _generator_type())
    patcher.set(torch, "compile", _left_eager)
    patcher.set(torch.Tensor, "pin_memory", _pin_memory)
    patcher.set(torch.Tensor, "is_pinned", lambda tensor, device=None: is_pinned(tensor))
    # Tells the allocator about another stream; the model of the allocator needs no telling.
    patcher.set(torch.Tensor, "record_stream", lambda tensor, stream: None)
    # Asks the library by way of C++; the answer decides whether recurrent layers call cuDNN on their weights.
    patcher.set(torch.backends.cudnn, "is_acceptable", lambda tensor: False)
    _patch_autograd(machine, patcher)
    _patch_autocast(patcher)
    _patch_default_device(machine, patcher)
    _patch_grouping(patcher)
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


def _left_eager(model: Any = None, **options: Any) -> Any:
    warnings.warn(
        "torch.compile was called while the simulated GPU is on: its compiler writes kernels for a real one, so the "
        "code is left eager and runs (and is modelled) as without torch.compile.",
        stacklevel=2,
    )
    return (lambda function: function) if model is None else model


def _generator_type() -> type:
    """`torch.Generator`, which knows no device but the CPU where there is no GPU."""
    import torch

    original = torch.Generator

    class AnyGenerator(type(original)):  # type: ignore[misc]
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, original)

    class Generator(original, metaclass=AnyGenerator):  # type: ignore[misc, valid-type]
        """Draws what a generator of the CPU draws; says that it is the device's where it was made so."""

        def __new__(cls, device: Any = "cpu") -> Any:
            on_gpu = is_simulated(device)
            made = original.__new__(cls, "cpu" if on_gpu else device)
            made.on_gpu = on_gpu
            return made

        def __init__(self, device: Any = "cpu") -> None:
            """Everything is done by `__new__`."""

        @property
        def device(self) -> Any:
            return the_device() if self.on_gpu else original.device.__get__(self)

    return Generator


def _patch_autograd(machine: Machine, patcher: Patcher) -> None:
    """Every way into the engine passes here; Python code that it calls must find the simulated device."""
    import torch

    run = torch.autograd.graph._engine_run_backward

    def run_backward(outputs: Any, *args: Any, **kwargs: Any) -> Any:
        recorder, on_gpu = machine.active_recorder, on_device(outputs[0])
        with ExitStack() as around:
            around.enter_context(machine.reentered())
            if machine.recorder is None and on_gpu:
                around.enter_context(machine.tracking())
                for gradient in tensors_in(*args[:1]):  # made by PyTorch out of our sight
                    machine.residence.place(gradient)
            if recorder is not None:
                if not machine.level:
                    around.enter_context(recorder.working())
                around.enter_context(recorder.backward(on_gpu))
            return run(outputs, *args, **kwargs)

    hooks = torch.autograd.graph.saved_tensors_hooks
    make, enter, leave = hooks.__init__, hooks.__enter__, hooks.__exit__
    entered: list[ExitStack] = []

    def within(hook: Callable[..., Any]) -> Callable[..., Any]:
        def call(value: Any) -> Any:
            with machine.reentered():
                return hook(value)

        return call

    def __init__(context: Any, pack_hook: Any, unpack_hook: Any) -> None:  # noqa: N807
        make(context, within(pack_hook), within(unpack_hook))

    def __enter__(context: Any) -> None:  # noqa: N807
        entered.append(ExitStack())
        if machine.recorder is None:  # the hooks see results before the function that makes them returns
            entered[-1].enter_context(machine.tracking())
        enter(context)

    def __exit__(context: Any, *error: Any) -> None:  # noqa: N807
        leave(context, *error)
        entered.pop().close()

    for name, value in (("__init__", __init__), ("__enter__", __enter__), ("__exit__", __exit__)):
        patcher.set(hooks, name, value)
    patcher.set(torch.autograd.graph, "_engine_run_backward", run_backward)
    patcher.set(torch.autograd, "_engine_run_backward", run_backward)


def _patch_autocast(patcher: Patcher) -> None:
    """autocast("cuda") works as autocast("cpu"), which is what acts on the tensors; its default stays float16."""
    import torch

    begin = torch.autocast.__init__
    is_enabled, get_dtype = torch.is_autocast_enabled, torch.get_autocast_dtype

    def __init__(  # noqa: N807
        autocast: Any, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        if device_type == "cuda":
            device_type, dtype = "cpu", dtype or get_dtype("cuda")
        begin(autocast, device_type, dtype, enabled, cache_enabled)

    def enabled_for(device_type: str = "cuda") -> Any:
        return is_enabled("cpu" if device_type == "cuda" else device_type)

    def dtype_for(device_type: str) -> Any:
        return get_dtype("cpu" if device_type == "cuda" and is_enabled("cpu") else device_type)

    patcher.set(torch.autocast, "__init__", __init__)
    patcher.set(torch, "is_autocast_enabled", enabled_for)
    patcher.set(torch, "get_autocast_dtype", dtype_for)
    patcher.set(torch, "get_autocast_gpu_dtype", lambda: dtype_for("cuda"))


def _patch_default_device(machine: Machine, patcher: Patcher) -> None:
    """`torch.set_default_device("cuda")` adds its device below our mode, so the call is sent through it once more."""
    from torch.utils._device import DeviceContext, _device_constructors

    original = DeviceContext.__torch_function__

    def __torch_function__(  # noqa: N807
        context: Any, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if is_simulated(context.device) and func in _device_constructors() and kwargs.get("device") is None:
            kwargs["device"] = context.device
            if machine.mode_is_off:
                return machine.function_mode.__torch_function__(func, types, args, kwargs)
            return func(*args, **kwargs)  # `with torch.device("cuda")` lies above our mode
        return original(context, func, types, args, kwargs)

    patcher.set(DeviceContext, "__torch_function__", __torch_function__)


def _patch_grouping(patcher: Patcher) -> None:
    """Optimisers group parameters by device in C++, which sees the CPU; what they then choose depends on the device."""
    import torch

    group = torch._C._group_tensors_by_device_and_dtype

    def group_tensors(*args: Any, **kwargs: Any) -> dict[Any, Any]:
        named = {}
        for (device, dtype), (lists, indices) in group(*args, **kwargs).items():
            first = next((tensor for tensors in lists for tensor in tensors if tensor is not None), None)
            there = first is not None and on_device(first)
            named[(the_device() if there else device, dtype)] = (lists, indices)
        return named

    patcher.set(torch._C, "_group_tensors_by_device_and_dtype", group_tensors)
