"""What ran on host threads: operators and API calls, nested by time, with CUPTI's own overhead beside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from gpuviz.capture.cupti.callback_names import DRIVER_CALLS, RUNTIME_CALLS, shown_name
from gpuviz.capture.cupti.layouts import API_KINDS, Kind
from gpuviz.capture.cupti.records import Decoded, Records
from gpuviz.capture.places import OWN_PROCESS, Processes, Threads
from gpuviz.capture.recording import Recording
from gpuviz.capture.times import INVALID, NONE, OPEN, Bools, Clock, Ints, Times, count_cases, known, series
from gpuviz.model import Diagnostics, schema
from gpuviz.model.nesting import nest, nesting_order

HOST, API, OVERHEAD = range(3)

_OVERHEAD_NAMES = {
    1: "driver compiler",
    1 << 16: "CUPTI buffer flush",
    2 << 16: "CUPTI instrumentation",
    3 << 16: "CUPTI resource",
    4 << 16: "module loading",
    5 << 16: "lazy function loading",
    6 << 16: "command buffer full",
    7 << 16: "CUPTI buffer request",
    8 << 16: "unified memory profiling set-up",
}
# Of those, what would not have happened without the capture; the rest is CUDA's own.
_CAPTURE_OVERHEAD = (1 << 16, 2 << 16, 3 << 16, 7 << 16, 8 << 16)
_OBJECT_THREAD = 2


@dataclass(frozen=True)
class Calls:
    """All rows of host threads in one space: first the host calls, then the API calls, then the overhead.

    `caller` is the row that made this one (host or API call, never overhead, which only happens to be there); `level`
    grows along it. `name` and `layer` are what the row is in the call tree. `stack_id` and `forward` (a row) are those
    of the recording. NONE is for none.
    """

    kind: npt.NDArray[np.uint8]
    thread: npt.NDArray[np.int32]
    times: Times
    name: pl.Series
    layer: pl.Series
    caller: Ints
    level: Ints
    depth: Ints
    stack_id: Ints
    forward: Ints
    correlation_id: npt.NDArray[np.uint32]
    joins: Bools
    api: pl.Series
    return_value: npt.NDArray[np.int32]

    def rows(self, *kinds: int) -> Ints:
        """The rows of these kinds, sorted by start, those without one last: the order of their table."""
        rows = np.flatnonzero(np.isin(self.kind, kinds))
        return rows[np.lexsort((self.times.start[rows], ~self.times.has_start[rows]))]

    def nearest(self, kind: int) -> Ints:
        """The nearest row of this kind along `caller`."""
        found = self.caller.copy()
        while True:
            other = (found != NONE) & (self.kind[np.maximum(found, 0)] != kind)
            if not other.any():
                return found
            found[other] = self.caller[found[other]]

    def launches(self) -> tuple[Ints, Ints]:
        """The correlation ids of API calls that GPU work joins, ascending, and the outermost call of each."""
        rows = np.flatnonzero((self.kind == API) & self.joins & known(self.correlation_id))
        ids = self.correlation_id[rows].astype(np.int64)
        start, end = self.times.start[rows], self.times.end[rows]
        order = np.lexsort((-end, start, ~self.times.has_start[rows], self.level[rows], ids))
        unique, first = np.unique(ids[order], return_index=True)
        return unique, rows[order][first]


def read_calls(
    recording: Recording,
    decoded: Decoded,
    clock: Clock,
    processes: Processes,
    threads: Threads,
    diagnostics: Diagnostics,
) -> Calls:
    """Collect the calls of all threads and nest them."""
    calls = recording.host_calls
    api, api_kind = _api_records(decoded)
    overhead = decoded.of(Kind.OVERHEAD)
    counts = (len(calls), len(api), len(overhead))
    host_thread = np.array(calls.thread, dtype=np.int64)
    times = Times.concatenate(
        [
            _host_times(recording, diagnostics),
            _record_times(api, "an API call", clock, diagnostics),
            _record_times(overhead, "overhead", clock, diagnostics),
        ]
    )
    api_process = _process_rows(api["process_id"], processes)
    thread = np.concatenate(
        (
            threads.rows(np.full(counts[0], OWN_PROCESS), host_thread),
            threads.rows(api_process, api["thread_id"].astype(np.int64)),
            _overhead_threads(overhead, processes, threads),
        )
    )
    kind = np.repeat(np.array([HOST, API, OVERHEAD], dtype=np.uint8), counts)
    caller, level, depth = _nest(kind, thread, times, diagnostics)
    own = api_process == OWN_PROCESS
    return Calls(
        kind=kind,
        thread=thread,
        times=times,
        name=pl.concat(
            [
                pl.Series(calls.name, dtype=pl.String),
                _api_names(api, api_kind, recording, diagnostics),
                _by_code(overhead["overhead_kind"], lambda code: _OVERHEAD_NAMES.get(code, f"overhead {code}")),
            ]
        ).cast(pl.Categorical()),
        layer=pl.concat(
            [
                pl.Series(calls.layer, dtype=pl.String),
                pl.Series(["api"] * counts[1], dtype=pl.String),
                pl.Series(["other"] * counts[2], dtype=pl.String),
            ]
        ).cast(pl.Enum(schema.FRAME_LAYERS)),
        caller=caller,
        level=level,
        depth=depth,
        stack_id=_filled(_optional(calls.stack_id), _api_stacks(api, recording, own), counts[2]),
        forward=_filled(_optional(calls.forward_of), np.full(counts[1], NONE), counts[2]),
        correlation_id=np.concatenate(
            (
                np.zeros(counts[0], dtype=np.uint32),
                api["correlation_id"],
                np.zeros(counts[2], dtype=np.uint32),
            )
        ),
        joins=_filled(np.zeros(counts[0]), own, counts[2]) > 0,
        api=pl.Series(["runtime" if code == Kind.RUNTIME else "driver" for code in API_KINDS], dtype=_API_TYPE)
        .gather(pl.Series(values=api_kind))
        .rename("api"),
        return_value=api["return_value"],
    )


_API_TYPE = pl.Enum(schema.APIS)


def host_call_columns(recording: Recording, calls: Calls, rows: Ints, t0_unix_ns: int) -> dict[str, pl.Series]:
    """The columns of `host_calls` that need no other table; `rows` as `Calls.rows(HOST, OVERHEAD)` gives them."""
    host = recording.host_calls
    gap = len(calls.kind) - len(host)  # rows after the host calls: the optional columns end with them
    where = pl.Series(values=rows)
    layer = calls.layer.cast(pl.String).gather(where).cast(pl.Enum(schema.HOST_LAYERS))
    category = calls.kind[rows] == OVERHEAD
    return {
        "depth": pl.Series(values=calls.depth[rows].astype(np.int32)),
        "layer": layer,
        "category": pl.Series(["overhead"], dtype=pl.Categorical()).gather(
            pl.Series(values=np.where(category, 0, -1)).replace(-1, None).cast(pl.UInt32)
        ),
        "name": calls.name.gather(where),
        **_rows_of(calls.times, rows).columns(t0_unix_ns),
        "thread_id": pl.Series(values=calls.thread[rows]),
        "sequence_number": pl.Series([*host.sequence_number, *[None] * gap], dtype=pl.Int64()).gather(where),
        "input_shapes": pl.Series([*host.input_shapes, *[None] * gap], dtype=pl.Categorical()).gather(where),
    }


def api_call_columns(calls: Calls, rows: Ints, t0_unix_ns: int) -> dict[str, pl.Series]:
    """The columns of `api_calls` that need no other table; `rows` as `Calls.rows(API)` gives them."""
    first = int(np.count_nonzero(calls.kind == HOST))
    where = pl.Series(values=rows)
    ids = calls.correlation_id[rows]
    return {
        "depth": pl.Series(values=calls.depth[rows].astype(np.int32)),
        "correlation_id": series(ids, pl.Int64(), known(ids)),
        "api": calls.api.gather(where - first),
        "name": calls.name.gather(where),
        **_rows_of(calls.times, rows).columns(t0_unix_ns),
        "thread_id": pl.Series(values=calls.thread[rows]),
        "return_value": pl.Series(values=calls.return_value[rows - first]),
    }


def capture_overhead_ns(recording: Recording, decoded: Decoded, calls: Calls) -> int | None:
    """What the capture itself cost on the host; None where nobody measured it."""
    records = decoded.of(Kind.OVERHEAD)
    if not len(records):
        return recording.overhead_ns
    times = _rows_of(calls.times, np.flatnonzero(calls.kind == OVERHEAD))
    usable = np.isin(records["overhead_kind"], _CAPTURE_OVERHEAD) & (times.timing == 0)
    return int((times.end - times.start)[usable].sum()) + (recording.overhead_ns or 0)


def _rows_of(times: Times, rows: Ints) -> Times:
    return Times(times.start[rows], times.end[rows], times.has_start[rows], times.has_end[rows])


def _api_records(decoded: Decoded) -> tuple[Records, Ints]:
    """All API records, and for each its place in `API_KINDS`. Runtime comes first: of two calls with the same times
    the runtime's is the outer one, because the runtime calls the driver."""
    parts = [decoded.of(kind) for kind in API_KINDS]
    return np.concatenate(parts), np.repeat(np.arange(len(parts)), [len(part) for part in parts])


def _record_times(records: Records, what: str, clock: Clock, diagnostics: Diagnostics) -> Times:
    def describe(index: int) -> str:
        record = records[index]
        return f"{what} with correlation id {record['correlation_id']}: start {record['start']}, end {record['end']}"

    return clock.times(records["start"], records["end"], diagnostics, describe)


def _host_times(recording: Recording, diagnostics: Diagnostics) -> Times:
    calls = recording.host_calls
    times = Times.of_host(calls.start_ns, calls.end_ns)
    count_cases(diagnostics, "end_not_recorded", times.timing == OPEN, lambda index: calls.name[index])
    count_cases(diagnostics, "duration_negative", times.timing == INVALID, lambda index: calls.name[index])
    return times


def _process_rows(pids: npt.NDArray[np.uint32], processes: Processes) -> Ints:
    unique, index = np.unique(pids, return_inverse=True)
    return np.array([processes.rows[pid] for pid in unique.tolist()], dtype=np.int64)[index]


def _overhead_threads(records: Records, processes: Processes, threads: Threads) -> npt.NDArray[np.int32]:
    """The thread of each overhead where its object is one, else a lane of its own."""
    on_thread = records["object_kind"] == _OBJECT_THREAD
    pids = records["process_id"]
    rows = np.array([processes.rows.get(pid, OWN_PROCESS) for pid in pids.tolist()], dtype=np.int64)
    process = np.where(on_thread, rows, OWN_PROCESS)
    return threads.rows(process, np.where(on_thread, records["thread_id"].astype(np.int64), Threads.NOWHERE))


def _by_code(codes: npt.NDArray[np.uint32], name: Callable[[int], str]) -> pl.Series:
    """The name of each code, made once per distinct code."""
    unique, index = np.unique(codes, return_inverse=True)
    texts = pl.Series([name(code) for code in unique.tolist()], dtype=pl.String)
    return texts.gather(pl.Series(values=index.astype(np.int64)))


def _api_names(records: Records, kind: Ints, recording: Recording, diagnostics: Diagnostics) -> pl.Series:
    """The name of each call: the recording's own, else the built-in one, else its number."""
    combined = kind.astype(np.int64) << 32 | records["callback_id"]
    unique, index, counts = np.unique(combined, return_inverse=True, return_counts=True)
    texts = []
    for code, count in zip(unique.tolist(), counts.tolist(), strict=True):
        api_kind, callback = API_KINDS[code >> 32], code & 0xFFFFFFFF
        api = "runtime" if api_kind == Kind.RUNTIME else "driver"
        built_in = RUNTIME_CALLS if api == "runtime" else DRIVER_CALLS
        text = recording.callback_names.get((api, callback)) or built_in.get(callback)
        if text is None:
            text = f"{api} call {callback}"
            diagnostics.add("name_unknown", count, text)
        texts.append(f"internal launch ({text})" if api_kind == Kind.INTERNAL_LAUNCH else shown_name(text))
    return pl.Series(texts, dtype=pl.String).gather(pl.Series(values=index.astype(np.int64)))


def _api_stacks(records: Records, recording: Recording, own: Bools) -> Ints:
    """The stack of each call that `Recording.api_stacks` names."""
    if not recording.api_stacks:
        return np.full(len(records), NONE, dtype=np.int64)
    keys = np.array([thread << 32 | call for thread, call in recording.api_stacks], dtype=np.uint64)
    stacks = np.array(list(recording.api_stacks.values()), dtype=np.int64)
    order = np.argsort(keys)
    wanted = records["thread_id"].astype(np.uint64) << np.uint64(32) | records["correlation_id"]
    place = np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)
    return np.where(own & (keys[order][place] == wanted), stacks[order][place], NONE)


def _optional(values: list[int | None]) -> Ints:
    return np.array([NONE if value is None else value for value in values], dtype=np.int64)


def _filled(host: npt.NDArray[np.generic], api: npt.NDArray[np.generic], overhead: int) -> Ints:
    return np.concatenate((host, api, np.full(overhead, NONE))).astype(np.int64)


def _nest(
    kind: npt.NDArray[np.uint8], thread: npt.NDArray[np.int32], times: Times, diagnostics: Diagnostics
) -> tuple[Ints, Ints, Ints]:
    """(caller, level, depth) of each row. Rows without usable times call nothing and are called by nothing."""
    count = len(kind)
    caller = np.full(count, NONE, dtype=np.int64)
    depth = np.zeros(count, dtype=np.int64)
    timing = times.timing
    rows = np.flatnonzero(timing != INVALID)
    if len(rows):
        latest = max(int(times.end.max()), int(times.start[rows].max()))
        start, end = times.start[rows], np.where(timing[rows] == OPEN, latest, times.end[rows])
        threads = thread[rows].astype(np.int64)
        order = nesting_order(threads, start, end)
        nested = nest(threads[order], start[order], end[order])
        rows = rows[order]
        caller[rows] = np.where(nested.parent >= 0, rows[np.maximum(nested.parent, 0)], NONE)
        depth[rows] = nested.depth
        diagnostics.add("bleeding_child", nested.bleeding)
        diagnostics.add("crossing_call", nested.crossing)
    while True:  # overhead calls nothing: what lies in it belongs to what lies around it
        through = (caller != NONE) & (kind[np.maximum(caller, 0)] == OVERHEAD)
        if not through.any():
            break
        caller[through] = caller[caller[through]]
    return caller, _levels(caller), depth


def _levels(caller: Ints) -> Ints:
    """Distance to the outermost row along `caller`."""
    level = np.zeros(len(caller), dtype=np.int64)
    above = caller.copy()
    while (inside := above != NONE).any():
        level[inside] += 1
        above[inside] = caller[above[inside]]
    return level
