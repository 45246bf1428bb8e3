"""What a capture backend is, and which one a name stands for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from gpuviz.capture.ranges import RangeLog
from gpuviz.errors import CaptureError
from gpuviz.model import Trace


@dataclass(frozen=True)
class CellSource:
    """A notebook cell, as the notebook knows it."""

    jupyter_cell_id: str | None
    execution_count: int | None
    source: str


type CellOf = Callable[[str], CellSource | None]
"""``co_filename`` of a code object → the cell it was compiled from, or None for code that is not of a notebook."""


def no_cells(filename: str) -> CellSource | None:
    """The `CellOf` of a program that is not a notebook."""
    return None


@dataclass(frozen=True)
class CaptureRequest:
    """What a session asks of a backend. The session cuts the trace to `warmup` and `steps` itself; a backend may
    read them to spare itself work, and nothing more. `ranges` grows while the capture runs: what `gpuviz.step` and
    `gpuviz.region` mark, for the backend to put into its trace."""

    label: str | None = None
    cell_of: CellOf = no_cells
    steps: int | None = None
    warmup: int = 0
    ranges: RangeLog = field(default_factory=RangeLog)


class Backend(Protocol):
    """A way to capture. `description` is for people: ``simulate H100 (modelled)``.

    `stop` leaves nothing behind, whatever happened before: it is also called once after a `start` that failed half
    way or was interrupted, and its result is then thrown away.
    """

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    def start(self, request: CaptureRequest) -> None: ...

    def stop(self) -> Trace: ...


CHOICES = "auto, simulate[:GPU], replay:FILE"


def choose_backend(name: str = "auto") -> Backend:
    """The backend of this name: ``auto``, ``simulate``, ``simulate:H100``, ``replay:trace.gpuviz``.

    ``auto`` takes the simulator where ``%gpuviz simulate`` has turned it on, and never turns it on by itself.
    """
    kind, _, argument = name.partition(":")
    if kind == "replay" and argument:
        from gpuviz.capture.replay import ReplayBackend

        return ReplayBackend(argument)
    if name != "auto" and kind != "simulate":
        raise CaptureError(f"Tried to use the backend {name!r}; there are {CHOICES}.")
    from gpuviz.capture import simulate

    if kind == "simulate":
        return simulate.backend(argument or None)
    running = simulate.active_backend()
    if running is None:
        raise CaptureError(
            "Tried to find a way to capture GPU work: no simulated GPU is on in this process, and this version of "
            "gpuviz does not capture on a real one. Turn the simulator on with `%gpuviz simulate H100` (before the "
            "cells that set up the model), capture with the backend 'simulate:H100', or open a trace of another tool "
            "with gpuviz.load or the backend 'replay:FILE'."
        )
    return running
