"""Processes and threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from gpuviz.formats.kineto.about import About
from gpuviz.formats.kineto.events import OVERHEAD_PLACE, HostPlace, Records
from gpuviz.formats.kineto.identity import Identity, identity, natural_order, number
from gpuviz.model import schema
from gpuviz.model.diagnostics import Diagnostics

type Labels = Mapping[tuple[str, Identity, Identity], str]


@dataclass(frozen=True)
class Hosts:
    """The tables `processes` and `threads`, and the thread of each host place."""

    processes: pl.DataFrame
    threads: pl.DataFrame
    thread_of_place: pl.Series
    process_ids: Mapping[Identity, int]
    """pid → process_id"""
    process_names: Mapping[Identity, str]
    """pid → name, where the file names it"""
    main_process: int | None
    """The process that the GPU work belongs to, where that is certain: the only one that calls the GPU."""


def find_hosts(records: Records, about: About, diagnostics: Diagnostics) -> Hosts:
    """Number the processes and threads that events lie on, and the processes that are labelled as such."""
    labels = {(what, identity(pid), identity(tid)): text for (what, pid, tid), text in records.labels.items()}
    labelled = [pid for (what, pid, _), text in labels.items() if what == "process_labels" and text == "CPU"]
    real = [_pid(pid) for pid, _ in records.host_places if pid != OVERHEAD_PLACE]
    pids = sorted({*real, *labelled}, key=natural_order)
    alone = pids[0] if len(pids) == 1 else None
    places = [_thread_of(place, alone) for place in records.host_places]
    for pid, _ in places:
        if pid not in pids:  # the profiler's own work, where its process is not known
            pids.append(pid)
    process_ids = {pid: process_id for process_id, pid in enumerate(pids)}
    threads = sorted(set(places), key=lambda thread: (process_ids[thread[0]], natural_order(thread[1])))
    thread_ids = {thread: thread_id for thread_id, thread in enumerate(threads)}
    _report_missing(records, diagnostics)
    calling = {places[row[3]][0] for row in records.api.rows}
    owners = calling or set(pids)
    main = process_ids[next(iter(owners))] if len(owners) == 1 else None
    return Hosts(
        processes=_process_table(pids, about, main),
        threads=_thread_table(threads, process_ids, labels),
        thread_of_place=pl.Series([thread_ids[place] for place in places], dtype=pl.Int32),
        process_ids=process_ids,
        process_names={
            pid: text for (what, pid, _), text in labels.items() if what == "process_name" and pid in process_ids
        },
        main_process=main,
    )


def _pid(value: Any) -> Identity:
    """-1 is nobody's pid."""
    found = identity(value)
    return None if found == -1 else found


def _thread_of(place: HostPlace, only_process: Identity) -> tuple[Identity, Identity]:
    pid, tid = place
    if pid == OVERHEAD_PLACE:
        return only_process, OVERHEAD_PLACE
    return _pid(pid), identity(tid)


def _process_table(pids: list[Identity], about: About, main: int | None) -> pl.DataFrame:
    columns = {
        "process_id": range(len(pids)),
        "pid": [number(pid) for pid in pids],
        "host": [about.host] * len(pids),
        # A file has one rank; whose it is, is certain for the process that calls the GPU.
        "rank": [about.rank if process_id == main else None for process_id in range(len(pids))],
    }
    return pl.DataFrame(columns, schema=schema.TABLES["processes"].polars_schema, strict=False)


def _thread_table(
    threads: list[tuple[Identity, Identity]], process_ids: Mapping[Identity, int], labels: Labels
) -> pl.DataFrame:
    columns = {
        "thread_id": range(len(threads)),
        "process_id": [process_ids[pid] for pid, _ in threads],
        "native_id": [number(tid) for _, tid in threads],
        "name": [labels.get(("thread_name", pid, tid)) or _name(tid) for pid, tid in threads],
    }
    return pl.DataFrame(columns, schema=schema.TABLES["threads"].polars_schema)


def _name(tid: Identity) -> str:
    if tid is None:
        return "unknown thread"
    return f"thread {tid}" if isinstance(tid, int) else tid


def _report_missing(records: Records, diagnostics: Diagnostics) -> None:
    missing = {
        index
        for index, (pid, tid) in enumerate(records.host_places)
        if pid != OVERHEAD_PLACE and (identity(pid) is None or identity(tid) is None)
    }
    if missing:
        rows = [row for table in (records.host, records.api, records.ranges) for row in table.rows if row[3] in missing]
        diagnostics.add("event_without_place", len(rows), f"{rows[0][0]!r:.60}: no thread" if rows else None)
