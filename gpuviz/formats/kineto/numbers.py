"""Numbers as trace files write them → exact integers.

Times are decimal microseconds, and epoch times with nanoseconds need 61 bits: a float64 has 53 and shifts 99.6 % of
the timestamps of a real trace by up to 253 ns (pytorch/kineto#853). So a time goes from its decimal text to int64 ns
and is never a float.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import Any

import polars as pl

LIMIT_NS = 2**62 - 1
"""Larger times are cut to this (and found absurd later), so that a sum or a difference of two fits into 64 bits."""

_PLAIN = r"^\s*([+-]?)(\d{1,16})(?:\.(\d*))?\s*$"
_LARGEST_US = LIMIT_NS // 1000
_NEGATIVE_FRACTION = re.compile(r"\s*(?:-(\d+)|0)\.-(\d+)\s*")
_MOST_DIGITS = 40
"""A number with more digits before its point than this is too large, and cheap to refuse before it is expanded."""


def integers(values: list[Any], dtype: pl.DataType | None = None) -> pl.Series:
    """Integers, also from text; whatever is none, or does not fit, is null."""
    target = dtype or pl.Int64()
    whole = pl.Series(values, dtype=pl.Int64, strict=False)
    return whole if target == pl.Int64() else whole.cast(target, strict=False)


def texts(values: list[Any]) -> pl.Series:
    """Texts; numbers as they were written, and null for everything else."""
    return pl.Series(values, dtype=pl.String, strict=False)


def nanoseconds(values: list[Any]) -> pl.Series:
    """Microseconds, as numbers or as text, in whole ns; null where there is no number.

    Digits below a nanosecond are cut off.
    """
    if all(type(value) is int for value in values):
        whole = pl.Series(values, dtype=pl.Int64, strict=False)
        if not whole.null_count():
            none = pl.zeros(len(values), pl.Int64, eager=True)
            return _to_ns(whole, none, none)
    text = pl.Series([value if type(value) is str else _as_text(value) for value in values], dtype=pl.String)
    parts = text.str.extract_groups(_PLAIN).struct
    sign, whole, fraction = (parts.field(name) for name in parts.fields)
    ns = fraction.fill_null("").str.slice(0, 3).str.pad_end(3, "0").cast(pl.Int64)
    answer = _to_ns(whole.cast(pl.Int64), ns, (sign == "-").fill_null(False).cast(pl.Int64))
    odd = (whole.is_null() & text.is_not_null()).arg_true()
    if len(odd):
        answer = answer.scatter(odd, [_odd_nanoseconds(value) for value in text.gather(odd)])
    return answer


def difference(end: Any, start: Any) -> str | None:
    """end − start as decimal text, None where one of them is no number."""
    try:
        return str(Decimal(_as_text(end) or "") - Decimal(_as_text(start) or ""))
    except InvalidOperation:
        return None


def _as_text(value: Any) -> str | None:
    if type(value) is str:
        return value
    return str(value) if type(value) is int else None


def _to_ns(whole: pl.Series, ns: pl.Series, negative: pl.Series) -> pl.Series:
    fits = whole.is_between(-_LARGEST_US, _LARGEST_US, closed="none").fill_null(True)
    return (whole * 1000 + ns).zip_with(fits, whole.sign() * LIMIT_NS) * (1 - 2 * negative)


def _odd_nanoseconds(text: str) -> int | None:
    """What the fast way does not read: exponents, many digits, and ``0.-500``, which means -500 ns."""
    if match := _NEGATIVE_FRACTION.fullmatch(text):
        whole, ns = (int((digits or "0")[:_MOST_DIGITS]) for digits in match.groups())
        return max(-(whole * 1000 + ns), -LIMIT_NS)
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    if not number.is_finite():
        return None
    if number.adjusted() > _MOST_DIGITS:
        return -LIMIT_NS if number < 0 else LIMIT_NS
    return 0 if number.adjusted() < -_MOST_DIGITS else max(-LIMIT_NS, min(LIMIT_NS, int(number * 1000)))
