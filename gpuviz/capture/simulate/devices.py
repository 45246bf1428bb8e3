"""What "cuda" means while the simulator is on: one device, number 0."""

from __future__ import annotations

from typing import Any


def is_simulated(device: Any) -> bool:
    """True for cuda; as on a machine with one GPU, any other number than 0 is an error."""
    kind = getattr(device, "type", None)
    index = getattr(device, "index", None)
    if kind is None:
        if isinstance(device, int) and not isinstance(device, bool):
            kind, index = "cuda", device
        elif isinstance(device, str):
            kind, _, number = device.partition(":")
            index = int(number) if number.isdigit() else None
    if kind != "cuda":
        return False
    if index not in (None, 0, -1):
        raise RuntimeError(
            f"CUDA error: invalid device ordinal: cuda:{index} was asked for, the simulated machine has one GPU. "
            "Use cuda:0."
        )
    return True


def the_device() -> Any:
    """``cuda:0``."""
    import torch

    return torch.device("cuda", 0)
