"""Synchronisations: what waited for what, and when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from gpuviz.capture.cupti.layouts import Kind
from gpuviz.capture.cupti.records import Decoded, Records
from gpuviz.capture.host_calls import Calls
from gpuviz.capture.places import Devices, Streams
from gpuviz.capture.times import NONE, Clock, Times, known, pick, series
from gpuviz.model import Diagnostics, schema

if TYPE_CHECKING:
    from gpuviz.capture.assemble import Links

# CUPTI's synchronisation types 0 to 4, with the names that PyTorch's traces give them.
_KINDS = ("unknown", "event", "stream_wait_event", "stream", "context")
_NAMES = ("Synchronization", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync")
_STREAM_WAITS = _KINDS.index("stream_wait_event")
_FOR_STREAM = _KINDS.index("stream")


@dataclass(frozen=True)
class Waits:
    """The synchronisation records and their times."""

    records: Records
    times: Times

    def table(self, links: Links, calls: Calls, streams: Streams, devices: Devices, t0_unix_ns: int) -> pl.DataFrame:
        """The table `syncs`. A stream waits in a stream-wait-event; in all others the calling thread does."""
        records = self.records
        kind = np.where(records["synchronization_type"] < len(_KINDS), records["synchronization_type"], 0)
        code = pl.Series(values=kind.astype(np.int64))
        device = [streams.device_of_context.get(context) for context in records["context_id"].tolist()]
        ordinal = pl.Series(device, dtype=pl.UInt32())
        stream = streams.row_series(
            ordinal, pl.Series(values=records["context_id"]), pl.Series(values=records["stream_id"])
        )
        call = links.call_of(records["correlation_id"])
        thread = pick(calls.thread, call)
        thread_waits = (call != NONE) & (kind != _STREAM_WAITS)
        has_device = ordinal.is_not_null().to_numpy()
        ordinals = ordinal.fill_null(0).to_numpy()
        columns = {
            "correlation_id": series(records["correlation_id"], pl.Int64(), known(records["correlation_id"])),
            "api_id": links.api_ids(call),
            "name": pl.Series(_NAMES, dtype=pl.Categorical()).gather(code),
            **self.times.columns(t0_unix_ns),
            "sync_kind": pl.Series(_KINDS, dtype=pl.Enum(schema.SYNC_KINDS)).gather(code),
            "device_id": devices.row_series(ordinals, has_device),
            "thread_id": series(thread, pl.Int32(), thread_waits),
            "stream_id": stream.set(pl.Series(values=kind != _STREAM_WAITS), None),
            "event_id": series(records["event_id"], pl.Int64(), known(records["event_id"])),
            "waited_stream_id": stream.set(pl.Series(values=kind != _FOR_STREAM), None),
            "waited_correlation_id": pl.Series([None] * len(records), dtype=pl.Int64()),
        }
        table = pl.DataFrame(columns).sort("start_ns", nulls_last=True, maintain_order=True)
        ids = pl.int_range(0, table.height, dtype=pl.Int32, eager=True).alias("sync_id")
        return table.select(ids, *columns)


def read_waits(decoded: Decoded, clock: Clock, diagnostics: Diagnostics) -> Waits:
    """The synchronisations of a recording."""
    records = decoded.of(Kind.SYNCHRONIZATION)

    def describe(index: int) -> str:
        record = records[index]
        return f"a wait with correlation id {record['correlation_id']}: start {record['start']}, end {record['end']}"

    return Waits(records, clock.times(records["start"], records["end"], diagnostics, describe))
