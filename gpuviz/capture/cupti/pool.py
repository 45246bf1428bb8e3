"""The buffers of one capture: opened when it starts, drained while and after it runs, given back when it ends.

The memory itself lives as long as the process (`gpuviz._native.cupti_buffers` says why); this is who may read it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from gpuviz._native import cupti_buffers
from gpuviz._native.cupti_buffers import PoolStats
from gpuviz.capture.cupti.walk import size_table
from gpuviz.errors import CaptureError

type Bytes = npt.NDArray[np.uint8]

DEFAULT_BYTES = 512 << 20
# Each thread that calls CUDA fills a buffer of its own: small enough that many threads have one within the bound,
# large enough (some 15 000 launches) that CUPTI seldom asks.
BUFFER_BYTES = 4 << 20
# Before this version (CUDA 12.9) a request must not be answered with NULL.
MAY_REFUSE_FROM = 27


_in_use: Pool | None = None


def lack_of_pool() -> str | None:
    """Why there is no buffer pool here; None where there is one."""
    if cupti_buffers.available():
        return None
    if os.environ.get("GPUVIZ_NATIVE", "").lower() == "off":
        return (
            "Tried to capture with CUPTI, whose buffers are compiled code, and GPUVIZ_NATIVE=off forbids it. Unset it."
        )
    return (
        "Tried to capture with CUPTI: its buffers are handled by compiled code (Python there could deadlock), and this "
        "installation of gpuviz has none, for want of a C compiler when it was installed. Install gcc or clang, then "
        "gpuviz again (`pip install --force-reinstall --no-binary gpuviz gpuviz`); or use the backend 'torch'."
    )


class Pool:
    """The buffers of one capture. `buffers` grows by `drain`; they are views of memory that `give_back` ends."""

    def __init__(self, memory_bytes: int = DEFAULT_BYTES) -> None:
        self.most_buffers = memory_bytes // BUFFER_BYTES
        self.buffers: list[Bytes] = []
        if self.most_buffers < 1:
            raise CaptureError(
                f"Tried to capture with {memory_bytes} bytes for CUPTI's records; one buffer alone takes "
                f"{BUFFER_BYTES}. Allow more (the default is {DEFAULT_BYTES})."
            )

    def open(self, cupti_version: int, sizes: Mapping[int, int]) -> None:
        """Serve buffers from now on. `sizes`: kind → bytes of a record."""
        global _in_use
        reason = lack_of_pool()
        if reason is not None:
            raise CaptureError(reason)
        if _in_use is not None:
            raise CaptureError(
                "Tried to start a capture with CUPTI while another one runs in this process: its buffers have one "
                "owner. Stop that one first."
            )
        never_refuse = cupti_version < MAY_REFUSE_FROM
        try:
            cupti_buffers.open_pool(BUFFER_BYTES, self.most_buffers, size_table(sizes), never_refuse=never_refuse)
        except cupti_buffers.ForkedError as error:
            raise CaptureError(
                "Tried to capture with CUPTI in a process that was forked from one that has captured: CUDA and CUPTI "
                "do not survive a fork. Start worker processes with the method 'spawn'."
            ) from error
        except MemoryError as error:
            raise CaptureError(
                f"Tried to capture with CUPTI: {error} Allow less memory for its records, or free some."
            ) from error
        _in_use = self

    @property
    def callbacks(self) -> tuple[int, int]:
        """The addresses for CUPTI: buffer requested, buffer completed."""
        return cupti_buffers.callbacks()

    def drain(self) -> list[Bytes]:
        """Take what CUPTI has delivered; returns what is new in `buffers`."""
        new: list[Bytes] = []
        while (buffer := cupti_buffers.take(BUFFER_BYTES)) is not None:
            self.buffers.append(buffer)  # at once: an interrupt here must not lose an owner
            new.append(buffer)
        return new

    def use_reserve(self) -> None:
        """A full pool has room for a few buffers more: for the calls that end the capture."""
        cupti_buffers.use_reserve()

    def stats(self) -> PoolStats:
        """Where the buffers are, and what has happened since `open`."""
        return cupti_buffers.stats()

    def give_back(self) -> None:
        """End the capture: no request is served any more, and nobody may read `buffers`. Again, it does nothing."""
        global _in_use
        if _in_use is not self:
            return
        _in_use = None
        cupti_buffers.close_pool()
        while self.buffers:
            cupti_buffers.release(self.buffers.pop())
        cupti_buffers.trim()
