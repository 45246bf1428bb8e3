"""How long a kernel runs and how it is launched: a roofline, and the launch shapes that PyTorch's kernels use."""

from __future__ import annotations

from gpuviz.capture.simulate.gpus import GIGA, Gpu
from gpuviz.capture.simulate.timeline import Kernel

type Dim3 = tuple[int, int, int]

_VECTOR = 4  # elements of a thread of a vectorised elementwise kernel
_THREADS = 128
_LARGEST_GRID = 2_147_483_647
_TILE = 128


def duration_ns(gpu: Gpu, flops: float, size: float, dtype: str, matrix: bool) -> int:
    """The longer of computing and of moving the bytes, and at least the shortest kernel."""
    limits = gpu.assumed
    computing = flops / (gpu.peak_flops(dtype, matrix) * limits.compute_efficiency)
    moving = size / (gpu.memory_bytes_per_s * limits.memory_efficiency)
    return max(limits.device_shortest_kernel_ns, round(max(computing, moving) * GIGA))


def elementwise(gpu: Gpu, name: str, elements: int, size: float, dtype: str, flops: float | None = None) -> Kernel:
    """A kernel that touches each element about once."""
    blocks = max(1, -(-elements // (_THREADS * _VECTOR)))
    work = elements if flops is None else flops
    return Kernel(
        name,
        duration_ns(gpu, work, size, dtype, False),
        (min(blocks, _LARGEST_GRID), 1, 1),
        (_THREADS, 1, 1),
        32,
    )


def rowwise(gpu: Gpu, name: str, rows: int, elements: int, size: float, dtype: str) -> Kernel:
    """A kernel with a block per row: reductions, norms, softmax."""
    columns = max(1, elements // max(1, rows))
    threads = min(512, max(32, 1 << (columns - 1).bit_length()))
    shape = (min(max(1, rows), _LARGEST_GRID), 1, 1)
    return Kernel(name, duration_ns(gpu, elements, size, dtype, False), shape, (threads, 1, 1), 40, 4 * threads)


def product(gpu: Gpu, name: str, shape: tuple[int, int, int], flops: float, size: float, dtype: str) -> Kernel:
    """A matrix product of (batch, rows, columns), or a convolution seen as one: a block per tile of the result."""
    batch, rows, columns = shape
    grid = (max(1, -(-rows // _TILE)), max(1, -(-columns // _TILE)), max(1, batch))
    block = (384, 1, 1) if gpu.compute_capability >= (9, 0) else (256, 1, 1)
    return Kernel(name, duration_ns(gpu, flops, size, dtype, True), grid, block, 168, 48 << 10)
