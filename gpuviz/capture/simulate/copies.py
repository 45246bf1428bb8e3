"""What moves data between host and device, or tells where it is: `.to`, `.cuda`, `.cpu`, printing, and the like.

Each of these is exchanged by the function mode for what is in here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from gpuviz.capture.simulate.devices import is_simulated, the_device
from gpuviz.capture.simulate.machine import Machine
from gpuviz.capture.simulate.residence import Place, is_pinned, on_device, pin
from gpuviz.capture.simulate.roofline import elementwise
from gpuviz.capture.simulate.timeline import DTOD, DTOH, HTOD, Kernel


class Target(NamedTuple):
    """The arguments of `Tensor.to`, understood."""

    device: Any = None
    dtype: Any = None
    non_blocking: bool = False
    copy: bool = False
    memory_format: Any = None


class Copies:
    """The exchanged functions, for one machine."""

    def __init__(self, machine: Machine) -> None:
        import torch

        self._torch = torch
        self._machine = machine
        self._move_function = _make_move_function(self)

    def handlers(self) -> Mapping[Any, Callable[..., Any]]:
        """Function of PyTorch → what is done instead."""
        torch = self._torch
        tensor = torch.Tensor
        return {
            tensor.to: self.to,
            tensor.cuda: self.cuda,
            tensor.cpu: self.cpu,
            tensor.device.__get__: self.device,
            tensor.is_cuda.__get__: on_device,
            tensor.is_cpu.__get__: lambda x: x.is_cpu and not on_device(x),
            tensor.get_device: lambda x: 0 if on_device(x) else x.get_device(),
            tensor.type: self.type,
            tensor.numpy: self.numpy,
            tensor.__array__: self.array,
            tensor.tolist: self.tolist,
            tensor.__repr__: self.text,
            tensor.__format__: self.format,
            tensor.__deepcopy__: self.deep_copy,
            tensor.__reduce_ex__: self.reduce,
            tensor.new_tensor: self.new_tensor,
            torch._C._nn._parse_to: torch._C._nn._parse_to,  # reads the arguments of Module.to: "cuda" is meant
            torch.tensor: self._from_data(torch.tensor),
            torch.as_tensor: self._from_data(torch.as_tensor),
            torch.asarray: self._from_data(torch.asarray),
        }

    # Where a tensor is.

    def device(self, tensor: Any) -> Any:
        """`Tensor.device`."""
        return the_device() if on_device(tensor) else tensor.device

    def type(self, tensor: Any, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
        """`Tensor.type`: ``torch.cuda.FloatTensor``, or a conversion."""
        if dtype is None:
            name: str = tensor.type()
            return name.replace("torch.", "torch.cuda.", 1) if on_device(tensor) else name
        if isinstance(dtype, str) and dtype.startswith("torch.cuda."):
            plain = dtype.replace("torch.cuda.", "torch.", 1)
            return self.cuda(tensor.type(plain), non_blocking=non_blocking)
        return self._stays(tensor, tensor.type(dtype, non_blocking, **kwargs))

    # Moving it.

    def to(self, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        """`Tensor.to`."""
        target = self._target(args, kwargs)
        if target.device is None:
            return self._stays(tensor, tensor.to(*args, **kwargs))
        if target.device.type not in ("cpu", "cuda"):
            return tensor.to(*args, **kwargs)
        wants_device, is_there = is_simulated(target.device), on_device(tensor)
        if wants_device == is_there:
            rest = {"memory_format": target.memory_format} if target.memory_format is not None else {}
            return self._stays(tensor, tensor.to(dtype=target.dtype or tensor.dtype, copy=target.copy, **rest))
        return self.move(tensor, wants_device, target)

    def _stays(self, tensor: Any, result: Any) -> Any:
        """A result that lives where `tensor` does."""
        if on_device(tensor):
            self._machine.residence.place(result)
        return result

    def _target(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Target:
        torch = self._torch
        found: dict[str, Any] = dict(kwargs)
        rest = list(args)
        other = found.pop("other", None)
        if rest and isinstance(rest[0], torch.Tensor):
            other = rest.pop(0)
        if other is not None:
            found.update(device=self.device(other), dtype=other.dtype)
        elif rest and isinstance(rest[0], torch.dtype):
            found["dtype"] = rest.pop(0)
        elif rest:
            found["device"] = rest.pop(0)
            if rest and (rest[0] is None or isinstance(rest[0], torch.dtype)):
                found["dtype"] = rest.pop(0)
        found.update(zip(("non_blocking", "copy"), rest, strict=False))
        device = found.get("device")
        if device is not None and not isinstance(device, torch.device):
            found["device"] = the_device() if is_simulated(device) else torch.device(device)
        return Target(**found)

    def cuda(self, tensor: Any, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Any:
        """`Tensor.cuda`."""
        if device is not None:
            is_simulated(device)  # complains about a second GPU
        if on_device(tensor):
            return tensor
        return self.move(tensor, True, Target(non_blocking=non_blocking, memory_format=memory_format))

    def cpu(self, tensor: Any, memory_format: Any = None) -> Any:
        """`Tensor.cpu`."""
        if not on_device(tensor):
            return tensor
        return self.move(tensor, False, Target(memory_format=memory_format))

    def move(self, tensor: Any, to_device: bool, target: Target) -> Any:
        """A copy on the other side; its gradient comes back the same way."""
        if tensor.requires_grad and self._torch.is_grad_enabled():
            return self._move_function.apply(tensor, to_device, target)
        return self.copy_across(tensor, to_device, target)

    def copy_across(self, tensor: Any, to_device: bool, target: Target) -> Any:
        """The same without a gradient."""
        machine = self._machine
        dtype = target.dtype or tensor.dtype
        rest = {"memory_format": target.memory_format} if target.memory_format is not None else {}
        pinned = is_pinned(tensor) if to_device else target.non_blocking
        if to_device and tensor.layout == self._torch.strided and not tensor.is_meta:
            machine.residence.require(tensor.numel() * dtype.itemsize)
        with self._operators(tensor, "aten::to", "aten::_to_copy"):
            with machine.unrecorded(Place.HOST):
                result = tensor.to(dtype=dtype, copy=True, **rest)
            if to_device:
                machine.residence.place(result)
            elif pinned:  # PyTorch puts the result of an asynchronous download into pinned memory
                pin(result)
            if dtype != tensor.dtype and not to_device:
                self._launch_cast(tensor, dtype)
            with self._operators(result, "aten::copy_"):
                self._copy(HTOD if to_device else DTOH, result, pinned, not target.non_blocking)
        return result

    @contextmanager
    def _operators(self, tensor: Any, *names: str) -> Iterator[None]:
        recorder = self._machine.active_recorder
        if recorder is None:
            yield
            return
        with recorder.operator(names[0], [tensor], names[0].removeprefix("aten::")):
            recorder.clock.spend(self._machine.gpu.assumed.host_metadata_ns)
            if len(names) > 1:
                with self._operators(tensor, *names[1:]):
                    yield
            else:
                yield

    def _copy(self, kind: int, tensor: Any, pinned: bool, blocking: bool) -> None:
        recorder = self._machine.active_recorder
        if recorder is not None:
            recorder.timeline.copy(kind, tensor.numel() * tensor.element_size(), pinned=pinned, blocking=blocking)
            recorder.note_allocated(self._machine.allocator.allocated)

    def _launch_cast(self, tensor: Any, dtype: Any) -> None:
        recorder = self._machine.active_recorder
        if recorder is not None:
            elements, size = tensor.numel(), tensor.numel() * (tensor.element_size() + dtype.itemsize)
            name = f"vectorized_elementwise_kernel<4, copy, {str(dtype)[6:]}>"
            recorder.timeline.launch(elementwise(self._machine.gpu, name, elements, size, str(dtype)[6:]))

    def count_kernels(self, mask: Any) -> list[Kernel]:
        """What finds out how many elements a mask selects."""
        elements, size = mask.numel(), mask.numel() * mask.element_size()
        return [
            elementwise(self._machine.gpu, f"cub::{name}<nonzero>", elements, size, "bool")
            for name in ("DeviceReduceKernel", "DeviceSelectSweepKernel")
        ]

    # Reading it on the host.

    def _download(self, tensor: Any, operator: str = "aten::copy_") -> None:
        if on_device(tensor):
            with self._operators(tensor, operator):
                self._copy(DTOH, tensor, False, True)

    def numpy(self, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        """`Tensor.numpy`, which refuses device memory as PyTorch does."""
        self._refuse_numpy(tensor, kwargs.get("force", False))
        if on_device(tensor):
            tensor = self.cpu(tensor.detach())
        return tensor.numpy(*args, **kwargs)

    def array(self, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        """What NumPy asks for; the same."""
        self._refuse_numpy(tensor, False)
        return tensor.__array__(*args, **kwargs)

    def _refuse_numpy(self, tensor: Any, force: bool) -> None:
        if on_device(tensor) and not force:
            raise TypeError(
                "can't convert cuda:0 device type tensor to numpy. "
                "Use Tensor.cpu() to copy the tensor to host memory first."
            )

    def tolist(self, tensor: Any) -> Any:
        """`Tensor.tolist`."""
        self._download(tensor)
        return tensor.tolist()

    def text(self, tensor: Any, *, tensor_contents: str | None = None) -> str:
        """`repr`: what is printed is downloaded first, and says ``device='cuda:0'``."""
        plain = self._torch.Tensor.__repr__
        if type(tensor).__repr__ not in (plain, self._torch.nn.Parameter.__repr__):
            return str(tensor.__repr__())
        if not on_device(tensor):
            with self._machine.unrecorded():
                return str(plain(tensor, tensor_contents=tensor_contents))
        self._download(tensor)
        with self._machine.unrecorded(), self._machine.reentered():
            return str(self._torch._tensor_str._str(tensor, tensor_contents=tensor_contents))

    def format(self, tensor: Any, specification: str) -> str:
        """`format`, as in an f-string: a number for a single one, which is also how PyTorch prints integers."""
        if not on_device(tensor):
            with self._machine.unrecorded():
                return str(tensor.__format__(specification))
        if tensor.dim() == 0 and type(tensor) is self._torch.Tensor:
            return format(tensor.detach().item(), specification)
        with self._machine.reentered():
            return object.__format__(tensor, specification)

    def reduce(self, tensor: Any, protocol: Any) -> Any:
        """Pickling, as by `torch.save`: what is written comes from the host."""
        self._download(tensor)
        with self._machine.unrecorded():
            return tensor.__reduce_ex__(protocol)

    def deep_copy(self, tensor: Any, memo: dict[int, Any]) -> Any:
        """`copy.deepcopy`: the copy lives where the original does."""
        result = tensor.__deepcopy__(memo)
        if on_device(tensor):
            self._machine.residence.place(result)
            with self._operators(tensor, "aten::clone"):
                self._copy(DTOD, tensor, False, False)
        return result

    # Making it from Python data.

    def _from_data(self, function: Any) -> Callable[..., Any]:
        def from_data(*args: Any, **kwargs: Any) -> Any:
            data = args[0] if args else kwargs.get("data", kwargs.get("obj"))
            device, is_tensor = kwargs.get("device"), isinstance(data, self._torch.Tensor)
            if device is None and is_tensor and on_device(data):
                device = the_device()
            if device is None:
                return function(*args, **kwargs)  # a default device is added below this mode
            if not is_simulated(device) and not (is_tensor and on_device(data)):
                return function(*args, **kwargs)
            plain = {**kwargs, "device": "cpu"}
            wants_grad = plain.pop("requires_grad", False)
            pinned = plain.pop("pin_memory", False)
            with self._machine.unrecorded(Place.HOST):
                made = function(*args, **plain)
            there = is_simulated(device)
            if is_tensor and on_device(data) == there:
                if there and made is not data:
                    self._machine.residence.place(made)
                result = made
            elif is_tensor:
                result = self.move(made, there, Target())
            else:
                result = self.copy_across(made, there, Target())
            if pinned:
                pin(result)
            return result.requires_grad_() if wants_grad else result

        return from_data

    def new_tensor(self, tensor: Any, data: Any, **kwargs: Any) -> Any:
        """`Tensor.new_tensor`: lives where `tensor` does."""
        device = kwargs.pop("device", None) or self.device(tensor)
        if not is_simulated(device):
            return tensor.new_tensor(data, **kwargs)
        kwargs.setdefault("dtype", tensor.dtype)
        return self._from_data(self._torch.tensor)(data, device=device, **kwargs)


def _make_move_function(copies: Copies) -> Any:
    """Autograd's view of a copy to the other side."""
    from torch._C import DisableTorchFunction
    from torch.autograd import Function

    class ToCopy(Function):  # type: ignore[misc]
        @staticmethod
        def forward(context: Any, tensor: Any, to_device: bool, target: Target) -> Any:
            context.back = (not to_device, target._replace(device=None, dtype=tensor.dtype, memory_format=None))
            return copies.copy_across(tensor, to_device, target)

        @staticmethod
        def backward(context: Any, gradient: Any) -> tuple[Any, None, None]:
            to_device, target = context.back
            with DisableTorchFunction():  # the engine calls user code with our mode on, and this is not user code
                if on_device(gradient) == to_device:
                    return gradient.to(target.dtype), None, None
                return copies.move(gradient, to_device, target), None, None

    return ToCopy
