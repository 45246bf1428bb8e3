"""The walk over CUPTI's records, compiled: types for the functions in cupti_records.c."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from gpuviz._native import library

KINDS = 256
"""Kinds that the walk knows: the length of every table below."""

type Bytes = npt.NDArray[np.uint8]
type Sizes = npt.NDArray[np.uint32]
type Counts = npt.NDArray[np.uint64]

_BYTES = np.ctypeslib.ndpointer(dtype=np.uint8, ndim=1, flags="C_CONTIGUOUS")
SIZES_ARGUMENT = np.ctypeslib.ndpointer(dtype=np.uint32, ndim=1, shape=(KINDS,), flags="C_CONTIGUOUS")
_COUNTS = np.ctypeslib.ndpointer(dtype=np.uint64, ndim=1, shape=(KINDS,), flags=("C_CONTIGUOUS", "WRITEABLE"))
_OFFSETS = np.ctypeslib.ndpointer(dtype=np.uint64, ndim=1, flags=("C_CONTIGUOUS", "WRITEABLE"))


def available() -> bool:
    """Whether the functions below can be called here."""
    return _functions() is not None


def count(buffer: Bytes, sizes: Sizes, counts: Counts) -> int:
    """Add the number of records of each kind to `counts`; returns the offset where the walk ended.

    `sizes`: kind → bytes of its record, 0 where nobody knows.
    """
    return int(_loaded().gpuviz_records_count(buffer, len(buffer), sizes, counts))


def gather(buffer: Bytes, sizes: Sizes, arrays: dict[int, npt.NDArray[np.void]], filled: Counts) -> None:
    """Copy the records of each kind that has an array into it, after the ``filled[kind]`` that are there; both are
    changed in place. An array's items may be shorter than the records: only their first bytes are copied then.
    Records for which there is no room are passed over."""
    sizes_copied = np.zeros(KINDS, dtype=np.uint32)
    targets = np.zeros(KINDS, dtype=np.uint64)
    room = np.zeros(KINDS, dtype=np.uint64)
    for kind, array in arrays.items():
        size, done = array.dtype.itemsize, int(filled[kind])
        if not array.flags.c_contiguous or not array.flags.writeable or size > sizes[kind]:
            raise ValueError(
                f"gather needs contiguous arrays of items no longer than a record; that of kind {kind} has items of "
                f"{size} bytes for records of {sizes[kind]}."
            )
        if done < len(array):
            sizes_copied[kind] = size
            targets[kind] = array.ctypes.data + done * size
            room[kind] = len(array) - done
    left = room.copy()
    _loaded().gpuviz_records_gather(buffer, len(buffer), sizes, sizes_copied, targets, left)
    filled += room - left


def find(buffer: Bytes, sizes: Sizes, kind: int) -> npt.NDArray[np.uint64]:
    """The offsets of the records of one kind."""
    counts = np.zeros(KINDS, dtype=np.uint64)
    count(buffer, sizes, counts)
    offsets = np.empty(int(counts[kind]), dtype=np.uint64)
    _loaded().gpuviz_records_find(buffer, len(buffer), sizes, kind, offsets, len(offsets))
    return offsets


def _loaded() -> Any:
    functions = _functions()
    if functions is None:
        raise RuntimeError("The compiled walk was called without its library: ask available() first.")
    return functions


@cache
def _functions() -> Any:
    """The library with the types of its functions set; None where there is none, or one of older sources."""
    loaded: Any = library()
    if loaded is None or not hasattr(loaded, "gpuviz_records_count"):
        return None
    buffer, sizes, counts = [_BYTES, ctypes.c_size_t], SIZES_ARGUMENT, _COUNTS
    loaded.gpuviz_records_count.restype = ctypes.c_size_t
    loaded.gpuviz_records_count.argtypes = [*buffer, sizes, counts]
    loaded.gpuviz_records_gather.restype = None
    loaded.gpuviz_records_gather.argtypes = [*buffer, sizes, sizes, counts, counts]
    loaded.gpuviz_records_find.restype = ctypes.c_uint64
    loaded.gpuviz_records_find.argtypes = [*buffer, sizes, ctypes.c_uint32, _OFFSETS, ctypes.c_uint64]
    return loaded
