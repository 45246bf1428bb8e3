"""``.gpuviz`` files: exact round trips, and one kind of exception for everything that is wrong with a file."""

from __future__ import annotations

import json
import os
import resource
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuviz.errors import TraceFileError
from gpuviz.model import Trace, TraceMeta, schema, store
from tests.analysis.random_traces import traces
from tests.drawing import trace_from_text

TEXT = st.text(max_size=8)
VALUES: dict[type[pl.DataType], st.SearchStrategy[Any]] = {
    pl.Int32: st.integers(-(2**31), 2**31 - 1),
    pl.Int64: st.integers(-(2**63), 2**63 - 1),
    pl.UInt64: st.integers(0, 2**64 - 1),
    pl.Float64: st.floats(),
    pl.String: TEXT,
    pl.Categorical: TEXT,
}


@st.composite
def any_tables(draw: st.DrawFn) -> dict[str, pl.DataFrame]:
    """Tables with any values that their dtypes hold, lawful or not."""
    tables = {}
    for name in draw(st.sets(st.sampled_from(sorted(schema.TABLES)), max_size=3)):
        rows = draw(st.integers(1, 4))
        columns = {}
        for column in schema.TABLES[name].columns:
            dtype = column.dtype
            value = st.sampled_from(dtype.categories.to_list()) if isinstance(dtype, pl.Enum) else VALUES[type(dtype)]
            columns[column.name] = draw(st.lists(st.none() | value, min_size=rows, max_size=rows))
        tables[name] = pl.DataFrame(columns, schema=schema.TABLES[name].polars_schema)
    return tables


METAS = st.builds(
    TraceMeta,
    title=st.text(st.characters(), max_size=8),
    source=st.none() | TEXT,
    t0_unix_ns=st.none() | st.integers(0, 2**63 - 1),
    end_ns=st.integers(0, 2**63 - 1),
    window=st.none() | st.tuples(st.integers(), st.integers()),
    modelled=st.booleans(),
    dropped_records=st.none() | st.integers(0),
    versions=st.dictionaries(TEXT, TEXT, max_size=2),
    properties=st.dictionaries(TEXT, TEXT, max_size=2),
)


def same(one: Trace, other: Trace) -> bool:
    return one.meta == other.meta and all(one.table(name).equals(other.table(name)) for name in schema.TABLES)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    trace = trace_from_text("thread 1: fff\nthread 1: .A.\nstream 7: ..KK>>")
    return trace.save(tmp_path_factory.mktemp("saved") / "step.gpuviz")


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scratch") / "trace.gpuviz"


@given(any_tables(), METAS)
def test_any_tables_come_back_exactly(scratch: Path, tables: dict[str, pl.DataFrame], meta: TraceMeta) -> None:
    trace = Trace(tables, meta)
    assert same(store.load(trace.save(scratch)), trace)


@settings(max_examples=30)
@given(traces())
def test_a_trace_comes_back_exactly(scratch: Path, trace: Trace) -> None:
    assert same(store.load(trace.save(scratch)).validate(), trace)


def test_a_cut_trace_comes_back_cut(tmp_path: Path) -> None:
    cut = trace_from_text("stream 7: KK.LL").window(1_000, 4_000)
    assert same(store.load(cut.save(tmp_path / "cut.gpuviz")), cut)


def test_a_title_that_is_no_unicode_is_kept(tmp_path: Path) -> None:
    trace = Trace({}, TraceMeta(title=os.fsdecode(b"caf\xe9.json")))
    assert store.load(trace.save(tmp_path / "odd.gpuviz")).meta == trace.meta


def test_opening_reads_no_table(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    genuine = store._read_table

    def watched(source: Path, name: str, sha256: str) -> pl.DataFrame:
        read.append(name)
        return genuine(source, name, sha256)

    monkeypatch.setattr(store, "_read_table", watched)
    trace = store.load(saved)
    assert not read
    assert trace.memcpys.height == 1
    assert trace.memcpys.height == 1
    assert trace.memsets.height == 0
    assert read == ["memcpys"], "once, and only what was asked for"


def test_damage_is_found_in_the_table_that_is_used(saved: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.gpuviz"
    data = bytearray(saved.read_bytes())
    with zipfile.ZipFile(saved) as archive:
        place = archive.getinfo("kernels.parquet").header_offset + 60
    data[place] ^= 0xFF
    damaged.write_bytes(data)
    trace = store.load(damaged)
    assert trace.memcpys.height == 1
    with pytest.raises(TraceFileError, match="'kernels'") as caught:
        _ = trace.kernels
    assert caught.value.path == str(damaged)


def read_all(path: Path) -> None:
    assert store.load(path).tables["kernels"].height >= 0
    dict(store.load(path).tables)


@settings(max_examples=150)
@given(st.data())
def test_damaged_bytes_give_the_same_trace_or_a_clear_error(saved: Path, scratch: Path, data: st.DataObject) -> None:
    content = bytearray(saved.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    scratch.write_bytes(content)
    try:
        trace = store.load(scratch)
        tables = dict(trace.tables)
    except TraceFileError:
        return
    assert all(tables[name].equals(table) for name, table in store.load(saved).tables.items())


@settings(max_examples=60)
@given(st.data())
def test_a_truncated_file_is_refused(saved: Path, scratch: Path, data: st.DataObject) -> None:
    content = saved.read_bytes()
    scratch.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    with pytest.raises(TraceFileError):
        read_all(scratch)


@given(st.binary(max_size=64))
def test_other_bytes_are_refused(scratch: Path, content: bytes) -> None:
    scratch.write_bytes(content)
    with pytest.raises(TraceFileError):
        store.load(scratch)


def rewritten(saved: Path, target: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    """The file with another manifest; `change` returns it, or changes it in place."""
    with zipfile.ZipFile(saved) as source, zipfile.ZipFile(target, "w") as archive:
        for name in source.namelist():
            content = source.read(name)
            if name == store.MANIFEST:
                manifest = json.loads(content)
                content = json.dumps(change(manifest) or manifest).encode()
            archive.writestr(name, content)
    return target


@pytest.mark.parametrize("version", ["format_version", "schema_version"])
def test_an_unknown_version_says_what_was_found_and_what_is_supported(
    saved: Path, tmp_path: Path, version: str
) -> None:
    newer = rewritten(saved, tmp_path / "newer.gpuviz", lambda manifest: manifest.update({version: 99}))
    with pytest.raises(TraceFileError, match="this gpuviz reads") as caught:
        store.load(newer)
    assert "99" in str(caught.value.found)
    assert caught.value.supported == store.SUPPORTED


@pytest.mark.parametrize(
    "change",
    [
        lambda manifest: ["no object"],
        lambda manifest: manifest.update(format="other"),
        lambda manifest: manifest.pop("meta") and None,
        lambda manifest: manifest.pop("tables") and None,
        lambda manifest: manifest.update(meta=[1]),
        lambda manifest: manifest["meta"].update(window=5),
        lambda manifest: manifest["tables"].update(kernels=None),
        lambda manifest: manifest["tables"].update(kernels={}),
        lambda manifest: manifest["tables"]["kernels"].update(sha256=7),
        lambda manifest: manifest["tables"].update(secrets={"sha256": ""}),
        lambda manifest: manifest["tables"].update(ranges=manifest["tables"]["kernels"]),
    ],
)
def test_a_manifest_that_is_wrong_is_refused(saved: Path, tmp_path: Path, change: Any) -> None:
    with pytest.raises(TraceFileError):
        read_all(rewritten(saved, tmp_path / "wrong.gpuviz", change))


@pytest.mark.parametrize("content", [b"not Parquet", None], ids=["unreadable", "another table"])
def test_a_table_with_the_right_checksum_and_wrong_content_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    genuine = store._parquet_bytes
    monkeypatch.setattr(store, "_parquet_bytes", lambda table: content or genuine(pl.DataFrame({"a": [1]})))
    path = trace_from_text("stream 7: K").save(tmp_path / "wrong.gpuviz")
    with pytest.raises(TraceFileError, match="not that of the data model"):
        read_all(path)


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.gpuviz", tmp_path, tmp_path / "no\0name", tmp_path / ("x" * 400)):
        with pytest.raises(TraceFileError) as caught:
            store.load(path)
        assert caught.value.path == str(path)


def test_what_cannot_be_written(saved: Path, tmp_path: Path) -> None:
    trace = store.load(saved)
    folder = tmp_path / "folder.gpuviz"
    folder.mkdir()
    targets = [folder, tmp_path / "missing" / "x.gpuviz", saved / "x.gpuviz", tmp_path / ("x" * 400), "", "a\0b"]
    for target in targets:
        with pytest.raises(TraceFileError, match="Tried to write"):
            trace.save(target)
    assert [path.name for path in tmp_path.rglob("*")] == ["folder.gpuviz"], "nothing half-written is left"


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = trace_from_text("stream 7: K").save(tmp_path / "step.gpuviz")
    before = target.read_bytes()
    larger = trace_from_text("stream 7: " + "KL" * 200)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, hard))
    try:
        with pytest.raises(TraceFileError, match="Tried to write"):
            larger.save(target)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert target.read_bytes() == before
    assert list(tmp_path.iterdir()) == [target]


def test_an_interrupt_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = trace_from_text("stream 7: K").save(tmp_path / "step.gpuviz")
    before = target.read_bytes()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(zipfile.ZipFile, "writestr", interrupted)
    with pytest.raises(KeyboardInterrupt):
        trace_from_text("stream 7: L").save(target)
    assert target.read_bytes() == before
    assert list(tmp_path.iterdir()) == [target]
