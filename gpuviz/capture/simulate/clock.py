"""The virtual clock: host time, with the time taken out that only the simulation costs.

Two kinds. *Deterministic*: only modelled costs pass, so that two runs give the same nanoseconds. Otherwise the real
time of the user's own Python and host work (a data loader, say) passes, the clock stands still while PyTorch and the
simulator work on what a GPU would have done, and the modelled cost of that work is added instead.
"""

from __future__ import annotations

import time

_FIXED_START_NS = 1_700_000_000_000_000_000  # any fixed moment will do: a round second of November 2023


class VirtualClock:
    """Nanoseconds since 1970, as CUPTI's default clock on Linux."""

    def __init__(self, deterministic: bool) -> None:
        self.deterministic = deterministic
        self._time_ns = _FIXED_START_NS
        self._running_since: int | None = None

    def start(self) -> None:
        """Begin anew, running."""
        self._time_ns = _FIXED_START_NS if self.deterministic else time.time_ns()
        self._running_since = None
        self.resume()

    def now(self) -> int:
        """The time."""
        if self._running_since is None:
            return self._time_ns
        return self._time_ns + time.perf_counter_ns() - self._running_since

    def pause(self) -> None:
        """Let no real time pass from here on."""
        if self._running_since is not None:
            self._time_ns += time.perf_counter_ns() - self._running_since
            self._running_since = None

    def resume(self) -> None:
        """Let real time pass again, unless the clock is deterministic."""
        if not self.deterministic and self._running_since is None:
            self._running_since = time.perf_counter_ns()

    def spend(self, duration_ns: int) -> None:
        """A modelled cost passes."""
        self._time_ns += duration_ns

    def wait_until(self, time_ns: int) -> None:
        """The host waits; nothing happens when the moment has passed."""
        waiting = time_ns - self.now()
        if waiting > 0:
            self._time_ns += waiting
