"""A saved trace as a backend: what a session does, without a GPU and without waiting for one."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from gpuviz.capture.backend import CaptureRequest
from gpuviz.errors import CaptureError
from gpuviz.model import Trace

_NAME_OF_A_CELL = re.compile(r"In \[\d*\]$")  # what notebooks call a profile without a label


@dataclass
class ReplayBackend:
    """Gives the trace of `file` (any file that `gpuviz.load` reads), whatever runs between start and stop.

    What is marked meanwhile with `gpuviz.step` and `gpuviz.region` is not in it: those are other times. A trace is
    modelled if it was when it was recorded. Its title says that it was replayed, unless a label was given: the name of
    the cell that replays it would read as if that cell had run on the GPU of the file.
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
        label = self._label
        replayed_in = label if label and _NAME_OF_A_CELL.search(label) else None
        title = label if label and not replayed_in else f"{trace.meta.title or Path(self.file).stem} (replayed)"
        properties = {**trace.meta.properties, "replayed_from": Path(self.file).name}
        if replayed_in:
            properties["replayed_in"] = replayed_in
        return trace.replace(meta=replace(trace.meta, title=title, properties=properties))
