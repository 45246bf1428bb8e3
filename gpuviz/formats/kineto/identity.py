"""Ids as trace files write them: 2, "2", 2.0, a pointer, any text, or nothing."""

from __future__ import annotations

import re
from typing import Any

type Identity = int | str | None

_WHOLE = re.compile(r"(-?\d{1,18})(?:\.0+)?")


def identity(value: Any) -> Identity:
    """One form for an id: a number where it is one, else its text; None where there is nothing."""
    if value is None or isinstance(value, int):
        return value if value is None or abs(value) < 2**63 else str(value)
    text = str(value).strip()
    whole = _WHOLE.fullmatch(text)
    return int(whole[1]) if whole else text or None


def number(value: Identity) -> int | None:
    """The id as a number, where it is one."""
    return value if isinstance(value, int) else None


def natural_order(value: Identity) -> tuple[Any, ...]:
    """A sort key: numbers by size, then texts with the numbers inside them by size, nothing last."""
    if value is None:
        return (2,)
    if isinstance(value, int):
        return (0, value)
    parts = re.split(r"(\d+)", value)
    return (1, [int(part[:30]) if index % 2 else part for index, part in enumerate(parts)], value)
