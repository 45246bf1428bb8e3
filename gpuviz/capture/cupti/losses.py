"""What a capture has lost, and what nobody can know: a number that cannot be counted is None, never 0."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuviz._native.cupti_buffers import PoolStats
from gpuviz.capture.cupti.allowlist import Allowlist
from gpuviz.capture.cupti.control import Control
from gpuviz.capture.cupti.layouts import KERNEL_KINDS, Kind
from gpuviz.capture.cupti.walk import Gathered
from gpuviz.errors import CuptiError

_GPU_KINDS = (*KERNEL_KINDS, Kind.MEMCPY, Kind.MEMCPY2, Kind.MEMSET, Kind.GRAPH_TRACE)


@dataclass(frozen=True)
class Dropped:
    """How many records were lost; None: unknown. `problem` says why it is, or what to do about the loss."""

    count: int | None
    problem: str | None = None


def count_dropped(control: Control, pool: PoolStats, *, complete: bool) -> Dropped:
    """What CUPTI had no room for, plus what the pool had to overwrite. `complete`: everything is known to have come."""
    try:
        by_cupti = control.dropped()
    except CuptiError as error:
        return Dropped(None, f"How many records were lost is unknown: {error}")
    if pool.not_ours:
        return Dropped(
            None,
            f"CUPTI returned {pool.not_ours} buffers to gpuviz that were another profiler's: two of them record in "
            "this process, and records may be with the other one. End it, and capture again.",
        )
    if pool.refused and not by_cupti:
        # Mixing the two generations of CUPTI's calls in one process pins its count at 0 (pytorch/pytorch#192094).
        return Dropped(
            None,
            f"The memory for records was full ({pool.refused} times), but CUPTI counts no record as lost: how many "
            "are missing is unknown. Capture fewer steps, or allow more memory.",
        )
    if not complete:
        return Dropped(None)
    return Dropped(by_cupti + pool.overwritten_records)


def silent_gpu(gathered: Gathered, allowlist: Allowlist) -> str | None:
    """A sentence where work was put on a GPU and the GPU reported none of it: success with nothing in it is the worst
    failure of a profiler."""
    found = {*gathered.records, *gathered.skipped}
    if found.intersection(_GPU_KINDS):
        return None
    launched = 0
    for kind, api in ((Kind.RUNTIME, "runtime"), (Kind.DRIVER, "driver")):
        calls = gathered.records.get(kind)
        if calls is not None:
            enqueues = np.isin(calls["callback_id"], list(allowlist.enqueuing(api))) & (calls["return_value"] == 0)
            launched += int(np.count_nonzero(enqueues))
    if not launched:
        return None
    return (
        f"{launched} calls put work on the GPU, and CUPTI recorded no kernel, copy or fill: GPU times are unknown, not "
        "zero. Look for another profiler (nsys, ncu, DCGM), a CUPTI that does not fit the driver, or launches that "
        "only built a CUDA graph."
    )
