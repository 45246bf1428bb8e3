"""Copies that computing does not hide: one rule per reason of `gpuviz.analysis.copy_verdicts`, and fills."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import polars as pl

from gpuviz.analysis.findings.facts import Facts, each_device, of_span, spans_of
from gpuviz.analysis.findings.rule import Hit, Rule
from gpuviz.analysis.selection import usable
from gpuviz.analysis.text import count_text, duration_text
from gpuviz.analysis.work import by_name

SHARE = 0.01
TIME_NS = 1_000_000
FORMULA = (
    "|C ∪ K| − |K|, with C the copies of this reason and K the kernels of the device; "
    "reported above 1 % of the window or 1 ms"
)


class _Kind(NamedTuple):
    """What is said about one reason."""

    reason: str
    name: str
    title: str
    says: str
    advice: str
    limits: str


_UNSURE = "Whether the work before or behind the copy needs its data: no recorder sees data dependencies."
_KINDS = (
    _Kind(
        "pageable_memory",
        "pageable_copies",
        "copies from or to pageable host memory",
        "from or to pageable memory",
        "Pin the host side (DataLoader(pin_memory=True), tensor.pin_memory()) and copy with non_blocking=True: "
        "only copies of pinned memory run beside kernels.",
        "Whether the host memory can be pinned, and whether the copy is needed at all.",
    ),
    _Kind(
        "synchronous_call",
        "synchronous_copies",
        "copies that the host waits for",
        "that the host waited for",
        "Copy asynchronously (cudaMemcpyAsync, non_blocking=True) and wait with an event only where the data is used.",
        "Whether the host needs the data at that very place.",
    ),
    _Kind(
        "same_stream",
        "copies_on_the_compute_stream",
        "copies in line with kernels of their own stream",
        "in line with kernels of their own stream",
        "Give copies a stream of their own, with an event where a kernel needs the data; copy the next batch while "
        "this one computes. A copy within the device can often be fused away.",
        _UNSURE,
    ),
    _Kind(
        "legacy_default_stream",
        "copies_on_the_default_stream",
        "copies that the legacy default stream keeps apart from kernels",
        "kept apart from kernels by the legacy default stream",
        "Use streams made with cudaStreamNonBlocking, or compile with --default-stream per-thread.",
        _UNSURE,
    ),
    _Kind(
        "wait_before",
        "copies_behind_waits",
        "copies that a wait kept from starting while kernels ran",
        "that a wait kept from starting while kernels ran",
        "Issue the copy before the wait, or wait for an event of the data instead of the whole stream or device.",
        _UNSURE,
    ),
    _Kind(
        "other_copy",
        "copies_behind_copies",
        "copies that another copy of that direction delays",
        "while another copy of that direction ran",
        "The link is the limit: copy less (smaller types, on the GPU itself) or earlier.",
        "How many copy engines the device has, and whether both copies used one.",
    ),
    _Kind(
        "nothing_to_overlap",
        "copies_without_compute",
        "copies with no kernel queued that they could run beside",
        "with no kernel queued beside them",
        "Launch the work before the copy first, or copy ahead (prefetch the next batch while this one computes).",
        "Whether any work could have been queued at that time.",
    ),
    _Kind(
        "unknown",
        "unexplained_copies",
        "copies that no kernel hides, for reasons that the recording does not show",
        "for a reason that the recording does not show",
        "Look at the copies in the timeline: kernels were queued, or their launches were not recorded.",
        "The reason.",
    ),
)


def _look(kind: _Kind) -> Rule:
    def look(facts: Facts) -> Iterator[Hit]:
        verdicts = facts.verdicts.filter(pl.col("reason") == kind.reason)
        for device in each_device(facts):
            rows = verdicts.filter(device_id=device.device_id)
            time_ns = facts.exposed(device.device_id, *spans_of(rows))
            if time_ns > TIME_NS or time_ns > SHARE * device.span_ns:
                saving = min(time_ns, _bound(facts, rows))
                bound = f"; hiding them saves at most {duration_text(saving)}" if saving else ""
                sentence = (
                    f"{count_text(rows.height, 'copy', 'copies')} {kind.says} left {device.name} without computing for "
                    f"{of_span(time_ns, device)}{bound}"
                )
                yield facts.hit(device, sentence, time_ns, rows, "memcpys", rows["exposed_ns"])

    return Rule(kind.name, kind.title, FORMULA, kind.advice, kind.limits, look)


def _bound(facts: Facts, rows: pl.DataFrame) -> int:
    """The most that hiding these copies of one device can save together: their savings, within its free compute."""
    times = facts.times[rows["device_id"][0]]
    free: int = times["kernel_ns"] - times["hidden_copy_ns"]
    return min(int(rows["saving_ns"].sum()), free)


def _fills(facts: Facts) -> Iterator[Hit]:
    calls = facts.trace.api_calls
    synchronous = calls.filter(pl.Series(by_name(calls["name"], lambda name: "memset" in name and "async" not in name)))
    fills = usable(facts.trace.memsets).join(synchronous, on="api_id", how="semi", maintain_order="left")
    fills = fills.join(facts.trace.streams.select("stream_id", "device_id"), on="stream_id", maintain_order="left")
    for device in each_device(facts):
        rows = fills.filter(device_id=device.device_id)
        time_ns = facts.exposed(device.device_id, *spans_of(rows))
        if time_ns > TIME_NS or time_ns > SHARE * device.span_ns:
            sentence = (
                f"{count_text(rows.height, 'fill')} by a synchronous call left {device.name} without computing for "
                f"{of_span(time_ns, device)}"
            )
            yield facts.hit(device, sentence, time_ns, rows, "memsets")


RULES = (
    *(_look(kind) for kind in _KINDS),
    Rule(
        "synchronous_fills",
        "fills by a synchronous call",
        "|M ∪ K| − |K|, with M the fills whose call is a Memset without Async; above 1 % of the window or 1 ms",
        "Use cudaMemsetAsync on the stream of the work, or let the kernel that follows write the zeros.",
        "Whether the host went on while the fill ran: calls for device memory may return early.",
        _fills,
        needs=("gpu", "complete", "api_calls"),
    ),
)
