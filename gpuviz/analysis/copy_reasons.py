"""Why copies are exposed, what that costs, and where it is written."""

from __future__ import annotations

import numpy as np
import polars as pl

from gpuviz.analysis.by_line import line_nodes, places_of
from gpuviz.analysis.copies import SCHEMA as COPIES
from gpuviz.analysis.copies import copies
from gpuviz.analysis.copy_neighbours import (
    NONE,
    Calls,
    Queued,
    calls_around,
    competing,
    kernel_rows,
    launches_of,
    neighbour,
    nothing_queued,
    queued,
)
from gpuviz.analysis.grouping import codes
from gpuviz.analysis.intervals import IntervalSet, Ints, covered_in, overlap_length, union
from gpuviz.analysis.selection import KERNEL_TABLES, DeviceIntervals, Mask, ints, usable
from gpuviz.analysis.work import Work, work_in
from gpuviz.model import Trace, Window

REASONS = (
    "pageable_memory",
    "synchronous_call",
    "same_stream",
    "legacy_default_stream",
    "wait_before",
    "other_copy",
    "nothing_to_overlap",
    "unknown",
)
"""Why a copy is exposed; where several hold, the first of this list."""

SCHEMA = pl.Schema(
    {
        **COPIES,
        "link_share": pl.Float64(),
        "reason": pl.Enum(REASONS),
        "evidence_activity_id": pl.Int32(),
        "evidence_api_id": pl.Int32(),
        "evidence_sync_id": pl.Int32(),
        "saving_ns": pl.Int64(),
        "callpath_id": pl.Int32(),
        "cell_id": pl.Int32(),
        "file": pl.Categorical(),
        "line": pl.Int32(),
        "function": pl.Categorical(),
    }
)
_SYNCHRONISING = ("blocking", "per_thread")
_HOST_COPIES = ("HtoD", "DtoH", "HtoH")


def copy_verdicts(trace: Trace, window: Window | None = None) -> pl.DataFrame:
    """The rows and columns of `gpuviz.analysis.copies`, and for each copy why it is exposed and what that may cost.

    ``link_share``: ``bytes_per_s`` over the peak of the device's host link (copies between host and device, where the
    peak is known). ``reason`` (null for a copy with no exposed time in the window) is the first that holds:

    - ``pageable_memory``: the host side of the copy is pageable. Evidence: the call.
    - ``synchronous_call``: the call returns when the copy has ended (``Memcpy`` without ``Async``, unless from device
      to device), or the thread's next launch or wait is a wait of the host that ends it. Evidence: that call.
    - ``same_stream``: a kernel of the copy's own stream was queued with it and ran next to it. Evidence: the kernel.
    - ``legacy_default_stream``: the same with a kernel of another stream of its context, where one of the two streams
      is the legacy default stream and the other is known to synchronise with it. Evidence: the kernel.
    - ``wait_before``: the copy's stream waited for an event right before it, or the thread's launch or wait before the
      copy's call is a wait, and kernels ran between that and the copy. Evidence: the wait or the call.
    - ``other_copy``: a copy of the same direction on another stream of the device ran between the copy's launch and
      its end. Evidence: that copy.
    - ``nothing_to_overlap``: from the copy's launch to its end no kernel of the device was queued or ran.
    - ``unknown``: none of these can be shown; kernels were queued, or launches were not recorded.

    ``saving_ns`` is an upper bound of what a better schedule can win by this copy: the smaller of its exposed time and
    the device's kernel time in the window that hides no copy yet; 0 where there is nothing to overlap with. The last
    columns are its call path and its line, as `gpuviz.analysis.by_line` chooses it. In a window, only what touches the
    window is looked at. Raises `AnalysisError` for an impossible window.
    """
    work = work_in(trace, window)
    table = copies(work.trace, work.window)
    rows = np.arange(*work.rows_of("memcpys").indices(len(work.start))[:2])
    free = _free_compute(work)
    exposed = ints(table["exposed_ns"])
    reason, evidence = _reasons(work, table, rows, exposed > 0)
    saving = np.minimum(exposed, free[work.device[rows]] if len(rows) else exposed)
    saving[reason == REASONS.index("nothing_to_overlap")] = 0
    links = dict(zip(work.trace.devices["device_id"], work.trace.devices["link_bytes_per_s"], strict=True))
    link = pl.col("device_id").replace_strict(links, return_dtype=pl.Int64, default=None)
    over_link = pl.col("copy_kind").is_in(["HtoD", "DtoH"])
    columns: dict[str, pl.Series | pl.Expr] = {
        "link_share": pl.when(over_link).then(pl.col("bytes_per_s") / link),
        "reason": _enum(reason),
        **{name: pl.Series(values, dtype=pl.Int64).replace(NONE, None) for name, values in evidence.items()},
        "saving_ns": pl.Series(saving),
        "callpath_id": pl.Series(work.callpath[rows], dtype=pl.Int64).replace(NONE, None),
    }
    places = places_of(work.trace, line_nodes(work.trace, work.callpath[rows], work.forward[rows]))
    return table.with_columns(**columns).hstack(places).cast({name: SCHEMA[name] for name in SCHEMA})


def _enum(reason: Ints) -> pl.Series:
    index = pl.Series(reason, dtype=pl.Int64).replace(NONE, None).cast(pl.UInt32)
    return pl.Series(REASONS, dtype=SCHEMA["reason"]).gather(index)


def _free_compute(work: Work) -> Ints:
    """Per device, its kernel time in the window that hides no copy, ns."""
    intervals = DeviceIntervals(work.trace, work.window)
    free = np.zeros(work.trace.devices.height, dtype=np.int64)
    for device_id in np.unique(work.device).tolist():
        kernels = union(*intervals.of(device_id, KERNEL_TABLES))
        copies = union(*intervals.of(device_id, ["memcpys"]))
        free[device_id] = kernels.length - overlap_length(kernels, copies)
    return free


def _reasons(work: Work, table: pl.DataFrame, rows: Ints, exposed: Mask) -> tuple[Ints, dict[str, Ints]]:
    """The reason of each copy (its place in `REASONS`, -1 for a hidden one), and the ids that show it."""
    count = len(rows)
    reason = np.where(exposed, REASONS.index("unknown"), NONE)
    activity, api, sync = (np.full(count, NONE, dtype=np.int64) for _ in range(3))
    evidence = {"evidence_activity_id": activity, "evidence_api_id": api, "evidence_sync_id": sync}
    if not exposed.any():
        return reason, evidence
    launches = launches_of(work.trace, int(work.api.max(initial=-1)))
    calls = calls_around(work)
    all_copies = queued(work, rows, launches)  # tables are sorted by start: the order of `rows` stays
    kernels = queued(work, kernel_rows(work), launches)
    running = {
        device: union(*IntervalSet(kernels.start[here], kernels.end[here]))
        for device in np.unique(work.device[rows]).tolist()
        for here in [work.device[kernels.row] == device]
    }

    def decide(name: str, asked: Ints, shown: Ints, into: Ints) -> None:
        """Give the reason to those copies, still undecided, for which something was shown."""
        which = asked[(shown != NONE) & (reason[asked] == REASONS.index("unknown"))]
        reason[which] = REASONS.index(name)
        into[which] = shown[(shown != NONE) & np.isin(asked, which, assume_unique=True)]

    open_ = np.flatnonzero(exposed)
    own_call = work.api[rows]
    host_side = (table["src_kind"] == "pageable") | (table["dst_kind"] == "pageable")
    which = open_[host_side.to_numpy()[open_]]
    reason[which], api[which] = REASONS.index("pageable_memory"), own_call[which]
    over_host = table["copy_kind"].is_in(_HOST_COPIES).to_numpy()
    open_ = _open(reason)
    which = open_[(launches.synchronous[own_call] & over_host)[open_]]
    reason[which], api[which] = REASONS.index("synchronous_call"), own_call[which]
    open_ = _open(reason)
    decide("synchronous_call", open_, _blocked_on(calls, own_call[open_], work.end[rows[open_]]), api)

    kind = codes(table["copy_kind"])
    context = _contexts(work.trace)
    for name, pairs in (("same_stream", _per_stream), ("legacy_default_stream", _per_legacy)):
        for copies_here, kernels_here in pairs(work, all_copies, kernels, _open(reason), context):
            part = all_copies.at(copies_here)
            found = neighbour(part, kernels.at(kernels_here))
            decide(name, copies_here, np.where(found >= 0, work.activity_id[found], NONE), activity)
    open_ = _open(reason)
    decide("wait_before", open_, _waiting_streams(work, rows[open_]), sync)
    open_ = _open(reason)
    decide("wait_before", open_, _waiting_hosts(work, calls, rows[open_], running), api)
    for device in np.unique(work.device[rows]).tolist():
        on_device = work.device[rows] == device
        for direction in np.unique(kind[on_device]).tolist():
            open_ = _open(reason)
            open_ = open_[on_device[open_] & (kind[open_] == direction)]
            if len(open_):
                part = all_copies.at(open_)
                found = competing(part, all_copies.at(on_device & (kind == direction)))
                decide("other_copy", open_, np.where(found >= 0, work.activity_id[found], NONE), activity)
        open_ = _open(reason)
        open_ = open_[on_device[open_]]
        part = all_copies.at(open_)
        alone = nothing_queued(part, kernels.at(work.device[kernels.row] == device))
        reason[open_[alone]] = REASONS.index("nothing_to_overlap")
    return reason, evidence


def _open(reason: Ints) -> Ints:
    """Copies without a reason so far."""
    return np.flatnonzero(reason == REASONS.index("unknown"))


def _blocked_on(calls: Calls, own_call: Ints, end: Ints) -> Ints:
    """The wait that follows the call of each copy in its thread and ends the copy; -1 where there is none."""
    place = calls.place[own_call]
    following = np.minimum(place + 1, len(calls.api_id) - 1)
    if not len(calls.api_id):
        return np.full(len(own_call), NONE, dtype=np.int64)
    fits = (place >= 0) & (place + 1 < len(calls.api_id)) & calls.blocks[following]
    fits &= calls.thread[following] == calls.thread[place]
    fits &= (calls.start[following] <= end) & (calls.end[following] >= end)
    return np.where(fits, calls.api_id[following], NONE)


def _waiting_hosts(work: Work, calls: Calls, rows: Ints, running: dict[int, IntervalSet]) -> Ints:
    """The wait before the call of each copy in its thread, where kernels ran from its start to the copy; else -1."""
    place = calls.place[work.api[rows]]
    found = np.full(len(rows), NONE, dtype=np.int64)
    fits = place >= 1
    fits[fits] &= calls.waits[place[fits] - 1] & (calls.thread[place[fits] - 1] == calls.thread[place[fits]])
    for device, kernels in running.items():
        here = np.flatnonzero(fits & (work.device[rows] == device))
        before = place[here] - 1
        ran = covered_in(kernels, calls.start[before], work.start[rows[here]]) > 0
        found[here[ran]] = calls.api_id[before[ran]]
    return found


def _waiting_streams(work: Work, rows: Ints) -> Ints:
    """The wait for an event on the stream of each copy, with nothing between the two; else -1."""
    waits = usable(work.trace.syncs).filter(
        (pl.col("sync_kind") == "stream_wait_event") & pl.col("stream_id").is_not_null()
    )
    found = np.full(len(rows), NONE, dtype=np.int64)
    stream, end, ids = ints(waits["stream_id"]), ints(waits["end_ns"]), ints(waits["sync_id"])
    for one in np.intersect1d(stream, work.stream[rows]).tolist():
        here = np.flatnonzero(work.stream[rows] == one)
        of_stream = np.flatnonzero(stream == one)
        of_stream = of_stream[np.argsort(end[of_stream], kind="stable")]
        begun = np.sort(work.start[work.stream == one])
        start = work.start[rows[here]]
        last = np.searchsorted(end[of_stream], start, side="right") - 1
        wait = of_stream[np.maximum(last, 0)]
        between = np.searchsorted(begun, start, side="left") - np.searchsorted(begun, end[wait], side="left")
        fits = (last >= 0) & (between == 0)
        found[here[fits]] = ids[wait[fits]]
    return found


def _per_stream(work: Work, copies: Queued, kernels: Queued, open_: Ints, context: Ints) -> list[tuple[Ints, Mask]]:
    """Undecided copies of each stream, and the kernels of that stream."""
    return [
        (open_[copies.stream[open_] == stream], kernels.stream == stream)
        for stream in np.intersect1d(copies.stream[open_], kernels.stream).tolist()
    ]


def _per_legacy(work: Work, copies: Queued, kernels: Queued, open_: Ints, context: Ints) -> list[tuple[Ints, Mask]]:
    """Undecided copies that the legacy default stream ties to kernels of other streams of their context."""
    kind = work.trace.streams["kind"].cast(pl.String)
    legacy = (kind == "legacy").to_numpy()
    tied = kind.is_in(_SYNCHRONISING).to_numpy()
    pairs = []
    for one in np.unique(context[copies.stream[open_]]).tolist():
        here = open_[context[copies.stream[open_]] == one]
        kernels_here = context[kernels.stream] == one
        for mine, theirs in ((legacy, tied), (tied, legacy)):
            copies_here = here[mine[copies.stream[here]]]
            if len(copies_here):
                pairs.append((copies_here, kernels_here & theirs[kernels.stream]))
    return pairs


def _contexts(trace: Trace) -> Ints:
    """A number per stream: equal for streams of one CUDA context."""
    streams = trace.streams.select("device_id", "process_id", "context")
    return streams.select(pl.struct(pl.all()).rank("dense").cast(pl.Int64)).to_series().to_numpy()
