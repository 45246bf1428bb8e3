"""Parts of `torch` outside of `torch.cuda` that ask which device they work for: autograd, autocast, random."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from gpuviz.capture.simulate.devices import is_simulated, the_device
from gpuviz.capture.simulate.machine import Machine
from gpuviz.capture.simulate.patcher import Patcher
from gpuviz.capture.simulate.residence import on_device, tensors_in


def generator_type() -> type:
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


def patch_autograd(machine: Machine, patcher: Patcher) -> None:
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


def patch_autocast(patcher: Patcher) -> None:
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


def patch_default_device(machine: Machine, patcher: Patcher) -> None:
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


def patch_grouping(patcher: Patcher) -> None:
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
