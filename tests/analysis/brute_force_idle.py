"""Idle time once more: what each thread was doing at each idle nanosecond."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise

import polars as pl

from gpuviz.analysis.host_kinds import HOST_KINDS
from gpuviz.model import Trace, Window
from tests.analysis.brute_force import Row, activities, counted, device_time, instants
from tests.analysis.brute_force_waterfall import all_launches, host_rows, in_flight, innermost, median_of


def idle(trace: Trace, window: Window | None, causes: str = "gpuviz") -> list[Row]:
    if causes == "hta":
        return idle_as_hta(trace, window)
    result: list[Row] = []
    rows = host_rows(trace, window)
    known = "no_gpu_activity" not in trace.diagnostics["code"]
    for device in device_time(trace, window):
        own = [row for row in activities(trace) if row["device_id"] == device["device_id"]]
        if device.get("span_ns") is None or not known:
            continue
        busy = instants(own, window)
        span = window or (min(row["start_ns"] for row in own), max(row["end_ns"] for row in own))
        waits = [
            call | {"gpu": call["launched"][0]["start_ns"]}
            for call in in_flight(trace, window)
            if call["launched"][0]["device_id"] == device["device_id"]
        ]
        waits = [call for call in waits if call["end_ns"] is not None and call["end_ns"] < call["gpu"]]
        for gap in runs([None if time in busy else 0 for time in range(*span)], span[0]):
            where = "between"
            if not busy:
                where = "no_activity"
            elif gap[2] <= min(busy):
                where = "before_first"
            elif gap[1] > max(busy):
                where = "after_last"
            doing = [at(trace, rows, waits, time) for time in range(gap[1], gap[2])]
            for (cause, place), start, end in runs(doing, gap[1]):
                answer: Row = {"device_id": device["device_id"], "start_ns": start, "end_ns": end}
                answer |= {"duration_ns": end - start, "cause": cause, "position": where}
                answer |= {"gap_start_ns": gap[1], "gap_end_ns": gap[2]}
                row = None if place is None else rows[place]
                if cause == "queued":
                    row = min((call for call in waits if call["gpu"] >= end), key=lambda call: call["gpu"])
                if row is not None:
                    path = row.get("callpath_id")
                    answer |= {"thread_id": row["thread_id"], "callpath_id": path, "doing": row["name"]}
                    answer |= line_of(trace, path)
                result.append(answer)
    return result


def runs(values: list[object], begin: int) -> list[tuple[object, int, int]]:
    """Neighbours of one value, without None: (value, start, end)."""
    found: list[tuple[object, int, int]] = []
    for time, value in enumerate(values, start=begin):
        if found and found[-1][0] == value and found[-1][2] == time:
            found[-1] = (value, found[-1][1], time + 1)
        elif value is not None:
            found.append((value, time, time + 1))
    return found


def at(trace: Trace, rows: list[Row], waits: list[Row], time: int) -> tuple[str, int | None]:
    """The cause of an idle instant, and the host row."""
    if any(call["end_ns"] <= time < call["gpu"] for call in waits):
        return "queued", None
    best = None
    for thread_id in trace.threads["thread_id"]:
        row = innermost(rows, thread_id, time)
        if row is not None and (best is None or HOST_KINDS.index(row["kind"]) < HOST_KINDS.index(best["kind"])):
            best = row
    if best is None:
        return "nothing_recorded", None
    return "launching" if best["kind"] in ("launch_call", "dispatch") else best["kind"], best["place"]


def line_of(trace: Trace, callpath_id: int | None) -> Row:
    node = callpath_id
    while node is not None:
        path = trace.callpaths.row(node, named=True)
        frame = trace.frames.row(path["frame_id"], named=True)
        if frame["line"] is not None:
            return {column: frame[column] for column in ("file", "cell_id", "line")}
        node = path["parent_id"]
    return {}


def idle_as_hta(trace: Trace, window: Window | None) -> list[Row]:
    result: list[Row] = []
    launch = {call["api_id"]: call["start_ns"] for call in all_launches(trace)}
    for stream_id in trace.streams["stream_id"]:
        own = [row for row in activities(trace) if row["stream_id"] == stream_id and counted(row, window)]
        own = [row for row in own if row["api_id"] is not None and row["table"] != "graph_runs"]
        for before, row in pairwise(own):
            gap = row["start_ns"] - before["end_ns"]
            short = "kernel_wait" if gap < 30_000 else "other"
            late = launch.get(row["api_id"], -1) > before["end_ns"]
            answer = {"device_id": row["device_id"], "stream_id": stream_id, "duration_ns": gap}
            answer |= {"start_ns": before["end_ns"], "end_ns": row["start_ns"], "cause": "host_wait" if late else short}
            result.append(answer | {"gap_start_ns": before["end_ns"], "gap_end_ns": row["start_ns"]})
    return result


def idle_summary(trace: Trace, window: Window | None, causes: str = "gpuviz") -> list[Row]:
    groups: dict[tuple[int, int | None, str], list[Row]] = defaultdict(list)
    for row in idle(trace, window, causes):
        groups[row["device_id"], row.get("stream_id"), row["cause"]].append(row)
    spans = {row["device_id"]: row.get("span_ns") for row in device_time(trace, window)}
    result = []
    for (device_id, stream_id, cause), rows in groups.items():
        time = sum(row["duration_ns"] for row in rows)
        whole = spans[device_id]
        gaps = len({row["gap_start_ns"] for row in rows})
        if causes == "hta":
            whole = sum(row["duration_ns"] for key, others in groups.items() if key[1] == stream_id for row in others)
            gaps = len(rows)
        answer: Row = {"device_id": device_id, "stream_id": stream_id, "cause": cause, "time_ns": time, "gaps": gaps}
        answer |= {"longest_ns": max(row["duration_ns"] for row in rows), "reliable": True}
        if whole:
            answer |= {"share": time / whole, "reported": time / whole > 0.02}
        result.append(answer)
    enum = idle_causes()
    return sorted(
        result, key=lambda row: (row["device_id"], row["stream_id"] or 0, -row["time_ns"], enum.index(row["cause"]))
    )


def idle_causes() -> list[str]:
    from gpuviz.analysis.idle import SCHEMA

    dtype = SCHEMA["cause"]
    assert isinstance(dtype, pl.Enum)
    return dtype.categories.to_list()


def graph_gain(
    trace: Trace, window: Window | None, *, run_length: int = 8, node_gap_ns: int | None = None
) -> list[Row]:
    from gpuviz.analysis.graph_gain import CLOSED_BY_GRAPHS

    result = []
    pieces = idle(trace, window)
    number = Counter(row["api_id"] for row in activities(trace) if row["table"] == "kernels")
    known = "no_gpu_activity" not in trace.diagnostics["code"]
    for device in device_time(trace, window):
        row: Row = {name: device.get(name) for name in ("device_id", "ordinal", "span_ns")}
        result.append(row)
        if device.get("span_ns") is None or not known:
            row |= {"reason": "not_recorded", "span_ns": None}
            continue
        kernels = [one for one in activities(trace) if one["table"] == "kernels" and counted(one, window)]
        kernels = [one for one in kernels if one["device_id"] == device["device_id"] and one["api_id"] is not None]
        single = [one for one in kernels if number[one["api_id"]] == 1]
        names = [one["name"] for one in single]
        found = Counter(tuple(names[i : i + run_length]) for i in range(len(names) - run_length + 1))
        repeating = set()
        for i in range(len(names) - run_length + 1):
            if found[tuple(names[i : i + run_length])] > 1:
                repeating |= set(range(i, i + run_length))
        gaps = []
        between = [one for one in pieces if one["device_id"] == device["device_id"] and one["position"] == "between"]
        for begin, end in sorted({(one["gap_start_ns"], one["gap_end_ns"]) for one in between}):
            inside = [one for one in between if one["gap_start_ns"] == begin]
            after = next((i for i, one in enumerate(single) if one["start_ns"] >= end), 0)
            closes = bool(after) and {after - 1, after} <= repeating
            closes = closes and single[after]["start_ns"] == end and single[after - 1]["end_ns"] == begin
            if closes and all(one["cause"] in CLOSED_BY_GRAPHS for one in inside):
                gaps.append(end - begin)
        nodes = []
        for api_id, count in number.items():
            own = [one for one in kernels if one["api_id"] == api_id and count > 1]
            nodes += [max(0, two["start_ns"] - one["end_ns"]) for one, two in pairwise(own)]
        gap = node_gap_ns if node_gap_ns is not None else median_of(nodes) if nodes else None
        row |= {"launches": len(single), "repeating_launches": len(repeating), "gaps": len(gaps)}
        row |= {"gap_ns": sum(gaps), "node_gap_ns": gap}
        if not repeating:
            row["reason"] = "nothing_repeats"
        elif gap is None:
            row["reason"] = "no_graph_to_measure"
        else:
            row["estimate_ns"] = sum(max(0, one - gap) for one in gaps)
            row["estimate_share"] = row["estimate_ns"] / row["span_ns"] if row["span_ns"] else None
    return result
