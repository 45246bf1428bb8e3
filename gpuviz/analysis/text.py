"""Numbers as a person reads them, for sentences; the views' engine says them the same way."""

from __future__ import annotations


def duration_text(nanoseconds: float | None) -> str:
    """A duration with a fitting unit; "unknown" for None."""
    if nanoseconds is None:
        return "unknown"
    size = abs(nanoseconds)
    if size >= 1e9:
        return f"{nanoseconds / 1e9:.3f} s"
    if size >= 1e6:
        return f"{nanoseconds / 1e6:.3f} ms"
    if size >= 1e3:
        return f"{nanoseconds / 1e3:.2f} µs"
    return f"{nanoseconds:.0f} ns"


def share_text(part: float | None, whole: float | None) -> str:
    """A share in per cent; "unknown" where either is unknown or the whole is 0."""
    if part is None or not whole:
        return "unknown"
    return f"{100 * part / whole:.1f} %"


def count_text(count: int, noun: str, plural: str | None = None) -> str:
    """ "1 kernel", "2 kernels", with thousands separated."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
