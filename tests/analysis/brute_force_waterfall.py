"""Launches and what surrounds them once more, instant by instant and row by row."""

from __future__ import annotations

from typing import Any

import polars as pl

from gpuviz.analysis.host_kinds import COLLECTIVE, DATA_LOADER, HOST_KINDS, api_kinds, special_kinds
from gpuviz.model import Trace, Window
from tests.analysis.brute_force import (
    Row,
    activities,
    counted,
    device_time,
    instants,
    nodes,
    percentile,
    touches,
)

STAGES = ("lead_ns", "python_ns", "dispatch_ns", "api_ns", "queue_delay_ns", "gpu_ns")
PLAIN = ("python", "waiting", "operator", "other_call")


def touching_rows(trace: Trace, table: str, window: Window | None) -> list[Row]:
    return [row for row in trace.table(table).filter(timing="ok").iter_rows(named=True) if touches(row, window)]


def all_launches(trace: Trace) -> list[Row]:
    """Calls with the activities that they launched, by start of the call."""
    launched: dict[int, list[Row]] = {}
    for row in activities(trace):
        launched.setdefault(row["api_id"], []).append(row)
    calls = [row for row in trace.api_calls.iter_rows(named=True) if row["timing"] != "invalid"]
    return [row | {"launched": launched[row["api_id"]]} for row in calls if row["api_id"] in launched]


def in_flight(trace: Trace, window: Window | None) -> list[Row]:
    rows = []
    for call in all_launches(trace):
        begin, end = call["start_ns"], call["launched"][0]["start_ns"]
        if end > begin and (window is None or (begin < window[1] and end > window[0])):
            rows.append(call)
    return rows


def known_kind(function: Any, name: str) -> int:
    return int(function(pl.Series([name], dtype=pl.Categorical))[0])


def launch_stages(trace: Trace, window: Window | None) -> list[Row]:
    result = []
    seen: set[tuple[int, str]] = set()
    hosts = {row["host_call_id"]: row for row in touching_rows(trace, "host_calls", window)}
    calls = touching_rows(trace, "api_calls", window)
    overhead = [row for row in hosts.values() if row["category"] == "overhead"]
    begin = 0 if window is None else max(window[0], 0)
    for call in all_launches(trace):
        if not counted(call, window):
            continue
        first, start, end = call["launched"][0], call["start_ns"], call["end_ns"]
        operator = None
        around = hosts.get(call["host_call_id"])
        while around is not None and around["layer"] == "op":
            operator, around = around, hosts.get(around["parent_id"])
        while around is not None and around["layer"] not in ("python", "module"):
            around = hosts.get(around["parent_id"])
        ends_of_calls = [row["end_ns"] for row in calls if row["thread_id"] == call["thread_id"] and lasts(row)]
        ends_of_ops = [
            row["end_ns"]
            for row in hosts.values()
            if row["layer"] == "op" and row["thread_id"] == call["thread_id"] and lasts(row)
        ]
        dispatch = None if operator is None else operator["start_ns"]
        before = max((time for time in ends_of_calls if time <= start), default=-1)
        not_first = dispatch is not None and before >= dispatch
        limit = start if dispatch is None else dispatch
        free = max((time for time in [*ends_of_calls, *ends_of_ops] if time <= limit), default=-1)
        lead = before if not_first else max(free, -1 if around is None else around["start_ns"])
        dispatch = before if not_first else dispatch
        answer: Row = {
            "api_id": call["api_id"],
            "launch": call["name"],
            "thread_id": call["thread_id"],
            "callpath_id": call["callpath_id"],
            **{name: first[name] for name in ("table", "activity_id", "name", "device_id", "stream_id", "start_ns")},
            "activities": len(call["launched"]),
            "launch_start_ns": start,
            "launch_end_ns": end,
            "end_ns": max(row["end_ns"] for row in call["launched"]),
            "before_launch": first["start_ns"] < start,
            "first": (first["device_id"], first["name"]) not in seen,
        }
        answer["gpu_ns"] = answer["end_ns"] - first["start_ns"]
        seen.add((first["device_id"], first["name"]))
        if lead >= begin:
            answer["lead_ns"] = start - lead
        if dispatch is not None and dispatch >= begin:
            answer["dispatch_ns"] = start - dispatch
            if lead >= begin and (not_first or around is not None):
                answer["python_ns"] = dispatch - lead
        if end is not None:
            answer |= {"api_ns": end - start, "queue_delay_ns": max(first["start_ns"] - end, 0)}
            if overhead:
                answer["overhead_ns"] = len(instants([call], None) & instants(overhead, None))
        result.append(answer)
    return result


def lasts(row: Row) -> bool:
    return bool(row["end_ns"] > row["start_ns"])


def launch_tree(trace: Trace, window: Window | None) -> list[Row]:
    stages = launch_stages(trace, window)
    result = []
    for node in nodes(trace):
        below = [row for row in stages if row["callpath_id"] in node["below"]]
        answer = {column: node[column] for column in ("callpath_id", "parent_id", "depth", "layer", "name")}
        answer |= {"launches": len(below)}
        answer |= {name: sum(row[name] for row in below) for name in ("first", "before_launch")}
        for stage in STAGES:
            fair = [row for row in below if not (stage == "queue_delay_ns" and row["before_launch"])]
            values = [row[stage] for row in fair if row.get(stage) is not None]
            answer[stage] = sum(values) if values or not below else None
            if stage != "gpu_ns":
                answer[stage.removesuffix("_ns") + "_known"] = len(values)
        result.append(answer)
    return result


def host_rows(trace: Trace, window: Window | None) -> list[Row]:
    """Rows of host threads that last, outer before inner, each with its parent and its kind (a name)."""
    rows: list[Row] = []
    for source, table in enumerate(("ranges", "host_calls", "api_calls")):
        for row in touching_rows(trace, table, window):
            if row["thread_id"] is None or not lasts(row):
                continue
            kind = known_kind(api_kinds if table == "api_calls" else special_kinds, row["name"])
            wait = kind in (DATA_LOADER, COLLECTIVE)
            if table == "ranges" and not wait:
                continue
            name = HOST_KINDS[kind]
            if table == "host_calls" and not wait:
                name = {"op": "operator", "other": "other_call"}.get(row["layer"], name)
            if table == "host_calls" and row["category"] == "overhead":
                name = "overhead"
            rows.append(row | {"source": source, "own": name, "order": len(rows)})
    rows.sort(key=lambda row: (row["thread_id"], row["start_ns"], -row["end_ns"], row["order"]))
    for place, row in enumerate(rows):
        row["place"], row["parent"] = place, None
        for other in rows[:place]:
            if other["thread_id"] == row["thread_id"] and other["end_ns"] >= row["end_ns"]:
                row["parent"] = other
    for row in rows:
        row["outermost"] = row
        while chained(row["outermost"]) and row["outermost"]["parent"] and chained(row["outermost"]["parent"]):
            row["outermost"] = row["outermost"]["parent"]
    launching = {
        row["outermost"]["place"] for row in rows if row["source"] == 2 and row["own"] in ("launch_call", "copy_call")
    }
    for row in rows:
        row["kind"] = row["own"]
        top = row["outermost"]
        if row["own"] in ("operator", "other_call") and top["source"] != 2 and top["place"] in launching:
            row["kind"] = "dispatch"
        above: Row | None = row
        while above is not None and above["own"] not in ("data_loader", "collective"):
            above = above["parent"]
        if above is not None and (row["kind"] in PLAIN or (row["kind"], above["own"]) == ("sync", "collective")):
            row["kind"] = above["own"]
    return rows


def chained(row: Row) -> bool:
    return bool(row["own"] == "operator" or row["source"] == 2)


def innermost(rows: list[Row], thread_id: int, time: int) -> Row | None:
    """The open row of this thread that began last."""
    found = None
    for row in rows:
        if row["thread_id"] == thread_id and row["start_ns"] <= time < row["end_ns"]:
            found = row
    return found


def launch_budget(trace: Trace, window: Window | None) -> list[Row]:
    span = window or (0, trace.meta.end_ns)
    length = span[1] - span[0]
    if length <= 0:
        return []
    rows = host_rows(trace, span)
    started = [call for call in all_launches(trace) if counted(call, window)]
    result: list[Row] = []
    for thread_id in sorted({call["thread_id"] for call in [*started, *in_flight(trace, span)]}):
        buckets = [innermost(rows, thread_id, time) for time in range(*span)]
        names = ["nothing_recorded" if row is None else row["kind"] for row in buckets]
        keys: Row = {"side": "thread", "thread_id": thread_id}
        times = [(bucket, names.count(bucket)) for bucket in (*HOST_KINDS, "nothing_recorded")]
        result += [keys | {"bucket": bucket, "time_ns": time} for bucket, time in times if time]
    for device in device_time(trace, span):
        if "no_gpu_activity" not in trace.diagnostics["code"]:
            keys = {"side": "device", "device_id": device["device_id"]}
            times = [(name, device[f"{name}_ns"]) for name in ("kernel", "exposed_copy", "exposed_memset", "idle")]
            result += [keys | {"bucket": bucket, "time_ns": time} for bucket, time in times if time]
    return [row | {"share": row["time_ns"] / length} for row in result]


def depths(trace: Trace, span: Window, streams: set[int]) -> list[int]:
    """The depth at each instant."""
    ways = [
        (call["start_ns"], call["launched"][0]["start_ns"])
        for call in in_flight(trace, None)
        if call["launched"][0]["stream_id"] in streams
    ]
    return [sum(begin <= time < end for begin, end in ways) for time in range(*span)]


def queue_depth(trace: Trace, window: Window | None) -> list[Row]:
    span = window or (0, trace.meta.end_ns)
    result: list[Row] = []
    if "no_gpu_activity" in trace.diagnostics["code"]:
        return result
    for stream in trace.streams.iter_rows(named=True):
        keys = {"device_id": stream["device_id"], "stream_id": stream["stream_id"]}
        previous = None
        for time, depth in enumerate(depths(trace, span, {stream["stream_id"]}), start=span[0]):
            if depth != previous:
                result.append(keys | {"start_ns": time, "depth": depth})
            result[-1]["end_ns"] = time + 1
            previous = depth
    return result


def median_of(values: list[int]) -> int:
    return sorted(values)[(len(values) + 1) // 2 - 1]


def queue_depth_summary(trace: Trace, window: Window | None) -> list[Row]:
    span = window or (0, trace.meta.end_ns)
    result: list[Row] = []
    if "no_gpu_activity" in trace.diagnostics["code"]:
        return result
    alone = [row for row in activities(trace) if row["api_id"] is None and counted(row, window)]
    for stream in trace.streams.iter_rows(named=True):
        stream_id = stream["stream_id"]
        unlinked = sum(row["stream_id"] == stream_id for row in alone)
        answer: Row = {"device_id": stream["device_id"], "stream_id": stream_id, "without_launch": unlinked}
        depth = depths(trace, span, {stream_id})
        if depth and (any(depth) or not unlinked):
            answer |= {"median_depth": median_of(depth), "mean_depth": sum(depth) / len(depth)}
            answer |= {"max_depth": max(depth), "empty_ns": depth.count(0)}
        result.append(answer)
    return result


def launch_bound(trace: Trace, window: Window | None) -> list[Row]:
    result = []
    launches = [call for call in all_launches(trace) if counted(call, window)]
    for device in device_time(trace, window):
        device_id = device["device_id"]
        row: Row = {name: device.get(name) for name in ("device_id", "ordinal", "span_ns", "kernel_ns")}
        result.append(row)
        if "no_gpu_activity" in trace.diagnostics["code"]:
            row |= {"span_ns": None, "kernel_ns": None}
        if not row["span_ns"]:
            continue
        everything = [one for one in activities(trace) if one["device_id"] == device_id]
        span = window or (min(one["start_ns"] for one in everything), max(one["end_ns"] for one in everything))
        here = [call for call in launches if call["launched"][0]["device_id"] == device_id]
        unlinked = [one for one in everything if one["api_id"] is None and counted(one, window)]
        kernels = [one for one in everything if one["table"] == "kernels" and counted(one, window)]
        durations = [one["end_ns"] - one["start_ns"] for one in kernels]
        depth = depths(trace, span, {one["stream_id"] for one in everything})
        row |= {
            "kernel_share": row["kernel_ns"] / row["span_ns"],
            "launches": len(here),
            "without_launch": len(unlinked),
            "kernels": len(kernels),
            "median_depth": median_of(depth) if any(depth) else None,
            "short_kernels": sum(is_short(call) for call in here),
        }
        if kernels:
            row["mean_kernel_ns"] = sum(durations) / len(durations)
            row["nsys_ai_launch_bound"] = row["mean_kernel_ns"] < 10_000 and len(here) >= 100
        if row["kernel_share"] >= 0.5 or (row["median_depth"] or 0) > 1:
            row["launch_bound"] = False
        elif not unlinked and row["median_depth"] is not None:
            row["launch_bound"] = True
    return result


def is_short(call: Row) -> bool:
    if call["end_ns"] is None or call["launched"][0]["table"] != "kernels":
        return False
    length = max(row["end_ns"] for row in call["launched"]) - call["launched"][0]["start_ns"]
    return bool(length < call["end_ns"] - call["start_ns"])


def first_calls(trace: Trace, window: Window | None) -> list[Row]:
    stages = launch_stages(trace, window)
    result = []
    for row in stages:
        if not row["first"]:
            continue
        keys = (row["device_id"], row["table"], row["name"])
        later = [one for one in stages if not one["first"] and (one["device_id"], one["table"], one["name"]) == keys]
        answer: Row = {name: row[name] for name in ("device_id", "table", "name", "api_id", "callpath_id")}
        answer |= {"launch_start_ns": row["launch_start_ns"], "launches": len(later) + 1}
        answer |= {f"first_{name}_ns": row.get(f"{name}_ns") for name in ("lead", "api", "overhead")}
        excess = None
        for name in ("lead", "api"):
            median = percentile([one[f"{name}_ns"] for one in later if one.get(f"{name}_ns") is not None], 50)
            answer[f"later_{name}_p50_ns"] = median
            if median is not None and answer[f"first_{name}_ns"] is not None:
                excess = (excess or 0) + answer[f"first_{name}_ns"] - median
        answer["excess_ns"] = excess
        result.append(answer)
    unknown = float("inf")
    return sorted(result, key=lambda row: (unknown if row["excess_ns"] is None else -row["excess_ns"], row["api_id"]))
