"""The two hooks of PyTorch that the simulator lives on.

The function mode sees what the user calls (`torch.zeros`, `x.to`, `F.cross_entropy`): it turns "cuda" into "cpu" and
keeps track of which tensors would live on the device. It is on as long as the simulator is installed. The dispatch
mode sees the operators below autograd, backward included: it models what each would have cost. It is on during a
capture only.

Both classes are made in a function because PyTorch may be imported inside functions only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from gpuviz.capture.simulate.copies import Copies
from gpuviz.capture.simulate.devices import is_simulated
from gpuviz.capture.simulate.families import READS_BACK
from gpuviz.capture.simulate.machine import Machine
from gpuviz.capture.simulate.operators import Call, Operator, bytes_of, describe
from gpuviz.capture.simulate.recorder import Recorder
from gpuviz.capture.simulate.residence import Place, is_pinned, on_device, pin, tensors_in
from gpuviz.capture.simulate.roofline import elementwise
from gpuviz.capture.simulate.timeline import DTOD, DTOH, HTOD

type Handler = Callable[..., Any]


def make_function_mode(machine: Machine, handlers: Mapping[Any, Handler]) -> Any:
    """The mode for what the user calls; `handlers`: function → what is done instead."""
    from torch.overrides import TorchFunctionMode

    names: dict[Any, tuple[str, str]] = {}

    class SimulatedFunctions(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            handler = handlers.get(func)
            if handler is None and func.__name__ in ("__get__", "__set__"):
                return func(*args, **(kwargs or {}))
            mode_was_off, outermost = machine.mode_is_off, machine.level == 0
            recorder = machine.recorder
            machine.mode_is_off = True
            machine.level += 1
            try:
                if recorder is None or not outermost:
                    return run(func, handler, args, kwargs or {})
                with recorder.working():
                    recorder.begin_outer(*name_of(func), func in machine.warmed)
                    try:
                        return run(func, handler, args, kwargs or {})
                    finally:
                        recorder.end_outer()
            finally:
                machine.level -= 1
                machine.mode_is_off = mode_was_off

    def name_of(func: Any) -> tuple[str, str]:
        found = names.get(func)
        if found is None:
            found = names[func] = _name_of(func)
        return found

    def run(func: Any, handler: Handler | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if handler is not None:
            return handler(*args, **kwargs)
        before, place = machine.place, None
        if kwargs:
            place, kwargs = _place_from(kwargs)
        machine.place = place
        try:
            try:
                if place is Place.DEVICE:
                    require_memory(func, args, kwargs)
                result = func(*args, **kwargs)
            except RuntimeError as error:
                if machine.is_for_device(tensors_in(args, kwargs)):
                    machine.residence.explain(error)
                raise
            if machine.recorder is None or place is Place.PINNED:
                finish(func, args, kwargs, result)
            return result
        finally:
            machine.place = before

    def require_memory(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A result that is too big for the device fails there, and does not fill the host's memory first."""
        upper = 16
        for length in _numbers_in(args, kwargs.values()):
            upper *= max(1, length)
        if machine.residence.allocator.fits(upper):
            return
        on_meta = {key: value for key, value in kwargs.items() if key != "generator"}
        try:
            with machine.unrecorded(Place.HOST):
                wanted = func(*args, **{**on_meta, "device": "meta"})
        except (RuntimeError, TypeError, ValueError, NotImplementedError):
            return  # what is wrong with the arguments, the call itself says
        for tensor in tensors_in(wanted):
            machine.residence.require(tensor.numel() * tensor.element_size())

    def finish(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """Outside of captures nobody but us looks at the results."""
        if machine.place is Place.PINNED:
            for tensor in tensors_in(result):
                pin(tensor)
            return
        inputs = tensors_in(args, kwargs)
        if machine.is_for_device(inputs):
            machine.warmed.add(func)
            machine.place_results(func.__name__, inputs, result)

    return SimulatedFunctions()


def _numbers_in(*values: Any) -> Iterator[int]:
    """Every whole number, and the lengths of every tensor: none of the sizes of a result is left out."""
    for value in values:
        if isinstance(value, int | float) and abs(value) < 2**63:
            yield abs(int(value))
        elif hasattr(value, "numel"):
            yield value.numel()
        elif isinstance(value, Iterable) and not isinstance(value, str):
            yield from _numbers_in(*value)


def _name_of(func: Any) -> tuple[str, str]:
    """As a trace shows it, and the part to compare with an operator's name."""
    base = func.__name__
    if hasattr(func, "__code__"):  # a function of PyTorch's Python side
        module = "" if func.__module__ == "torch._tensor" else f"{func.__module__}."
        return f"{module}{func.__qualname__}", base
    return (f"Tensor.{base}" if base.startswith("__") else f"aten::{base}"), base


def _place_from(kwargs: dict[str, Any]) -> tuple[Place | None, dict[str, Any]]:
    """Where the arguments want the result to live, and the arguments as a CPU understands them."""
    place = None
    device = kwargs.get("device")
    if device is not None:
        place = Place.HOST
        if is_simulated(device):
            place = Place.DEVICE
            kwargs = {**kwargs, "device": "cpu"}
    if kwargs.get("pin_memory"):
        place = Place.PINNED
        kwargs = {**kwargs, "pin_memory": False}
    return place, kwargs


def make_dispatch_mode(machine: Machine, copies: Copies) -> Any:
    """The mode for the operators, while a capture runs."""
    from torch.utils._python_dispatch import TorchDispatchMode

    known: dict[Any, Operator] = {}

    class SimulatedOperators(TorchDispatchMode):  # type: ignore[misc]
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            """Nothing is compiled while the simulator is on, so that the guard around each operator is not needed."""
            return False

        def __torch_dispatch__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            kwargs = kwargs or {}
            operator = known.get(func)
            if operator is None:
                operator = known[func] = describe(func)
            inputs = tensors_in(args, kwargs)
            recorder = machine.active_recorder
            if recorder is None:
                result = func(*args, **kwargs)
                if machine.is_for_device(inputs):
                    machine.place_results(operator.base, inputs, result)
                return result
            if machine.level:
                return run(recorder, operator, func, args, kwargs, inputs)
            with recorder.working():  # called from C++ and not through a function of PyTorch
                return run(recorder, operator, func, args, kwargs, inputs)

    def run(
        recorder: Recorder,
        operator: Operator,
        func: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        inputs: list[Any],
    ) -> Any:
        if operator.namespace_is_foreign:
            return func(*args, **kwargs)
        limits, clock = machine.gpu.assumed, machine.clock
        on_gpu = machine.is_for_device(inputs)
        index = recorder.begin_operator(operator.name, inputs, operator.base)
        try:
            began = time.perf_counter_ns()
            result = func(*args, **kwargs)
            took = time.perf_counter_ns() - began
            if not operator.launches and operator.base != "_local_scalar_dense":
                clock.spend(limits.host_metadata_ns)
            elif on_gpu:
                clock.spend(limits.host_operator_ns)
            else:
                clock.spend(limits.host_cpu_operator_ns if clock.deterministic else took)
            if on_gpu:
                machine.place_results(operator.base, inputs, result)
                outputs = tensors_in(result)
                issue(recorder, Call(operator, args, inputs, outputs), kwargs)
        finally:
            recorder.end_operator(index)
        return result

    def issue(recorder: Recorder, call: Call, kwargs: dict[str, Any]) -> None:
        """What the device has to do for an operator."""
        timeline, base = recorder.timeline, call.operator.base
        if base == "_local_scalar_dense":
            timeline.copy(DTOH, call.inputs[0].element_size(), pinned=True, blocking=True)
            return
        if not call.operator.launches:
            return
        if base == "copy_":
            copy_into(recorder, call, kwargs)
            return
        if base == "clone" and call.inputs[0].is_contiguous():
            timeline.copy(DTOD, bytes_of(call.inputs[0]))
            return
        if base in ("index", "index_put_", "_index_put_impl_") and _has_mask(call.arguments[1]):
            for kernel in copies.count_kernels(call.inputs[1]):
                timeline.launch(kernel)
            timeline.copy(DTOH, 8, blocking=True)
        for kernel in recorder.model.kernels(call):
            timeline.launch(kernel)
        if base in READS_BACK:
            timeline.copy(DTOH, 8, blocking=True)
        recorder.note_allocated(machine.allocator.allocated)

    def copy_into(recorder: Recorder, call: Call, kwargs: dict[str, Any]) -> None:
        target, source = call.inputs[:2]
        blocking = not (call.arguments[2] if len(call.arguments) > 2 else kwargs.get("non_blocking", False))
        size = bytes_of(target)
        timeline = recorder.timeline
        if not on_device(source):
            timeline.copy(HTOD, size, pinned=is_pinned(source), blocking=blocking)
        elif not on_device(target):
            timeline.copy(DTOH, size, pinned=is_pinned(target), blocking=blocking)
        elif target.dtype == source.dtype and target.is_contiguous() and source.is_contiguous():
            timeline.copy(DTOD, size)
        else:
            dtype = str(target.dtype)[6:]
            name = f"vectorized_elementwise_kernel<4, copy, {dtype}>"
            timeline.launch(elementwise(machine.gpu, name, target.numel(), size + bytes_of(source), dtype))

    return SimulatedOperators()


def _has_mask(indices: Any) -> bool:
    """True for an index that selects by truth: how much it selects, only the data tell."""
    return any(str(index.dtype) in ("torch.bool", "torch.uint8") for index in tensors_in(indices))
