"""An estimate of what CUDA graphs could gain: the gaps between launches that repeat, closed to those within graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from gpuviz.analysis.host_states import host_rows
from gpuviz.analysis.idle_pieces import CAUSES, POSITIONS, DeviceIdle, idle_pieces
from gpuviz.analysis.intervals import Ints
from gpuviz.analysis.selection import device_of_stream, ints, resolve_window, usable
from gpuviz.errors import AnalysisError
from gpuviz.model import Trace, Window

RUN_LENGTH = 8
"""So many launches in a row must occur again, by the names of their kernels, to count as repeating."""

DENSE_AT_MOST = 8
"""Numbers are counted where the highest is at most so many times their number, else sorted."""

CLOSED_BY_GRAPHS = ("queued", "launching", "other_call", "operator", "python", "nothing_recorded")
"""Causes of idle time that a replay does without. It neither loads data nor waits for the host, nor does it copy from
memory of the host that is not pinned; a gap with any other cause stays as it is."""

SCHEMA = pl.Schema(
    {
        "device_id": pl.Int32(),
        "ordinal": pl.Int32(),
        "span_ns": pl.Int64(),
        "launches": pl.Int64(),
        "repeating_launches": pl.Int64(),
        "gaps": pl.Int64(),
        "gap_ns": pl.Int64(),
        "node_gap_ns": pl.Int64(),
        "estimate_ns": pl.Int64(),
        "estimate_share": pl.Float64(),
        "reason": pl.String(),
    }
)


def graph_gain(trace: Trace, window: Window | None = None, *, node_gap_ns: int | None = None) -> pl.DataFrame:
    """An **estimate** of the time that replaying CUDA graphs could save: one row per row of `trace.devices`.

    ``launches``: kernels that start in the window and are the only activity of their launch; ``repeating_launches``
    of them lie in a run of 8 such kernels, in order of start, whose names occur in that order at least twice.
    ``gaps``: idle gaps of `idle` between two repeating launches that are neighbours in that order, where every
    cause is one that a replay does without (`CLOSED_BY_GRAPHS`); ``gap_ns`` is their time, which no gain can exceed.
    ``node_gap_ns``: the gap that stays between two nodes of a graph: the median (nearest rank) of max(0, start − end
    of the one before) over neighbouring activities of one graph launch of this device in the window; or the argument.

    ``estimate_ns`` = Σ over these gaps of max(0, gap − node gap), ``estimate_share`` of ``span_ns``. It assumes that
    what repeated will repeat, that shapes and addresses can be kept, and that kernels take as long as they did.

    Null: ``estimate_ns`` and ``estimate_share`` where they cannot be known, and ``reason`` says why:
    ``not_recorded`` (no GPU time of this device is known), ``replays_without_kernels`` (idle time is unreliable),
    ``nothing_repeats`` (no launch repeats), ``no_graph_to_measure`` (no graph launch in the window shows the gap
    between nodes, and none was given). Raises `AnalysisError` for an impossible window and a negative `node_gap_ns`.
    """
    window = resolve_window(trace, window)
    if node_gap_ns is not None and node_gap_ns < 0:
        raise AnalysisError(f"A gap of {node_gap_ns} ns between graph nodes was given. Give 0 or more, or None.")
    idle = {one.device_id: one for one in idle_pieces(trace, window, host_rows(trace, window))}
    reliable = "graph_replay_without_kernels" not in trace.diagnostics["code"]
    rows = []
    for device_id, ordinal in trace.devices.select("device_id", "ordinal").iter_rows():
        row: dict[str, Any] = {"device_id": device_id, "ordinal": ordinal}
        rows.append(row)
        if device_id not in idle:
            row["reason"] = "not_recorded"
            continue
        span_ns = idle[device_id].span[1] - idle[device_id].span[0]
        single, measured = _kernels(trace, window, device_id)
        repeats = _repeating(single["name"])
        gaps = _closable(idle[device_id], single, repeats)
        gap = node_gap_ns if node_gap_ns is not None else measured
        row |= {
            "span_ns": span_ns,
            "launches": single.height,
            "repeating_launches": int(repeats.sum()),
            "gaps": len(gaps),
            "gap_ns": int(gaps.sum()),
            "node_gap_ns": gap,
        }
        if not reliable:
            row["reason"] = "replays_without_kernels"
        elif not repeats.any():
            row["reason"] = "nothing_repeats"
        elif gap is None:
            row["reason"] = "no_graph_to_measure"
        else:
            row["estimate_ns"] = int(np.maximum(gaps - gap, 0).sum())
            row["estimate_share"] = row["estimate_ns"] / span_ns if span_ns else None
    return pl.DataFrame(rows, schema=SCHEMA)


def _kernels(trace: Trace, window: Window | None, device_id: int) -> tuple[pl.DataFrame, int | None]:
    """Kernels that start in the window alone in their launch, and the median gap within the graph launches."""
    every = usable(trace.kernels).select("name", "start_ns", "end_ns", "stream_id", "api_id")
    api_ids = every["api_id"].fill_null(-1).to_numpy()
    first, stop = (0, every.height) if window is None else np.searchsorted(ints(every["start_ns"]), window)
    table, api_id = every.slice(int(first), int(stop - first)), api_ids[first:stop].astype(np.int64)
    lowest = int(api_id.min(initial=0))
    siblings = np.bincount(api_ids[(api_ids >= lowest) & (api_ids <= api_id.max(initial=-1))] - lowest, minlength=1)
    number = np.where(api_id >= 0, siblings[api_id - lowest], 0)
    here = device_of_stream(trace)[ints(table["stream_id"])] == device_id
    single = table.select("name", "start_ns", "end_ns").filter(pl.Series(here & (number == 1)))
    nodes = np.flatnonzero(here & (number > 1))
    nodes = nodes[np.argsort(api_id[nodes], kind="stable")]
    start, end, call = ints(table["start_ns"])[nodes], ints(table["end_ns"])[nodes], api_id[nodes]
    gaps = np.sort(np.maximum(start[1:] - end[:-1], 0)[call[1:] == call[:-1]])
    return single, int(gaps[(len(gaps) + 1) // 2 - 1]) if len(gaps) else None


def _repeating(names: pl.Series) -> npt.NDArray[np.bool_]:
    """Which rows lie in a run of `RUN_LENGTH` rows that occurs at least twice: (rows,)."""
    runs = len(names) - RUN_LENGTH + 1
    mask = np.zeros(len(names), dtype=np.bool_)
    if runs < 2:
        return mask
    # One number per distinct run, by doubling: a pair of shorter runs is one longer run.
    code = _dense(names.to_physical().to_numpy().astype(np.int64))
    length = 1
    while length < RUN_LENGTH:
        code = code[:-length] * (int(code.max()) + 1) + code[length:]
        length *= 2
        code = _dense(code)
    again = np.flatnonzero(np.bincount(code)[code] > 1)
    steps = np.zeros(len(names) + 1, dtype=np.int64)
    steps[again] += 1
    steps[again + RUN_LENGTH] -= 1
    inside: npt.NDArray[np.bool_] = np.cumsum(steps)[:-1] > 0
    return inside


def _dense(code: Ints) -> Ints:
    """The same equalities with numbers from 0, without holes."""
    highest = int(code.max())
    if highest < DENSE_AT_MOST * len(code) + 2**16:
        present = np.cumsum(np.bincount(code, minlength=highest + 1) > 0) - 1
        return present[code]
    order = np.argsort(code)
    group = np.cumsum(np.append(False, code[order][1:] != code[order][:-1]))
    dense = np.empty_like(code)
    dense[order] = group
    return dense


def _closable(idle: DeviceIdle, single: pl.DataFrame, repeats: npt.NDArray[np.bool_]) -> Ints:
    """The lengths of the gaps between neighbouring repeating launches that a replay would do without."""
    closed = idle.position == POSITIONS.index("between")
    stays = ~np.isin(idle.pieces.cause, [CAUSES.index(cause) for cause in CLOSED_BY_GRAPHS])
    closed[idle.gap[stays]] = False
    begin, end = idle.gaps.start[closed], idle.gaps.end[closed]
    start, stop = ints(single["start_ns"]), ints(single["end_ns"])
    after = np.searchsorted(start, end)
    within = (after > 0) & (after < len(start))
    begin, end, after = begin[within], end[within], after[within]
    fits = (start[after] == end) & (stop[after - 1] == begin) & repeats[after] & repeats[after - 1]
    lengths: Ints = (end - begin)[fits]
    return lengths
