"""Every exception that gpuviz raises, in one tree.

::

    GpuvizError                  anything that gpuviz refuses or cannot do
    ├── TraceError               a table breaks the data model          .table .column
    ├── TraceFileError           a file cannot be read or written       .path .found .supported
    ├── AnalysisError            a question that the arguments make impossible
    └── CaptureError             a capture cannot start or go on
        ├── CuptiError           a CUPTI call failed                    .call .status
        └── SessionActiveError   a capture is already running

    DroppedRecordsWarning        a capture lost records (a warning, not an error)

Every message has three parts: what was tried, what was found, what to do. The facts travel as attributes too,
so that a program never has to read the sentence.
"""

from __future__ import annotations

from os import PathLike, fspath


class GpuvizError(Exception):
    """The base of every exception that gpuviz raises on purpose."""


class TraceError(GpuvizError):
    """A table does not fit the data model of `gpuviz.model.schema`."""

    def __init__(self, message: str, *, table: str | None = None, column: str | None = None) -> None:
        super().__init__(message)
        self.table = table
        self.column = column


class TraceFileError(GpuvizError):
    """A trace file, or a page to be written, cannot be read or written."""

    def __init__(
        self,
        message: str,
        *,
        path: str | PathLike[str] | None = None,
        found: str | None = None,
        supported: str | None = None,
    ) -> None:
        super().__init__(message)
        self.path = None if path is None else fspath(path)
        self.found = found
        self.supported = supported


class AnalysisError(GpuvizError):
    """An analysis was asked for something that its arguments make impossible."""


class CaptureError(GpuvizError):
    """A capture cannot start or cannot go on."""


class CuptiError(CaptureError):
    """A CUPTI call returned a status other than success."""

    def __init__(self, message: str, *, call: str, status: int | None) -> None:
        super().__init__(message)
        self.call = call
        self.status = status


class SessionActiveError(CaptureError):
    """A capture is already running; only one can run at a time."""


class DroppedRecordsWarning(UserWarning):
    """A capture lost records: counts and sums are lower bounds."""
