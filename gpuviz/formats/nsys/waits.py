"""Synchronisations: what waits for what."""

from __future__ import annotations

import polars as pl

from gpuviz.formats.kineto.tables import conform
from gpuviz.formats.nsys.gpus import Gpus, places_of
from gpuviz.formats.nsys.layout import column
from gpuviz.model import schema

# What a call waits for, by its name. Nsight Systems 2026.1 writes the type of a stream wait (2) for
# cudaStreamSynchronize, without an event; the call is right.
_BY_CALL = {
    "StreamWaitEvent": ("stream_wait_event", "Stream Wait Event"),
    "StreamSynchronize": ("stream", "Stream Sync"),
    "EventSynchronize": ("event", "Event Sync"),
    "DeviceSynchronize": ("context", "Context Sync"),
    "CtxSynchronize": ("context", "Context Sync"),
}


def sync_table(syncs: pl.DataFrame, api: pl.DataFrame, events: pl.DataFrame | None, gpus: Gpus) -> pl.DataFrame:
    """The table `syncs`. A stream waits in a stream-wait-event; in all others the calling thread does.

    The stream of a row is the one that waits, or the one that is waited for when a thread waits for a stream.
    """
    callers = api.select(launch="api_id", caller="thread_id", call="name")
    rows = syncs.join(callers, on="launch", how="left", maintain_order="left")
    rows = _kinds_by_call(rows)
    waits = pl.col("sync_kind") == "stream_wait_event"
    rows = rows.with_columns(
        thread_id=pl.when(~waits).then("caller"),
        stream_id=pl.when(waits).then("on_stream_id"),
        waited_stream_id=pl.when(pl.col("sync_kind") == "stream").then("on_stream_id"),
        waited_correlation_id=pl.lit(None, dtype=pl.Int64),
    )
    if events is not None:
        rows = _with_events(rows, events, gpus)
    return conform("syncs", rows.with_columns(api_id=pl.col("launch"), sync_id=pl.int_range(pl.len())))


def _kinds_by_call(rows: pl.DataFrame) -> pl.DataFrame:
    distinct = rows["call"].drop_nulls().unique().to_list()
    found = {call: kind for call in distinct for part, kind in _BY_CALL.items() if part in call}
    if not found:
        return rows
    kinds = pl.DataFrame(
        [(call, *kind) for call, kind in found.items()],
        schema={"call": pl.Categorical(), "kind": pl.Enum(schema.SYNC_KINDS), "kind_name": pl.Categorical()},
        orient="row",
    )
    joined = rows.join(kinds, on="call", how="left", maintain_order="left")
    return joined.with_columns(sync_kind=pl.coalesce("kind", "sync_kind"), name=pl.coalesce("kind_name", "name")).drop(
        "kind", "kind_name"
    )


def _with_events(rows: pl.DataFrame, events: pl.DataFrame, gpus: Gpus) -> pl.DataFrame:
    """Waits for an event wait for what its stream did before it: eventSyncId names the record of the event."""
    recorded = pl.DataFrame(
        [
            events["process_id"],
            column(events, "eventSyncId").alias("event_sync_id"),
            gpus.streams_of(places_of(events)).alias("recorded_on"),
            column(events, "correlationId").alias("recorded_by"),
        ]
    )
    recorded = recorded.filter(pl.col("event_sync_id") > 0).unique(
        ["process_id", "event_sync_id"], keep="last", maintain_order=True
    )
    joined = rows.join(recorded, on=["process_id", "event_sync_id"], how="left", maintain_order="left")
    of_event = pl.col("sync_kind").is_in(["event", "stream_wait_event"])
    return joined.with_columns(
        waited_stream_id=pl.when(of_event).then("recorded_on").otherwise("waited_stream_id"),
        waited_correlation_id=pl.when(of_event).then("recorded_by"),
    )
