"""What ran, waited and was called around copies: the facts that `gpuviz.analysis.copy_reasons` decides by."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from gpuviz.analysis.intervals import Ints
from gpuviz.analysis.selection import KERNEL_TABLES, Mask, ints
from gpuviz.analysis.work import Work, by_name
from gpuviz.model import Trace

NONE = -1


class Queued(NamedTuple):
    """GPU work from the moment when the host asked for it: sorted by start. -1 is null."""

    row: Ints
    """Rows of `Work`."""
    stream: Ints
    launch: Ints
    """Start of the launch, at most the start of the work; the start of the work where no launch is known."""
    launched: Mask
    """Whether the launch is known."""
    start: Ints
    end: Ints

    def at(self, places: Ints | Mask) -> Queued:
        """The work at these places; of truths, where they hold."""
        if places.dtype == np.bool_:
            if places.all():
                return self
            places = np.flatnonzero(places)
        return Queued(
            self.row[places],
            self.stream[places],
            self.launch[places],
            self.launched[places],
            self.start[places],
            self.end[places],
        )


class Calls(NamedTuple):
    """Launches and waits of the host, thread by thread in order of start; positions answer for `api_id`."""

    api_id: Ints
    thread: Ints
    start: Ints
    end: Ints
    """-1 where the call did not return."""
    blocks: Mask
    """A wait of the host: ``…Synchronize``."""
    waits: Mask
    """Any wait: of the host, or of a stream for an event."""
    place: Ints
    """Position of each API call among these, by ``api_id``; -1 for others, and at the end for ids that are null."""


class Launches(NamedTuple):
    """By ``api_id``, one more at the end (null): start (NONE where unknown), and whether the name is synchronous."""

    start: Ints
    known: Mask
    synchronous: Mask


def launches_of(trace: Trace, highest: int) -> Launches:
    """The calls of a trace up to this ``api_id``."""
    calls = _usable_calls(trace)
    ids = ints(calls["api_id"])
    inside = ids <= highest
    start = np.full(highest + 2, NONE, dtype=np.int64)
    known, synchronous = np.zeros(highest + 2, dtype=np.bool_), np.zeros(highest + 2, dtype=np.bool_)
    start[ids[inside]] = ints(calls["start_ns"])[inside]
    known[ids[inside]] = True
    is_synchronous = by_name(calls["name"], lambda name: "memcpy" in name and "async" not in name)
    synchronous[ids[inside]] = is_synchronous[inside]
    return Launches(start, known, synchronous)


def calls_around(work: Work) -> Calls:
    """The outermost calls that launch work of `work` or wait."""
    calls = _usable_calls(work.trace)
    blocks = by_name(calls["name"], lambda name: "synchronize" in name)
    waits = blocks | by_name(calls["name"], lambda name: "streamwaitevent" in name)
    ids = ints(calls["api_id"])
    highest = max(int(ids.max(initial=-1)), int(work.api.max(initial=-1)))
    launching = np.zeros(highest + 2, dtype=np.bool_)
    launching[work.api] = True
    launching[-1] = False
    kept = np.flatnonzero((launching[ids] | waits) & calls["parent_api_id"].is_null().to_numpy())
    thread, start = ints(calls["thread_id"])[kept], ints(calls["start_ns"])[kept]
    kept = kept[np.lexsort((start, thread))]
    place = np.full(highest + 2, NONE, dtype=np.int64)
    place[ids[kept]] = np.arange(len(kept))
    return Calls(
        ids[kept],
        ints(calls["thread_id"])[kept],
        ints(calls["start_ns"])[kept],
        ints(calls["end_ns"])[kept],
        blocks[kept],
        waits[kept],
        place,
    )


def _usable_calls(trace: Trace) -> pl.DataFrame:
    calls = trace.api_calls
    odd = (calls["timing"] == "invalid") | calls["start_ns"].is_null()
    return calls.filter(~odd) if odd.any() else calls


def queued(work: Work, rows: Ints, launches: Launches) -> Queued:
    """These rows of `work`, by start."""
    rows = rows[np.argsort(work.start[rows], kind="stable")]
    start = work.start[rows]
    launched = launches.known[work.api[rows]]
    launch = np.where(launched, np.minimum(launches.start[work.api[rows]], start), start)
    return Queued(rows, work.stream[rows], launch, launched, start, work.end[rows])


def kernel_rows(work: Work) -> Ints:
    """Rows of `work` that compute."""
    parts = [np.arange(*work.rows_of(name).indices(len(work.start))[:2]) for name in KERNEL_TABLES]
    return np.concatenate(parts)


def neighbour(copies: Queued, kernels: Queued) -> Ints:
    """The kernel next to each copy that was queued together with it: a row of `Work`, or -1.

    The first kernel that starts at or after the copy's end, if it was launched before that end; else the last one that
    starts before the copy does, if the copy was launched before that kernel's end.
    """
    found = np.full(len(copies.row), NONE, dtype=np.int64)
    if not len(kernels.row):
        return found
    before = np.searchsorted(kernels.start, copies.start, side="left") - 1
    earlier = np.maximum(before, 0)
    fits = (before >= 0) & copies.launched & (copies.launch < kernels.end[earlier])
    found[fits] = kernels.row[earlier[fits]]
    after = np.searchsorted(kernels.start, copies.end, side="left")
    later = np.minimum(after, len(kernels.row) - 1)
    fits = (after < len(kernels.row)) & kernels.launched[later] & (kernels.launch[later] < copies.end)
    found[fits] = kernels.row[later[fits]]
    return found


def nothing_queued(copies: Queued, kernels: Queued) -> Mask:
    """Copies during whose whole way, from launch to end, no kernel of the device was queued or ran; for certain.

    Not certain: the launch of the copy, or that of the next kernel, is not known.
    """
    after = np.searchsorted(kernels.start, copies.end, side="left")
    launched = np.append(kernels.launched, True)[after]
    asked = np.searchsorted(np.sort(kernels.launch), copies.end, side="left")
    done = np.searchsorted(np.sort(kernels.end), copies.launch, side="right")
    alone: Mask = (asked == done) & copies.launched & launched
    return alone


def competing(copies: Queued, others: Queued) -> Ints:
    """A copy of another stream that runs between the launch and the end of each copy: a row of `Work`, or -1.

    Of several, the one that ends last.
    """
    found, until = np.full(len(copies.row), NONE, dtype=np.int64), copies.launch.copy()
    for stream in np.unique(others.stream).tolist():
        there = others.at(others.stream == stream)
        asking = np.flatnonzero(copies.stream != stream)
        last = np.searchsorted(there.start, copies.end[asking], side="left") - 1
        longest = np.maximum.accumulate(there.end)
        which = np.maximum.accumulate(np.where(there.end == longest, np.arange(len(there.end)), 0))
        fits = (last >= 0) & (longest[np.maximum(last, 0)] > until[asking])
        asking, last = asking[fits], last[fits]
        found[asking] = there.row[which[last]]
        until[asking] = longest[last]
    return found
