"""Idle time by what the host was doing, and launches that come too slowly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import polars as pl

from gpuviz.analysis.findings.facts import MOST_EVIDENCE, Device, Facts, each_device, of_span
from gpuviz.analysis.findings.rule import Abstain, Hit, Rule
from gpuviz.analysis.launch_bound import DEPTH, KERNEL_SHARE, launch_bound
from gpuviz.analysis.selection import usable
from gpuviz.analysis.text import count_text, duration_text, share_text

SHARE = 0.02
BUSY_SHARE = 0.5
FORMULA = "idle time of the device whose cause (`idle`) is this; reported above 2 % of the window"


class _Cause(NamedTuple):
    """What is said about the idle time of one cause."""

    cause: str
    says: str
    advice: str
    limits: str


_CAUSES = (
    _Cause(
        "launching",
        "the host was launching the next kernel",
        "Launch less: fuse kernels (torch.compile), replay CUDA graphs, use larger batches.",
        "Whether a faster host would help: the stages of each launch tell.",
    ),
    _Cause(
        "copy_call",
        "the host stood in a copy call",
        "Copy asynchronously from pinned memory, ahead of the work that needs the data.",
        "Whether the copy itself or the wait inside the call took the time.",
    ),
    _Cause(
        "allocator",
        "the host was in a call that allocates or frees GPU memory",
        "Reuse memory (a caching allocator, buffers made once); cudaFree waits for the whole device.",
        "Who held the memory.",
    ),
    _Cause(
        "collective",
        "the host was in a collective operation",
        "Overlap communication with work (larger buckets, asynchronous collectives).",
        "What the other ranks did: compare their recordings.",
    ),
    _Cause(
        "overhead",
        "the profiler or the driver reported overhead of its own",
        "Warm up before recording: first calls load modules, compile and tune.",
        "Whether the overhead exists without the profiler.",
    ),
    _Cause(
        "other_call",
        "the host was in another call of CUDA",
        "Move calls that are needed once (attributes, events, streams) out of the loop.",
        "What the call waited for.",
    ),
    _Cause(
        "operator",
        "the host ran an operator that launched nothing yet",
        "Look at the operators there: shape arithmetic, views and checks on the host cost as much as launches.",
        "What the operator did: nothing below it was recorded.",
    ),
    _Cause(
        "python",
        "the host ran Python",
        "Move work out of the loop, off this thread, or to the GPU.",
        "Whether Python itself or a library that it calls took the time.",
    ),
    _Cause(
        "waiting",
        "the host waited for something outside of CUDA",
        "Look at what the thread waited for: a lock, a queue, a file.",
        "Who was to release it.",
    ),
    _Cause(
        "queued",
        "a launch had returned and its work had not begun",
        "Look at the streams: an event, another stream or a full queue holds the work back.",
        "What the device waited for.",
    ),
    _Cause(
        "nothing_recorded",
        "nothing was recorded of the host",
        "Record with stacks, or put named ranges around the code.",
        "Everything about what the host did.",
    ),
)


_SAYS = {cause.cause: cause.says for cause in _CAUSES} | {
    "sync": "the host waited for the GPU",
    "data_loader": "the host waited for data",
}


def _rule(cause: _Cause) -> Rule:
    def look(facts: Facts) -> Iterator[Hit]:
        pieces = facts.idle_causes.filter(pl.col("cause") == cause.cause)
        for device in each_device(facts):
            rows = pieces.filter(device_id=device.device_id)
            time_ns = int(rows["duration_ns"].sum())
            if time_ns > SHARE * device.span_ns:
                yield _hit(facts, cause, rows, device, time_ns)

    needs = ("gpu", "complete") if cause.cause == "nothing_recorded" else ("gpu", "complete", "host")
    title = f"idle time while {cause.says}"
    return Rule(f"idle_{cause.cause}", title, FORMULA, cause.advice, cause.limits, look, needs)


def _hit(facts: Facts, cause: _Cause, rows: pl.DataFrame, device: Device, time_ns: int) -> Hit:
    """The evidence: the kernels that these gaps end with."""
    kernels = usable(facts.trace.kernels)
    ends = rows["gap_end_ns"].unique().implode()
    after = kernels.filter(pl.col("start_ns").is_in(ends) & facts.is_on(kernels, device))
    with_path = rows.select("callpath_id", "start_ns", "end_ns")
    lines, paths = facts.lines(with_path, rows["duration_ns"].to_numpy())
    gaps = count_text(rows["gap_start_ns"].n_unique(), "gap")
    doing = rows.drop_nulls("doing").group_by("doing", maintain_order=True).agg(pl.col("duration_ns").sum())
    longest = doing["duration_ns"].arg_max()
    most = "" if longest is None else f", most of all {doing['doing'][longest]}"
    at = f" Look at {lines[0]}." if lines else ""
    return Hit(
        sentence=f"{device.name} was idle for {of_span(time_ns, device)} in {gaps} while {cause.says}{most}.{at}",
        time_ns=time_ns,
        share=time_ns / device.span_ns,
        device_id=device.device_id,
        evidence_table="kernels" if after.height else None,
        evidence_ids=tuple(after["activity_id"].head(MOST_EVIDENCE).to_list()),
        start_ns=rows["start_ns"].min(),  # type: ignore[arg-type]
        end_ns=rows["end_ns"].max(),  # type: ignore[arg-type]
        lines=lines,
        callpath_ids=paths,
    )


def _utilisation(facts: Facts) -> Iterator[Hit]:
    for device in each_device(facts):
        busy = facts.times[device.device_id]["busy_ns"]
        if busy >= BUSY_SHARE * device.span_ns:
            continue
        gaps = facts.idle(device)
        longest = int((gaps.end - gaps.start).argmax())
        start, end = int(gaps.start[longest]), int(gaps.end[longest])
        idle_ns = device.span_ns - busy
        gap_count = count_text(len(gaps.start), "gap")
        cause = _SAYS[facts.main_cause(device) or "nothing_recorded"]
        sentence = (
            f"{device.name} was busy only {share_text(busy, device.span_ns)} of {duration_text(device.span_ns)}: "
            f"idle for {duration_text(idle_ns)} in {gap_count}, the longest {duration_text(end - start)}, "
            f"mostly while {cause}."
        )
        yield Hit(sentence, idle_ns, idle_ns / device.span_ns, device.device_id, start_ns=start, end_ns=end)


def _launch_bound(facts: Facts) -> Iterator[Hit]:
    verdicts = {row["device_id"]: row for row in launch_bound(facts.trace, facts.window).iter_rows(named=True)}
    unsure = []
    for device in each_device(facts):
        row = verdicts[device.device_id]
        if row["launch_bound"] is None:
            unsure.append(device.name)
        if not row["launch_bound"]:
            continue
        kernels = usable(facts.trace.kernels)
        rows = kernels.filter(facts.is_on(kernels, device))
        time_ns = row["span_ns"] - row["kernel_ns"]
        depth = count_text(row["median_depth"], "launch", "launches")
        sentence = (
            f"{device.name} waits for launches: kernels ran for {share_text(row['kernel_ns'], row['span_ns'])} of "
            f"{duration_text(row['span_ns'])}, and half of the time no more than {depth} stood in its queues"
        )
        yield facts.hit(device, sentence, time_ns, rows, "kernels", pl.Series(np.ones(rows.height, dtype=np.int64)))
    if unsure:
        raise Abstain(f"how many launches were on their way to {', '.join(unsure)} is not known")


RULES = (
    Rule(
        "launch_bound",
        "a GPU that waits for launches",
        f"kernel union below {KERNEL_SHARE:.0%} of the window and time-weighted median queue depth at most {DEPTH}; "
        "the time is the window without kernels",
        "Fewer, larger kernels: larger batches, torch.compile, CUDA graphs; take waits out of the loop.",
        "How much of the time a faster host would win: kernels may be too small for the device as well.",
        _launch_bound,
        needs=("gpu", "complete", "api_calls"),
    ),
    Rule(
        "low_utilisation",
        "a GPU that is idle most of the time",
        "idle = window − |K ∪ C ∪ M|; reported where busy is below 50 % of the window",
        "See what the host did in the gaps (the findings on idle time), and give the GPU more work at once.",
        "How well the busy time is used: a GPU can be busy with one small kernel.",
        _utilisation,
    ),
    *(_rule(cause) for cause in _CAUSES),
)
