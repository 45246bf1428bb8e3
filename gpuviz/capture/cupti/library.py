"""Finding the one libcupti of this process.

CUPTI belongs to a process: two copies of it in one would each think that they are alone, and the CUDA driver talks to
one of them. So a copy that is mapped already is the one to use, and two are refused.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from gpuviz.errors import CaptureError

MAPS = Path("/proc/self/maps")
DRIVER_NAME = "libcuda.so.1"

_CUPTI_FILE = re.compile(r"^libcupti\.so(\.|$)")
_RUNTIME_FILE = re.compile(r"^libcudart.*\.so\.(\d+)")
# What the dynamic loader finds by itself: newest first, and the major version must fit the CUDA runtime in use.
_LOADER_NAMES = {13: "libcupti.so.13", 12: "libcupti.so.12"}
# Where packages put it, below a folder of installed packages.
_PACKAGE_FOLDERS = {13: "nvidia/cu13/lib", 12: "nvidia/cuda_cupti/lib"}
_TOOLKIT_FOLDERS = ("extras/CUPTI/lib64", "lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib")


def mapped_files(maps: Path = MAPS) -> list[str]:
    """The files that are mapped into this process, each once."""
    try:
        lines = maps.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return []
    paths = (line.split(maxsplit=5)[5] for line in lines if line.count(" ") >= 5 and "/" in line)
    return list(dict.fromkeys(path for path in paths if path.startswith("/")))


def mapped_cupti(maps: Path = MAPS) -> list[str]:
    """Every libcupti that is mapped; several names of one file count once."""
    found: dict[str, str] = {}
    for path in mapped_files(maps):
        if _CUPTI_FILE.match(os.path.basename(path)):
            found.setdefault(os.path.realpath(path), path)
    return list(found.values())


def mapped_runtime_major(maps: Path = MAPS) -> int | None:
    """The major version of the CUDA runtime in this process; None where none is loaded as a shared library."""
    for path in mapped_files(maps):
        match = _RUNTIME_FILE.match(os.path.basename(path))
        if match:
            return int(match.group(1))
    return None


def driver_is_mapped(maps: Path = MAPS) -> bool:
    """Whether the CUDA driver is loaded in this process: without it nobody can have used CUDA."""
    return any(os.path.basename(path).startswith("libcuda.so") for path in mapped_files(maps))


def lack_of_driver() -> str | None:
    """Why the CUDA driver cannot be loaded; None where it can. Loading it does not initialise CUDA."""
    try:
        ctypes.CDLL(DRIVER_NAME)
    except OSError as error:
        return str(error)
    return None


def installed_cupti(maps: Path = MAPS) -> Iterator[str]:
    """Where a libcupti lies that could be loaded, best first: packages, the loader's own names, CUDA toolkits.

    One of the major version of the CUDA runtime in use comes before the others.
    """
    major = mapped_runtime_major(maps)
    majors = sorted(_LOADER_NAMES, key=lambda one: (one != major, -one))
    for one in majors:
        for folder in _package_roots():
            yield from _existing(Path(folder).parent / _PACKAGE_FOLDERS[one])
    for one in majors:
        yield _LOADER_NAMES[one]
    toolkits = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), sys.prefix, "/usr/local/cuda"]
    for root in filter(None, toolkits):
        for below in _TOOLKIT_FOLDERS:
            yield from _existing(Path(root) / below)


def find_cupti(maps: Path = MAPS) -> tuple[ctypes.CDLL, str]:
    """The libcupti to use, loaded, and its path. Raises `CaptureError` where there is none, or more than one."""
    mapped = mapped_cupti(maps)
    if len(mapped) > 1:
        raise CaptureError(
            f"Tried to find the CUPTI library of this process, and found two: {' and '.join(mapped)}. The CUDA driver "
            "reports to only one of them, so records would be missing. Restart the kernel and load one CUDA version "
            "only (profilers such as Triton's Proton bring a libcupti of their own)."
        )
    refused: list[str] = []
    for path in mapped or installed_cupti(maps):
        try:
            loaded = ctypes.CDLL(path)
        except OSError as error:
            refused.append(str(error))
            continue
        return loaded, _path_of(loaded, path, maps)
    why = ": " + "; ".join(dict.fromkeys(refused)) if refused else ""
    raise CaptureError(
        f"Tried to load the CUPTI library (libcupti.so), and found none that loads{why}. PyTorch for CUDA brings one; "
        "without it install the package nvidia-cuda-cupti of your CUDA version, or set CUDA_HOME to a CUDA toolkit."
    )


def _path_of(loaded: ctypes.CDLL, name: str, maps: Path) -> str:
    """The file behind a loaded library: a name that the loader has resolved shows in the process's map."""
    if os.path.isabs(name):
        return name
    return next(iter(mapped_cupti(maps)), name)


def _package_roots() -> list[str]:
    """The folders named `nvidia` that hold NVIDIA's packages. Looks, and imports nothing."""
    spec = importlib.util.find_spec("nvidia")
    return list(spec.submodule_search_locations or []) if spec else []


def _existing(folder: Path) -> Iterator[str]:
    """The libraries in a folder, the longest version last: the short name is the one that others load."""
    yield from sorted(str(path) for path in folder.glob("libcupti.so*"))
