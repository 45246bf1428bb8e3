"""The GPUs that can be modelled, as data.

A figure is either published, with its source named beside it, or it is *assumed*: a round number of the right order,
there so that a modelled timeline has the shape of a real one. The assumed figures all live in `Assumptions`, apart
from the published ones, so that nobody can mistake one for the other.

Sources:

[H100]  NVIDIA H100 Tensor Core GPU data sheet, column "H100 SXM". Its figures for TF32, FP16, BF16 and INT8 are with
        sparsity, as the data sheet says; dense work, which is what PyTorch runs, gets half of them.
[T4]    NVIDIA T4 data sheet (TF32 and BF16 do not exist on Turing).
[TURING] NVIDIA Turing GPU Architecture whitepaper: the T4 has 40 of the TU104's multiprocessors; FP64 runs at 1/32 of
        the rate of FP32.
[HOPPER] NVIDIA H100 Tensor Core GPU Architecture whitepaper: 132 multiprocessors in the SXM5 product.
[CUDA]  CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", 7.5 and 9.0.
[SYNC]  CUDA Runtime API, "API synchronization behavior": how copies of pageable memory block the host.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from gpuviz.errors import CaptureError

TERA = 1_000_000_000_000
GIGA = 1_000_000_000
GIBI = 1 << 30
KIBI = 1 << 10


@dataclass(frozen=True)
class Assumptions:
    """Figures that no public source states: all of them assumed, none of them measured.

    Times are nanoseconds. `host_` times are spent by the calling thread, `device_` times by the GPU.
    """

    compute_efficiency: float = 0.7  # of the peak rate, by a large matrix product
    memory_efficiency: float = 0.85  # of the peak bandwidth, by a large kernel
    pinned_bytes_per_s: int = 0  # by one copy of pinned memory, either direction
    pageable_bytes_per_s: int = 0  # by one copy of pageable memory, either direction
    device_shortest_kernel_ns: int = 1_800
    device_kernel_gap_ns: int = 900  # between two kernels of one stream
    device_launch_latency_ns: int = 2_500  # from the return of the launch to the start, on an idle stream
    device_copy_fixed_ns: int = 1_200  # what a copy takes however small it is
    host_launch_ns: int = 2_000
    host_copy_call_ns: int = 3_000
    host_event_call_ns: int = 700
    host_synchronize_ns: int = 1_500  # on top of the wait
    host_allocate_ns: int = 120_000  # cudaMalloc, which the caching allocator calls rarely
    host_first_launch_ns: int = 150_000  # loading a kernel at its first launch (CUDA_MODULE_LOADING=LAZY)
    host_operator_ns: int = 2_500  # an operator's way from Python to its first launch
    host_metadata_ns: int = 900  # an operator that only makes a view
    host_python_ns: int = 800  # between two operators; only where host time is modelled too
    host_cpu_operator_ns: int = 4_000  # an operator on host memory; only where host time is modelled too
    host_backward_node_ns: int = 1_000  # the autograd engine, per node
    launch_queue_length: int = 1_024  # launches ahead of the GPU before a launch blocks
    pageable_staging_bytes: int = 64 * KIBI  # up to here an upload from pageable memory does not block: [SYNC]


@dataclass(frozen=True)
class Gpu:
    """What is known about one GPU. Rates are dense and per second; dtypes are named as in PyTorch."""

    key: str
    name: str
    compute_capability: tuple[int, int]
    sm_count: int
    warp_size: int
    max_threads_per_sm: int
    registers_per_sm: int
    shared_memory_per_sm_bytes: int
    memory_bytes: int
    memory_bytes_per_s: int
    link_bytes_per_s: int
    vector_flops: Mapping[str, float]
    matrix_flops: Mapping[str, float]
    assumed: Assumptions = field(default_factory=Assumptions)

    def peak_flops(self, dtype: str, matrix: bool) -> float:
        """The peak rate for this dtype: of the matrix units where `matrix`, else of the ordinary ones.

        A dtype without a figure of its own (complex, small integers) gets that of float32.
        """
        table = self.matrix_flops if matrix else self.vector_flops
        return table.get(dtype) or table["float32"]

    @property
    def capability_text(self) -> str:
        """As the tables hold it: ``9.0``."""
        return "{}.{}".format(*self.compute_capability)


H100 = Gpu(
    key="H100",
    name="NVIDIA H100 80GB HBM3",  # what the driver calls the SXM product
    compute_capability=(9, 0),  # [CUDA]
    sm_count=132,  # [HOPPER]
    warp_size=32,  # [CUDA]
    max_threads_per_sm=2_048,  # [CUDA]
    registers_per_sm=65_536,  # [CUDA]
    shared_memory_per_sm_bytes=228 * KIBI,  # [CUDA]
    memory_bytes=80 * GIBI,  # [H100] 80 GB
    memory_bytes_per_s=3_350 * GIGA,  # [H100] 3.35 TB/s
    link_bytes_per_s=64 * GIGA,  # [H100] PCIe Gen5: 128 GB/s, both directions together
    vector_flops=MappingProxyType(
        {
            "float64": 34 * TERA,  # [H100]
            "float32": 67 * TERA,  # [H100]
            "float16": 67 * TERA,  # assumed: as float32 (the functors of PyTorch compute in float32)
            "bfloat16": 67 * TERA,  # assumed: as float32
        }
    ),
    matrix_flops=MappingProxyType(
        {
            "float64": 67 * TERA,  # [H100] FP64 Tensor Core
            "float32": 67 * TERA,  # [H100] without TF32 a product of float32 does not use the Tensor Cores
            "tf32": 989 * TERA / 2,  # [H100]
            "float16": 1_979 * TERA / 2,  # [H100]
            "bfloat16": 1_979 * TERA / 2,  # [H100]
            "int8": 3_958 * TERA / 2,  # [H100]
            "float8_e4m3fn": 3_958 * TERA / 2,  # [H100]
            "float8_e5m2": 3_958 * TERA / 2,  # [H100]
        }
    ),
    assumed=Assumptions(pinned_bytes_per_s=52 * GIGA, pageable_bytes_per_s=10 * GIGA),
)

T4 = Gpu(
    key="T4",
    name="Tesla T4",  # what the driver calls it
    compute_capability=(7, 5),  # [CUDA]
    sm_count=40,  # [TURING]
    warp_size=32,  # [CUDA]
    max_threads_per_sm=1_024,  # [CUDA]
    registers_per_sm=65_536,  # [CUDA]
    shared_memory_per_sm_bytes=64 * KIBI,  # [CUDA]
    memory_bytes=16 * GIBI,  # [T4] 16 GB
    memory_bytes_per_s=320 * GIGA,  # [T4] 320+ GB/s
    link_bytes_per_s=16 * GIGA,  # [T4] PCIe Gen3 x16: 32 GB/s, both directions together
    vector_flops=MappingProxyType(
        {
            "float64": 8.1 * TERA / 32,  # [TURING]
            "float32": 8.1 * TERA,  # [T4]
            "float16": 8.1 * TERA,  # assumed: as float32
            "bfloat16": 8.1 * TERA,  # assumed: as float32
        }
    ),
    matrix_flops=MappingProxyType(
        {
            "float64": 8.1 * TERA / 32,  # [TURING]
            "float32": 8.1 * TERA,  # [T4]
            "tf32": 8.1 * TERA,  # Turing has no TF32: as float32
            "float16": 65 * TERA,  # [T4]
            "bfloat16": 8.1 * TERA,  # assumed: no Tensor Core for it, as float32
            "int8": 130 * TERA,  # [T4]
        }
    ),
    assumed=Assumptions(pinned_bytes_per_s=12 * GIGA, pageable_bytes_per_s=6 * GIGA),
)

GPUS: Mapping[str, Gpu] = MappingProxyType({gpu.key: gpu for gpu in (H100, T4)})
"""The GPUs by the name that a user types."""


def gpu_named(name: str) -> Gpu:
    """The GPU of this name, in any case; `CaptureError` lists the names there are."""
    found = GPUS.get(name.strip().upper())
    if found is None:
        raise CaptureError(f"Tried to simulate the GPU {name!r}; known are {', '.join(GPUS)}. Choose one of these.")
    return found
