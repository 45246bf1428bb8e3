"""Write a file whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import BinaryIO

from gpuviz.errors import TraceFileError


@contextmanager
def replacing(path: str | PathLike[str]) -> Iterator[BinaryIO]:
    """A binary file to write to, which takes the place of `path` when the block ends without an exception.

    It is written beside its target under a temporary name; until the end, and when anything fails, what was at `path`
    stays. An error of the file system becomes a `TraceFileError`.
    """
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with temporary.open("xb") as file:
            yield file
        os.replace(temporary, target)
    except OSError as error:
        raise TraceFileError(
            f"Tried to write {target}: {error.strerror or error}. Choose a folder that exists and can be written to.",
            path=target,
            found=str(error),
        ) from error
    finally:
        temporary.unlink(missing_ok=True)
