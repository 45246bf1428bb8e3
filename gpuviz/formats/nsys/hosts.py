"""Processes and threads.

A global id packs ``hwId << 56 | vmId << 48 | pid << 24 | tid`` into 64 bits, signed: machine, process, thread. Rows of
GPU work carry the id of the process (tid 0), rows of threads that of the thread. Process ids of two machines, and of
two containers, may be equal; the upper bits tell them apart.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from gpuviz.formats.nsys.database import Database
from gpuviz.formats.nsys.lookup import mapped
from gpuviz.model import schema
from gpuviz.model.diagnostics import Diagnostics

_PID_SHIFT, _MACHINE_SHIFT = 24, 48
_LOW_24 = 0xFFFFFF
_NVTX_THREAD = 39


def machine_of(global_id: int) -> int:
    """What is above the process id: which machine, and which virtual machine on it."""
    return global_id >> _MACHINE_SHIFT


def machine(hardware: int | None, virtual: int | None) -> int:
    """The same from hwId and vmId, which tables of facts hold as two columns, unsigned."""
    both = ((hardware or 0) << 8) | (virtual or 0)
    return both - (1 << 16) if both >= 1 << 15 else both


def pid_of(global_id: int) -> int:
    """The process id of the operating system."""
    return (global_id >> _PID_SHIFT) & _LOW_24


def tid_of(global_id: int) -> int:
    """The thread id of the operating system, 0 in the id of a process."""
    return global_id & _LOW_24


@dataclass(frozen=True)
class Hosts:
    """The tables `processes` and `threads`, and the rows of global ids.

    A thread that is not recorded belongs to a process of which nothing is known, unless there is only one.
    """

    processes: pl.DataFrame
    threads: pl.DataFrame
    process_ids: Mapping[int | None, int]
    """Global id without its thread → process_id."""
    thread_ids: Mapping[int | None, int]
    """Global id → thread_id."""
    names: Mapping[str, str]
    """``process PID`` → the program, for the properties of the trace."""

    def process_of(self, ids: pl.Series) -> pl.Series:
        """process_id of each global id; null for null."""
        distinct = [value for value in ids.unique().to_list() if value is not None]
        return mapped(ids, {value: self.process_ids.get(value >> _PID_SHIFT) for value in distinct})

    def thread_of(self, ids: pl.Series) -> pl.Series:
        """thread_id of each global id; that of the thread that nobody knows for null."""
        found = mapped(ids, {key: row for key, row in self.thread_ids.items() if key is not None})
        return found.fill_null(self.thread_ids[None]) if None in self.thread_ids else found


def find_hosts(
    database: Database,
    of_threads: Sequence[pl.Series],
    of_processes: Sequence[pl.Series],
    nvtx_names: Mapping[int, str],
    diagnostics: Diagnostics,
) -> Hosts:
    """Number the processes and threads that rows lie on, in the order of their ids."""
    threads = _distinct(of_threads)
    keys = sorted({value >> _PID_SHIFT for value in threads | _distinct(of_processes)})
    process_ids: dict[int | None, int] = {key: row for row, key in enumerate(keys)}
    homeless = sum(ids.null_count() for ids in of_threads)
    order: list[int | None] = [*sorted(threads)]
    if homeless:
        diagnostics.add("event_without_place", homeless, "rows without globalTid: no thread")
        order.append(None)
        if len(keys) != 1:
            process_ids[None] = len(keys)
    thread_ids = {key: row for row, key in enumerate(order)}
    only = next(iter(process_ids.values()), 0)
    names = _thread_names(database, nvtx_names)
    thread_rows = {
        "thread_id": range(len(order)),
        "process_id": [process_ids.get(None, only) if key is None else process_ids[key >> _PID_SHIFT] for key in order],
        "native_id": [None if key is None else tid_of(key) for key in order],
        "name": ["unknown thread" if key is None else names.get(key) or f"thread {tid_of(key)}" for key in order],
    }
    machines = _machine_names(database)
    process_rows = {
        "process_id": range(len(process_ids)),
        "pid": [None if key is None else key & _LOW_24 for key in process_ids],
        "host": [None if key is None else machines.get(key >> _PID_SHIFT) for key in process_ids],
        "rank": [None] * len(process_ids),
    }
    return Hosts(
        processes=pl.DataFrame(process_rows, schema=schema.TABLES["processes"].polars_schema),
        threads=pl.DataFrame(thread_rows, schema=schema.TABLES["threads"].polars_schema),
        process_ids=process_ids,
        thread_ids=thread_ids,
        names=_process_names(database, process_ids),
    )


def nvtx_thread_names(nvtx: pl.DataFrame, names: pl.Series) -> dict[int, str]:
    """globalTid → the name that the program gave to the thread."""
    rows = nvtx.select("eventType", "globalTid").with_columns(name=names).filter(eventType=_NVTX_THREAD)
    return dict(rows.drop_nulls().select("globalTid", pl.col("name").cast(pl.String)).iter_rows())


def _distinct(ids: Sequence[pl.Series]) -> set[int]:
    return {value for one in ids for value in one.unique().to_list() if value is not None}


def _thread_names(database: Database, nvtx_names: Mapping[int, str]) -> dict[int, str]:
    """The name of highest priority; nsys ranks what the program said below what the system says."""
    rows = database.small_table("ThreadNames", ("globalTid", "nameId", "priority"))
    rows = [row for row in rows if isinstance(row["globalTid"], int) and isinstance(row["nameId"], int)]
    rows.sort(key=lambda row: row["priority"] if isinstance(row["priority"], int) else -1)
    texts = database.texts_of(row["nameId"] for row in rows)
    return {**nvtx_names, **{row["globalTid"]: texts.get(row["nameId"], "") for row in rows if row["nameId"] in texts}}


def _machine_names(database: Database) -> dict[int, str]:
    rows = database.small_table("TARGET_INFO_SYSTEM_ENV", ("globalVid", "name", "value"))
    return {
        machine_of(row["globalVid"]): str(row["value"])
        for row in rows
        if row["name"] == "Hostname" and row["value"] and isinstance(row["globalVid"], int)
    }


def _process_names(database: Database, process_ids: Mapping[int | None, int]) -> dict[str, str]:
    """Without the folder of the program, which may tell the name of its user."""
    rows = database.small_table("PROCESSES", ("globalPid", "name"))
    return {
        f"process {pid_of(row['globalPid'])}": re.split(r"[/\\]", str(row["name"]))[-1]
        for row in rows
        if isinstance(row["globalPid"], int) and row["globalPid"] >> _PID_SHIFT in process_ids and row["name"]
    }
