"""Files that are no export, are damaged, or are being written: one clear sentence, and nothing left beside them."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from gpuviz.errors import TraceFileError
from gpuviz.formats import load
from gpuviz.formats.nsys import read
from tests.formats.nsys.exports import call, calls, kernel, kernels, load_both, write


def refused(path: Path) -> str:
    with pytest.raises(TraceFileError) as caught:
        load(path)
    error = caught.value
    assert error.path == str(path)
    assert error.found
    assert error.supported
    assert "\n" not in str(error)
    return str(error)


def database(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    return path


def export(folder: Path, rows: int = 500) -> Path:
    work = [kernel(10 * n + 5, 10 * n + 9, n) for n in range(1, rows)]
    return write(
        folder / "export.sqlite", {**kernels(*work), **calls(*[call(10 * n, 10 * n + 2, n) for n in range(1, rows)])}
    )


@pytest.mark.parametrize(
    ("tables", "looks_like"),
    [
        (["cookies (a)", "meta (key, value)"], "cookies of a Chromium browser"),
        (["moz_cookies (a)"], "cookies of a Firefox"),
        (["moz_places (a)", "moz_bookmarks (a)"], "history of a Firefox"),
        (["urls (a)", "visits (a)"], "history of a Chromium"),
        (["history (a)", "sessions (a)", "output_history (a)"], "IPython"),
        (["rocpd_info_node_00003f (a)", "rocpd_kernel_dispatch_00003f (a)"], "rocprofv3"),
        (["rocpd_op (a)", "rocpd_api (a)", "rocpd_string (a)"], "rocmProfileData"),
        (["StringTable (_id_, value)", "CUPTI_ACTIVITY_KIND_KERNEL (_id_)"], "nvprof"),
        (["a (b)", "c (d)"], "the tables a, c"),
        ([f"t{n} (a)" for n in range(8)], "the tables t0, t1, t2, t3, t4 and 3 more"),
        ([], "without tables"),
    ],
)
def test_other_databases_are_named(tmp_path: Path, tables: list[str], looks_like: str) -> None:
    path = database(tmp_path / "x.sqlite", "PRAGMA user_version = 1", *[f"CREATE TABLE {table}" for table in tables])
    assert looks_like in refused(path)


def test_version_of_a_rocpd_database(tmp_path: Path) -> None:
    path = database(
        tmp_path / "x.db",
        "CREATE TABLE rocpd_info_node_0 (a)",
        "CREATE TABLE rocpd_metadata_0 (id, tag, value)",
        "INSERT INTO rocpd_metadata_0 VALUES (1, 'schema_version', '3.0.2')",
    )
    assert "(schema 3.0.2)" in refused(path)


@pytest.mark.parametrize("share", [0.001, 0.3, 0.99])
def test_truncated(tmp_path: Path, share: float) -> None:
    data = export(tmp_path).read_bytes()
    path = tmp_path / "cut.sqlite"
    path.write_bytes(data[: max(int(len(data) * share), 16)])
    told = refused(path)
    assert "cut off" in told
    assert f" of {len(data)} bytes" in told or share == 0.001


def test_overwritten_in_the_middle(tmp_path: Path) -> None:
    path = export(tmp_path, 5000)
    data = bytearray(path.read_bytes())
    data[4096:] = bytes(len(data) - 4096)
    path.write_bytes(data)
    assert "cannot be read" in refused(path)


def test_schema_that_is_no_sql(tmp_path: Path) -> None:
    path = export(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE", b"CREATE TAXLE"))
    assert "cannot be read" in refused(path)


def test_random_damage_never_does_more_than_refuse(tmp_path: Path) -> None:
    """Whatever is in the file: a trace that keeps the laws, or one sentence; through both readers."""
    whole = export(tmp_path, 300).read_bytes()
    dice = random.Random(7)
    path = tmp_path / "damaged.sqlite"
    read_anyway, sentences = 0, []
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(dice.choice((1, 3, 30))):
            data[dice.randrange(16, len(data))] = dice.randrange(256)
        path.write_bytes(data)
        for reader in ("stdlib", None):
            try:
                read(path, reader=reader).validate()  # type: ignore[arg-type]
            except TraceFileError as error:
                sentences.append(str(error))
            else:
                read_anyway += 1
    assert read_anyway > 20
    assert len(sentences) > 20
    assert not any("\n" in sentence for sentence in sentences)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["damaged.sqlite", "export.sqlite"]


def test_pages_that_point_to_one_page_do_not_yield_rows_without_end(tmp_path: Path) -> None:
    """Two levels of inner pages that name one page hundreds of times: 1 MB that would be 20 million rows."""
    path = export(tmp_path, 60_000)
    with closing(sqlite3.connect(path)) as connection:
        (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'CUPTI_ACTIVITY_KIND_KERNEL'"
        (root,) = connection.execute(query).fetchone()
    data = bytearray(path.read_bytes())

    def page(number: int) -> slice:
        return slice((number - 1) * page_bytes, number * page_bytes)

    def pointers(inner: bytearray) -> list[int]:
        """Where the numbers of the pages below stand in an inner page."""
        assert inner[0] == 5  # https://www.sqlite.org/fileformat2.html: an inner page of a table
        last = 12 + 2 * int.from_bytes(inner[3:5], "big")
        return [int.from_bytes(inner[at : at + 2], "big") for at in range(12, last, 2)]

    def number_at(inner: bytearray, place: int) -> int:
        return int.from_bytes(inner[place : place + 4], "big")

    inner = data[page(root)]
    inner = data[page(number_at(inner, pointers(inner)[0]))]  # the root itself has few pointers
    cells = pointers(inner)
    first, second = (number_at(inner, place) for place in cells[:2])
    assert len(cells) > 100
    for number, target in ((second, first), (root, second)):  # the second leaf becomes an inner page too
        for cell in cells:
            inner[cell : cell + 4] = target.to_bytes(4, "big")
        inner[8:12] = target.to_bytes(4, "big")
        data[page(number)] = inner
    path.write_bytes(data)
    for reader in ("stdlib", None):
        with pytest.raises(TraceFileError, match="more rows than the file has room for"):
            read(path, reader=reader)  # type: ignore[arg-type]


def test_locked_by_a_writer(tmp_path: Path) -> None:
    path = export(tmp_path)
    code = (
        f"import sqlite3, sys; connection = sqlite3.connect({str(path)!r}); connection.execute('BEGIN EXCLUSIVE'); "
        "print(1, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        assert "another program has locked" in refused(path)
        writer.communicate(b"")
    assert load(path).kernels.height == 499


def test_written_without_an_end(tmp_path: Path) -> None:
    path = export(tmp_path)
    journal = tmp_path / "export.sqlite-journal"
    journal.write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + bytes(20))
    assert "export.sqlite-journal" in refused(path)
    journal.write_bytes(bytes(512))  # how SQLite leaves a journal that it keeps
    assert load(path).kernels.height == 499


def test_content_that_is_in_the_log_only(tmp_path: Path) -> None:
    path = export(tmp_path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE start > 100")
        connection.commit()
        copied = tmp_path / "copy"
        copied.mkdir()
        for suffix in ("", "-wal"):
            shutil.copy(f"{path}{suffix}", copied)
        assert "export.sqlite-wal" in refused(copied / "export.sqlite")
    # Closed, the log is empty, and the database still says that it has one.
    assert sorted(file.name for file in tmp_path.iterdir()) == ["copy", "export.sqlite"]
    assert load(path).kernels.height == 9
    assert sorted(file.name for file in tmp_path.iterdir()) == ["copy", "export.sqlite"]


def test_nothing_is_created_and_a_read_only_folder_suffices(tmp_path: Path) -> None:
    folder = tmp_path / "a folder with # and ? and %41"
    folder.mkdir()
    path = export(folder)
    before = path.read_bytes()
    path.chmod(0o444)
    folder.chmod(0o555)
    try:
        assert load_both(path).kernels.height == 499
        assert os.listdir(folder) == ["export.sqlite"]
    finally:
        folder.chmod(0o755)
    assert path.read_bytes() == before


def test_views_virtual_tables_and_generated_columns_are_programs_and_not_read(tmp_path: Path) -> None:
    endless = "WITH RECURSIVE n(start) AS (SELECT 1 UNION ALL SELECT start + 1 FROM n) SELECT start FROM n"
    path = export(tmp_path)
    database(
        path,
        f"CREATE VIEW NVTX_EVENTS AS {endless}",
        f"CREATE VIEW CUPTI_ACTIVITY_KIND_MEMSET AS {endless}",
        f"CREATE VIEW ThreadNames AS {endless}",
        "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN gridX AS (abs(-9223372036854775808)) VIRTUAL",
    )
    trace = load_both(path)
    assert trace.kernels["grid_x"].null_count() == 499
    assert trace.memsets.height == trace.ranges.height == 0


def test_names_of_tables_and_columns_are_no_sql(tmp_path: Path) -> None:
    odd = 'OSRT"; DROP TABLE x; --{where}'
    path = write(tmp_path / "x.sqlite", {**kernels(kernel(1, 2)), odd: [call(10, 20, nameId=2, **{'a"{b}': 1})]})
    assert load_both(path).host_calls.height == 1


def test_an_export_without_rows(tmp_path: Path) -> None:
    path = database(
        tmp_path / "x.sqlite", "CREATE TABLE StringIds (id, value)", "CREATE TABLE META_DATA_EXPORT (name, value)"
    )
    trace = load_both(path)
    assert [name for name, table in trace.tables.items() if table.height] == ["frames", "callpaths", "diagnostics"]
