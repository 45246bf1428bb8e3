"""A simulated GPU: the user's code runs for real on the CPU, and only what a GPU would have done is modelled.

While it is on, PyTorch finds one CUDA device. Tensors "on cuda" are CPU tensors with a mark on their memory, so that
values are those of the CPU, control flow that depends on data works, and the model knows what lives where: work on
host memory is not modelled as GPU work, and a copy across is a copy. A capture puts the operators, and what they would
have launched, on a virtual clock (`clock`), as binary CUPTI buffers that are read by the same code as real ones.
Everything is *modelled*: kernel times by a roofline (`roofline`), figures of the GPUs in `gpus`, where each that is not
published is called assumed; also the time that the host would have needed. Outside of captures nothing is modelled.

Known limits:

- Kernels are those of eager PyTorch, one or a few for each operator. `torch.compile` is left eager, with a warning.
  CUDA graphs raise `CaptureError`; so do other parts of `torch.cuda` that are not modelled, such as clocks and power.
- Streams do not slow each other down, and the L2 cache and the number of blocks do not change a kernel's time.
- One GPU, one process: no NCCL, no peer copies, no data exchange with CuPy, Numba or JAX.
- The hooks belong to the thread that turned the simulator on. Operators on device tensors in other threads run, but
  are not modelled and missing in the trace; making a device tensor there, or calling `torch.cuda`, raises
  `CaptureError`. `pin_memory`, which data loaders call in a thread of their own, works everywhere.
- Freeing a large device tensor frees CPU memory, which can take the host milliseconds that a GPU's caching allocator
  would not; that time is in the trace, between operators.
- The device draws random numbers from the generator of the CPU, `torch.Generator("cuda")` too.
- `autocast("cuda")` follows the operator lists of `autocast("cpu")`. Recurrent layers run step by step, not as cuDNN
  does. nn.TransformerEncoderLayer leaves out its fused path of evaluation, as it does under every hook of this kind:
  values may differ from a CPU's in the last bit there. Sparse tensors stay on the host. `torch.cuda.FloatTensor(...)`
  and the like raise `CaptureError`; nested tensors made on "cuda" and NCCL raise PyTorch's own error for a machine
  without a GPU. What a compiled TorchScript function returns outside of captures counts as host memory.
- An operator with tensors of both sides, an error on a GPU, runs on the device here.
- Files of `torch.save` say that their tensors came from the CPU.
- Names that were imported from torch.cuda before the simulator was turned on (``from torch.cuda import Event``) are
  those of the real one.
- Fragmentation of device memory is not modelled: what is reserved is a lower bound.
"""

from __future__ import annotations

from gpuviz.capture.backend import Backend
from gpuviz.capture.simulate.gpus import GPUS, Gpu, gpu_named
from gpuviz.capture.simulate.simulator import Simulator, active
from gpuviz.errors import CaptureError

__all__ = ["GPUS", "Gpu", "Simulator", "active", "active_backend", "backend", "gpu_named"]


def active_backend() -> Backend | None:
    """The backend of the simulator that is on in this process, if one is."""
    return active()


def backend(gpu: str | None = None) -> Backend:
    """The simulator that is on where that is the GPU asked for, else a new one that is on during captures only."""
    running = active()
    if running is None:
        return Simulator(gpu or "H100")
    if gpu is not None and gpu_named(gpu) != running.gpu:
        raise CaptureError(
            f"Tried to simulate the GPU {gpu}; a simulated {running.gpu.key} is on in this process. "
            "Turn it off first (`%gpuviz simulate off`), or ask for that one."
        )
    return running
