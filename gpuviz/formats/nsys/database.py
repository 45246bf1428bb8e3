"""An SQLite file → columns, through one of two readers that give the same.

The fast reader is `adbc-driver-sqlite`, which fills Arrow columns in C. It decides the type of a column by its first
rows and fails where a later row differs, so it serves tables that are what they claim to be: whole numbers and valid
text. Every other table is read by the standard library, which looks at each value.

The content of a file may be hostile. Only real tables are read (a view can be a program), every number of rows is
held against what the file has room for (pages that point to each other could otherwise yield rows without end), and
text never reaches Polars before it is known to be UTF-8.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import polars as pl

from gpuviz.formats.nsys.header import UNREADABLE, check_whole, refusal
from gpuviz.model.diagnostics import Diagnostics

type Reader = Literal["adbc", "stdlib"]

_BATCH_ROWS = 1 << 20
"""adbc reads its first batch, to learn the types, without the GIL, and the later ones with it; so one batch is best."""
_SPLIT_ROWS = 200_000
"""A table with more rows is read in parts, one thread each."""
_FETCH_ROWS = 1 << 16
_IDS_PER_QUERY = 10_000
_LONGEST_REASON = 200
_SMALLEST_ROW_BYTES = 6
"""Of a row without columns: cell pointer, two lengths, row id, header size; each column needs one byte more."""
_VERSIONED = re.compile(r"(.+)_V\d+")


@dataclass(frozen=True)
class Selection:
    """What is read of one table: its whole-number and its text columns."""

    table: str
    numbers: tuple[str, ...]
    texts: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns, numbers first."""
        return self.numbers + self.texts


class Database:
    """An SQLite file that is open for reading. `tables`: name → its columns, as declared."""

    def __init__(self, path: Path, diagnostics: Diagnostics, reader: Reader | None = None) -> None:
        self.path = path
        self._diagnostics = diagnostics
        self._uri = path.absolute().as_uri() + "?mode=ro&immutable=1"
        self._adbc = None if reader == "stdlib" else _adbc_driver(required=reader == "adbc")
        self._lock = threading.Lock()
        check_whole(path)
        self._size = path.stat().st_size
        self._connection = self._connect()
        try:
            self.tables = self._read_tables()
            self._is_utf8 = self._query("PRAGMA encoding")[0][0] == b"UTF-8"
        except UNREADABLE as error:
            self.close()
            raise self._damaged(error) from error

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def find(self, name: str) -> str | None:
        """The table of this name, or the newest of those that have its name and a version (``_V2``), with rows."""
        versions = [table for table in self.tables if (match := _VERSIONED.fullmatch(table)) and match[1] == name]
        versions.sort(key=lambda table: int(table.rpartition("_V")[2]), reverse=True)
        found = [*versions, *([name] if name in self.tables else [])]
        return next((table for table in found if self.has_rows(table)), found[-1] if found else None)

    def has_rows(self, table: str) -> bool:
        """Whether there is at least one row."""
        return bool(self.query(f"SELECT 1 FROM {_quoted(table)} LIMIT 1"))

    def count(self, table: str) -> int:
        """How many rows there are."""
        limit = self._most_rows(table)
        return int(self.query(f"SELECT count(*) FROM (SELECT 1 FROM {_quoted(table)} LIMIT {limit})")[0][0])

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of a small query, text as UTF-8 bytes; `TraceFileError` where the file is damaged."""
        try:
            return self._query(sql)
        except UNREADABLE as error:
            raise self._damaged(error) from error

    def small_table(self, name: str, columns: Sequence[str]) -> list[dict[str, Any]]:
        """The rows of a table of facts, with those of `columns` that it has; nothing where it does not exist.

        Text is text here. What a column of another version does not have is None.
        """
        table = self.find(name)
        if table is None:
            return []
        present = [column for column in columns if column in self.tables[table]]
        if not present:
            return []
        listed = ", ".join(map(_quoted, present))
        rows = self.query(f"SELECT {listed} FROM {_quoted(table)} NOT INDEXED LIMIT {self._most_rows(table)}")
        nothing = dict.fromkeys(columns)
        return [{**nothing, **dict(zip(present, map(_as_text, row), strict=True))} for row in rows]

    def texts_of(self, ids: Iterable[int]) -> dict[int, str]:
        """The text of each id in StringIds; an id that is not there is left out."""
        wanted = sorted(set(ids))
        found: dict[int, str] = {}
        for first in range(0, len(wanted), _IDS_PER_QUERY):
            listed = ", ".join(map(str, wanted[first : first + _IDS_PER_QUERY]))
            rows = self.query(f"SELECT id, CAST(value AS TEXT) FROM StringIds WHERE id IN ({listed})")
            texts = self._decoded("StringIds.value", [row[1] for row in rows])
            found.update({row[0]: text for row, text in zip(rows, texts, strict=True) if text is not None})
        return found

    def read(self, selections: Mapping[str, Selection]) -> dict[str, pl.DataFrame]:
        """The selected columns of several tables, in the order of the file: Int64 and String, with nulls."""
        if self._adbc is None:
            return {key: self._read_exactly(selection) for key, selection in selections.items()}
        parts = {key: self._parts(selection) for key, selection in selections.items()}
        with ThreadPoolExecutor(max_workers=max(2, min(4, os.cpu_count() or 1))) as pool:
            jobs = {key: [pool.submit(self._read_fast, sql) for sql in sqls] for key, sqls in parts.items()}
            done = {key: [job.result() for job in some] for key, some in jobs.items()}
        tables = {}
        for key, selection in selections.items():
            fast = [part for part in done[key] if part is not None]
            table = pl.concat(fast, rechunk=False) if len(fast) == len(done[key]) else None
            typed = None if table is None else self._typed(table, selection)
            tables[key] = self._read_exactly(selection) if typed is None else typed
        return tables

    # The fast reader.

    def _parts(self, selection: Selection) -> list[str]:
        """Queries that together give the rows in the order of their row ids."""
        sql = self._select(selection, "BLOB")
        try:
            table = _quoted(selection.table)
            # Two queries: one that asks for both ends reads every row.
            ends = (f"(SELECT {end}(_rowid_) FROM {table})" for end in ("min", "max"))
            first, last = self._query(f"SELECT {', '.join(ends)}")[0]
        except UNREADABLE:  # a table without row ids
            return [sql.format(where="")]
        if first is None or last - first < _SPLIT_ROWS:
            return [sql.format(where="")]
        middle = (first + last) // 2
        return [sql.format(where=f"WHERE _rowid_ {test}") for test in (f"<= {middle}", f"> {middle}")]

    def _read_fast(self, sql: str) -> pl.DataFrame | None:
        """The rows of a query, None where the driver cannot hold them in columns of one type."""
        assert self._adbc is not None
        driver, manager = self._adbc
        try:
            with (
                driver.connect(self._uri) as database,
                manager.AdbcConnection(database) as connection,
                manager.AdbcStatement(connection) as statement,
            ):
                statement.set_options(**{driver.StatementOptions.BATCH_ROWS.value: str(_BATCH_ROWS)})
                statement.set_sql_query(sql)
                stream, _ = statement.execute_query()
                return pl.DataFrame(stream)
        except (manager.Error, pl.exceptions.PolarsError):
            return None

    def _typed(self, table: pl.DataFrame, selection: Selection) -> pl.DataFrame | None:
        """The table, when every column is what it should be; None where single values have to be looked at."""
        self._check_height(table.height, selection.table)
        for name in selection.numbers:
            if table.schema[name] != pl.Int64():
                return None
        texts = []
        for name in selection.texts:
            column = table[name]
            if column.dtype == pl.Int64() and column.null_count() == len(column):  # never a value: a type by default
                texts.append(column.cast(pl.String))
            elif column.dtype == pl.Binary() and self._is_utf8:
                try:
                    texts.append(column.cast(pl.String))
                except pl.exceptions.ComputeError:  # not UTF-8
                    return None
            else:
                return None
        return table.with_columns(texts)

    # The exact reader.

    def _read_exactly(self, selection: Selection) -> pl.DataFrame:
        """The same columns, value by value."""
        sql = self._select(selection, "TEXT").format(where="")
        try:
            # A connection of its own: a query that fails must not end those of others.
            with closing(self._connect()) as connection:
                cursor = connection.execute(sql)
                chunks = []
                while rows := cursor.fetchmany(_FETCH_ROWS):
                    chunks.append(self._chunk(rows, selection))
        except UNREADABLE as error:
            raise self._damaged(error) from error
        if not chunks:
            dtypes = {**dict.fromkeys(selection.numbers, pl.Int64()), **dict.fromkeys(selection.texts, pl.String())}
            return pl.DataFrame(schema=dtypes)
        table = pl.concat(chunks, rechunk=True)
        self._check_height(table.height, selection.table)
        return table

    def _chunk(self, rows: list[tuple[Any, ...]], selection: Selection) -> pl.DataFrame:
        columns: dict[str, pl.Series] = {}
        for name, values in zip(selection.columns, zip(*rows, strict=True), strict=True):
            where = f"{selection.table}.{name}"
            if name in selection.texts:
                columns[name] = pl.Series(self._decoded(where, values), dtype=pl.String)
            else:
                columns[name] = self._whole_numbers(where, values)
        return pl.DataFrame(columns)

    def _whole_numbers(self, where: str, values: Sequence[Any]) -> pl.Series:
        try:
            return pl.Series(values, dtype=pl.Int64, strict=True)
        except (TypeError, OverflowError, pl.exceptions.PolarsError):
            return pl.Series([self._whole_number(where, value) for value in values], dtype=pl.Int64)

    def _whole_number(self, where: str, value: Any) -> int | None:
        """SQLite lets any value stand in any column: numbers as text are read exactly, what is none is unknown."""
        if value is None or isinstance(value, int):
            return value
        if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
            return int(value)
        if isinstance(value, bytes) and re.fullmatch(rb"\s*[+-]?\d{1,19}\s*", value) and abs(int(value)) < 2**63:
            self._diagnostics.add("numbers_as_text", 1, f"{where} holds {value!r:.40}")
            return int(value)
        self._diagnostics.add("event_unreadable", 1, f"{where} holds {value!r:.40}, no whole number")
        return None

    def _decoded(self, where: str, values: Iterable[Any]) -> list[str | None]:
        """UTF-8 bytes as text, with replacement characters where they are none."""
        texts: list[str | None] = []
        for value in values:
            if value is None:
                texts.append(None)
                continue
            try:
                texts.append(value.decode())
            except UnicodeDecodeError:
                texts.append(value.decode(errors="replace"))
                self._diagnostics.add("invalid_utf8", 1, f"{where}: {value!r:.60}")
        return texts

    # Both.

    def _select(self, selection: Selection, text_type: str) -> str:
        """The query, with a place for its condition.

        ``NOT INDEXED``, because an index that other tools have added would change the order of the rows.
        """
        columns = [_quoted(name) for name in selection.numbers]
        columns += [f"CAST({_quoted(name)} AS {text_type}) AS {_quoted(name)}" for name in selection.texts]
        listed = ", ".join(columns).replace("{", "{{").replace("}", "}}")
        table = _quoted(selection.table).replace("{", "{{").replace("}", "}}")
        limit = self._most_rows(selection.table)
        return f"SELECT {listed} FROM {table} NOT INDEXED {{where}} LIMIT {limit + 1}"

    def _most_rows(self, table: str) -> int:
        return self._size // (_SMALLEST_ROW_BYTES + len(self.tables[table]))

    def _check_height(self, height: int, table: str) -> None:
        if height > self._most_rows(table):
            found = f"an SQLite database that is damaged: {table} has more rows than the file has room for"
            raise refusal(self.path, found, "Export it again.")

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._uri, uri=True, check_same_thread=False)
        connection.text_factory = bytes
        connection.execute("PRAGMA trusted_schema = OFF")
        return connection

    def _query(self, sql: str) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._connection.execute(sql).fetchall()

    def _read_tables(self) -> dict[str, tuple[str, ...]]:
        # `typeof` and `CAST`, because nothing in a damaged schema is sure to be text.
        listed = self._query("SELECT CAST(name AS TEXT), CAST(sql AS TEXT) FROM sqlite_master WHERE type = 'table'")
        tables = {}
        for name, sql in listed:
            if sql is None or name is None or re.match(rb"\s*CREATE\s+VIRTUAL", sql, re.IGNORECASE):
                continue
            table = name.decode(errors="replace")
            # table_info leaves generated columns out, which are programs too.
            columns = self._query(f"PRAGMA table_info({_quoted(table)})")
            tables[table] = tuple(column[1].decode(errors="replace") for column in columns)
        return tables

    def _damaged(self, error: Exception) -> Exception:
        reason = " ".join(str(error).split())[:_LONGEST_REASON]
        found = f"an SQLite database that cannot be read ({reason})"
        return refusal(self.path, found, "The file is damaged: export it again.")


def _quoted(name: str) -> str:
    """A name as SQL."""
    return '"' + name.replace('"', '""') + '"'


def _as_text(value: Any) -> Any:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _adbc_driver(*, required: bool) -> tuple[Any, Any] | None:
    """The driver and its manager, where they are installed (the extra ``nsys``)."""
    if not required and importlib.util.find_spec("adbc_driver_sqlite") is None:
        return None
    driver = importlib.import_module("adbc_driver_sqlite")
    return driver, importlib.import_module("adbc_driver_manager")
