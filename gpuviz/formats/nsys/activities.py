"""Rows of GPU work and of waits → the columns of their tables."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from gpuviz.formats.nsys.database import Database
from gpuviz.formats.nsys.gpus import NO_ID, Gpus, places_of
from gpuviz.formats.nsys.layout import column
from gpuviz.formats.nsys.lookup import Names, first_present, looked_up
from gpuviz.model import schema
from gpuviz.model.diagnostics import Diagnostics

# The symbols of ENUM_CUDA_MEMCPY_OPER and ENUM_CUDA_MEM_KIND, without what they share, by their numbers. Exports of
# 2020 and 2022 do not say them; where an export does, its own numbers count. Arrays (textures) lie on the device.
_COPY_SYMBOLS = (
    *("UNKNOWN", "HTOD", "DTOH", "HTOA", "ATOH", "ATOA", "ATOD", "DTOA", "DTOD", "HTOH", "PTOP"),
    *("UVM_HTOD", "UVM_DTOH", "UVM_DTOD"),
)
_MEMORY_SYMBOLS = ("PAGEABLE", "PINNED", "DEVICE", "ARRAY", "MANAGED", "DEVICE_STATIC", "MANAGED_STATIC", "UNKNOWN")
_COPY_KINDS = {
    "HTOD": "HtoD",
    "DTOH": "DtoH",
    "HTOA": "HtoD",
    "ATOH": "DtoH",
    "ATOA": "DtoD",
    "ATOD": "DtoD",
    "DTOA": "DtoD",
    "DTOD": "DtoD",
    "HTOH": "HtoH",
    "PTOP": "PtoP",
    "UVM_HTOD": "HtoD",
    "UVM_DTOH": "DtoH",
    "UVM_DTOD": "DtoD",
}
_MEMORY_KINDS = {
    "PAGEABLE": "pageable",
    "PINNED": "pinned",
    "DEVICE": "device",
    "ARRAY": "array",
    "MANAGED": "managed",
    "DEVICE_STATIC": "device",
    "MANAGED_STATIC": "managed",
}


def _symbols(database: Database, table: str, prefix: str, known: tuple[str, ...]) -> dict[int, str]:
    """Number → symbol."""
    own = {
        row["id"]: str(row["name"]).removeprefix(prefix)
        for row in database.small_table(table, ("id", "name"))
        if isinstance(row["id"], int) and row["name"]
    }
    return {**dict(enumerate(known)), **own}


class Kinds:
    """What the numbers of copies and memories mean in one export."""

    def __init__(self, database: Database) -> None:
        self._copies = _symbols(database, "ENUM_CUDA_MEMCPY_OPER", "CUDA_MEMCPY_KIND_", _COPY_SYMBOLS)
        self._memories = _symbols(database, "ENUM_CUDA_MEM_KIND", "CUDA_MEMOPR_MEMORY_KIND_", _MEMORY_SYMBOLS)

    def copy(self, number: int | None) -> str:
        """A value of `schema.COPY_KINDS`."""
        return _COPY_KINDS.get(self._copies.get(number, "") if number is not None else "", "other")

    def is_unified(self, number: int | None) -> bool:
        """Whether the driver moved pages of managed memory, and no call asked for a copy."""
        return number is not None and self._copies.get(number, "").startswith("UVM")

    def memory(self, number: int | None) -> str:
        """A value of `schema.MEMORY_KINDS`."""
        return _MEMORY_KINDS.get(self._memories.get(number, "") if number is not None else "", "unknown")


def work_columns(table: pl.DataFrame, name: pl.Series, gpus: Gpus) -> pl.DataFrame:
    """What all tables of GPU work have. `table` holds the raw columns and `process_id`."""
    stream_id = gpus.streams_of(places_of(table))
    return pl.DataFrame(
        {
            "name": name,
            "start_ns": table["start"],
            "end_ns": table["end"],
            "process_id": table["process_id"],
            "correlation_id": column(table, "correlationId"),
            "stream_id": stream_id,
            "graph_id": _positive(column(table, "graphId")),
            "graph_node_id": _positive(column(table, "graphNodeId")),
        }
    )


def _positive(ids: pl.Series) -> pl.Series:
    """0 stands for none."""
    return ids if ids.null_count() == len(ids) else ids.set(ids <= 0, None)


def kernels(table: pl.DataFrame, names: Names, gpus: Gpus) -> pl.DataFrame:
    """The columns of `kernels`."""
    name = names.of(first_present(table, ("demangledName", "mangledName", "shortName")), "kernel name")
    sizes = {
        "grid_x": "gridX",
        "grid_y": "gridY",
        "grid_z": "gridZ",
        "block_x": "blockX",
        "block_y": "blockY",
        "block_z": "blockZ",
        "registers_per_thread": "registersPerThread",
    }
    own = {target: column(table, source).cast(pl.Int32, strict=False) for target, source in sizes.items()}
    static, dynamic = column(table, "staticSharedMemory"), column(table, "dynamicSharedMemory")
    return work_columns(table, name, gpus).with_columns(
        **own, shared_memory_bytes=static if dynamic.null_count() == len(dynamic) else static + dynamic
    )


def memcpys(table: pl.DataFrame, kinds: Kinds, gpus: Gpus, diagnostics: Diagnostics) -> pl.DataFrame:
    """The columns of `memcpys`; named as PyTorch's traces name copies, so that both can be compared."""
    codes = pl.DataFrame([column(table, name) for name in ("copyKind", "srcKind", "dstKind")])
    counts = codes.group_by(codes.columns, maintain_order=True).len()
    rows = []
    for number, source, target, count in counts.iter_rows():
        facts = (kinds.copy(number), kinds.memory(source), kinds.memory(target))
        if facts[0] == "other":
            diagnostics.add("copy_kind_unknown", count, f"a copy with copyKind {number}")
        unified = "Unified " if kinds.is_unified(number) else ""
        name = f"{unified}Memcpy {facts[0]} ({facts[1].capitalize()} -> {facts[2].capitalize()})"
        rows.append((number, source, target, *facts, name))
    texts = schema.TABLES["memcpys"].polars_schema
    shape: Mapping[str, pl.DataType] = {
        **dict.fromkeys(codes.columns, pl.Int64()),
        **{name: texts[name] for name in ("copy_kind", "src_kind", "dst_kind", "name")},
    }
    found = looked_up(codes, pl.DataFrame(rows, schema=shape, orient="row"))
    work = work_columns(table, found["name"], gpus)
    stream_device = gpus.streams["device_id"].gather(work["stream_id"])
    for end in ("src", "dst"):
        device = gpus.devices_of(table["process_id"], column(table, f"{end}DeviceId"))
        work = work.with_columns(device.set((device == stream_device).fill_null(False), None).alias(f"{end}_device_id"))
    return work.hstack(found.drop("name")).with_columns(size_bytes=column(table, "bytes"))


def memsets(table: pl.DataFrame, kinds: Kinds, gpus: Gpus) -> pl.DataFrame:
    """The columns of `memsets`."""
    numbers = column(table, "memKind")
    distinct = numbers.unique().to_list()
    rows = pl.DataFrame(
        {"memKind": distinct, "name": [f"Memset ({kinds.memory(number).capitalize()})" for number in distinct]},
        schema={"memKind": pl.Int64, "name": pl.Categorical},
    )
    name = looked_up(numbers.to_frame("memKind"), rows)["name"]
    return work_columns(table, name, gpus).with_columns(value=column(table, "value"), size_bytes=column(table, "bytes"))


def graph_runs(table: pl.DataFrame, gpus: Gpus) -> pl.DataFrame:
    """The columns of `graph_runs`."""
    name = pl.select(pl.format("graph {}", column(table, "graphId").cast(pl.String).fill_null("unknown"))).to_series()
    return work_columns(table, name.cast(pl.Categorical()), gpus)


# ENUM_CUPTI_SYNC_TYPE, the same in all exports that have it; the names are those of PyTorch's traces.
_SYNC_KINDS = ("unknown", "event", "stream_wait_event", "stream", "context")
_SYNC_NAMES = ("Synchronization", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync")


def syncs(table: pl.DataFrame, gpus: Gpus) -> pl.DataFrame:
    """Waits: name, times, ids and places; what waits for what is told when their calls are known."""
    kind = pl.col("syncType").is_between(1, len(_SYNC_KINDS) - 1)
    code = table.select(pl.when(kind).then("syncType").otherwise(0)).to_series()
    return pl.DataFrame(
        {
            "name": pl.Series(_SYNC_NAMES, dtype=pl.Categorical()).gather(code),
            "start_ns": table["start"],
            "end_ns": table["end"],
            "process_id": table["process_id"],
            "correlation_id": column(table, "correlationId"),
            "sync_kind": pl.Series(_SYNC_KINDS, dtype=pl.Enum(schema.SYNC_KINDS)).gather(code),
            "device_id": gpus.devices_of(table["process_id"], column(table, "deviceId")),
            "on_stream_id": gpus.streams_of(places_of(table)),
            "event_id": _meaningful(column(table, "eventId")),
            "event_sync_id": _meaningful(column(table, "eventSyncId")),
        }
    )


def _meaningful(ids: pl.Series) -> pl.Series:
    return ids.set((ids == NO_ID) | (ids < 0), None)
