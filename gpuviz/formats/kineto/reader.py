"""A Kineto or Chrome trace in JSON → a `Trace`. The steps are the lines of `read`, in their order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from gpuviz.errors import TraceFileError
from gpuviz.formats.kineto import forward, links, tables, times
from gpuviz.formats.kineto.about import About, read_about
from gpuviz.formats.kineto.calls import Calls, Ints, nest_calls
from gpuviz.formats.kineto.calltree import Tree, build_tree
from gpuviz.formats.kineto.columns import GPU_TABLES, typed_columns
from gpuviz.formats.kineto.events import Records, collect
from gpuviz.formats.kineto.gpus import find_gpus
from gpuviz.formats.kineto.hosts import Hosts, find_hosts
from gpuviz.formats.kineto.text import TraceText
from gpuviz.model.diagnostics import Diagnostics
from gpuviz.model.trace import Trace, TraceMeta

_CONTROL = r"[\x00-\x1f\x7f]"


def read(data: bytes, source: Path, diagnostics: Diagnostics) -> Trace:
    """The trace in `data`, the text of `source`; what opening it already lost is in `diagnostics`."""
    text = TraceText(data, diagnostics)
    del data
    records = collect(text.events(), diagnostics)
    _check_is_trace(text, source)
    about = read_about(text.metadata, diagnostics)

    hosts = find_hosts(records, about, diagnostics)
    gpus = find_gpus(records, about, _is_nvidia(records, about), hosts.main_process, diagnostics)
    columns = typed_columns(records, hosts, gpus, diagnostics)
    if about.counts_ns:
        times.report_unpadded_digits([row[1] for row in records.host.rows], diagnostics)
    del records
    timeline = times.set_times(columns.intervals, GPU_TABLES, diagnostics)
    rows = tables.with_ids(timeline.tables)
    zero_ns = timeline.t0_ns or 0

    calls = nest_calls(rows["host"], rows["api"], timeline.end_ns, diagnostics)
    host, api = _with_parents(rows["host"], rows["api"], calls)
    gpu, syncs = _with_launches(rows["gpu"], rows["syncs"], api, diagnostics)
    flows = columns.flows.with_columns(pl.col("start_ns") - zero_ns)
    forward_of = forward.forward_calls(host, flows, diagnostics)
    tree = build_tree(host, api, gpu, calls)
    host, api, gpu = _with_callpaths(host, api, gpu, tree, forward_of)

    _report_names((host, api, gpu, rows["ranges"]), diagnostics)
    _report_no_gpu_work(gpu, diagnostics)
    found = {
        "processes": hosts.processes,
        "threads": hosts.threads,
        "devices": gpus.devices,
        "streams": gpus.streams,
        "frames": tree.frames,
        "callpaths": tree.callpaths,
        "host_calls": tables.conform("host_calls", host),
        "api_calls": tables.conform("api_calls", api),
        **tables.activity_tables(gpu),
        "syncs": tables.sync_table(syncs, api),
        "ranges": tables.range_table(rows["ranges"], rows["gpu_ranges"], timeline.end_ns),
        "counters": tables.counter_table(columns.counters, zero_ns, diagnostics),
        "diagnostics": diagnostics.table(),
    }
    return Trace(found, _meta(source, about, timeline, hosts))


def _check_is_trace(text: TraceText, source: Path) -> None:
    if text.has_events:
        return
    members = ", ".join(f"{key:.30}" for key in sorted(text.metadata)[:5])
    found = f"JSON without trace events (members: {members or 'none'})"
    raise TraceFileError(
        f"Tried to read {source} as a PyTorch (Kineto) or Chrome trace: found {found}. "
        "Export the trace again, or give the file that holds the traceEvents.",
        path=source,
        found=found,
        supported="JSON with an array traceEvents, or an array of trace events",
    )


def _is_nvidia(records: Records, about: About) -> bool:
    names = {row[0] for row in records.api.rows}
    return "cuda_runtime" in about.versions or any(name.startswith("cuda") for name in names)


def _with_parents(host: pl.DataFrame, api: pl.DataFrame, calls: Calls) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Both tables with depth, level, and the ids of what is around each row."""
    split = calls.hosts
    parent_host = _ids(calls.parent_host)
    host = host.with_columns(
        depth=pl.Series(calls.depth[:split]),
        level=pl.Series(calls.level[:split]),
        parent_id=parent_host[:split],
    )
    api = api.with_columns(
        depth=pl.Series(calls.depth[split:]),
        level=pl.Series(calls.level[split:]),
        host_call_id=parent_host[split:],
        parent_api_id=_ids(calls.parent_api[split:]),
    )
    return host, api


def _with_launches(
    gpu: pl.DataFrame, syncs: pl.DataFrame, api: pl.DataFrame, diagnostics: Diagnostics
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """GPU work and waits with the API call that caused them."""
    launches = links.launches(api)
    processes = api["process_id"].n_unique()
    gpu = links.before_the_window(links.link(gpu, launches, processes), api)
    links.report_links(gpu, diagnostics)
    links.report_graph_replays(gpu, api, diagnostics)
    return gpu, links.link(syncs, launches, processes)


def _with_callpaths(
    host: pl.DataFrame, api: pl.DataFrame, gpu: pl.DataFrame, tree: Tree, forward_of: Ints
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """The three tables with their nodes in the call tree, and the nodes of their forward calls."""
    host = host.with_columns(callpath_id=tree.host, forward_callpath_id=tree.host.gather(_ids(forward_of)))
    caller = api["host_call_id"].gather(gpu["launch"])
    gpu = gpu.with_columns(
        callpath_id=tree.gpu, forward_callpath_id=host["forward_callpath_id"].gather(caller), api_id="launch"
    )
    return host, api.with_columns(callpath_id=tree.api), gpu


def _ids(rows: Ints) -> pl.Series:
    """Row numbers as ids; -1 is null."""
    return pl.Series(rows.astype(np.int32)).replace(-1, None)


def _report_names(named: tuple[pl.DataFrame, ...], diagnostics: Diagnostics) -> None:
    """Compilers' configurations end up in names, with their control characters (pytorch/pytorch#130622)."""
    for table in named:
        bad = table["name"].filter(table["name"].str.contains(_CONTROL))
        diagnostics.add("control_characters", len(bad), f"{bad[0]!r:.80}" if len(bad) else None)


def _report_no_gpu_work(gpu: pl.DataFrame, diagnostics: Diagnostics) -> None:
    if not gpu.height:
        hint = "was the profiler stepped, was CUDA among its activities, was CUPTI found?"
        diagnostics.add("no_gpu_activity", example=hint)


def _meta(source: Path, about: About, timeline: times.Timeline, hosts: Hosts) -> TraceMeta:
    named = {f"process {pid}": name for pid, name in hosts.process_names.items()}
    t0_ns = timeline.t0_ns
    return TraceMeta(
        title=source.name.split(".")[0] or source.name,
        source=str(source),
        format="kineto",
        t0_unix_ns=None if t0_ns is None else times.unix_time(t0_ns, about.base_ns),
        t0_source_ns=t0_ns,
        end_ns=timeline.end_ns,
        versions=about.versions,
        properties={**about.properties, **named},
    )
