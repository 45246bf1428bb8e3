"""Kernels for the tests of the magics: one for most of them, since a start costs seconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.drawing import trace_from_text
from tests.notebook.kernels import Kernel

DRAWN = """
    thread 1: .AA.BB...SSSSSSSS.
    stream 7: ...AAAAA>>>BB.....
    A = kernel gemm
    > = copy HtoD pageable device 4K
    S = api cudaDeviceSynchronize
"""
WITHOUT_GPU_WORK = """
    thread 1: ..ooo.ooo.
    o = op aten::mm
"""


@pytest.fixture(scope="session")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `gpu.gpuviz` (seven microseconds of kernels, and a copy), `kernels.gpuviz` without copies, and
    `cpu.gpuviz` without GPU work."""
    folder = tmp_path_factory.mktemp("traces")
    trace_from_text(DRAWN).save(folder / "gpu.gpuviz")
    trace_from_text("stream 7: AA.B").save(folder / "kernels.gpuviz")
    trace_from_text(WITHOUT_GPU_WORK).save(folder / "cpu.gpuviz")
    return folder


@pytest.fixture(scope="session")
def _kernel(traces: Path) -> Iterator[Kernel]:
    with Kernel(traces) as kernel:
        yield kernel


@pytest.fixture
def kernel(_kernel: Kernel) -> Kernel:
    """A kernel with gpuviz loaded, in a folder with the traces; its names are those that earlier tests left."""
    loaded = _kernel.run("%load_ext gpuviz")
    assert loaded.status == "ok", loaded.traceback
    return _kernel
