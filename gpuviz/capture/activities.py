"""Kernels, copies, fills and graph runs: CUPTI's records → the columns of their tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from gpuviz.capture.cupti.layouts import KERNEL_KINDS, Kind
from gpuviz.capture.cupti.records import Decoded, Records
from gpuviz.capture.times import Clock, Times, count_cases, known, series
from gpuviz.model import Diagnostics, schema

# CUPTI's copy kinds 0 to 10. Arrays (textures) lie on the device.
_COPY_KINDS = ("other", "HtoD", "DtoH", "HtoD", "DtoH", "DtoD", "DtoD", "DtoD", "DtoD", "HtoH", "PtoP")
# CUPTI's memory kinds 0 to 7; 6 and 7 are the static variants of device and managed.
_MEMORY_KINDS = ("unknown", "pageable", "pinned", "device", "array", "managed", "device", "managed")


@dataclass(frozen=True)
class Place:
    """Where the records ran and what they belong to, by the ids of the source."""

    correlation_id: npt.NDArray[np.uint32]
    device_id: npt.NDArray[np.uint32]
    context_id: npt.NDArray[np.uint32]
    stream_id: npt.NDArray[np.uint32]
    graph_id: npt.NDArray[np.uint32]
    graph_node_id: npt.NDArray[np.uint64]

    @staticmethod
    def of(records: Records) -> Place:
        """Read from the fields of the records; a graph run has no node."""
        has_node = "graph_node_id" in (records.dtype.names or ())
        return Place(
            records["correlation_id"],
            records["device_id"],
            records["context_id"],
            records["stream_id"],
            records["graph_id"],
            records["graph_node_id"] if has_node else np.zeros(len(records), dtype=np.uint64),
        )


@dataclass(frozen=True)
class Activities:
    """The records that become one table, in the order of the buffers. `own` holds the columns that only this table
    has; `peer_devices` those that name a device by its ordinal, with the mask of where they are known."""

    table: str
    times: Times
    name: pl.Series
    place: Place
    own: Mapping[str, pl.Series] = field(default_factory=dict)
    peer_devices: Mapping[str, tuple[npt.NDArray[np.uint32], npt.NDArray[np.bool_]]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.times)


def read_activities(
    decoded: Decoded, clock: Clock, names: Mapping[int, str], diagnostics: Diagnostics
) -> list[Activities]:
    """One `Activities` per activity table, in the order of `schema.ACTIVITY_TABLES`."""
    return [
        _kernels(decoded, clock, names, diagnostics),
        _memcpys(decoded, clock, diagnostics),
        _memsets(decoded.of(Kind.MEMSET), clock, diagnostics),
        _graph_runs(decoded.of(Kind.GRAPH_TRACE), clock, diagnostics),
    ]


def names_of(
    addresses: npt.NDArray[np.uint64], names: Mapping[int, str], what: str, diagnostics: Diagnostics
) -> pl.Series:
    """The text behind each pointer, looked up once per distinct pointer."""
    unique, index, counts = np.unique(addresses, return_inverse=True, return_counts=True)
    texts = []
    for address, count in zip(unique.tolist(), counts.tolist(), strict=True):
        text = names.get(address)
        if text is None:
            text = f"{what} at {address:#x}" if address else f"{what} without a name"
            diagnostics.add("name_unknown", count, text)
        texts.append(text)
    return pl.Series(texts, dtype=pl.Categorical()).gather(pl.Series(values=index.astype(np.int64)))


def _times(records: Records, what: str, clock: Clock, diagnostics: Diagnostics) -> Times:
    def describe(index: int) -> str:
        record = records[index]
        return f"{what} with correlation id {record['correlation_id']}: start {record['start']}, end {record['end']}"

    return clock.times(records["start"], records["end"], diagnostics, describe)


def _from_table(texts: tuple[str, ...], allowed: tuple[str, ...], codes: npt.NDArray[np.integer]) -> pl.Series:
    """The text of each code, the first one for codes beyond the table."""
    clipped = np.where(codes < len(texts), codes, 0).astype(np.int64)
    return pl.Series(texts, dtype=pl.Enum(allowed)).gather(pl.Series(values=clipped))


def _kernels(decoded: Decoded, clock: Clock, names: Mapping[int, str], diagnostics: Diagnostics) -> Activities:
    records = np.concatenate([decoded.of(kind) for kind in KERNEL_KINDS])
    shared = records["static_shared_memory"].astype(np.int64) + records["dynamic_shared_memory"]
    own = {
        axis: series(records[axis], pl.Int32(), known(records[axis]))
        for axis in ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
    }
    registers = records["registers_per_thread"]
    own["registers_per_thread"] = series(registers, pl.Int32(), known(registers))
    own["shared_memory_bytes"] = series(shared, pl.Int64())
    return Activities(
        "kernels",
        _times(records, "a kernel", clock, diagnostics),
        names_of(records["name_address"], names, "kernel", diagnostics),
        Place.of(records),
        own | _host_side_times(records, clock),
    )


def _host_side_times(records: Records, clock: Clock) -> dict[str, pl.Series]:
    """`queued_ns` and `submitted_ns` in Unix ns: recorded only where latency timestamps were on before CUDA."""
    columns = {}
    for name, values in (("queued_ns", records["queued"]), ("submitted_ns", records["submitted"])):
        usable = known(values) & clock.usable(values)
        columns[name] = series(clock.to_unix(values, usable), pl.Int64(), usable)
    return columns


def _memcpys(decoded: Decoded, clock: Clock, diagnostics: Diagnostics) -> Activities:
    plain, peer = decoded.of(Kind.MEMCPY), decoded.of(Kind.MEMCPY2)
    shared = [name for name in plain.dtype.names or () if name in (peer.dtype.names or ())]
    dtype = np.dtype([(name, plain.dtype[name]) for name in shared])
    records = np.zeros(len(plain) + len(peer), dtype=dtype)
    for name in shared:
        records[name] = np.concatenate((plain[name], peer[name]))
    copy_kind = records["copy_kind"]
    own = {
        "copy_kind": _from_table(_COPY_KINDS, schema.COPY_KINDS, copy_kind),
        "src_kind": _from_table(_MEMORY_KINDS, schema.MEMORY_KINDS, records["source_kind"]),
        "dst_kind": _from_table(_MEMORY_KINDS, schema.MEMORY_KINDS, records["destination_kind"]),
        "channel_id": series(records["channel_id"], pl.Int64(), known(records["channel_type"])),
        "size_bytes": _sizes(records),
    }
    count_cases(
        diagnostics,
        "copy_kind_unknown",
        (copy_kind == 0) | (copy_kind >= len(_COPY_KINDS)),
        lambda index: f"a copy of {records['bytes'][index]} bytes with copy kind {copy_kind[index]}",
    )
    ones = np.arange(len(records)) >= len(plain)
    none = np.zeros(len(plain), dtype=np.uint32)
    peers = {
        column: np.concatenate((none, peer[name]))
        for column, name in (
            ("src_device_id", "source_device_id"),
            ("dst_device_id", "destination_device_id"),
        )
    }
    return Activities(
        "memcpys",
        _times(records, "a copy", clock, diagnostics),
        _copy_names(own),
        Place.of(records),
        own,
        {column: (values, ones & (values != records["device_id"])) for column, values in peers.items()},
    )


def _sizes(records: Records) -> pl.Series:
    sizes = records["bytes"]
    return series(sizes, pl.Int64(), sizes < 2**63)


def _copy_names(own: Mapping[str, pl.Series]) -> pl.Series:
    """``Memcpy HtoD (Pageable -> Device)``: the text that PyTorch's traces have, so that both can be compared."""
    kinds = pl.DataFrame({name: own[name].cast(pl.String) for name in ("copy_kind", "src_kind", "dst_kind")})
    return kinds.select(
        pl.format(
            "Memcpy {} ({} -> {})",
            "copy_kind",
            pl.col("src_kind").str.to_titlecase(),
            pl.col("dst_kind").str.to_titlecase(),
        ).cast(pl.Categorical())
    ).to_series()


def _memsets(records: Records, clock: Clock, diagnostics: Diagnostics) -> Activities:
    memory = _from_table(_MEMORY_KINDS, schema.MEMORY_KINDS, records["memory_kind"]).cast(pl.String)
    return Activities(
        "memsets",
        _times(records, "a fill", clock, diagnostics),
        pl.select(pl.format("Memset ({})", memory.str.to_titlecase()).cast(pl.Categorical())).to_series(),
        Place.of(records),
        {
            "value": series(records["value"], pl.Int64()),
            "size_bytes": _sizes(records),
        },
    )


def _graph_runs(records: Records, clock: Clock, diagnostics: Diagnostics) -> Activities:
    if len(records):
        diagnostics.add(
            "graph_replay_without_kernels",
            len(records),
            f"graph {records['graph_id'][0]} with correlation id {records['correlation_id'][0]}",
        )
    names = pl.select(pl.format("graph {}", pl.Series(values=records["graph_id"])).cast(pl.Categorical())).to_series()
    return Activities("graph_runs", _times(records, "a graph run", clock, diagnostics), names, Place.of(records))
