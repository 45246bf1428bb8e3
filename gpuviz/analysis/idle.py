"""When each device was idle, and what the host was doing meanwhile."""

from __future__ import annotations

from typing import Literal

import numpy as np
import polars as pl

from gpuviz.analysis.device_time import device_time
from gpuviz.analysis.host_states import HostRows, follow, host_rows
from gpuviz.analysis.idle_as_hta import HTA_CAUSES, idle_as_hta
from gpuviz.analysis.idle_pieces import CAUSES, POSITIONS, DeviceIdle, idle_pieces
from gpuviz.analysis.intervals import Ints
from gpuviz.analysis.launched import UNKNOWN
from gpuviz.analysis.selection import ints, resolve_window
from gpuviz.errors import AnalysisError
from gpuviz.model import Trace, Window

REPORTED_SHARE = 0.02

SCHEMA = pl.Schema(
    {
        "device_id": pl.Int32(),
        "stream_id": pl.Int32(),
        "start_ns": pl.Int64(),
        "end_ns": pl.Int64(),
        "duration_ns": pl.Int64(),
        "cause": pl.Enum(CAUSES + HTA_CAUSES),
        "position": pl.Enum(POSITIONS),
        "gap_start_ns": pl.Int64(),
        "gap_end_ns": pl.Int64(),
        "thread_id": pl.Int32(),
        "callpath_id": pl.Int32(),
        "doing": pl.Categorical(),
        "file": pl.Categorical(),
        "cell_id": pl.Int32(),
        "line": pl.Int32(),
    }
)
SUMMARY_SCHEMA = pl.Schema(
    {
        "device_id": pl.Int32(),
        "stream_id": pl.Int32(),
        "cause": pl.Enum(CAUSES + HTA_CAUSES),
        "time_ns": pl.Int64(),
        "share": pl.Float64(),
        "gaps": pl.Int64(),
        "longest_ns": pl.Int64(),
        "reported": pl.Boolean(),
        "reliable": pl.Boolean(),
    }
)

type Causes = Literal["gpuviz", "hta"]


def idle(
    trace: Trace, window: Window | None = None, causes: Causes = "gpuviz", *, kernel_delay_ns: int = 30_000
) -> pl.DataFrame:
    """When each device was idle, cut where what the host was doing changed: one row per piece, by device and time.

    A gap is the time between two busy intervals (the union of all activities of the device), or between one and the
    edge of the window; without a window the span is first start to last end. Every instant of it has one ``cause``:

    - ``queued``: a launch has returned and its activity has not begun: the device (or what it waits for) is late;
    - else, of the threads of the processes that use the device, the innermost recorded row that comes first in
      `gpuviz.analysis.host_kinds.HOST_KINDS` (then that of the first thread), ``launch_call`` and ``dispatch`` as
      ``launching``; ``nothing_recorded`` where no thread has one.

    So Σ ``duration_ns`` of a device is its idle time of `device_time`, to the nanosecond, and disjoint windows add
    up. ``gap_start_ns`` and ``gap_end_ns`` are those of the whole gap in the window, ``position`` where it lies among
    the activities. ``thread_id``, ``callpath_id`` and ``doing`` (a name) say what the host was doing (when
    ``queued``: the launch that the gap ends with); ``file`` or ``cell_id`` and ``line`` are of the nearest frame with
    a line at or above that call path.

    `causes` "hta": HTA's three classes instead, per stream (`gpuviz.analysis.idle_as_hta`), with `kernel_delay_ns`
    as its threshold.

    Null: ``stream_id`` (in HTA's classes ``position``, and what the host was doing); what the host was doing where
    nothing is recorded. A device that was not recorded has no rows. Raises `AnalysisError` for an impossible window
    and for unknown `causes`.
    """
    window = resolve_window(trace, window)
    if causes == "hta":
        return idle_as_hta(trace, window, kernel_delay_ns, SCHEMA)
    if causes != "gpuviz":
        raise AnalysisError(f"The causes {causes!r} were asked for. Choose 'gpuviz' or 'hta'.")
    rows = host_rows(trace, window)
    parts = [_table(trace, one, rows) for one in idle_pieces(trace, window, rows)]
    return pl.concat(parts) if parts else pl.DataFrame(schema=SCHEMA)


def _table(trace: Trace, idle_time: DeviceIdle, rows: HostRows) -> pl.DataFrame:
    device_id, _, gaps, pieces, gap, position = idle_time
    queued = np.flatnonzero(pieces.call != UNKNOWN)
    thread, callpath = (np.append(column, UNKNOWN)[pieces.row] for column in (rows.thread, rows.callpath))
    calls = trace.api_calls.select("thread_id", "callpath_id", "name")[pieces.call[queued]]
    thread[queued], callpath[queued] = ints(calls["thread_id"]), ints(calls["callpath_id"])
    place = np.where(pieces.row >= 0, pieces.row, len(rows.name))
    place[queued] = len(rows.name) + 1 + np.arange(len(queued))
    names = pl.concat([rows.name, rows.name.clear(1), calls["name"]])
    columns = {
        "device_id": pl.Series([device_id], dtype=pl.Int32).new_from_index(0, len(gap)),
        "stream_id": pl.Series([None], dtype=pl.Int32).new_from_index(0, len(gap)),
        "start_ns": pl.Series(pieces.start),
        "end_ns": pl.Series(pieces.end),
        "duration_ns": pl.Series(pieces.end - pieces.start),
        "cause": pl.Series(CAUSES, dtype=SCHEMA["cause"]).gather(pieces.cause),
        "position": pl.Series(POSITIONS, dtype=SCHEMA["position"]).gather(position[gap]),
        "gap_start_ns": pl.Series(gaps.start[gap]),
        "gap_end_ns": pl.Series(gaps.end[gap]),
        "thread_id": _or_null(thread),
        "callpath_id": _or_null(callpath),
        "doing": names.gather(place),
        **_lines(trace, callpath),
    }
    return pl.DataFrame(columns).cast(SCHEMA)


def _or_null(ids: Ints) -> pl.Series:
    return pl.select(pl.when(pl.Series(ids) >= 0).then(pl.Series(ids))).to_series().cast(pl.Int32)


def _lines(trace: Trace, callpath: Ints) -> dict[str, pl.Series]:
    """File or cell, and line, of the nearest frame with a line at or above each call path."""
    columns = ("file", "cell_id", "line")
    paths, frames = trace.callpaths, trace.frames.select(columns)
    parent, frame = ints(paths["parent_id"]), ints(paths["frame_id"])
    has_line = frames["line"].is_not_null().to_numpy()
    at_node = has_line[frame] if len(frame) else np.empty(0, dtype=np.bool_)
    nearest = follow(np.where(at_node | (parent < 0), np.arange(len(frame)), parent))
    frame_of_node = np.where(at_node[nearest], frame[nearest], frames.height) if len(frame) else frame
    wanted = np.append(frame_of_node, frames.height)[callpath]
    with_nothing = pl.concat([frames, frames.clear(1)])
    return {name: with_nothing[name].gather(wanted) for name in columns}


def idle_summary(
    trace: Trace, window: Window | None = None, causes: Causes = "gpuviz", *, kernel_delay_ns: int = 30_000
) -> pl.DataFrame:
    """The idle time of `idle` by cause: one row per device (and with HTA's classes stream) and cause that occurs.

    ``time_ns`` adds up to the idle time of the device. ``share`` is of the window (without one, of the device's span);
    with HTA's classes of the idle time of the stream, as HTA has it. ``gaps``: gaps that have time of this cause,
    ``longest_ns``: the longest piece. ``reported``: the share is above 0.02. ``reliable`` as in `device_time`.

    Null: ``share`` of nothing. Raises `AnalysisError` for an impossible window and for unknown `causes`.
    """
    window = resolve_window(trace, window)
    table = idle(trace, window, causes, kernel_delay_ns=kernel_delay_ns)
    keys = ["device_id", "stream_id", "cause"]
    summary = table.group_by(keys).agg(
        time_ns=pl.col("duration_ns").sum(),
        gaps=pl.col("gap_start_ns").n_unique() if causes == "gpuviz" else pl.len(),
        longest_ns=pl.col("duration_ns").max(),
    )
    devices = device_time(trace, window).select("device_id", "span_ns", "reliable")
    summary = summary.join(devices, on="device_id", how="left")
    whole = pl.col("span_ns") if causes == "gpuviz" else pl.col("time_ns").sum().over("stream_id")
    share = pl.when(whole != 0).then(pl.col("time_ns") / whole)
    summary = summary.with_columns(share=share).with_columns(reported=pl.col("share") > REPORTED_SHARE)
    order = [pl.col("device_id"), pl.col("stream_id"), -pl.col("time_ns"), pl.col("cause")]
    return summary.sort(order).select(SUMMARY_SCHEMA.names()).cast(SUMMARY_SCHEMA)
