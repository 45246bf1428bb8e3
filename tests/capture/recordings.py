"""Small recordings, written out by hand; and random ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuviz.capture.cupti.layouts import Kind
from gpuviz.capture.cupti.records import Records, blank, encode
from gpuviz.capture.recording import ClockPair, Recording

VERSION = 130001
T0 = 1_800_000_000_000_000_000  # Unix ns at which every recording here begins
CLOCK = (ClockPair(T0, T0), ClockPair(T0 + 10**9, T0 + 10**9))
PROCESS, MAIN, WORKER = 4242, 0x1111, 0x2222
KERNEL_NAMES = {0xA000: "gemm", 0xB000: "relu"}
LAUNCH, MEMCPY_ASYNC, DRIVER_LAUNCH = 211, 41, 307


def record(kind: int, **fields: Any) -> Records:
    """One record; `start` and `end` count from T0, None is CUPTI's 0."""
    made = blank(kind, 1)
    for name, value in fields.items():
        if name in ("start", "end", "queued", "submitted"):
            value = 0 if value is None else T0 + value
        made[name] = value
    return made


def api(start: int | None, end: int | None, correlation: int, callback: int = LAUNCH, **fields: Any) -> Records:
    kind = fields.pop("kind", Kind.RUNTIME)
    place = {"process_id": PROCESS, "thread_id": MAIN, **fields}
    return record(kind, start=start, end=end, correlation_id=correlation, callback_id=callback, **place)


def kernel(start: int | None, end: int | None, correlation: int, name: int = 0xA000, **fields: Any) -> Records:
    place = {"stream_id": 7, "context_id": 1, "device_id": 0, **fields}
    return record(Kind.CONCURRENT_KERNEL, start=start, end=end, correlation_id=correlation, name_address=name, **place)


def memcpy(start: int | None, end: int | None, correlation: int, **fields: Any) -> Records:
    place = {"stream_id": 7, "context_id": 1, "device_id": 0, **fields}
    return record(Kind.MEMCPY, start=start, end=end, correlation_id=correlation, **place)


def buffer(records: Sequence[Records], version: int = VERSION) -> bytes:
    """The records, in this order, as bytes."""
    return encode(records, version).tobytes() if records else b""


def recording(*records: Records, **facts: Any) -> Recording:
    """A recording with these records in one buffer."""
    given: dict[str, Any] = {
        "title": "test",
        "source": "hand-made",
        "cupti_version": VERSION,
        "clock": CLOCK,
        "buffers": [buffer(records)],
        "names": KERNEL_NAMES,
        "process_id": PROCESS,
        **facts,
    }
    return Recording(**given)


def joined(records: Sequence[Records]) -> Records:
    return np.concatenate(records)
