"""Every analysis once more, as slowly and plainly as possible: sets of nanoseconds, loops over rows."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from gpuviz.model import Trace, Window, schema

type Row = dict[str, Any]

EVERYTHING = (-(10**6), 10**6)
GPU_LAYERS = ("kernel", "memcpy", "memset", "graph_run")
NO_CALLS = ("root", "group", "cell", "line")


def usable_rows(trace: Trace, *tables: str) -> list[Row]:
    device = trace.streams["device_id"].to_list()
    rows = []
    for name in tables:
        for row in trace.table(name).filter(timing="ok").iter_rows(named=True):
            extra = {"table": name, "device_id": device[row["stream_id"]]} if "stream_id" in row else {}
            rows.append(row | extra)
    return rows


def activities(trace: Trace) -> list[Row]:
    return sorted(usable_rows(trace, *schema.ACTIVITY_TABLES), key=lambda row: row["start_ns"])


def instants(rows: Iterable[Row], window: Window | None) -> set[int]:
    """The nanoseconds in which any of the rows runs."""
    first, last = window or EVERYTHING
    return {t for row in rows for t in range(max(row["start_ns"], first), min(row["end_ns"], last))}


def clipped(row: Row, window: Window | None) -> int:
    return len(instants([row], window))


def counted(row: Row, window: Window | None) -> bool:
    first, last = window or EVERYTHING
    return first <= row["start_ns"] < last


def touches(row: Row, window: Window | None) -> bool:
    return clipped(row, window) > 0 or counted(row, window)


def percentile(values: list[int], hundredths: int) -> int | None:
    ordered = sorted(values)
    return ordered[-(-hundredths * len(ordered) // 100) - 1] if ordered else None


def histogram(values: list[int]) -> list[int] | None:
    if not values:
        return None
    bins = [0] * 24
    least, most = max(min(values), 1), max(*values, 1)
    for value in values:
        place = 24 * math.log(max(value, 1) / least) / math.log(most * 1.0001 / least)
        bins[min(23, math.floor(place))] += 1
    return bins


def statistics(values: list[int]) -> Row:
    return {
        "mean_ns": sum(values) / len(values) if values else None,
        "min_ns": min(values, default=None),
        "p50_ns": percentile(values, 50),
        "p99_ns": percentile(values, 99),
        "max_ns": max(values, default=None),
        "histogram": histogram(values),
    }


def device_time(trace: Trace, window: Window | None) -> list[Row]:
    result = []
    for device in trace.devices.iter_rows(named=True):
        rows = [row for row in activities(trace) if row["device_id"] == device["device_id"]]
        row: Row = {"device_id": device["device_id"], "ordinal": device["ordinal"], "reliable": None}
        result.append(row)
        if not rows and window is None:
            continue
        row["reliable"] = True
        kernels, copies, memsets = (
            instants([one for one in rows if one["table"] in tables], window)
            for tables in (("kernels", "graph_runs"), ("memcpys",), ("memsets",))
        )
        ends = window or (min(one["start_ns"] for one in rows), max(one["end_ns"] for one in rows))
        busy = kernels | copies | memsets
        row |= {
            "span_ns": ends[1] - ends[0],
            "busy_ns": len(busy),
            "kernel_ns": len(kernels),
            "copy_ns": len(copies),
            "memset_ns": len(memsets),
            "hidden_copy_ns": len(kernels & copies),
            "exposed_copy_ns": len(copies - kernels),
            "exposed_memset_ns": len(memsets - copies - kernels),
            "idle_ns": ends[1] - ends[0] - len(busy),
        }
    return result


def launches(trace: Trace, window: Window | None) -> list[Row]:
    calls = {row["api_id"]: row for row in trace.api_calls.iter_rows(named=True)}
    seen: dict[int, int] = defaultdict(int)
    result = []
    for row in activities(trace):
        columns = (
            "table",
            "activity_id",
            "api_id",
            "correlation_id",
            "name",
            "start_ns",
            "end_ns",
            "stream_id",
            "device_id",
        )
        answer = {column: row[column] for column in columns}
        if row["api_id"] is not None:
            call = calls[row["api_id"]]
            usable = call["timing"] != "invalid"
            start, end = (call["start_ns"], call["end_ns"]) if usable else (None, None)
            answer |= {"launch_start_ns": start, "launch_end_ns": end, "launch_index": seen[row["api_id"]]}
            seen[row["api_id"]] += 1
            if start is not None:
                answer |= {"launch_latency_ns": row["start_ns"] - start, "before_launch": row["start_ns"] < start}
            if end is not None:
                answer["api_ns"] = end - start
                if answer["launch_index"] == 0:
                    answer["queue_delay_ns"] = max(0, row["start_ns"] - end)
        if counted(row, window):
            result.append(answer)
    return result


def launch_summary(trace: Trace, window: Window | None) -> list[Row]:
    result = []
    for device in trace.devices.iter_rows(named=True):
        rows = [row for row in launches(trace, window) if row["device_id"] == device["device_id"]]
        first = [row for row in rows if row.get("launch_index") == 0]
        answer: Row = {
            "device_id": device["device_id"],
            "ordinal": device["ordinal"],
            "activities": len(rows),
            "launches": len(first),
            "without_launch": sum(row["api_id"] is None for row in rows),
            "before_launch": sum(row.get("before_launch") is True for row in rows),
        }
        for what in ("launch_latency", "api", "queue_delay"):
            fair = [row for row in first if row.get("before_launch") is False]
            values = [row[f"{what}_ns"] for row in fair if row.get(f"{what}_ns") is not None]
            answer |= {f"{what}_p50_ns": percentile(values, 50), f"{what}_p99_ns": percentile(values, 99)}
        result.append(answer)
    return result


def copies(trace: Trace, window: Window | None) -> list[Row]:
    result = []
    kernels = usable_rows(trace, "kernels", "graph_runs")
    for row in usable_rows(trace, "memcpys"):
        if not touches(row, window):
            continue
        running = instants([one for one in kernels if one["device_id"] == row["device_id"]], window)
        own = instants([row], window)
        whole = row["end_ns"] - row["start_ns"]
        columns = ("activity_id", "device_id", "stream_id", "copy_kind", "src_kind", "dst_kind", "size_bytes")
        answer = {column: row[column] for column in (*columns, "start_ns", "end_ns")}
        answer |= {"duration_ns": len(own), "hidden_ns": len(own & running), "exposed_ns": len(own - running)}
        if whole and row["size_bytes"] is not None:
            answer["bytes_per_s"] = row["size_bytes"] * 1e9 / whole
        result.append(answer)
    return result


def copy_time(trace: Trace, window: Window | None) -> list[Row]:
    result = []
    for device in trace.devices.iter_rows(named=True):
        device_id = device["device_id"]
        kernels = [row for row in usable_rows(trace, "kernels", "graph_runs") if row["device_id"] == device_id]
        running = instants(kernels, window)
        for kind in schema.COPY_KINDS:
            rows = [row for row in usable_rows(trace, "memcpys") if touches(row, window)]
            rows = [row for row in rows if row["device_id"] == device_id and row["copy_kind"] == kind]
            if not rows:
                continue
            sizes = [row["size_bytes"] for row in rows if counted(row, window)]
            covered = instants(rows, window)
            result.append(
                {
                    "device_id": device_id,
                    "ordinal": device["ordinal"],
                    "copy_kind": kind,
                    "copies": len(sizes),
                    "size_bytes": None if None in sizes else sum(sizes),
                    "size_unknown": sizes.count(None),
                    "copy_ns": len(covered),
                    "hidden_ns": len(covered & running),
                    "exposed_ns": len(covered - running),
                }
            )
    return result


def nodes(trace: Trace) -> list[Row]:
    """The call paths, each with its frame, its children and all nodes below it."""
    frames = trace.frames.to_dicts()
    rows: list[Row] = []
    for path in trace.callpaths.iter_rows(named=True):
        frame = frames[path["frame_id"]]
        row = {column: path[column] for column in ("callpath_id", "parent_id", "depth")}
        rows.append(row | {"layer": frame["layer"], "name": frame["function"], "children": [], "below": set()})
        if path["parent_id"] is not None:
            rows[path["parent_id"]]["children"].append(rows[-1])
        above: int | None = path["callpath_id"]
        while above is not None:
            rows[above]["below"].add(path["callpath_id"])
            above = rows[above]["parent_id"]
    return rows


def gpu_time(trace: Trace, window: Window | None) -> list[Row]:
    gpu, host = activities(trace), usable_rows(trace, "host_calls", "api_calls")
    known = "no_gpu_activity" not in trace.diagnostics["code"]
    result = []
    for node in nodes(trace):
        at_node = [row for row in gpu if row["callpath_id"] == node["callpath_id"]]
        below = [row for row in gpu if row["callpath_id"] in node["below"]]
        own = at_node if node["layer"] in GPU_LAYERS else [r for r in host if r["callpath_id"] == node["callpath_id"]]
        durations = [row["end_ns"] - row["start_ns"] for row in below if counted(row, window)]
        answer = {column: node[column] for column in ("callpath_id", "parent_id", "depth", "layer", "name")}
        answer |= {
            "calls": None if node["layer"] in NO_CALLS else sum(counted(row, window) for row in own),
            "activities": len(durations) if known else None,
            "exclusive_ns": sum(clipped(row, window) for row in at_node) if known else None,
            "inclusive_ns": sum(clipped(row, window) for row in below) if known else None,
        }
        result.append(answer | statistics(durations))
    return result


def cpu_time(trace: Trace, window: Window | None) -> list[Row]:
    host = usable_rows(trace, "host_calls", "api_calls")
    tree = nodes(trace)
    for node in reversed(tree):
        own = [row for row in host if row["callpath_id"] == node["callpath_id"] and touches(row, window)]
        from_children = sum(child["inclusive_ns"] for child in node["children"])
        node["own"] = own
        node["inclusive_ns"] = sum(clipped(row, window) for row in own) if own else from_children
        node["exclusive_ns"] = max(0, node["inclusive_ns"] - from_children)
    result = []
    for node, gpu in zip(tree, gpu_time(trace, window), strict=True):
        durations = [row["end_ns"] - row["start_ns"] for row in node["own"] if counted(row, window)]
        answer = {
            column: gpu[column] for column in ("callpath_id", "parent_id", "depth", "layer", "name", "activities")
        }
        answer["calls"] = None if node["layer"] in NO_CALLS + GPU_LAYERS else len(durations)
        answer |= {"exclusive_ns": node["exclusive_ns"], "inclusive_ns": node["inclusive_ns"]}
        result.append(answer | statistics(durations))
    return result


def top_kernels(trace: Trace, window: Window | None) -> list[Row]:
    total = sum(clipped(row, window) for row in activities(trace))
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in usable_rows(trace, "kernels", "memcpys"):
        if touches(row, window):
            groups[row["table"], row["name"]].append(row)
    result = []
    for (table, name), rows in groups.items():
        durations = [row["end_ns"] - row["start_ns"] for row in rows if counted(row, window)]
        own = sum(clipped(row, window) for row in rows)
        answer = {"table": table, "name": name, "activities": len(durations), "total_ns": own}
        answer["share"] = own / total if total else None
        values = statistics(durations)
        result.append(answer | {column: values[column] for column in ("min_ns", "p50_ns", "p99_ns", "max_ns")})
    return sorted(result, key=lambda row: (-row["total_ns"], row["name"]))
