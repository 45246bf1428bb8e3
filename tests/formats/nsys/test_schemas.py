"""Versions of the schema, values that do not fit, and what an export tells of its user."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from gpuviz.errors import TraceFileError
from gpuviz.formats import load
from gpuviz.formats.nsys import read
from tests.formats.nsys.exports import (
    PID,
    STRINGS,
    call,
    calls,
    codes,
    kernel,
    kernels,
    load_both,
    names,
    pid,
    tid,
    trace_of,
    write,
)

# The declarations of four tables as exports of 2020 and 2026 have them.
KERNEL_2020 = """start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
    streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL,
    shortName INTEGER NOT NULL, launchType INTEGER, cacheConfig INTEGER, registersPerThread INTEGER NOT NULL,
    gridX INTEGER NOT NULL, gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL,
    blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL, staticSharedMemory INTEGER NOT NULL,
    dynamicSharedMemory INTEGER NOT NULL, localMemoryPerThread INTEGER NOT NULL, localMemoryTotal INTEGER NOT NULL,
    gridId INTEGER NOT NULL, sharedMemoryExecuted INTEGER, graphNodeId INTEGER"""
KERNEL_2026 = KERNEL_2020 + ", mangledName INTEGER, greenContextId INTEGER, graphId INTEGER, clusterX INTEGER"
API = """start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER,
    correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL"""


def declared(path: Path, kernel_columns: str, version: dict[str, list[tuple[str, str]]]) -> Path:
    connection = sqlite3.connect(path)
    connection.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL ({kernel_columns})")
    connection.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME ({API})")
    connection.execute("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)")
    for table, rows in version.items():
        connection.execute(f"CREATE TABLE {table} (name TEXT NOT NULL, value TEXT)")
        connection.executemany(f"INSERT INTO {table} VALUES (?, ?)", rows)
    width = kernel_columns.count("INTEGER")
    row = [1000, 2000, 0, 1, 7, 5, pid(), 1, 2, 1, 1, 18, 6, 5, 4, 3, 2, 1, 16, 32, 0, 0, 1, 8192, None]
    row += [None] * (width - len(row))
    connection.execute(f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({', '.join('?' * width)})", row)
    connection.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (900, 950, 0, ?, 5, 3, 0)", [tid()])
    connection.executemany("INSERT INTO StringIds VALUES (?, ?)", list(STRINGS.items()))
    connection.commit()
    connection.close()
    return path


@pytest.mark.parametrize(
    ("columns", "version", "told"),
    [
        (KERNEL_2020, {}, {}),
        (KERNEL_2020, {"EXPORT_META_DATA": [("EXPORT_SCHEMA_VERSION", "2.9.1")]}, {"nsys_schema": "2.9.1"}),
        (
            KERNEL_2026,
            {"META_DATA_EXPORT": [("EXPORT_SCHEMA_VERSION", "3.25.0"), ("EXPORT_PRODUCT_VERSION", "2026.2.1.210")]},
            {"nsys_schema": "3.25.0", "nsight_systems": "2026.2.1.210"},
        ),
    ],
)
def test_schemas_of_2020_to_2026(
    tmp_path: Path, columns: str, version: dict[str, list[tuple[str, str]]], told: dict[str, str]
) -> None:
    trace = load_both(declared(tmp_path / "export.sqlite", columns, version))
    assert trace.meta.versions == told
    row = trace.kernels.row(0, named=True)
    assert (row["name"], row["grid_x"], row["block_z"], row["shared_memory_bytes"], row["api_id"]) == (
        STRINGS[1],
        6,
        1,
        48,
        0,
    )
    assert names(trace, "api_calls") == ["cudaLaunchKernel"]
    assert codes(trace) == {}


def test_missing_columns_are_all_named_with_the_version(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x.sqlite",
        {
            "CUPTI_ACTIVITY_KIND_KERNEL": [{"start": 1, "end": 2, "deviceId": 0, "streamId": 7, "demangledName": 1}],
            "CUPTI_ACTIVITY_KIND_MEMSET": [{"start": 1, "deviceId": 0}],
            "NVTX_EVENTS": [{"start": 1}],
            "META_DATA_EXPORT": [{"name": "EXPORT_SCHEMA_VERSION", "value": "9.1.2"}],
        },
    )
    connection = sqlite3.connect(path)
    connection.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN demangledName")
    connection.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN streamId")
    connection.commit()
    connection.close()
    with pytest.raises(TraceFileError) as caught:
        load(path)
    found = caught.value.found or ""
    assert "schema 9.1.2 without" in found
    assert "CUPTI_ACTIVITY_KIND_KERNEL.streamId" in found
    assert "CUPTI_ACTIVITY_KIND_KERNEL.demangledName or mangledName or shortName" in found
    assert "CUPTI_ACTIVITY_KIND_MEMSET.end" in found
    assert "NVTX_EVENTS" not in found  # has what it needs
    assert "nsys export" in str(caught.value)


def test_missing_column_without_a_version(tmp_path: Path) -> None:
    path = write(tmp_path / "x.sqlite", {"CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": [{"start": 1, "end": 2}]})
    connection = sqlite3.connect(path)
    connection.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION DROP COLUMN syncType")
    connection.commit()
    connection.close()
    with pytest.raises(TraceFileError, match=r"schema unknown \(no version row, as in 2020\) without .*\.syncType"):
        load(path)


def test_missing_strings(tmp_path: Path) -> None:
    path = write(tmp_path / "x.sqlite", kernels(kernel(1, 2)))
    connection = sqlite3.connect(path)
    connection.execute("DROP TABLE StringIds")
    connection.commit()
    connection.close()
    with pytest.raises(TraceFileError, match="without StringIds"):
        load(path)


def test_an_empty_table_may_lack_anything(tmp_path: Path) -> None:
    path = write(tmp_path / "x.sqlite", kernels(kernel(1, 2)))
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start)")
    connection.commit()
    connection.close()
    assert load_both(path).memcpys.height == 0


def test_an_absent_table_is_an_absent_feature(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, calls(call(900, 950, 5)))
    assert trace.api_calls.height == 1
    assert codes(trace) == {"no_gpu_activity": 1}


@pytest.mark.parametrize("suffix", ["_V2", "_V3"])
def test_tables_with_a_version(tmp_path: Path, suffix: str) -> None:
    table = "CUPTI_ACTIVITY_KIND_KERNEL"
    row = {**kernel(1, 2), "deviceId": 0, "contextId": 1, "streamId": 7, "demangledName": 1}
    assert trace_of(tmp_path, {table + suffix: [row]}).kernels.height == 1
    both = trace_of(tmp_path, {table: [row, row], table + suffix: [row]})
    assert both.kernels.height == 1
    assert codes(both)["record_kind_ignored"] == 2
    old = trace_of(tmp_path, {table: [row, row], f"{table}{suffix}0": [row], table + suffix: [row]})
    assert old.kernels.height == 1


def test_values_that_stand_in_the_wrong_column(tmp_path: Path) -> None:
    """SQLite lets any value stand anywhere, wherever in a table it comes."""
    many = [kernel(n, n + 1) for n in range(1, 70_000)]
    for at in (0, 60_000):
        odd = [*many]
        odd[at] = kernel(" 12 ", b"13", deviceId=0.0, correlationId=2.5, gridX="abc", bytes=None)  # type: ignore[arg-type]
        trace = trace_of(tmp_path, kernels(*odd))
        assert trace.kernels.height == len(many)
        assert codes(trace) == {"numbers_as_text": 2, "event_unreadable": 2, "launch_missing": len(many)}


def test_text_that_is_no_utf8(tmp_path: Path) -> None:
    rows = [{"start": n, "end": n + 1, "text": "ok", "globalTid": tid()} for n in range(5)]
    path = write(tmp_path / "x.sqlite", {**kernels(kernel(1, 2)), "NVTX_EVENTS": rows})
    connection = sqlite3.connect(path)
    connection.execute("UPDATE NVTX_EVENTS SET text = CAST(x'6bff' AS TEXT) WHERE start = 3")
    connection.execute("UPDATE StringIds SET value = CAST(x'fe6b' AS TEXT) WHERE id = 1")
    connection.commit()
    connection.close()
    trace = load_both(path)
    assert names(trace, "ranges") == ["ok", "ok", "ok", "k\ufffd", "ok"]
    assert names(trace, "kernels") == ["\ufffdk"]
    assert codes(trace)["invalid_utf8"] == 2


def test_names_with_control_characters(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, kernels(kernel(1, 2), kernel(2, 3)), strings={1: "a\nb\x01"})
    assert names(trace, "kernels") == ["a\nb\x01"] * 2
    assert codes(trace)["control_characters"] == 2


def test_text_in_utf16(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA encoding = 'UTF-16le'")
    connection.commit()
    connection.close()
    write(path, {**kernels(kernel(1, 2)), "NVTX_EVENTS": [{"start": 1, "end": 2, "text": "Übung", "globalTid": tid()}]})
    assert names(load_both(path), "ranges") == ["Übung"]


def test_names_of_api_calls(tmp_path: Path) -> None:
    shown = {
        "cudaMalloc_v3020": ("cudaMalloc", "runtime"),
        "cudaStreamGetCaptureInfo_v2_v11030": ("cudaStreamGetCaptureInfo_v2", "runtime"),
        "cuMemcpyHtoDAsync_v2": ("cuMemcpyHtoDAsync_v2", "driver"),
        "cuLaunchKernelEx": ("cuLaunchKernelEx", "driver"),
        "something": ("something", "driver"),
    }
    rows = [call(n, n + 1, nameId=10 + n, eventClass=1) for n in range(len(shown))]
    trace = trace_of(tmp_path, calls(*rows), strings={10 + n: name for n, name in enumerate(shown)})
    assert trace.api_calls.select("name", "api").rows() == list(shown.values())


def test_what_an_export_tells_of_its_user_stays_behind(tmp_path: Path) -> None:
    facts = {
        "EXPORT_PRODUCT_NAME": "NVIDIA Nsight Systems",
        "EXPORT_USER": "alice",
        "EXPORT_HOST": "alices-laptop",
        "EXPORT_INPUT_PATH_ABS": "/home/alice/x.nsys-rep",
        "EXPORT_PARAM_INPUT_FILE": "alice.nsys-rep",
        "PROCESS_0:ENVIRONMENT_VARIABLE": 'TOKEN="secret"',
        "PROCESS_0:ARGUMENT_1": "--password=secret",
        "PROCESS_0:COMMAND": "/home/alice/run",
        "PROCESS_0:WORKING_DIR": "/home/alice",
        "PROCESS_0:USER_NAME": "alice",
        "CUDA_TRACE_SCOPE": "ProcessTree",
    }
    system = {
        "NvDriverVersion": "580.95.05",
        "CudaDriverVersion": "13000",
        "DeviceEnvironment": "TOKEN=secret",
        "CpuCores": "18",
    }
    trace = trace_of(
        tmp_path,
        kernels(kernel(1, 2)),
        {
            "META_DATA_CAPTURE": [{"name": name, "value": value} for name, value in facts.items()],
            "TARGET_INFO_SYSTEM_ENV": [
                {"globalVid": 1 << 48, "name": name, "value": value} for name, value in system.items()
            ],
        },
    )
    assert trace.meta.versions == {"nvidia_driver": "580.95.05", "cuda_driver": "13.0"}
    assert trace.meta.properties == {
        "EXPORT_PRODUCT_NAME": "NVIDIA Nsight Systems",
        "CUDA_TRACE_SCOPE": "ProcessTree",
        "CPU cores": "18",
    }


def test_losses_that_the_recording_reports(tmp_path: Path) -> None:
    rows = [
        (1, "Some records were dropped."),
        (2, "Not all NVTX events might have been collected."),
        (2, "Unified Memory cannot be traced."),
    ]
    events = [{"timestamp": 1, "severity": severity, "text": text} for severity, text in rows]
    trace = trace_of(tmp_path, kernels(kernel(1, 2)), {"DIAGNOSTIC_EVENT": events})
    assert codes(trace) == {"records_dropped": 1, "launch_missing": 1}
    assert trace.meta.properties["message of the recording 2"] == "Unified Memory cannot be traced."
    assert trace.meta.dropped_records is None


def test_both_readers_can_be_asked_for(tmp_path: Path, adbc: None) -> None:
    path = write(tmp_path / "x.sqlite", kernels(*[kernel(n, n + 1) for n in range(1, 10)]))
    assert read(path, reader="adbc").kernels.equals(read(path, reader="stdlib").kernels)
    assert read(path).processes["pid"][0] == PID
