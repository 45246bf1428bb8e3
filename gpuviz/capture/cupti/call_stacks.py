"""The seam to the line clock: which call stack each recorded CUDA call was made from.

`gpuviz.capture.lineclock.LineClock` is such a source and its record such an answer. Without a source a capture has no
lines, and everything else.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from gpuviz.capture.backend import CaptureRequest, CellSource
from gpuviz.capture.cupti.layouts import API_KINDS
from gpuviz.capture.cupti.records import Records
from gpuviz.capture.recording import Stack
from gpuviz.capture.times import Clock


class Lines(Protocol):
    """Which stack was running in a thread at a time. Ids are its own; -1 is for "none"."""

    @property
    def cells(self) -> Mapping[str, CellSource]: ...

    @property
    def problem(self) -> str | None: ...

    def stack_ids(
        self, threads: npt.ArrayLike, times_ns: npt.ArrayLike, *, fallback_thread: int | None = None
    ) -> npt.NDArray[np.int32]: ...

    def compact(self, stack_ids: npt.ArrayLike) -> tuple[npt.NDArray[np.int32], list[Stack]]: ...


class LineSource(Protocol):
    """Watches the lines of user code from `start` to `stop`."""

    def start(self) -> None: ...

    def stop(self) -> Lines: ...


type LineSourceFor = Callable[[CaptureRequest], LineSource | None]


def no_lines(request: CaptureRequest) -> LineSource | None:
    """A capture without lines."""
    return None


@dataclass(frozen=True)
class CallStacks:
    """What `Recording` wants to know of them."""

    stacks: Sequence[Stack] = ()
    api_stacks: Mapping[tuple[int, int], int] = field(default_factory=dict)
    cells: Mapping[str, CellSource] = field(default_factory=dict)


def call_stacks(lines: Lines | None, records: Mapping[int, Records], clock: Clock, main_thread: int) -> CallStacks:
    """Join the API records to the lines that ran when they began. `main_thread`: the thread that runs the cell."""
    calls = [records[kind] for kind in API_KINDS if kind in records]
    if lines is None:
        return CallStacks()
    if not calls:
        return CallStacks(cells=lines.cells)
    threads = np.concatenate([part["thread_id"] for part in calls])
    ids = np.concatenate([part["correlation_id"] for part in calls])
    starts = np.concatenate([part["start"] for part in calls])
    usable = clock.usable(starts)
    found = lines.stack_ids(threads, clock.to_unix(starts, usable), fallback_thread=_fallback(main_thread))
    places, stacks = lines.compact(np.where(usable, found, -1))
    has = places >= 0
    keys = zip(threads[has].tolist(), ids[has].tolist(), strict=True)
    return CallStacks(stacks, dict(zip(keys, places[has].tolist(), strict=True)), lines.cells)


def _fallback(main_thread: int) -> int | None:
    """Whose line a thread without Python code has: PyTorch's backward pass runs on threads of its own while the main
    thread waits in ``.backward()``. JAX's workers run behind the main thread, which is somewhere else by then."""
    return main_thread if "torch" in sys.modules and "jax" not in sys.modules else None
