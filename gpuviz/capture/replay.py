"""A saved trace as a backend: what a session does, without a GPU and without waiting for one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from gpuviz.capture.backend import CaptureRequest
from gpuviz.errors import CaptureError
from gpuviz.model import Trace


@dataclass
class ReplayBackend:
    """Gives the trace of `file` (any file that `gpuviz.load` reads), whatever runs between start and stop.

    What is marked meanwhile with `gpuviz.step` and `gpuviz.region` is not in it: those are other times. A trace is
    modelled if it was when it was recorded.
    """

    file: str
    name: ClassVar[str] = "replay"
    _trace: Trace | None = None
    _label: str | None = None

    @property
    def description(self) -> str:
        """For people."""
        return f"replay {Path(self.file).name}"

    def start(self, request: CaptureRequest) -> None:
        """Open the file; errors of the file come here, not at the end."""
        from gpuviz.formats import load

        self._label = request.label
        self._trace = load(self.file)

    def stop(self) -> Trace:
        """The trace, marked as replayed."""
        trace, self._trace = self._trace, None
        if trace is None:
            raise CaptureError(f"Tried to stop the replay of {self.file}, which has not been started. Start it first.")
        title = trace.meta.title if self._label is None else self._label
        properties = {**trace.meta.properties, "replayed_from": Path(self.file).name}
        return trace.replace(meta=replace(trace.meta, title=title, properties=properties))
