"""Is a file whole, and is anybody writing it? Asked of its bytes and its neighbours before SQLite sees it.

SQLite would be opened with ``immutable=1``: it then creates nothing beside the file and works in a folder that nobody
may write to, but it neither looks at locks nor at a journal. So that is done here.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from gpuviz.errors import TraceFileError

SUPPORTED = "SQLite exports of Nsight Systems, 2020 to 2026"

_HEADER_BYTES = 100
_LARGEST_PAGE = 65536
_WAL = 2
UNREADABLE = (sqlite3.Error, UnicodeDecodeError)
"""What `sqlite3` raises for a damaged file; the second where damage got into the text of its own error."""
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def refusal(path: Path, found: str, remedy: str, supported: str = SUPPORTED) -> TraceFileError:
    """The error that says what was found instead of a readable export, and what to do."""
    return TraceFileError(
        f"Tried to read {path} as an Nsight Systems export: found {found}. {remedy}",
        path=path,
        found=found,
        supported=supported,
    )


def check_whole(path: Path) -> None:
    """`TraceFileError` where the file is cut off, or where its newest content lies in another file.

    The layout of the first 100 bytes is documented in https://www.sqlite.org/fileformat2.html#the_database_header.
    """
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    size = path.stat().st_size
    page = int.from_bytes(header[16:18], "big")
    page_bytes = _LARGEST_PAGE if page == 1 else page
    pages = int.from_bytes(header[28:32], "big")
    count_is_current = header[24:28] == header[92:96] and pages > 0
    expected = pages * page_bytes if count_is_current else _HEADER_BYTES
    if len(header) < _HEADER_BYTES or size < expected:
        raise refusal(
            path,
            f"an SQLite database that is cut off: {size} of {max(expected, _HEADER_BYTES)} bytes",
            "Copy or export it again.",
        )
    for suffix in ("-wal", "-journal"):
        beside = path.with_name(path.name + suffix)
        if _holds_something(beside):
            raise refusal(
                path,
                f"an SQLite database whose newest content is still in {beside.name}",
                "Wait until the program that writes it has ended, or export it again.",
            )
    if _WAL not in (header[18], header[19]):  # asking a database in WAL mode for a lock would create files beside it
        _check_no_lock(path)


def _holds_something(beside: Path) -> bool:
    """A journal that SQLite left empty, or whose header it has wiped, says that nothing is pending."""
    try:
        with beside.open("rb") as file:
            return any(file.read(28))
    except OSError:
        return False


def _check_no_lock(path: Path) -> None:
    try:
        connection = sqlite3.connect(path.absolute().as_uri() + "?mode=ro", uri=True, timeout=0)
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        finally:
            connection.close()
    except UNREADABLE as error:
        # Whatever else is wrong shows again, and is told, when the file is read; a file system without locks is no
        # reason to refuse a file.
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _BUSY:
            raise refusal(
                path,
                "an SQLite database that another program has locked",
                "Wait until it has ended, or copy the file.",
            ) from error
