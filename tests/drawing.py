"""Traces drawn as lanes of characters, and call trees printed back as text.

A drawing has one line per lane. A column is one microsecond, so every number can be counted by eye::

    trace = trace_from_text('''
        thread 1: ffffffffffff....
        thread 1: .ooo..oo........  # rows of one thread nest by time
        thread 1: ..A...>......S..  # capital letters and symbols are API calls
        stream 7: ....AAAAA.......  # the kernel that the first API call launched
        stream 8: .......>>>>.....  # the copy that the second one launched
        f = python step train.py:12
        o = op aten::mm
        A = kernel gemm
        > = copy HtoD pageable device 4K
        S = api cudaDeviceSynchronize
    ''')

Lanes: ``thread NAME:``, ``stream NAME:`` (device 0) or ``stream DEVICE/NAME:``, ``range THREAD:``
(annotations of a thread), ``wait STREAM:`` (a stream waits for an event). A lane may be drawn as several
lines, for what overlaps. The first column is the one after the colon and its blank. A run of one character
is one interval, ``.`` or a blank is nothing. ``~`` right after a run: its end was never recorded; ``!``:
its times are unusable. Neighbours of one name need two characters with the same meaning.

Characters: on a stream, letters are kernels, ``>`` a copy host to device, ``<`` device to host, ``=``
device to device, ``0`` a fill, ``*`` a whole graph replay without its kernels. On a thread, small letters
are Python functions, everything else is an API call. A line ``CHARACTER = KIND NAME ...`` says more; a
character may have one for its host side and one for its GPU side. Kinds: ``python``, ``module``, ``op``,
``other`` (name, optional file:line), ``api``, ``driver`` (name), ``kernel``, ``graph_run`` (name),
``memset`` (name, optional bytes), ``copy`` (direction, optional source and target memory, optional bytes; K
and M are binary).

Launches: the n-th call of a character launches the n-th GPU activity of that character, in order of start.
``G -> AAB`` changes that: each call G launches the next two A and the next B. Activities without a call
have no host record.
"""

from __future__ import annotations

import re
import shlex
import textwrap
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from gpuviz.model import Diagnostics, Trace, TraceMeta, schema
from gpuviz.model.callpaths import FrameTable, build_call_tree
from gpuviz.model.nesting import nest

SYMBOLS = {
    ">": "copy HtoD pinned device",
    "<": "copy DtoH device pinned",
    "=": "copy DtoD device device",
    "0": "memset Memset",
    "*": "graph_run 'graph replay'",
}
CALLS = {">": "cudaMemcpyAsync", "<": "cudaMemcpyAsync", "=": "cudaMemcpyAsync", "0": "cudaMemsetAsync"}
CALLS["*"] = "cudaGraphLaunch"
APIS = {"api": "runtime", "driver": "driver"}
ACTIVITIES = {"kernel": "kernels", "copy": "memcpys", "memset": "memsets", "graph_run": "graph_runs"}
KINDS_OF_LANE = {
    "thread": (*schema.HOST_LAYERS, *APIS),
    "stream": ACTIVITIES,
    "range": ["range"],
    "wait": ["wait"],
}
LANE = re.compile(r"(thread|stream|range|wait) ([^:]+): ?(.*)")
MEANING = re.compile(r"(\S) (=|->) (.*)")
RUN = re.compile(r"([^.\s~!])\1*([~!]?)")


@dataclass
class Interval:
    """One interval of a lane; what follows `launch` is found out on the way to the tables."""

    lane: str
    place: str
    character: str
    start: int
    end: int
    timing: str = "ok"
    kind: str = ""
    words: list[str] = field(default_factory=list)
    launch: Interval | None = None
    parent: Interval | None = None
    depth: int = 0
    row_id: int = 0  # of its own table; of all activities, for a GPU activity
    node: int = 0

    def above(self, kinds: Any) -> int | None:
        """Row id of the nearest interval of these kinds around this one."""
        above = self.parent
        while above is not None and above.kind not in kinds:
            above = above.parent
        return None if above is None else above.row_id


def trace_from_text(text: str, *, column_ns: int = 1_000, title: str = "drawing") -> Trace:
    """The validated trace of a drawing; its language is described above. A column is `column_ns` long."""
    return trace_from_intervals(_parse(text, column_ns), title=title).validate()


def trace_from_intervals(intervals: list[Interval], *, title: str = "drawing") -> Trace:
    """The trace of intervals that have kind, words and launch."""
    intervals = sorted(intervals, key=lambda row: row.start)
    host = [row for row in intervals if row.lane == "thread"]
    gpu = [row for row in intervals if row.lane == "stream"]
    for rows in (
        [row for row in host if row.kind in schema.HOST_LAYERS],
        [row for row in host if row.kind in APIS],
        gpu,
    ):
        for number, row in enumerate(rows):
            row.row_id = number
    tables = _call_tree(_nest(host), gpu)
    tables |= {name: _table(name, rows) for name, rows in _rows(intervals).items()}
    diagnostics = Diagnostics()
    diagnostics.add("launch_missing", sum(row.launch is None for row in gpu))
    diagnostics.add("no_gpu_activity", int(not gpu))
    tables["diagnostics"] = diagnostics.table()
    end = max((row.end for row in intervals if row.timing == "ok"), default=0)
    return Trace(tables, TraceMeta(title=title, source="drawing", end_ns=end))


def _parse(text: str, column_ns: int) -> list[Interval]:
    """The intervals, with kind, words and launch."""
    intervals: list[Interval] = []
    meanings: dict[str, list[list[str]]] = defaultdict(list)
    launched: dict[str, str] = {}
    for line in filter(str.strip, textwrap.dedent(text).splitlines()):
        lane, meaning = LANE.match(line.partition(" #")[0]), MEANING.match(line)
        if lane:
            for run in RUN.finditer(lane[3]):
                times = run.start() * column_ns, (run.end() - len(run[2])) * column_ns
                timing = {"": "ok", "~": "open", "!": "invalid"}[run[2]]
                intervals.append(Interval(lane[1], lane[2].strip(), run[1], *times, timing))
        elif meaning and meaning[2] == "->":
            launched[meaning[1]] = meaning[3].replace(" ", "")
        elif meaning:
            meanings[meaning[1]].append(shlex.split(meaning[3]))
        else:
            raise ValueError(f"a drawing has lanes and meanings; this line is neither: {line!r}")
    for row in intervals:
        own = [words for words in meanings[row.character] if words[0] in KINDS_OF_LANE[row.lane]]
        row.kind, *row.words = own[0] if own else shlex.split(_default_meaning(row))
    waiting: dict[str, list[Interval]] = defaultdict(list)
    in_order = sorted(intervals, key=lambda row: row.start)
    for row in in_order:
        if row.lane == "stream":
            waiting[row.character].append(row)
    for call in in_order:
        for character in launched.get(call.character, call.character) if call.kind in APIS else "":
            if waiting[character]:
                waiting[character].pop(0).launch = call
    return intervals


def _default_meaning(row: Interval) -> str:
    character = row.character
    if row.lane == "stream":
        return SYMBOLS.get(character, f"kernel {character}")
    if row.lane == "thread":
        return f"python {character}" if character.islower() else f"api {CALLS.get(character, 'cudaLaunchKernel')}"
    return f"{row.lane} {character}"


def _nest(host: list[Interval]) -> list[Interval]:
    """Set parent and depth; returns the rows thread by thread, parents before children."""
    threads = sorted({row.place for row in host})
    rows = sorted(host, key=lambda row: (threads.index(row.place), row.start, -row.end))
    times = [(threads.index(row.place), row.start, row.end) for row in rows]
    thread, start, end = np.array(times, dtype=np.int64).reshape(-1, 3).T
    nesting = nest(thread, start, end, tolerance_ns=0)
    for row, parent, depth in zip(rows, nesting.parent.tolist(), nesting.depth.tolist(), strict=True):
        row.parent, row.depth = (rows[parent] if parent >= 0 else None), depth
    return rows


def _call_tree(host: list[Interval], gpu: list[Interval]) -> dict[str, pl.DataFrame]:
    """The tables frames and callpaths; sets the node of each row."""
    frames = FrameTable()
    frames.add("root", "root")
    position = {id(row): number for number, row in enumerate(host)}
    frame_ids, parents = [], []
    for row in [*host, *gpu]:
        above = row.parent if row.lane == "thread" else row.launch
        orphan = len(host) + len(gpu) if row.lane == "stream" else -1
        parents.append(orphan if above is None else position[id(above)])
        layer = "api" if row.kind in APIS else ACTIVITIES.get(row.kind, row.kind + "s").removesuffix("s")
        file, _, line = (
            row.words[1].rpartition(":") if row.kind in schema.HOST_LAYERS and row.words[1:] else ("", "", "0")
        )
        frame_ids.append(frames.add(layer, _name(row), file or None, None, int(line) or None))
    if any(row.launch is None for row in gpu):
        frame_ids.append(frames.add("group", "no host record"))
        parents.append(-1)
    tree = build_call_tree(np.array(parents, dtype=np.int64), np.array(frame_ids), frames.frames())
    for row, node in zip([*host, *gpu], tree.node.tolist(), strict=False):
        row.node = node
    return {"frames": frames.frames(), "callpaths": tree.callpaths}


def _rows(intervals: list[Interval]) -> dict[str, list[dict[str, Any]]]:
    """The rows of all other tables."""
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list, processes=[{"process_id": 0}])
    threads = sorted({row.place for row in intervals if row.lane in ("thread", "range")})
    streams = sorted({_stream(row) for row in intervals if row.lane in ("stream", "wait")})
    devices = sorted({ordinal for ordinal, _ in streams})
    for number, name in enumerate(threads):
        rows["threads"].append({"thread_id": number, "process_id": 0, "name": f"thread {name}"})
    for number, ordinal in enumerate(devices):
        rows["devices"].append({"device_id": number, "process_id": 0, "ordinal": ordinal})
    for number, (ordinal, label) in enumerate(streams):
        place = {"device_id": devices.index(ordinal), "process_id": 0, "kind": "unknown", "label": label}
        rows["streams"].append({"stream_id": number, "number": int(label) if label.isdigit() else None} | place)
    for row in intervals:
        content: dict[str, Any] = {"name": _name(row), "start_ns": row.start, "timing": row.timing}
        content["end_ns"] = row.end if row.timing == "ok" else None
        if row.lane in ("thread", "range"):
            content["thread_id"] = threads.index(row.place)
        else:
            content["stream_id"] = streams.index(_stream(row))
        if row.lane == "thread":
            content |= {"depth": row.depth, "callpath_id": row.node}
        if row.kind in schema.HOST_LAYERS:
            ids = {"host_call_id": row.row_id, "parent_id": row.above(schema.HOST_LAYERS)}
            rows["host_calls"].append(content | ids | {"layer": row.kind})
        elif row.kind in APIS:
            ids = {"api_id": row.row_id, "correlation_id": row.row_id + 1, "parent_api_id": row.above(APIS)}
            ids |= {"host_call_id": row.above(schema.HOST_LAYERS)}
            rows["api_calls"].append(content | ids | {"api": APIS[row.kind]})
        elif row.kind in ACTIVITIES:
            ids = {"activity_id": row.row_id, "callpath_id": row.node}
            if row.launch:
                ids |= {"api_id": row.launch.row_id, "correlation_id": row.launch.row_id + 1}
            rows[ACTIVITIES[row.kind]].append(content | ids | _sizes(row))
        elif row.lane == "range":
            rows["ranges"].append(content | {"range_id": len(rows["ranges"]), "depth": 0, "kind": "annotation"})
        else:
            rows["syncs"].append(content | {"sync_id": len(rows["syncs"]), "sync_kind": "stream_wait_event"})
    return rows


def _table(name: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=schema.TABLES[name].polars_schema)


def _stream(row: Interval) -> tuple[int, str]:
    ordinal, slash, label = row.place.partition("/")
    return (int(ordinal), label) if slash else (0, row.place)


def _name(row: Interval) -> str:
    return f"Memcpy {row.words[0]}" if row.kind == "copy" else row.words[0]


def _sizes(row: Interval) -> dict[str, Any]:
    """What copies and fills have beside the columns of every activity."""
    size = "".join(row.words[3:] if row.kind == "copy" else row.words[1:] if row.kind == "memset" else [])
    factor = {"K": 1 << 10, "M": 1 << 20}.get(size[-1:], 1)
    sizes = {"size_bytes": int(size.rstrip("KM")) * factor} if size else {}
    if row.kind != "copy":
        return sizes
    source, target = row.words[1:3] if row.words[1:] else ("unknown", "unknown")
    return sizes | {"copy_kind": row.words[0], "src_kind": source, "dst_kind": target}


def tree_to_text(trace: Trace, values: pl.DataFrame | None = None, *columns: str) -> str:
    """The call tree, one node a line, indented by depth: layer, name, and ``file:line`` where there is one.

    With `values` (a table with a row per ``callpath_id``) the named columns follow after bars, null as ``-``.
    """
    nodes = trace.callpaths.join(trace.frames, on="frame_id", how="left", maintain_order="left")
    if values is not None:
        nodes = nodes.join(values.select("callpath_id", *columns), on="callpath_id", how="left", maintain_order="left")
    lines = []
    for node in nodes.iter_rows(named=True):
        name = "root" if node["layer"] == "root" else f"{node['layer']} {node['function']}"
        place = f" {node['file']}:{node['line']}" if node["file"] else ""
        numbers = "".join(f" | {'-' if node[column] is None else node[column]}" for column in columns)
        lines.append("  " * node["depth"] + name + place + numbers)
    return "\n".join(lines)
