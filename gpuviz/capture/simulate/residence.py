"""Where a tensor lives: in host memory, in pinned host memory, or on the simulated device.

All of them are CPU tensors in truth. What makes one a device tensor is a mark on its *storage*: views share it, and it
goes when the memory goes, which is also when the model of the allocator gets it back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from functools import cache
from typing import Any

from gpuviz.capture.simulate.allocator import AllocatorModel
from gpuviz.capture.simulate.gpus import GIBI

_MARK = "_gpuviz_memory"


class Place(Enum):
    """Where the results of a call shall live, when its arguments say so."""

    HOST = "host"
    PINNED = "pinned"
    DEVICE = "device"


class DeviceMemory:
    """The mark of device memory; gives the memory back when the storage is freed."""

    __slots__ = ("_allocator", "_size")

    def __init__(self, allocator: AllocatorModel, size: int) -> None:
        self._allocator = allocator
        self._size = size

    def __del__(self) -> None:
        self._allocator.free(self._size)


class PinnedMemory:
    """The mark of pinned host memory."""

    __slots__ = ()


_PINNED = PinnedMemory()


def _storage_of(tensor: Any) -> Any:
    """Its memory; None for sparse and other layouts, which have none of their own."""
    try:
        return tensor.untyped_storage()
    except NotImplementedError:
        from torch._C import _functorch

        if _functorch.is_functorch_wrapped_tensor(tensor):  # inside torch.func.grad, torch.vmap
            return _storage_of(_functorch.get_unwrapped(tensor))
        return None


def _mark_of(tensor: Any) -> DeviceMemory | PinnedMemory | None:
    storage = _storage_of(tensor)
    return None if storage is None else storage.__dict__.get(_MARK)


def on_device(tensor: Any) -> bool:
    """True for memory of the simulated device."""
    return type(_mark_of(tensor)) is DeviceMemory


def is_pinned(tensor: Any) -> bool:
    """True for pinned host memory."""
    return type(_mark_of(tensor)) is PinnedMemory


def pin(tensor: Any) -> None:
    """Its memory is pinned from now on."""
    tensor.untyped_storage().__dict__.setdefault(_MARK, _PINNED)


@cache
def _tensor_type() -> type:
    from torch import Tensor

    found: type = Tensor
    return found


def tensors_in(*values: Any) -> list[Any]:
    """All tensors, also those in lists, tuples and dicts."""
    found: list[Any] = []
    _collect(values, found, _tensor_type())
    return found


def _collect(values: Iterable[Any], found: list[Any], tensor_type: type) -> None:
    for value in values:
        if isinstance(value, tensor_type):
            found.append(value)
        elif isinstance(value, list | tuple):
            _collect(value, found, tensor_type)
        elif isinstance(value, dict):
            _collect(value.values(), found, tensor_type)


class Residence:
    """Puts memory on the device; `on_segment` is called where the caching allocator would have called cudaMalloc."""

    def __init__(self, allocator: AllocatorModel, on_segment: Callable[[], None]) -> None:
        self.allocator = allocator
        self._on_segment = on_segment

    def require(self, size: int) -> None:
        """Raise PyTorch's own error where memory of this size does not fit; asked before any is taken on the host."""
        if not self.allocator.fits(size):
            raise self.out_of_memory(f"{size / GIBI:.2f} GiB")

    def out_of_memory(self, what: str) -> Exception:
        """PyTorch's own error."""
        from torch import OutOfMemoryError

        error: Exception = OutOfMemoryError(
            f"CUDA out of memory. Tried to allocate {what}. The simulated GPU has a total capacity "
            f"of {self.allocator.memory_bytes / GIBI:.2f} GiB of which "
            f"{self.allocator.allocated / GIBI:.2f} GiB is allocated by PyTorch."
        )
        return error

    def explain(self, error: RuntimeError) -> None:
        """Where the host has no memory for what the device would hold, that is the device's failure to the user."""
        if "DefaultCPUAllocator" in str(error):
            raise self.out_of_memory("more than the host that simulates it has") from error

    def place_storage(self, storage: Any) -> None:
        """The memory of this storage is the device's from now on; raises PyTorch's own error where it does not fit."""
        marks = storage.__dict__
        if type(marks.get(_MARK)) is DeviceMemory:
            return
        size = storage.nbytes()
        self.require(size)
        if self.allocator.allocate(size):
            self._on_segment()
        marks[_MARK] = DeviceMemory(self.allocator, size)

    def place(self, tensor: Any) -> None:
        """The same for the memory of a tensor."""
        storage = _storage_of(tensor)
        if storage is not None and storage.device.type == "cpu":
            self.place_storage(storage)
