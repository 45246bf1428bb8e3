"""Write a file whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import BinaryIO

from gpuviz.errors import TraceFileError


@contextmanager
def replacing(path: str | PathLike[str]) -> Iterator[BinaryIO]:
    """A binary file to write to, which takes the place of `path` when the block ends without an exception.

    It is written beside its target under a temporary name; until the end, and when anything fails, what was at `path`
    stays. An error of the file system, or a path that cannot name a file, becomes a `TraceFileError`.
    """
    target = Path(path)
    try:
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
        file = temporary.open("xb")
    except (OSError, ValueError) as error:
        raise _not_written(target, error) from error
    try:
        with file:
            yield file
        os.replace(temporary, target)
    except OSError as error:
        raise _not_written(target, error) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _not_written(target: Path, error: OSError | ValueError) -> TraceFileError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return TraceFileError(
        f"Tried to write {target}: {reason}. Choose a folder that exists and can be written to.",
        path=target,
        found=str(error),
    )
