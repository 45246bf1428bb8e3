"""The profiles of this kernel: a table of all, and the traces of the last ones."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import overload

import polars as pl

from gpuviz.analysis import device_time
from gpuviz.errors import GpuvizError
from gpuviz.model import Trace, schema

MOST_PROFILES = 1_000
"""Rows that are kept; the oldest go first."""
MOST_TRACES = 20
MOST_BYTES = 512_000_000
"""Traces that are kept, by count and by the size of their tables together. The last one stays, whatever its size."""

_COLUMNS = pl.Schema(
    {
        "profile": pl.Int64(),
        "cell": pl.String(),
        "execution_count": pl.Int64(),
        "label": pl.String(),
        "wall_ns": pl.Int64(),
        "busy_ns": pl.Int64(),
        "backend": pl.String(),
        "modelled": pl.Boolean(),
        "when": pl.Datetime("us", "UTC"),
        "has_trace": pl.Boolean(),
    }
)


@dataclass(frozen=True)
class Profile:
    """One profiled cell or expression. `cell` is the id of the cell in the notebook; `busy_ns` that of the busiest
    device, None when no device has worked; `trace` is None once it had to make room."""

    number: int
    cell: str | None
    execution_count: int | None
    label: str | None
    wall_ns: int
    busy_ns: int | None
    backend: str
    modelled: bool
    when: datetime
    trace: Trace | None
    size_bytes: int


class History:
    """Profiles in the order in which they ended."""

    def __init__(self) -> None:
        self._profiles: deque[Profile] = deque(maxlen=MOST_PROFILES)
        self._count = 0
        self._lock = threading.Lock()

    def add(
        self,
        trace: Trace,
        *,
        cell: str | None,
        execution_count: int | None,
        label: str | None,
        wall_ns: int,
        backend: str,
    ) -> Profile:
        """Keep a trace, and let go of the oldest ones beyond the limits."""
        has_worked = any(trace.table(name).height for name in schema.ACTIVITY_TABLES)
        busy = device_time(trace)["busy_ns"].max() if has_worked else None
        with self._lock:
            self._count += 1
            profile = Profile(
                number=self._count,
                cell=cell,
                execution_count=execution_count,
                label=label,
                wall_ns=wall_ns,
                busy_ns=busy if isinstance(busy, int) else None,
                backend=backend,
                modelled=trace.meta.modelled,
                when=datetime.now(UTC),
                trace=trace,
                size_bytes=int(sum(table.estimated_size() for table in trace.tables.values())),
            )
            self._profiles.append(profile)
            self._make_room()
        return profile

    def _make_room(self) -> None:
        traces, size = 0, 0
        for index in range(len(self._profiles) - 1, -1, -1):
            profile = self._profiles[index]
            if profile.trace is None:
                break  # and so are all before it
            traces, size = traces + 1, size + profile.size_bytes
            if traces > 1 and (traces > MOST_TRACES or size > MOST_BYTES):
                self._profiles[index] = replace(profile, trace=None)

    def table(self) -> pl.DataFrame:
        """One row per profile, the oldest first."""
        rows = [
            (
                *(profile.number, profile.cell, profile.execution_count, profile.label),
                *(profile.wall_ns, profile.busy_ns, profile.backend, profile.modelled),
                *(profile.when, profile.trace is not None),
            )
            for profile in tuple(self._profiles)
        ]
        return pl.DataFrame(rows, schema=_COLUMNS, orient="row")

    def trace(self, number: int) -> Trace:
        """The trace of a profile by its number; -1 is the last one."""
        asked = f"Tried to get the trace of profile {number}"
        profiles = tuple(self._profiles)
        if not profiles:
            raise GpuvizError(f"{asked}: nothing was profiled in this kernel. `%%gpuprofile` profiles a cell.")
        wanted = number if number >= 0 else profiles[-1].number + 1 + number
        found = next((profile for profile in profiles if profile.number == wanted), None)
        if found is None:
            raise GpuvizError(
                f"{asked}: the profiles are {profiles[0].number} to {profiles[-1].number}. "
                "`gpuviz.history()` lists them."
            )
        if found.trace is None:
            raise GpuvizError(
                f"{asked}: it made room for later ones; {MOST_TRACES} traces of {MOST_BYTES // 1_000_000} MB together "
                "are kept. Bind a trace with `%%gpuprofile -o NAME`, or write it with `--save FILE`, to keep it longer."
            )
        return found.trace

    @property
    def totals(self) -> tuple[int, int, int]:
        """Profiles, traces that are kept, their bytes."""
        kept = [profile for profile in tuple(self._profiles) if profile.trace is not None]
        return len(self._profiles), len(kept), sum(profile.size_bytes for profile in kept)


KERNEL_HISTORY = History()
"""The one history of this process; it outlives an unloaded extension."""


@overload
def history() -> pl.DataFrame: ...
@overload
def history(number: int) -> Trace: ...
def history(number: int | None = None) -> pl.DataFrame | Trace:
    """What `%%gpuprofile` and `%gpuprofile` have profiled in this kernel, as a table; or one of the traces.

    ``gpuviz.history()`` has one row per profile: its number, the cell (its id in the notebook), execution count, label,
    wall time, busy time of the busiest device (null: no GPU work), backend, whether a simulator computed the times,
    when it ended, and whether its trace is still kept. ``gpuviz.history(3)`` is the trace of profile 3, and
    ``gpuviz.history(-1)`` the last one.

    The last 20 traces, up to 512 MB together, and 1,000 rows are kept.
    """
    return KERNEL_HISTORY.table() if number is None else KERNEL_HISTORY.trace(number)
