"""How intervals nest, compiled: types for gpuviz_nest in nesting.c."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from gpuviz._native import library

type Answer = tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int32], int, int]

_INT64_ARRAY = np.ctypeslib.ndpointer(dtype=np.int64, ndim=1, flags="C_CONTIGUOUS")
_INT32_ARRAY = np.ctypeslib.ndpointer(dtype=np.int32, ndim=1, flags=("C_CONTIGUOUS", "WRITEABLE"))
_INT64_RESULT = ctypes.POINTER(ctypes.c_int64)


def available() -> bool:
    """Whether `nest` can be called here."""
    return _function() is not None


def nest(
    thread: npt.NDArray[np.int64], start: npt.NDArray[np.int64], end: npt.NDArray[np.int64], tolerance: int
) -> Answer:
    """Parent, depth, level, and the counts of bleeding and crossing rows.

    Takes contiguous int64 arrays of one length, sorted by thread, start, longest first.
    """
    function = _function()
    if function is None:
        raise RuntimeError("nest was called without the compiled library: ask available() first.")
    count = len(start)
    if not len(thread) == count == len(end):
        raise ValueError(f"nest needs three arrays of one length; got {len(thread)}, {count} and {len(end)}.")
    if count > np.iinfo(np.int32).max:
        raise ValueError(f"nest numbers rows with 32 bits; {count} rows are too many. Split them by thread.")
    parent, depth, level = (np.empty(count, dtype=np.int32) for _ in range(3))
    bleeding, crossing = ctypes.c_int64(), ctypes.c_int64()
    counts = ctypes.byref(bleeding), ctypes.byref(crossing)
    status = function(count, thread, start, end, tolerance, parent, depth, level, *counts)
    if status != 0:
        raise MemoryError(f"The stack of open intervals did not fit in memory ({count} rows).")
    return parent, depth, level, bleeding.value, crossing.value


@cache
def _function() -> Callable[..., int] | None:
    loaded = library()
    if loaded is None:
        return None
    function: Any = loaded.gpuviz_nest
    function.restype = ctypes.c_int
    function.argtypes = [
        ctypes.c_int64,
        *[_INT64_ARRAY] * 3,
        ctypes.c_int64,
        *[_INT32_ARRAY] * 3,
        *[_INT64_RESULT] * 2,
    ]
    return function  # type: ignore[no-any-return]
