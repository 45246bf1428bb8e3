"""Groupings and busy shares once more, as slowly and plainly as possible."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable
from fractions import Fraction
from typing import Any

from gpuviz.analysis.by_line import LIBRARIES
from gpuviz.model import Trace, Window, schema
from tests.analysis import brute_force as plain

type Row = dict[str, Any]


def work(trace: Trace, window: Window | None) -> list[Row]:
    """The activities of a window, with what the groupings sum."""
    everything = plain.activities(trace)
    first: dict[int, int] = {}
    for row in everything:
        if row["api_id"] is not None:
            first.setdefault(row["api_id"], row["activity_id"])
    rows = [row for row in everything if plain.touches(row, window)]
    running = Counter((row["device_id"], t) for row in rows for t in plain.instants([row], window))
    computing: dict[int, set[int]] = defaultdict(set)
    for row in rows:
        if row["table"] in ("kernels", "graph_runs"):
            computing[row["device_id"]] |= plain.instants([row], window)
    for row in rows:
        own = plain.instants([row], window)
        row["time"] = len(own)
        row["share"] = sum((Fraction(1, running[row["device_id"], t]) for t in own), Fraction(0))
        row["exposed"] = len(own - computing[row["device_id"]]) if row["table"] == "memcpys" else 0
        row["launches"] = int(plain.counted(row, window) and first.get(row["api_id"]) == row["activity_id"])
        row["activities"] = int(plain.counted(row, window))
    return rows


def busy_share(trace: Trace, window: Window | None) -> list[Row]:
    return [
        {
            "table": row["table"],
            "activity_id": row["activity_id"],
            "device_id": row["device_id"],
            "start_ns": row["start_ns"],
            "duration_ns": row["time"],
            "busy_share_ns": float(row["share"]),
        }
        for row in work(trace, window)
    ]


def sums(rows: Iterable[Row], total: Fraction) -> Row:
    rows = list(rows)
    share = sum((row["share"] for row in rows), Fraction(0))
    return {
        "activities": sum(row["activities"] for row in rows),
        "launches": sum(row["launches"] for row in rows),
        "gpu_ns": sum(row["time"] for row in rows),
        "busy_share_ns": float(share),
        "share": float(share / total) if total else None,
        "exposed_copy_ns": sum(row["exposed"] for row in rows),
    }


def grouped(
    trace: Trace, window: Window | None, keys: list[str], key_of: Callable[[Row], tuple[Hashable, ...]], *others: str
) -> list[Row]:
    rows = work(trace, window)
    total = sum((row["share"] for row in rows), Fraction(0))
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[key_of(row)].append(row)
    result = []
    for key, members in groups.items():
        answer = dict(zip(keys, key, strict=True)) | sums(members, total)
        if "backward_ns" in others:
            answer["backward_ns"] = sum(row["time"] for row in members if row["forward_callpath_id"] is not None)
        result.append(answer)
    return sorted(result, key=lambda row: (-row["gpu_ns"], *(_last_if_null(row[name]) for name in keys)))


def _last_if_null(value: Any) -> tuple[bool, Any]:
    if value in schema.ACTIVITY_TABLES:
        return False, schema.ACTIVITY_TABLES.index(value)
    return value is None, "" if value is None else value


def path_of(trace: Trace, callpath_id: int | None) -> list[Row]:
    """The frames from this call path up to the root."""
    frames, paths = trace.frames.to_dicts(), trace.callpaths.to_dicts()
    path = []
    while callpath_id is not None:
        path.append(frames[paths[callpath_id]["frame_id"]])
        callpath_id = paths[callpath_id]["parent_id"]
    return path


def by_kernel(trace: Trace, window: Window | None) -> list[Row]:
    return grouped(trace, window, ["table", "name"], lambda row: (row["table"], row["name"]))


def by_op(trace: Trace, window: Window | None) -> list[Row]:
    def key(row: Row) -> tuple[str | None]:
        names = [frame["function"] for frame in path_of(trace, row["callpath_id"]) if frame["layer"] == "op"]
        return (names[0] if names else None,)

    return grouped(trace, window, ["name"], key, "backward_ns")


def by_module(trace: Trace, window: Window | None) -> list[Row]:
    def key(row: Row) -> tuple[str | None]:
        names = [
            frame["function"]
            for path in (row["forward_callpath_id"], row["callpath_id"])
            for frame in path_of(trace, path)
            if frame["layer"] == "module"
        ]
        return (names[0] if names else None,)

    return grouped(trace, window, ["name"], key, "backward_ns")


def by_line(trace: Trace, window: Window | None) -> list[Row]:
    names = ["cell_id", "file", "line", "function"]

    def key(row: Row) -> tuple[Any, ...]:
        paths = [path_of(trace, row["forward_callpath_id"]), path_of(trace, row["callpath_id"])]
        for own in (True, False):
            for path in paths:
                for frame in path:
                    is_library = str(frame["file"]).split("/")[0] in LIBRARIES
                    if frame["line"] is not None and not (own and is_library):
                        return tuple(frame[name] for name in names)
        return (None,) * 4

    return grouped(trace, window, names, key, "backward_ns")


def by_shape(trace: Trace, window: Window | None) -> list[Row]:
    touching = {
        row["host_call_id"]: row
        for row in trace.host_calls.iter_rows(named=True)
        if window is None or _kept(trace, row, window)
    }
    if all(row["input_shapes"] is None for row in touching.values()):
        return []
    calls = {row["api_id"]: row for row in trace.api_calls.iter_rows(named=True)}

    def key(row: Row) -> tuple[str | None, str | None]:
        at = None if row["api_id"] is None else calls[row["api_id"]]["host_call_id"]
        while at in touching and touching[at]["layer"] != "op":
            at = touching[at]["parent_id"]
        return (touching[at]["name"], touching[at]["input_shapes"]) if at in touching else (None, None)

    return grouped(trace, window, ["name", "input_shapes"], key)


def _kept(trace: Trace, row: Row, window: Window) -> bool:
    """Whether a cut trace has this row."""
    end = trace.meta.end_ns if row["end_ns"] is None else row["end_ns"]
    start = row["start_ns"]
    return start < window[1] and (end > window[0] or (start == end and start >= window[0]))


def launch_of(trace: Trace, row: Row) -> tuple[int, int] | None:
    """Thread and start of the launch; None where it is not known."""
    for call in trace.api_calls.iter_rows(named=True):
        if call["api_id"] == row["api_id"] and call["timing"] != "invalid":
            return call["thread_id"], call["start_ns"]
    return None


def ranges(trace: Trace, window: Window | None, kinds: tuple[str, ...]) -> list[Row]:
    rows = [row for row in trace.ranges.filter(timing="ok").iter_rows(named=True) if row["kind"] in kinds]
    return [row for row in rows if plain.touches(row, window)]


def by_step(trace: Trace, window: Window | None) -> list[Row]:
    if "no_gpu_activity" in trace.diagnostics["code"]:
        return []
    rows, steps = work(trace, window), ranges(trace, window, ("step",))
    total = sum((row["share"] for row in rows), Fraction(0))
    process = trace.threads["process_id"].to_list()
    members: dict[int | None, list[Row]] = defaultdict(list)
    for row in rows:
        launch = launch_of(trace, row)
        inside = [
            step
            for step in steps
            if launch is not None
            and process[launch[0]] == process[step["thread_id"]]
            and step["start_ns"] <= launch[1] < step["end_ns"]
        ]
        latest = max(inside, key=lambda step: (step["start_ns"], -step["end_ns"], step["range_id"]), default=None)
        members[None if latest is None else latest["range_id"]].append(row)
    columns = ("range_id", "name", "start_ns", "end_ns")
    result = [{c: step[c] for c in columns} | sums(members[step["range_id"]], total) for step in steps]
    return result + ([sums(members[None], total)] if members[None] else [])


def by_range(trace: Trace, window: Window | None) -> list[Row]:
    rows, found = work(trace, window), ranges(trace, window, ("step", "annotation", "nvtx", "region"))
    if not found or "no_gpu_activity" in trace.diagnostics["code"]:
        return []
    total = sum((row["share"] for row in rows), Fraction(0))
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for one in found:
        groups[one["kind"], one["domain"], one["name"]].append(one)
    launched = {row["activity_id"]: launch_of(trace, row) for row in rows}

    def inside(row: Row, one: Row) -> bool:
        launch = launched[row["activity_id"]]
        return launch is not None and launch[0] == one["thread_id"] and one["start_ns"] <= launch[1] < one["end_ns"]

    result = []
    for key, members in groups.items():
        answer = dict(zip(("kind", "domain", "name"), key, strict=True))
        answer["ranges"] = sum(plain.counted(one, window) for one in members)
        result.append(answer | sums([row for row in rows if any(inside(row, one) for one in members)], total))
    outside = [row for row in rows if not any(inside(row, one) for one in found)]
    if outside:
        result.append({"kind": None, "domain": None, "name": None} | sums(outside, total))
    kinds = [*schema.RANGE_KINDS, None]
    return sorted(
        result,
        key=lambda row: (
            -row["gpu_ns"],
            kinds.index(row["kind"]),
            *(_last_if_null(row[name]) for name in ("domain", "name")),
        ),
    )
