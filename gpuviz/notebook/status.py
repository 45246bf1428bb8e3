"""The text of ``%gpuviz status``."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

import gpuviz
from gpuviz.capture import simulate
from gpuviz.capture.backend import choose_backend
from gpuviz.errors import CaptureError
from gpuviz.notebook.history import KERNEL_HISTORY
from gpuviz.notebook.profiles import Profiler
from gpuviz.view.wording import count_text

_PACKAGES = ("polars", "bokeh", "IPython", "ipykernel", "torch")


def status_text(profiler: Profiler) -> str:
    """What is on, what `auto` would use, what is kept, which versions, and what went wrong last."""
    simulator = simulate.active_backend()
    profiles, traces, size = KERNEL_HISTORY.totals
    running = profiler.running
    lines = {
        "simulator": "off" if simulator is None else f"on: {simulator.description}",
        "auto": _auto(),
        "running": "no profile" if running is None else f"a profile of {running.what}",
        "history": f"{count_text(profiles, 'profile')}, {count_text(traces, 'trace')} kept ({size / 1e6:.1f} MB)",
        "versions": " · ".join(
            [f"gpuviz {gpuviz.__version__}", f"Python {platform.python_version()}"]
            + [f"{package} {_version(package)}" for package in _PACKAGES]
        ),
    }
    text = "\n".join(f"{label:<10} {value}" for label, value in lines.items())
    failure = profiler.last_failure
    return text if failure is None else f"{text}\n\nThe last failure of gpuviz itself:\n{failure}"


def _auto() -> str:
    try:
        return f"uses {choose_backend('auto').description}"
    except CaptureError as error:
        return f"finds nothing. {error}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "is not installed"
