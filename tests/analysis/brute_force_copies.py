"""Copy verdicts and serialised copies once more, as slowly and plainly as possible."""

from __future__ import annotations

from typing import Any

from gpuviz.model import Trace, Window
from tests.analysis import brute_force as plain
from tests.analysis.brute_force_groupings import path_of, work

type Row = dict[str, Any]

KERNELS = ("kernels", "graph_runs")


def kept_calls(trace: Trace, window: Window | None, rows: list[Row]) -> dict[int, Row]:
    """The calls that a trace cut to the window has, with their usable times."""
    cut = trace if window is None else trace.window(*window)
    return {row["api_id"]: row for row in cut.api_calls.iter_rows(named=True) if row["timing"] != "invalid"}


def copy_verdicts(trace: Trace, window: Window | None) -> list[Row]:
    rows = work(trace, window)
    calls = kept_calls(trace, window, rows)
    for row in rows:
        call = calls.get(row["api_id"])
        row["launched"] = call is not None
        row["launch"] = min(call["start_ns"], row["start_ns"]) if call else row["start_ns"]
    by_id = {row["activity_id"]: row for row in rows}
    result = []
    for answer in plain.copies(trace, window):
        copy = by_id[answer["activity_id"]]
        kernels = [row for row in rows if row["device_id"] == copy["device_id"] and row["table"] in KERNELS]
        copies = [row for row in rows if row["device_id"] == copy["device_id"] and row["table"] == "memcpys"]
        free = len(plain.instants(kernels, window) - plain.instants(copies, window))
        answer |= {"saving_ns": min(answer["exposed_ns"], free), "callpath_id": copy["callpath_id"]}
        if answer["exposed_ns"]:
            reason, evidence = reason_of(trace, window, copy, rows, kernels, calls)
            answer |= {"reason": reason} | evidence
            if reason == "nothing_to_overlap":
                answer["saving_ns"] = 0
        answer |= line_of(trace, copy)
        result.append(answer)
    return result


def line_of(trace: Trace, copy: Row) -> Row:
    names = ("cell_id", "file", "line", "function")
    for path in (copy["forward_callpath_id"], copy["callpath_id"]):
        for frame in path_of(trace, path):
            if frame["line"] is not None:
                return {name: frame[name] for name in names}
    return dict.fromkeys(names)


def reason_of(
    trace: Trace, window: Window | None, copy: Row, rows: list[Row], kernels: list[Row], calls: dict[int, Row]
) -> tuple[str, Row]:
    call = calls.get(copy["api_id"])
    if "pageable" in (copy["src_kind"], copy["dst_kind"]):
        return "pageable_memory", {"evidence_api_id": copy["api_id"]}
    over_host = copy["copy_kind"] in ("HtoD", "DtoH", "HtoH")
    name = call["name"].lower() if call else ""
    if over_host and "memcpy" in name and "async" not in name:
        return "synchronous_call", {"evidence_api_id": copy["api_id"]}
    before, after = thread_neighbours(copy, rows, calls)
    returned = after is not None and "Synchronize" in after["name"] and after["end_ns"] is not None
    if after is not None and returned and after["start_ns"] <= copy["end_ns"] <= after["end_ns"]:
        return "synchronous_call", {"evidence_api_id": after["api_id"]}
    same = neighbour(copy, [row for row in kernels if row["stream_id"] == copy["stream_id"]])
    if same is not None:
        return "same_stream", {"evidence_activity_id": same["activity_id"]}
    kinds = trace.streams["kind"].to_list()
    tied = []
    for row in kernels:
        pair = kinds[copy["stream_id"]], kinds[row["stream_id"]]
        if "legacy" in pair and any(kind in ("blocking", "per_thread") for kind in pair):
            tied.append(row)
    legacy = neighbour(copy, tied)
    if legacy is not None:
        return "legacy_default_stream", {"evidence_activity_id": legacy["activity_id"]}
    wait = stream_wait(trace, window, copy, rows)
    if wait is not None:
        return "wait_before", {"evidence_sync_id": wait["sync_id"]}
    if before is not None and ("Synchronize" in before["name"] or "StreamWaitEvent" in before["name"]):
        computing = plain.instants(kernels, None)
        if any(t in computing for t in range(before["start_ns"], copy["start_ns"])):
            return "wait_before", {"evidence_api_id": before["api_id"]}
    others = [
        row
        for row in rows
        if row["table"] == "memcpys"
        and (row["device_id"], row["copy_kind"]) == (copy["device_id"], copy["copy_kind"])
        and row["stream_id"] != copy["stream_id"]
        and row["start_ns"] < copy["end_ns"]
        and row["end_ns"] > copy["launch"]
    ]
    if others:
        latest = max(row["end_ns"] for row in others)
        streams = [row for row in others if row["end_ns"] == latest]
        lowest = min(row["stream_id"] for row in streams)
        last = [row for row in streams if row["stream_id"] == lowest]
        return "other_copy", {"evidence_activity_id": last[-1]["activity_id"]}
    queued = [row for row in kernels if row["launch"] < copy["end_ns"] and row["end_ns"] > copy["launch"]]
    following = [row for row in in_order(kernels) if row["start_ns"] >= copy["end_ns"]]
    known = copy["launched"] and (not following or following[0]["launched"])
    if known and not queued:
        return "nothing_to_overlap", {}
    return "unknown", {}


def in_order(kernels: list[Row]) -> list[Row]:
    """By start, kernels before graph replays, each in the order of its table."""
    return sorted(kernels, key=lambda row: (row["start_ns"], KERNELS.index(row["table"])))


def neighbour(copy: Row, kernels: list[Row]) -> Row | None:
    kernels = in_order(kernels)
    after = [row for row in kernels if row["start_ns"] >= copy["end_ns"]]
    before = [row for row in kernels if row["start_ns"] < copy["start_ns"]]
    if after and after[0]["launched"] and after[0]["launch"] < copy["end_ns"]:
        return after[0]
    if before and copy["launched"] and copy["launch"] < before[-1]["end_ns"]:
        return before[-1]
    return None


def thread_neighbours(copy: Row, rows: list[Row], calls: dict[int, Row]) -> tuple[Row | None, Row | None]:
    """The launches and waits before and after the copy's call in its thread."""
    launching = {row["api_id"] for row in rows}
    line = [
        call
        for call in calls.values()
        if call["parent_api_id"] is None
        and (call["api_id"] in launching or "Synchronize" in call["name"] or "StreamWaitEvent" in call["name"])
    ]
    own = calls.get(copy["api_id"])
    if own is None or own not in line:
        return None, None
    line = sorted((call for call in line if call["thread_id"] == own["thread_id"]), key=lambda call: call["start_ns"])
    place = line.index(own)
    return (line[place - 1] if place else None), (line[place + 1] if place + 1 < len(line) else None)


def stream_wait(trace: Trace, window: Window | None, copy: Row, rows: list[Row]) -> Row | None:
    waits = [
        row
        for row in trace.syncs.filter(timing="ok").iter_rows(named=True)
        if plain.touches(row, window)
        and row["sync_kind"] == "stream_wait_event"
        and row["stream_id"] == copy["stream_id"]
        and row["end_ns"] <= copy["start_ns"]
    ]
    if not waits:
        return None
    latest = sorted(waits, key=lambda row: row["end_ns"])[-1]
    begun = [row for row in rows if row["stream_id"] == copy["stream_id"]]
    between = [row for row in begun if latest["end_ns"] <= row["start_ns"] < copy["start_ns"]]
    return None if between else latest


def serialized_copies(trace: Trace, window: Window | None) -> list[Row]:
    rows = work(trace, window)
    calls = kept_calls(trace, window, rows)
    result = []
    for answer in plain.copies(trace, window):
        stream = [row for row in rows if row["stream_id"] == answer["stream_id"]]
        place = next(i for i, row in enumerate(stream) if row["activity_id"] == answer["activity_id"])
        following = stream[place + 1] if place + 1 < len(stream) else None
        if following is None or following["table"] not in KERNELS or following["start_ns"] < answer["end_ns"]:
            continue
        call = calls.get(following["api_id"])
        result.append(
            {
                "copy_activity_id": answer["activity_id"],
                "kernel_activity_id": following["activity_id"],
                "device_id": answer["device_id"],
                "stream_id": answer["stream_id"],
                "copy_kind": answer["copy_kind"],
                "copy_ns": answer["duration_ns"],
                "exposed_ns": answer["exposed_ns"],
                "gap_ns": following["start_ns"] - answer["end_ns"],
                "held_back": None if call is None else call["start_ns"] < answer["end_ns"],
            }
        )
    return result
