"""The compiled part of gpuviz: plain C behind ctypes, and optional.

Each C file has a Python module of its name that gives it types. Nothing here imports the rest of gpuviz, and
nothing in gpuviz needs what is here: every compiled function has a slower twin in Python, of equal answer.
"""

from __future__ import annotations

import ctypes
import os
import sys
import warnings
from functools import cache
from pathlib import Path

LIBRARY_NAME = "libgpuviz_native" + (".dylib" if sys.platform == "darwin" else ".so")


@cache
def library() -> ctypes.CDLL | None:
    """The compiled library; None where there is none, or none that loads, or GPUVIZ_NATIVE is "off"."""
    path = Path(__file__).with_name(LIBRARY_NAME)
    if os.environ.get("GPUVIZ_NATIVE", "").lower() == "off" or not path.exists():
        return None
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        warnings.warn(
            f"gpuviz could not load its compiled library {path}: {error}. It goes on in plain Python; "
            "reinstall gpuviz on this machine to compile the library anew.",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
