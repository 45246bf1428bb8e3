"""Repairs of the text of one event that is not JSON. Each is a mistake that some writer is known to make."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

# Kineto divided bytes by a duration of zero and printed the answer (pytorch/kineto#105).
_NOT_FINITE = re.compile(r'("(?:[^"\\]|\\.)*")|([:\[,]\s*)[-+]?(?:inf|nan)(?:inity)?(?:\(\w*\))?(?=\s*[,\]}])', re.I)
# It prints -500 ns as 0.-500: whole microseconds, a dot, and the signed rest in ns (pytorch/kineto#646).
_NEGATIVE_FRACTION = re.compile(r'("(?:[^"\\]|\\.)*")|(-?\d+\.-\d+)')
# Windows paths are written as they are (pytorch/kineto#336).
_BACKSLASH = re.compile(r'(\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})|\\')
# UTF-16 halves that have no partner: no text can hold them.
_SURROGATE = re.compile(
    r"(\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
_ANY_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


@dataclass(frozen=True)
class Repair:
    """A repair: the diagnostic that counts it, and what it does to the text (text, how often)."""

    code: str
    apply: Callable[[str], tuple[str, int]]


def _replace(pattern: re.Pattern[str], replacement: Callable[[re.Match[str]], str]) -> Callable[[str], tuple[str, int]]:
    """Replace what the pattern finds; group 1 is what it must step over and leave alone."""

    def apply(text: str) -> tuple[str, int]:
        count = 0

        def one(match: re.Match[str]) -> str:
            nonlocal count
            if match[1] is not None:
                return match[0]
            count += 1
            return replacement(match)

        return pattern.sub(one, text), count

    return apply


REPAIRS = (
    Repair("number_not_finite", _replace(_NOT_FINITE, lambda match: match[2] + "null")),
    Repair("negative_fraction", _replace(_NEGATIVE_FRACTION, lambda match: f'"{match[2]}"')),
    Repair("backslash_repaired", _replace(_BACKSLASH, lambda match: r"\\")),
)


def attempts(text: str) -> Iterable[tuple[str, dict[str, int]]]:
    """The text after one repair more each time, with what was done to it so far."""
    done: dict[str, int] = {}
    for repair in REPAIRS:
        text, count = repair.apply(text)
        if count:
            done[repair.code] = count
            yield text, dict(done)


def replace_lone_surrogates(text: str) -> str:
    r"""The text with ``\ud800`` and its like, where they stand alone, written as ``\ufffd``."""
    if _ANY_SURROGATE.search(text) is None:
        return text
    return _SURROGATE.sub(lambda match: match[1] or r"\ufffd", text)
