"""Any JSON value in any place: a trace that keeps the laws, and no row is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.formats.events import call, document, kernel, launch, load_events, load_text, memcpy

STRANGE: list[Any] = [None, True, -1, 0, 2**70, 1.5, "", "x", "\ud800", [], [1], {}, {"a": 1}]


@pytest.mark.parametrize("key", ["ph", "cat", "name", "pid", "tid", "ts", "dur", "id", "args", "s"])
def test_strange_values_of_every_key(tmp_path: Path, key: str) -> None:
    """Whatever stands there: a trace that keeps the laws, and as many rows as the whole events need."""
    samples = [
        launch(1, 10),
        kernel(1, 20, 4),
        memcpy(1, 30, 4),
        call("a", 5, 50),
        call("r", 5, 50, cat="user_annotation"),
        call("r", 5, 50, cat="cuda_sync"),
        call("g", 5, 50, cat="gpu_user_annotation"),
        {
            "ph": "i",
            "s": "t",
            "name": "[memory]",
            "pid": 1,
            "tid": 1,
            "ts": 1,
            "args": {"Bytes": 1, "Device Type": 1},
        },
        {"ph": "C", "name": "c", "pid": 1, "ts": 1, "args": {"a": 1}},
        {"ph": "s", "cat": "fwdbwd", "id": 1, "pid": 1, "tid": 1, "ts": 1},
        {"ph": "B", "cat": "cpu_op", "name": "b", "pid": 1, "tid": 1, "ts": 1},
        {"ph": "b", "cat": "x", "name": "b", "id": 1, "pid": 1, "tid": 1, "ts": 1},
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "n"}},
    ]
    load_events(tmp_path, *[{**sample, key: value} for sample in samples for value in STRANGE])


ARGUMENTS = [
    "correlation", "device", "stream", "context", "grid", "block", "bytes", "registers per thread", "shared memory",
    "graph id", "graph node id", "fromDevice", "toDevice", "kind", "channel", "value", "Sequence number",
    "Fwd thread id", "Input Dims", "wait_on_stream", "wait_on_cuda_event_id", "cuda_sync_kind", "Device Id",
    "Device Type", "Total Allocated",
]  # fmt: skip


def test_strange_values_of_every_argument(tmp_path: Path) -> None:
    samples = [
        launch(1, 10),
        kernel(1, 20, 4),
        memcpy(1, 30, 4),
        call("a", 5, 50),
        call("r", 5, 50, cat="cuda_sync"),
    ]
    samples.append({"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": 1, "args": {}})
    events = [
        {**sample, "args": {**sample["args"], key: value}}
        for sample in samples
        for key in ARGUMENTS
        for value in STRANGE
    ]
    trace = load_events(tmp_path, *events)
    assert trace.kernels.height == trace.memcpys.height == len(ARGUMENTS) * len(STRANGE)


def test_strange_metadata(tmp_path: Path) -> None:
    keys = [
        "deviceProperties",
        "distributedInfo",
        "baseTimeNanoseconds",
        "displayTimeUnit",
        "host_name",
        "cupti_version",
    ]
    for value in STRANGE:
        load_events(tmp_path, kernel(1, 1, 1), **dict.fromkeys(keys, value))
        load_text(
            tmp_path,
            document([kernel(1, 1, 1)], deviceProperties=[{"id": value, "numSms": value, "name": value}]),
        )
