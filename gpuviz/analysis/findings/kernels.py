"""What the kernels themselves tell: too small, too slow a type."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import polars as pl

from gpuviz.analysis.by_line import line_nodes
from gpuviz.analysis.findings.facts import Facts, each_device, of_span
from gpuviz.analysis.findings.rule import Abstain, Hit, Rule
from gpuviz.analysis.intervals import union
from gpuviz.analysis.selection import counts, exact_sums, ints, usable
from gpuviz.analysis.text import count_text, duration_text
from gpuviz.analysis.work import by_name, nearest

TINY_NS = 10_000
TINY_COUNT = 100
TINY_SHARE = 0.01
FLOAT32_SHARE = 0.01
FIRST_WITH_TF32 = 8
"""Major compute capability."""

FLOAT32_GEMM = re.compile(r"(?:^|[_\W])sgemm|gemm_f32f32_f32f32_f32|_ffma_|ffma_")
WITH_TF32 = re.compile(r"ampere_|ada_|hopper_|sm(?:8\d|9\d|1[0-2]\d)_|cutlass_(?:8\d|9\d|1[0-2]\d)_")


def _kernels(facts: Facts) -> pl.DataFrame:
    """Usable kernels of the window; its rows are those of `Facts.amounts`."""
    work = facts.amounts.work
    rows = work.rows_of("kernels")
    kernels = usable(facts.trace.kernels)
    if kernels.height == work.heights["kernels"]:
        return kernels
    kept = pl.Series(work.activity_id[rows], dtype=pl.Int32).implode()
    return kernels.filter(pl.col("activity_id").is_in(kept))


def _tiny(facts: Facts) -> Iterator[Hit]:
    """Only kernels with a launch of their own: those of a graph cost one launch together."""
    work, rows = facts.amounts.work, facts.amounts.work.rows_of("kernels")
    short = (work.end[rows] - work.start[rows] < TINY_NS) & work.first[rows]
    if short.sum() < TINY_COUNT:
        return
    paths, frame = facts.trace.callpaths, ints(facts.trace.callpaths["frame_id"])
    line = line_nodes(facts.trace, work.callpath[rows], work.forward[rows])
    is_operator = (facts.trace.frames["layer"] == "op").to_numpy()
    place = np.where(line >= 0, line, nearest(facts.trace, is_operator[frame])[work.callpath[rows]])
    frame_of_node = np.append(frame, -1)
    frame_of = np.where(short, frame_of_node[place], -1) if paths.height else np.full(len(short), -1)
    for device in each_device(facts):
        here = np.where(work.device[rows] == device.device_id, frame_of, -1)
        sums = exact_sums(here, work.clipped[rows], facts.trace.frames.height)
        sizes = counts(here, facts.trace.frames.height)
        many = np.flatnonzero(
            (sizes >= TINY_COUNT) & (sums > TINY_SHARE * device.span_ns)
        )  # a union is at most the sum
        for one in many.tolist():
            of_one = np.flatnonzero(here == one)
            time_ns = union(*facts.clipped(work, of_one + rows.start)).length
            if time_ns <= TINY_SHARE * device.span_ns:
                continue
            found = _kernels(facts)[of_one]
            mean = int((found["end_ns"] - found["start_ns"]).sum()) / found.height
            sentence = (
                f"{count_text(found.height, 'kernel')} below {duration_text(TINY_NS)} each come from one place, "
                f"{facts.trace.frames['function'][one]} (mean {duration_text(mean)}), "
                f"and take {of_span(time_ns, device)} of {device.name}"
            )
            yield facts.hit(device, sentence, time_ns, found, "kernels")


def _float32(facts: Facts) -> Iterator[Hit]:
    kernels = _kernels(facts)
    matmul = by_name(kernels["name"], lambda name: bool(FLOAT32_GEMM.search(name)))
    tells = by_name(kernels["name"], lambda name: bool(WITH_TF32.search(name)))
    rows = facts.amounts.work.rows_of("kernels")
    unsure = []
    for device in each_device(facts):
        capability = facts.trace.devices["compute_capability"][device.device_id]
        here = matmul & (facts.amounts.work.device[rows] == device.device_id)
        if capability is not None and int(capability.split(".")[0]) < FIRST_WITH_TF32:
            continue
        if capability is None:
            unsure += [device.name] if (here & ~tells).any() else []
            here &= tells
        time_ns = union(*facts.clipped(facts.amounts.work, np.flatnonzero(here) + rows.start)).length
        if time_ns > FLOAT32_SHARE * device.span_ns:
            found = kernels.filter(pl.Series(here))
            sentence = (
                f"{count_text(found.height, 'matrix product')} in full float32 on {device.name}, which has TF32 units "
                f"that stood by, took {of_span(time_ns, device)}"
            )
            yield facts.hit(device, sentence, time_ns, found, "kernels")
    if unsure:
        raise Abstain(
            f"the compute capability of {', '.join(unsure)} is not recorded, so that TF32 may be missing there"
        )


RULES = (
    Rule(
        "many_tiny_kernels",
        "many tiny kernels from one place",
        "kernels below 10 µs with a launch of their own, of one line (else operator), from 100 of them; "
        "time is their union; reported above 1 % of the window",
        "Fuse them (torch.compile, foreach and fused optimisers), batch them, or replay them as a CUDA graph.",
        "Whether the time between them is lost too; the launch stages tell.",
        _tiny,
    ),
    Rule(
        "float32_matmul",
        "float32 matrix products without TF32",
        "union of kernels whose name says float32 without tensor cores (sgemm, ffma), on devices from compute "
        "capability 8.0; reported above 1 % of the window",
        "torch.set_float32_matmul_precision('high') lets them use TF32; bfloat16 (autocast) is faster still.",
        "Whether the result bears TF32's 10 bits of mantissa, and kernels whose names do not tell their type.",
        _float32,
    ),
)
