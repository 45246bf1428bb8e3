"""CUPTI's activity buffers: types for the pool in cupti_buffers.c.

The one part of `_native` without a twin in Python: CUPTI calls for buffers while it holds its own lock, and Python
code there could wait for the GIL for ever. There is one pool in a process, because CUPTI's callbacks carry no argument
that could tell two apart, and it lives as long as the process.

The library is loaded with `ctypes.CDLL`, which lets go of the GIL around every call: nobody waits for the pool's lock
with the GIL in hand.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from gpuviz._native import library
from gpuviz._native.cupti_records import SIZES_ARGUMENT, Sizes

FORKED = -1
NO_MEMORY = -2


class ForkedError(RuntimeError):
    """The pool belongs to the process that this one was forked from."""


@dataclass(frozen=True)
class PoolStats:
    """Counts of buffers; those from `requested` on are since the pool was last opened."""

    with_cupti: int
    filled: int
    with_reader: int
    resident: int
    requested: int
    completed: int
    empty: int
    refused: int
    overwritten: int
    overwritten_records: int
    overwritten_bytes: int
    not_ours: int
    completed_bytes: int
    most_out: int


def available() -> bool:
    """Whether there is a pool here."""
    return _functions() is not None


def callbacks() -> tuple[int, int]:
    """The addresses of the two functions that CUPTI is to call: buffer requested, buffer completed."""
    loaded = _loaded()
    requested = ctypes.cast(loaded.gpuviz_buffer_requested, ctypes.c_void_p).value
    completed = ctypes.cast(loaded.gpuviz_buffer_completed, ctypes.c_void_p).value
    assert requested
    assert completed
    return requested, completed


def open_pool(buffer_bytes: int, most_buffers: int, sizes: Sizes, *, never_refuse: bool) -> None:
    """Serve up to `most_buffers` buffers of `buffer_bytes` (whole pages); forget what was left unread.

    `never_refuse`: when all are out, give the oldest unread one again and count its records (with `sizes`, as in
    `cupti_records.count`) as lost.
    """
    status = _loaded().gpuviz_pool_open(buffer_bytes, most_buffers, int(never_refuse), sizes)
    if status == FORKED:
        raise ForkedError("This process was forked from one that had opened the pool.")
    if status == NO_MEMORY:
        raise MemoryError(f"No address space for {most_buffers} buffers of {buffer_bytes} bytes.")
    if status != 0:
        raise ValueError(f"Cannot open a pool of {most_buffers} buffers of {buffer_bytes} bytes (status {status}).")


def use_reserve() -> None:
    """Hand out a few buffers more than `most_buffers`: for the calls that end a capture."""
    _loaded().gpuviz_pool_use_reserve()


def close_pool() -> None:
    """Refuse further requests. Buffers that CUPTI still has stay valid."""
    _loaded().gpuviz_pool_close()


def take(buffer_bytes: int) -> npt.NDArray[np.uint8] | None:
    """The oldest filled buffer: its valid bytes, in place. They are the caller's until `release`."""
    valid = ctypes.c_size_t()
    address = _loaded().gpuviz_pool_take(ctypes.byref(valid))
    if not address:
        return None
    whole = (ctypes.c_uint8 * buffer_bytes).from_address(address)
    return np.frombuffer(whole, dtype=np.uint8, count=valid.value)


def release(buffer: npt.NDArray[np.uint8]) -> None:
    """Give back what `take` gave. Nobody may read it afterwards."""
    if _loaded().gpuviz_pool_release(buffer.ctypes.data) != 0:
        raise ValueError("This buffer was not taken from the pool, or was given back already.")


def trim() -> None:
    """Give the memory of free buffers back to the system; their addresses stay valid."""
    _loaded().gpuviz_pool_trim()


def stats() -> PoolStats:
    """Where the buffers are, and what has happened since the pool was opened."""
    answer = (ctypes.c_uint64 * len(fields(PoolStats)))()
    if _loaded().gpuviz_pool_stats(answer) == FORKED:
        raise ForkedError("The pool belongs to the process that this one was forked from.")
    return PoolStats(*answer)


def _loaded() -> Any:
    functions = _functions()
    if functions is None:
        raise RuntimeError("The pool was used without its compiled library: ask available() first.")
    return functions


@cache
def _functions() -> Any:
    """The library with the types of its functions set; None where there is none, or one of older sources."""
    loaded: Any = library()
    if loaded is None or not hasattr(loaded, "gpuviz_pool_open"):
        return None
    size_pointer = ctypes.POINTER(ctypes.c_size_t)
    loaded.gpuviz_pool_open.restype = ctypes.c_int
    loaded.gpuviz_pool_open.argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int, SIZES_ARGUMENT]
    loaded.gpuviz_pool_use_reserve.restype = None
    loaded.gpuviz_pool_use_reserve.argtypes = []
    loaded.gpuviz_pool_close.restype = None
    loaded.gpuviz_pool_close.argtypes = []
    loaded.gpuviz_pool_take.restype = ctypes.c_void_p
    loaded.gpuviz_pool_take.argtypes = [size_pointer]
    loaded.gpuviz_pool_release.restype = ctypes.c_int
    loaded.gpuviz_pool_release.argtypes = [ctypes.c_void_p]
    loaded.gpuviz_pool_trim.restype = None
    loaded.gpuviz_pool_trim.argtypes = []
    loaded.gpuviz_pool_stats.restype = ctypes.c_int
    loaded.gpuviz_pool_stats.argtypes = [ctypes.POINTER(ctypes.c_uint64)]
    return loaded
