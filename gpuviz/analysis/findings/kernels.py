"""What the kernels themselves tell: too small, too slow a type, too little of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import polars as pl

from gpuviz.analysis.findings.facts import Facts, each_device, of_span
from gpuviz.analysis.findings.rule import Abstain, Hit, Rule
from gpuviz.analysis.grouping import codes
from gpuviz.analysis.selection import usable
from gpuviz.analysis.text import count_text, duration_text, share_text
from gpuviz.analysis.work import nearest

TINY_NS = 10_000
TINY_COUNT = 100
TINY_SHARE = 0.01
BUSY_SHARE = 0.5
FLOAT32_SHARE = 0.01
FLOAT32_GEMM = re.compile(r"(?:^|[_\W])sgemm|gemm_f32f32_f32f32_f32|_ffma_|ffma_")
WITH_TF32 = re.compile(r"ampere_|ada_|hopper_|sm(?:8\d|9\d|1[0-2]\d)_|cutlass_(?:8\d|9\d|1[0-2]\d)_")


def _kernels(facts: Facts) -> pl.DataFrame:
    """Usable kernels of the window, with their device and their share of its busy time."""
    work = facts.amounts.work
    rows = work.rows_of("kernels")
    kernels = usable(facts.trace.kernels)
    if kernels.height != work.heights["kernels"]:
        kept = pl.Series(work.activity_id[rows], dtype=pl.Int32).implode()
        kernels = kernels.filter(pl.col("activity_id").is_in(kept))
    return kernels.with_columns(
        device_id=pl.Series(work.device[rows], dtype=pl.Int32),
        busy_ns=pl.Series(facts.amounts.busy_share[rows]),
        own_launch=pl.Series(work.first[rows]),
    )


def _tiny(facts: Facts) -> Iterator[Hit]:
    tiny = _kernels(facts).filter(((pl.col("end_ns") - pl.col("start_ns")) < TINY_NS) & pl.col("own_launch"))
    if tiny.height < TINY_COUNT:
        return
    line = facts.nodes(tiny)
    is_operator = (facts.trace.frames["layer"] == "op").to_numpy()
    frame = facts.trace.callpaths["frame_id"].to_numpy()
    operator = nearest(facts.trace, is_operator[frame])[tiny["callpath_id"].fill_null(-1).to_numpy()]
    place = np.where(line >= 0, line, operator)
    frame_of = np.append(frame, -1)[place]
    tiny = tiny.with_columns(place=pl.Series(frame_of))
    by_place = tiny.filter(pl.col("place") >= 0).group_by("device_id", "place", maintain_order=True)
    many = by_place.agg(pl.len(), pl.col("busy_ns").sum()).filter(pl.col("len") >= TINY_COUNT)
    for device in each_device(facts):
        for row in many.filter(device_id=device.device_id).iter_rows(named=True):
            if row["busy_ns"] > TINY_SHARE * device.span_ns:
                rows = tiny.filter((pl.col("device_id") == device.device_id) & (pl.col("place") == row["place"]))
                name = facts.trace.frames["function"][row["place"]]
                mean = (rows["end_ns"] - rows["start_ns"]).mean()
                sentence = (
                    f"{count_text(row['len'], 'kernel')} below {duration_text(TINY_NS)} each come from one place, "
                    f"{name} (mean {duration_text(mean)}), and take {of_span(row['busy_ns'], device)} of {device.name}"  # type: ignore[arg-type]
                )
                yield facts.hit(device, sentence, round(row["busy_ns"]), rows, "kernels")


def _float32(facts: Facts) -> Iterator[Hit]:
    kernels = _kernels(facts)
    numbers = codes(kernels["name"])
    names = kernels["name"].unique()
    plain = {code: bool(FLOAT32_GEMM.search(str(name))) for code, name in zip(codes(names), names, strict=True)}
    told = {code: bool(WITH_TF32.search(str(name))) for code, name in zip(codes(names), names, strict=True)}
    matmul = np.array([plain[code] for code in numbers.tolist()], dtype=np.bool_)
    by_name = np.array([told[code] for code in numbers.tolist()], dtype=np.bool_)
    unsure = []
    for device in each_device(facts):
        capability = facts.trace.devices["compute_capability"][device.device_id]
        here = matmul & (kernels["device_id"] == device.device_id).to_numpy()
        if capability is not None and int(capability.split(".")[0]) < 8:
            continue
        if capability is None:
            unsure += [device.name] if (here & ~by_name).any() else []
            here &= by_name
        rows = kernels.filter(pl.Series(here))
        time_ns = round(rows["busy_ns"].sum())
        if time_ns > FLOAT32_SHARE * device.span_ns:
            sentence = (
                f"{count_text(rows.height, 'matrix product')} in full float32 on {device.name}, which has TF32 units "
                f"that stood by, took {of_span(time_ns, device)}"
            )
            yield facts.hit(device, sentence, time_ns, rows, "kernels")
            unsure = []
    if unsure:
        raise Abstain(f"whether {', '.join(unsure)} has TF32 units: the compute capability is not recorded")


def _utilisation(facts: Facts) -> Iterator[Hit]:
    for device in each_device(facts):
        busy = facts.times[device.device_id]["busy_ns"]
        if busy >= BUSY_SHARE * device.span_ns:
            continue
        gaps = facts.idle(device)
        longest = int((gaps.end - gaps.start).argmax())
        start, end = int(gaps.start[longest]), int(gaps.end[longest])
        idle = device.span_ns - busy
        gap_count = count_text(len(gaps.start), "gap")
        sentence = (
            f"{device.name} was busy only {share_text(busy, device.span_ns)} of {duration_text(device.span_ns)}: "
            f"idle for {duration_text(idle)} in {gap_count}, the longest {duration_text(end - start)}."
        )
        yield Hit(
            sentence,
            time_ns=idle,
            share=idle / device.span_ns,
            device_id=device.device_id,
            start_ns=start,
            end_ns=end,
        )


RULES = (
    Rule(
        "low_utilisation",
        "a GPU that is idle most of the time",
        "idle = window − |K ∪ C ∪ M|; reported where busy is below 50 % of the window",
        "See what the host did in the gaps (the findings on idle time), and give the GPU more work at once.",
        "How well the busy time is used: a GPU can be busy with one small kernel.",
        _utilisation,
    ),
    Rule(
        "many_tiny_kernels",
        "many tiny kernels from one place",
        "kernels below 10 µs with a launch of their own, of one line (else operator), from 100 of them; time is their share "
        "of the busy time; reported above 1 % of the window",
        "Fuse them (torch.compile, foreach and fused optimisers), batch them, or replay them as a CUDA graph.",
        "Whether the time between them is lost too; the launch stages tell.",
        _tiny,
    ),
    Rule(
        "float32_matmul",
        "float32 matrix products without TF32",
        "busy share of kernels whose name says float32 without tensor cores (sgemm, ffma), on devices from compute "
        "capability 8.0; reported above 1 % of the window",
        "torch.set_float32_matmul_precision('high') lets them use TF32; bfloat16 (autocast) is faster still.",
        "Whether the result bears TF32's 10 bits of mantissa, and kernels whose names do not tell their type.",
        _float32,
    ),
)
