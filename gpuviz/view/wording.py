"""Numbers and labels as a person reads them; the engine's text.mjs says them the same way."""

from __future__ import annotations

import re

from gpuviz.analysis.text import count_text as count_text
from gpuviz.analysis.text import duration_text as duration_text
from gpuviz.analysis.text import share_text as share_text


def natural_key(label: str) -> list[tuple[int, int, str]]:
    """Sort key that puts "stream 9" before "stream 10"."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", label) if part]


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def printable(text: str, longest: int | None = None) -> str:
    """One line of text that a terminal and a page show as it is: control characters as symbols, cut with an ellipsis.

    Names come from traces and are hostile input; a raw escape character would talk to the reader's terminal. What is
    cut is the middle: long template names differ at both ends.
    """
    clean = _CONTROL.sub(_symbol, text)
    if longest is None or len(clean) <= longest:
        return clean
    tail = longest // 3
    return f"{clean[: longest - tail - 1]}…{clean[-tail:]}"


def _symbol(match: re.Match[str]) -> str:
    code = ord(match[0])
    return chr(0x2400 + code) if code < 0x20 else "\u2421" if code == 0x7F else "\ufffd"
