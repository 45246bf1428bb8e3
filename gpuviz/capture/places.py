"""Where work ran: processes, threads, devices, streams, cells, and the row ids of each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt
import polars as pl

from gpuviz.capture.activities import Activities, names_of
from gpuviz.capture.backend import CellSource
from gpuviz.capture.cupti.layouts import Kind
from gpuviz.capture.cupti.records import Decoded, Records
from gpuviz.capture.recording import DeviceFacts, Recording
from gpuviz.capture.times import INVALID_ID, known
from gpuviz.model import Diagnostics, schema

OWN_PROCESS = 0

# CUPTI's stream flags: created with the default flag, non-blocking, and the null stream. Others stay unknown.
_STREAM_KINDS = {1: "blocking", 2: "non_blocking", 3: "legacy"}


class Processes:
    """Process ids → rows. Row 0 is the process that was captured."""

    def __init__(self, own_pid: int | None, pids: npt.NDArray[np.integer], host: str | None) -> None:
        seen = np.unique(pids).tolist()
        if own_pid is None and seen:
            own_pid = seen[int(np.argmax([np.count_nonzero(pids == pid) for pid in seen]))]
        self.own_pid = own_pid
        self._host = host
        others = [pid for pid in seen if pid != own_pid]
        self.rows = {pid: row for row, pid in enumerate([own_pid, *others])}

    def table(self) -> pl.DataFrame:
        """The table `processes`."""
        columns = {
            "process_id": range(len(self.rows)),
            "pid": list(self.rows),
            "host": [self._host] * len(self.rows),
            "rank": [None] * len(self.rows),
        }
        return pl.DataFrame(columns, schema=schema.TABLES["processes"].polars_schema)


class Threads:
    """(process row, CUPTI's number of a thread) → rows, numbered as they are asked for."""

    NOWHERE = -1  # the lane of what belongs to no thread that we know

    def __init__(self, names: Mapping[int, str]) -> None:
        self._names = names
        self._rows: dict[tuple[int, int], int] = {}

    def row(self, process: int, thread: int) -> int:
        """The row of this thread."""
        return self._rows.setdefault((process, thread), len(self._rows))

    def rows(self, process: npt.NDArray[np.int64], thread: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """The same for many, looked up once per distinct thread."""
        pairs = np.stack((process, thread), axis=1) if len(thread) else np.empty((0, 2), dtype=np.int64)
        unique, index = np.unique(pairs, axis=0, return_inverse=True)
        found = np.array([self.row(*pair) for pair in unique.tolist()], dtype=np.int32)
        return found[index.reshape(-1)] if len(found) else np.empty(0, dtype=np.int32)

    def table(self) -> pl.DataFrame:
        """The table `threads`."""
        columns = {
            "thread_id": list(self._rows.values()),
            "process_id": [process for process, _ in self._rows],
            "native_id": [None if thread == self.NOWHERE else thread for _, thread in self._rows],
            "name": [self._name(thread) for _, thread in self._rows],
        }
        return pl.DataFrame(columns, schema=schema.TABLES["threads"].polars_schema)

    def _name(self, thread: int) -> str:
        if thread == self.NOWHERE:
            return "CUPTI"
        return self._names.get(thread, f"thread {thread}")


class Devices:
    """Ordinals → rows."""

    def __init__(self, recording: Recording, decoded: Decoded, ordinals: Iterable[int]) -> None:
        self._records = {int(record["device_id"]): record for record in decoded.of(Kind.DEVICE)}
        self._recording = recording
        self.rows = {
            ordinal: row for row, ordinal in enumerate(sorted({*ordinals, *recording.devices, *self._records}))
        }

    def row_series(self, ordinals: npt.NDArray[np.integer], where: npt.NDArray[np.bool_]) -> pl.Series:
        """A column of row ids; null where `where` is false."""
        unique, index = np.unique(np.where(where, ordinals, 0), return_inverse=True)
        rows = np.array([self.rows.get(ordinal, -1) for ordinal in unique.tolist()], dtype=np.int32)
        return pl.Series(values=rows[index] if len(rows) else rows).set(pl.Series(values=~where), None)

    def table(self, diagnostics: Diagnostics) -> pl.DataFrame:
        """The table `devices`."""
        columns: dict[str, list[object]] = {name: [] for name in schema.TABLES["devices"].polars_schema}
        for ordinal, row in self.rows.items():
            facts = self._facts(ordinal, diagnostics)
            columns["device_id"].append(row)
            columns["process_id"].append(OWN_PROCESS)
            columns["ordinal"].append(ordinal & 0x7FFFFFFF)  # larger is garbage, which must not end a capture
            for name in list(columns)[3:]:
                columns[name].append(getattr(facts, name))
        return pl.DataFrame(columns, schema=schema.TABLES["devices"].polars_schema)

    def _facts(self, ordinal: int, diagnostics: Diagnostics) -> DeviceFacts:
        """What the CUPTI record says, completed by what the backend knows."""
        known_facts = self._recording.devices.get(ordinal, DeviceFacts())
        record = self._records.get(ordinal)
        if record is None:
            return known_facts
        warp = _positive(record["threads_per_warp"])
        warps = _positive(record["max_warps_per_multiprocessor"])
        major, minor = int(record["compute_capability_major"]), int(record["compute_capability_minor"])
        address = np.array([record["name_address"]], dtype=np.uint64)
        named = record["name_address"] or known_facts.name is None
        uuid = record["uuid"].tobytes()
        from_record: dict[str, object] = {
            "name": names_of(address, self._recording.names, "device", diagnostics)[0] if named else None,
            "uuid": _uuid_text(uuid) if any(uuid) else None,
            "compute_capability": f"{major}.{minor}" if major else None,
            "sm_count": _positive(record["multiprocessor_count"]),
            "memory_bytes": _positive(record["global_memory_size"], 63),
            "warp_size": warp,
            "max_threads_per_sm": warp * warps if warp and warps and warp * warps < 1 << 31 else None,
            "registers_per_sm": _positive(record["max_registers_per_multiprocessor"]),
            "shared_memory_per_sm_bytes": _positive(record["max_shared_memory_per_multiprocessor"], 63),
            "link_bytes_per_s": None,
        }
        merged = {name: getattr(known_facts, name) if value is None else value for name, value in from_record.items()}
        return DeviceFacts(**merged)  # type: ignore[arg-type]


def _positive(value: np.integer, bits: int = 31) -> int | None:
    """A count, where CUPTI knows one; one that no column could hold is garbage, and not known either."""
    return int(value) if known(np.asarray([value]))[0] and int(value) < 1 << bits else None


def _uuid_text(uuid: bytes) -> str:
    """As nvidia-smi writes it."""
    text = uuid.hex()
    return "GPU-" + "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


class Streams:
    """(device ordinal, context, stream) → rows."""

    def __init__(self, activities: list[Activities], decoded: Decoded) -> None:
        keys = [
            pl.DataFrame({"device": place.device_id, "context": place.context_id, "stream": place.stream_id})
            for place in (part.place for part in activities)
        ]
        used = pl.concat(keys).unique()
        contexts = decoded.of(Kind.CONTEXT)
        self.device_of_context = {
            **dict(used.select("context", "device").iter_rows()),
            **dict(zip(contexts["context_id"].tolist(), contexts["device_id"].tolist(), strict=True)),
        }
        waits = decoded.of(Kind.SYNCHRONIZATION)
        waited = pl.DataFrame({"context": waits["context_id"], "stream": waits["stream_id"]}).unique()
        of_waits = [
            (self.device_of_context[context], context, stream)
            for context, stream in waited.iter_rows()
            if stream != INVALID_ID and context in self.device_of_context
        ]
        every = pl.concat([used, pl.DataFrame(of_waits, schema=used.schema, orient="row")]).unique()
        self._keys = every.sort("device", "context", "stream").with_row_index("stream_id")
        self._kinds = _stream_kinds(decoded.of(Kind.STREAM), contexts)

    def row_series(self, device: pl.Series, context: pl.Series, stream: pl.Series) -> pl.Series:
        """A column of row ids; null where there is no such stream."""
        asked = pl.DataFrame({"device": device, "context": context, "stream": stream})
        found = asked.join(self._keys, on=["device", "context", "stream"], how="left", maintain_order="left")
        return found["stream_id"].cast(pl.Int32)

    @property
    def devices(self) -> list[int]:
        """The ordinals of the devices that have streams or contexts."""
        return [*self._keys["device"].unique().to_list(), *self.device_of_context.values()]

    def table(self, devices: Devices) -> pl.DataFrame:
        """The table `streams`."""
        rows = list(self._keys.iter_rows(named=True))
        columns = {
            "stream_id": [row["stream_id"] for row in rows],
            "device_id": [devices.rows[row["device"]] for row in rows],
            "process_id": [OWN_PROCESS] * len(rows),
            "context": [row["context"] for row in rows],
            "label": [str(row["stream"]) for row in rows],
            "number": [row["stream"] for row in rows],
            "kind": [self._kinds.get((row["context"], row["stream"]), "unknown") for row in rows],
        }
        return pl.DataFrame(columns, schema=schema.TABLES["streams"].polars_schema)


def _stream_kinds(streams: Records, contexts: Records) -> dict[tuple[int, int], str]:
    """(context, stream) → kind. A context names its null stream; a record of a stream tells how it was made."""
    null_streams = zip(contexts["context_id"].tolist(), contexts["null_stream_id"].tolist(), strict=True)
    kinds = dict.fromkeys(null_streams, "legacy")
    for context, stream, flag in zip(
        streams["context_id"].tolist(), streams["stream_id"].tolist(), streams["flag"].tolist(), strict=True
    ):
        kinds[context, stream] = _STREAM_KINDS.get(flag, kinds.get((context, stream), "unknown"))
    return kinds


class Cells:
    """Keys of `Recording.cells` → rows."""

    def __init__(self, cells: Mapping[str, CellSource]) -> None:
        self._cells = cells
        self.rows = {key: row for row, key in enumerate(cells)}

    @property
    def stable_keys(self) -> dict[int, str]:
        """Row → what names the cell in another run too: its id in the notebook file, else the hash of its text."""
        return {row: cell.jupyter_cell_id or _source_hash(cell.source) for row, cell in enumerate(self._cells.values())}

    def table(self) -> pl.DataFrame:
        """The table `cells`."""
        cells = list(self._cells.values())
        columns = {
            "cell_id": range(len(cells)),
            "jupyter_cell_id": [cell.jupyter_cell_id for cell in cells],
            "execution_count": [cell.execution_count for cell in cells],
            "source": [cell.source for cell in cells],
            "source_hash": [_source_hash(cell.source) for cell in cells],
        }
        return pl.DataFrame(columns, schema=schema.TABLES["cells"].polars_schema)


def _source_hash(source: str) -> str:
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()
