"""Which table the events of a category belong to: one table, read by eye.

The spellings are those of NVIDIA and AMD builds of PyTorch since 2021. A category that is not here passes through:
its events become host calls of the layer "other", under their own category.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

OPERATOR = "op"
PYTHON = "python"
RUNTIME = "runtime"
DRIVER = "driver"
KERNEL = "kernel"
MEMCPY = "memcpy"
MEMSET = "memset"
SYNC = "sync"
ANNOTATION = "annotation"
GPU_ANNOTATION = "gpu_annotation"
PROFILER = "profiler"
OVERHEAD = "overhead"
UNKNOWN = "unknown"

GPU_WORK = (KERNEL, MEMCPY, MEMSET)

_SPELLINGS: Mapping[str, str] = MappingProxyType(
    {
        "cpu_op": OPERATOR,
        "operator": OPERATOR,
        "python_function": PYTHON,
        "cuda_runtime": RUNTIME,
        "hip_runtime": RUNTIME,
        "runtime": RUNTIME,
        "cuda_driver": DRIVER,
        "hip_driver": DRIVER,
        "driver": DRIVER,
        "kernel": KERNEL,
        "gpu_kernel": KERNEL,
        "gpu_memcpy": MEMCPY,
        "memcpy": MEMCPY,
        "gpu_memset": MEMSET,
        "memset": MEMSET,
        "cuda_sync": SYNC,
        "gpu_sync": SYNC,
        "user_annotation": ANNOTATION,
        "gpu_user_annotation": GPU_ANNOTATION,
        "trace": PROFILER,
        "overhead": OVERHEAD,
    }
)

FORWARD_BACKWARD = "fwdbwd"
"""Flow events that tie an operator to the backward operator that it caused."""

FLOWS_SAID_BY_CORRELATION = frozenset({"ac2g", "async_cpu_to_gpu", "async_gpu"})
"""Flow events that say once more what the correlation ids say."""


def family_of(category: object) -> str:
    """The family of a category. 2022 wrote "Kernel", "Runtime", "Memcpy": capitals do not count."""
    return _SPELLINGS.get(str(category).strip().lower().replace(" ", "_"), UNKNOWN)
