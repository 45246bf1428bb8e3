"""An SQLite export of Nsight Systems → a `Trace`. The steps are the lines of `read`, in their order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import polars as pl

from gpuviz.formats.kineto.calls import Calls, Ints
from gpuviz.formats.kineto.tables import conform
from gpuviz.formats.kineto.times import Timeline
from gpuviz.formats.nsys import activities, calls, layout, links, ranges, samples
from gpuviz.formats.nsys.about import About, read_about, schema_version
from gpuviz.formats.nsys.calltree import Tree, build_tree
from gpuviz.formats.nsys.database import Database, Reader, Selection
from gpuviz.formats.nsys.gpus import NO_ID, PLACE, Gpus, devices_of_contexts, find_gpus, places_of
from gpuviz.formats.nsys.hosts import Hosts, find_hosts, machine_of, nvtx_thread_names
from gpuviz.formats.nsys.identify import check_is_export
from gpuviz.formats.nsys.layout import column
from gpuviz.formats.nsys.lookup import Names
from gpuviz.formats.nsys.times import set_times
from gpuviz.formats.nsys.waits import sync_table
from gpuviz.model.diagnostics import Diagnostics
from gpuviz.model.trace import Trace, TraceMeta

_CONTROL = r"[\x00-\x1f\x7f]"
_GPU_ROWS = frozenset({*layout.GPU_WORK, layout.SYNCS})
_NAME_IDS = ("demangledName", "mangledName", "shortName", "nameId", "textId")


def read(source: Path, diagnostics: Diagnostics | None = None, *, reader: Reader | None = None) -> Trace:
    """The trace in an SQLite export. `reader` asks for one of the two ways to read the file; they give the same."""
    diagnostics = diagnostics or Diagnostics()
    with Database(source, diagnostics, reader) as database:
        return _read(database, source, diagnostics)


def _read(database: Database, source: Path, diagnostics: Diagnostics) -> Trace:
    check_is_export(database)
    chosen = layout.selections(database, schema_version(database))
    about = read_about(database, diagnostics)
    raw = database.read(chosen)
    _report_unread(database, chosen, raw, diagnostics)

    names = Names(database, _columns(raw.values(), _NAME_IDS), diagnostics)
    hosts, raw, nvtx_texts = _with_hosts(database, raw, names, diagnostics)
    gpus, raw = _with_devices(database, raw, hosts, diagnostics)
    kinds = activities.Kinds(database)
    timeline = set_times(_intervals(raw, names, nvtx_texts, hosts, gpus, kinds, diagnostics), _GPU_ROWS, diagnostics)
    counters = samples.counter_table(database, raw, hosts, gpus, kinds, timeline.t0_ns or 0)
    events = raw.get(layout.CUDA_EVENTS)
    has_overhead = layout.PROFILER_OVERHEAD in raw or layout.CUPTI_OVERHEAD in raw
    del raw

    host = timeline.tables["host"].with_columns(host_call_id=pl.int_range(pl.len(), dtype=pl.Int32))
    api = timeline.tables["api"].with_columns(api_id=pl.int_range(pl.len(), dtype=pl.Int32))
    api = api.with_columns(hosts.threads["process_id"].gather(api["thread_id"]).alias("process_id"))
    nested = calls.nest_calls(host, api, timeline.end_ns, diagnostics)
    host, api = _with_parents(host, api, nested)
    work, syncs = _with_launches(timeline, api, gpus)
    links.report(work, api, about.graph_mode, diagnostics)
    tree = build_tree(host, api, work, nested)
    host = host.with_columns(callpath_id=tree.host)
    api = api.with_columns(callpath_id=tree.api)
    found = {
        "processes": hosts.processes,
        "threads": hosts.threads,
        "devices": gpus.devices,
        "streams": gpus.streams,
        "frames": tree.frames,
        "callpaths": tree.callpaths,
        "host_calls": conform("host_calls", host),
        "api_calls": conform("api_calls", api),
        **_activity_tables(work, tree),
        "syncs": sync_table(syncs, api, events, gpus),
        "ranges": ranges.range_table(timeline.tables["ranges"], timeline.end_ns),
        "counters": counters,
    }
    _report_names(found, diagnostics)
    if not any(found[table].height for table in layout.GPU_WORK):
        hint = "was CUDA among the traced APIs (nsys profile --trace=cuda)?"
        diagnostics.add("no_gpu_activity", example=f"no table of kernels, copies or fills has rows; {hint}")
    found["diagnostics"] = diagnostics.table()
    overhead = calls.overhead_ns(host, has_overhead)
    return Trace(found, _meta(source, about, timeline, hosts, gpus, overhead))


def _columns(tables: Iterable[pl.DataFrame], names: tuple[str, ...]) -> list[pl.Series]:
    return [table[name] for table in tables for name in names if name in table.columns]


def _report_unread(
    database: Database,
    chosen: Mapping[str, Selection],
    raw: Mapping[str, pl.DataFrame],
    diagnostics: Diagnostics,
) -> None:
    counts = layout.unread_events(database, chosen)
    if layout.SAMPLES in raw:
        counts["call stacks of CPU samples"] = raw[layout.SAMPLES].height
    largest = sorted(counts.items(), key=lambda item: -item[1])[:5]
    diagnostics.add(
        "record_kind_ignored", sum(counts.values()), ", ".join(f"{what} ({count})" for what, count in largest)
    )


def _with_hosts(
    database: Database, raw: dict[str, pl.DataFrame], names: Names, diagnostics: Diagnostics
) -> tuple[Hosts, dict[str, pl.DataFrame], pl.Series | None]:
    """Processes and threads; the tables of GPU work with the row of their process."""
    nvtx = raw.get(layout.NVTX)
    texts = None if nvtx is None else ranges.nvtx_texts(nvtx, names)
    named = {} if nvtx is None or texts is None else nvtx_thread_names(nvtx, texts)
    calling = [key for key in raw if key.startswith(layout.CALL_PREFIX)]
    calling += [key for key in (layout.API, layout.NVTX, layout.CUPTI_OVERHEAD, layout.PROFILER_OVERHEAD) if key in raw]
    of_threads = [column(raw[key], "globalTid") for key in calling]
    seen = _columns((raw[key] for key in (layout.SCHEDULING, layout.SAMPLES) if key in raw), ("globalTid",))
    of_processes = [*_columns(raw.values(), ("globalPid",)), *seen]
    hosts = find_hosts(database, of_threads, of_processes, named, diagnostics)
    on_gpu = {}
    for key in (*layout.GPU_WORK, layout.SYNCS, layout.CUDA_EVENTS):
        if key in raw:
            process_id = hosts.process_of(column(raw[key], "globalPid"))
            if process_id.null_count() and hosts.processes.height == 1:
                process_id = process_id.fill_null(0)
            on_gpu[key] = raw[key].with_columns(process_id.alias("process_id"))
    return hosts, raw | on_gpu, texts


def _with_devices(
    database: Database, raw: dict[str, pl.DataFrame], hosts: Hosts, diagnostics: Diagnostics
) -> tuple[Gpus, dict[str, pl.DataFrame]]:
    """Devices and streams. A wait and an event lie where their context is: the exports of 2026 write device 0."""
    places = {}
    for key in (*layout.GPU_WORK, layout.SYNCS, layout.CUDA_EVENTS):
        if key in raw:
            places[key] = places_of(raw[key]).group_by(PLACE, maintain_order=True).len("rows")
    work = pl.concat([_no_places(), *(places[key] for key in layout.GPU_WORK if key in places)])
    contexts = work.group_by("process_id", "contextId", maintain_order=True).agg(pl.col("deviceId").first())
    contexts = _contexts(database, hosts, contexts)
    waiting = [_no_places()]
    for key in (layout.SYNCS, layout.CUDA_EVENTS):
        if key in raw:
            raw[key] = _on_own_device(raw[key], contexts)
            waiting.append(
                places_of(raw[key]).unique(maintain_order=True).with_columns(rows=pl.lit(0, dtype=pl.UInt32))
            )
    named = pl.concat([_peers(raw), *(_memory_places(raw, hosts))])
    every = pl.concat([work, *waiting]).group_by(PLACE, maintain_order=True).agg(pl.col("rows").sum())
    return find_gpus(database, hosts, every, named, diagnostics), raw


def _no_places() -> pl.DataFrame:
    numbers = dict.fromkeys(PLACE[1:], pl.Int64())
    return pl.DataFrame(schema={"process_id": pl.Int32(), **numbers, "rows": pl.UInt32()})


def _contexts(database: Database, hosts: Hosts, seen: pl.DataFrame) -> pl.DataFrame:
    """(process_id, contextId) → deviceId: as work shows it, else as the export lists it."""
    machines = {row: machine_of(key << 24) for key, row in hosts.process_ids.items() if key is not None}
    rows = {
        (machines[row], pid): row
        for row, pid in hosts.processes.select("process_id", "pid").iter_rows()
        if row in machines
    }
    listed = [
        (rows[where, pid], context, device)
        for (where, pid, context), device in devices_of_contexts(database).items()
        if (where, pid) in rows
    ]
    facts = pl.DataFrame(listed, schema=seen.schema, orient="row", strict=False)
    return pl.concat([seen, facts]).unique(["process_id", "contextId"], keep="first", maintain_order=True)


def _on_own_device(table: pl.DataFrame, contexts: pl.DataFrame) -> pl.DataFrame:
    key = ["process_id", "contextId"]
    table = table.with_columns(column(table, "contextId"), column(table, "deviceId"))
    own = contexts.rename({"deviceId": "own"})
    joined = table.join(own, on=key, how="left", nulls_equal=True, maintain_order="left")
    return joined.with_columns(deviceId=pl.coalesce("own", "deviceId")).drop("own")


def _peers(raw: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Devices that copies read or write."""
    none = pl.DataFrame(schema={"process_id": pl.Int32, "deviceId": pl.Int64})
    if layout.MEMCPYS not in raw:
        return none
    table = raw[layout.MEMCPYS]
    parts = [
        pl.DataFrame([table["process_id"], column(table, name).alias("deviceId")]).drop_nulls("deviceId").unique()
        for name in ("srcDeviceId", "dstDeviceId")
    ]
    # 0xFFFFFFFF is no device.
    return pl.concat([none, *parts]).filter(pl.col("deviceId").is_between(0, NO_ID - 1))


def _memory_places(raw: Mapping[str, pl.DataFrame], hosts: Hosts) -> list[pl.DataFrame]:
    if layout.MEMORY_USE not in raw:
        return []
    table = raw[layout.MEMORY_USE]
    process_id = hosts.process_of(column(table, "globalPid")).alias("process_id")
    return [pl.DataFrame([process_id, table["deviceId"]]).drop_nulls("deviceId").unique()]


def _intervals(
    raw: Mapping[str, pl.DataFrame],
    names: Names,
    nvtx_texts: pl.Series | None,
    hosts: Hosts,
    gpus: Gpus,
    kinds: activities.Kinds,
    diagnostics: Diagnostics,
) -> dict[str, pl.DataFrame]:
    """All tables of intervals, with the times of the export."""

    def of(key: str) -> pl.DataFrame:
        return raw[key] if key in raw else _empty(key)

    nvtx = of(layout.NVTX)
    texts = pl.Series([], dtype=pl.Categorical()) if nvtx_texts is None else nvtx_texts
    return {
        "host": calls.host_calls(raw, names, hosts),
        "api": calls.api_calls(of(layout.API), names, hosts),
        "ranges": ranges.nvtx_ranges(nvtx, texts, hosts, diagnostics),
        layout.KERNELS: activities.kernels(of(layout.KERNELS), names, gpus),
        layout.MEMCPYS: activities.memcpys(of(layout.MEMCPYS), kinds, gpus, diagnostics),
        layout.MEMSETS: activities.memsets(of(layout.MEMSETS), kinds, gpus),
        layout.GRAPH_RUNS: activities.graph_runs(of(layout.GRAPH_RUNS), gpus),
        layout.SYNCS: activities.syncs(of(layout.SYNCS), gpus),
    }


def _empty(key: str) -> pl.DataFrame:
    wanted = layout.WANTED[key]
    numbers = dict.fromkeys(wanted.numbers, pl.Int64())
    return pl.DataFrame(schema={**numbers, **dict.fromkeys(wanted.texts, pl.String()), "process_id": pl.Int32()})


def _with_parents(host: pl.DataFrame, api: pl.DataFrame, nested: Calls) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Both tables with depth, level, and the ids of what is around each row."""
    split = nested.hosts
    parent_host = _ids(nested.parent_host)
    host = host.with_columns(depth=pl.Series(nested.depth[:split]), parent_id=parent_host[:split])
    api = api.with_columns(
        depth=pl.Series(nested.depth[split:]),
        level=pl.Series(nested.level[split:]),
        host_call_id=parent_host[split:],
        parent_api_id=_ids(nested.parent_api[split:]),
    )
    return host, api


def _with_launches(timeline: Timeline, api: pl.DataFrame, gpus: Gpus) -> tuple[dict[str, pl.DataFrame], pl.DataFrame]:
    """GPU work and waits with the API call that caused them."""
    found = links.Launches.among(api)
    work = {}
    for table in layout.GPU_WORK:
        rows = timeline.tables[table]
        device_id = gpus.streams["device_id"].gather(rows["stream_id"]).alias("device_id")
        work[table] = links.link(rows.with_columns(device_id), found)
    return work, links.link(timeline.tables[layout.SYNCS], found)


def _activity_tables(work: Mapping[str, pl.DataFrame], tree: Tree) -> dict[str, pl.DataFrame]:
    first = 0
    tables = {}
    for table, rows in work.items():
        ids = pl.int_range(first, first + pl.len(), dtype=pl.Int32)
        numbered = rows.with_columns(activity_id=ids, api_id=pl.col("launch"), callpath_id=tree.work[table])
        tables[table] = conform(table, numbered)
        first += rows.height
    return tables


def _ids(rows: Ints) -> pl.Series:
    """Row numbers as ids; -1 is null."""
    found = pl.Series(rows.astype(np.int32))
    return found.set(found < 0, None)


def _report_names(tables: Mapping[str, pl.DataFrame], diagnostics: Diagnostics) -> None:
    """Names that hold control characters, counted by row; each distinct name is looked at once."""
    for table in ("host_calls", "api_calls", "kernels", "ranges"):
        names = tables[table]["name"]
        distinct = names.unique()
        bad = distinct.filter(distinct.cast(pl.String).str.contains(_CONTROL))
        if len(bad):
            diagnostics.add("control_characters", int(names.is_in(bad.implode()).sum()), f"{bad[0]!r:.80}")


def _meta(
    source: Path, about: About, timeline: Timeline, hosts: Hosts, gpus: Gpus, overhead_ns: int | None
) -> TraceMeta:
    t0_ns, start_ns = timeline.t0_ns, about.start_unix_ns
    return TraceMeta(
        title=source.name.removesuffix(".sqlite") or source.name,
        source=str(source),
        format="nsys",
        t0_unix_ns=None if t0_ns is None or start_ns is None else start_ns + t0_ns,
        t0_source_ns=t0_ns,
        end_ns=timeline.end_ns,
        overhead_ns=overhead_ns,
        versions=about.versions,
        properties={**about.properties, **gpus.properties, **hosts.names},
    )
