"""The trace that the browser tests look at: a drawing, so that every number can be counted by eye."""

from __future__ import annotations

from gpuviz.model import Trace
from tests.drawing import trace_from_text

# One column is one microsecond; 60 µs in all.
STEPS = """
    thread 1: ffffffffffffffffffffffffffffffffffffffffffffffffffffffff....
    thread 1: dddddd.mmmmmmmmmmmmmmmm.dddddd.mmmmmmmmmmmmmmmm.............
    thread 1: .tttt..oooooo..pppppp...tttt...oooooo..pppppp...............
    thread 1: ..>.....A.......B........>......A.......B...........S.......
    stream 7: ..........AAAAAAAA...BBBB.........AAAAAAAA...BBBBBBBB.......
    stream 20: ...>>>>>>>>>.............>>>>>>>>>>>>.......................
    f = python train train.py:10
    d = python load_batch data.py:5
    m = module Linear
    t = op aten::to
    o = op aten::mm
    p = op aten::gelu
    A = kernel gemm
    B = kernel gelu_kernel
    > = copy HtoD pinned device 4K
    S = api cudaDeviceSynchronize
"""


def two_steps() -> Trace:
    """Two training steps: two products, two activations, two copies partly under kernels."""
    return trace_from_text(STEPS)
