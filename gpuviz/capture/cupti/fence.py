"""The end of a capture: everything that was launched has been recorded, and every record has been delivered.

CUPTI delivers on threads of its own, and records can arrive after the call that flushes them has returned. So the fence
leaves a mark: it waits for each context by ``cuCtxSynchronize``, a call that is itself recorded, and then looks for
that very record in what arrives. Where no context exists nothing was launched, and nothing is waited for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpuviz.capture.cupti import walk
from gpuviz.capture.cupti.control import Control
from gpuviz.capture.cupti.driver import SUCCESS, Driver
from gpuviz.capture.cupti.layouts import Kind
from gpuviz.capture.cupti.pool import Bytes, Pool
from gpuviz.capture.ranges import thread_key

_POLL_S = 0.001
_FLUSH_AGAIN_S = 0.05
# CUPTI may keep an empty buffer for each thread, so that its having some does not mean that more will come.
_QUIET_S = 0.02
_SETTLE_S = 0.25


@dataclass(frozen=True)
class Fence:
    """How the end of a capture went. `problem`: why records may be missing, as a sentence; None where none is.
    `own_calls`: the correlation ids of the calls that the fence itself has made."""

    problem: str | None = None
    own_calls: frozenset[int] = frozenset()


def wait_for_delivery(
    control: Control,
    driver: Driver,
    pool: Pool,
    sizes: Mapping[int, int],
    synchronizing: frozenset[int],
    *,
    timeout_s: float,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> Fence:
    """Wait for all work that exists, then until its records have come. `synchronizing`: the callback ids of
    ``cuCtxSynchronize``. On a time-out CUPTI is forced to hand out what it has."""
    contexts = driver.contexts()
    if not contexts:
        control.flush(forced=False)
        return Fence()
    began = control.timestamp()
    statuses = [driver.synchronize(context) for context in contexts]
    failed = next((status for status in statuses if status != SUCCESS), None)
    control.flush(forced=False)
    own: set[int] = set()
    deadline = now() + timeout_s
    flush_at = now() + _FLUSH_AGAIN_S
    while True:
        own |= _own_calls(pool.drain(), sizes, synchronizing, began)
        if len(own) >= len(contexts):
            problem = None if failed is None else _synchronize_failed(failed)
            return Fence(problem, frozenset(own))
        if now() >= deadline:
            break
        if now() >= flush_at:
            control.flush(forced=False)
            flush_at = now() + _FLUSH_AGAIN_S
        sleep(_POLL_S)
    control.flush(forced=True)
    own |= _own_calls(pool.drain(), sizes, synchronizing, began)
    if len(own) >= len(contexts):  # the force brought them: nothing is known to be missing
        return Fence(None if failed is None else _synchronize_failed(failed), frozenset(own))
    problem = (
        f"CUPTI did not deliver the record that marks the end of the capture within {timeout_s:g} s, and was made to "
        "hand out what it had: records may be missing, and their times incomplete. Capture fewer steps, or again."
    )
    return Fence(problem if failed is None else _synchronize_failed(failed), frozenset(own))


def settle(
    pool: Pool, *, sleep: Callable[[float], None] = time.sleep, now: Callable[[], float] = time.monotonic
) -> None:
    """Drain until CUPTI has no buffer left, or none has come for a few milliseconds."""
    end = now() + _SETTLE_S
    quiet_at = now() + _QUIET_S
    while True:
        if pool.drain():
            quiet_at = now() + _QUIET_S
        if not pool.stats().with_cupti:
            pool.drain()
            return
        if now() >= min(quiet_at, end):
            return
        sleep(_POLL_S)


def without_own_calls(buffers: Sequence[Bytes], sizes: Mapping[int, int], own_calls: frozenset[int]) -> list[Bytes]:
    """The buffers without the records of the fence's own calls, which the user has not made.

    Records follow each other without framing, so the pieces around a record are buffers too.
    """
    if not own_calls:
        return list(buffers)
    pieces: list[Bytes] = []
    for buffer in buffers:
        at = 0
        for offset, size in sorted(_places(buffer, sizes, own_calls)):
            pieces.append(buffer[at:offset])
            at = offset + size
        pieces.append(buffer[at:])
    return [piece for piece in pieces if len(piece)]


def _own_calls(
    buffers: Sequence[Bytes], sizes: Mapping[int, int], synchronizing: frozenset[int], began: int
) -> set[int]:
    """The correlation ids of synchronise calls that this thread has made since `began`."""
    gathered = walk.gather(buffers, sizes, kinds=(Kind.DRIVER,))
    if gathered is None or Kind.DRIVER not in gathered.records:
        return set()
    calls = gathered.records[Kind.DRIVER]
    ours = (
        np.isin(calls["callback_id"], list(synchronizing))
        & (calls["thread_id"] == thread_key())
        & (calls["start"] >= np.uint64(began))
    )
    return set(calls["correlation_id"][ours].tolist())


def _places(buffer: Bytes, sizes: Mapping[int, int], own_calls: frozenset[int]) -> list[tuple[int, int]]:
    """Where the records of these calls lie in a buffer: the call, and the wait that it was."""
    kinds = (Kind.DRIVER, Kind.SYNCHRONIZATION)
    gathered = walk.gather([buffer], sizes, kinds=kinds)
    found: list[tuple[int, int]] = []
    for kind in kinds:
        if gathered is not None and kind in gathered.records:
            ours = np.isin(gathered.records[kind]["correlation_id"], list(own_calls))
            if ours.any():
                offsets = walk.offsets_of(buffer, sizes, kind)[ours]
                found.extend((offset, sizes[kind]) for offset in offsets.tolist())
    return found


def _synchronize_failed(status: int) -> str:
    return (
        f"Waiting for the GPU at the end of the capture failed (cuCtxSynchronize returned CUDA error {status}): the "
        "program's own CUDA error, most likely, and records of work after it are missing. See the program's output."
    )
