"""Numbers and labels as a person reads them; the engine's text.mjs says them the same way."""

from __future__ import annotations

import re

from gpuviz.analysis.text import count_text as count_text
from gpuviz.analysis.text import duration_text as duration_text
from gpuviz.analysis.text import share_text as share_text


def natural_key(label: str) -> list[tuple[int, int, str]]:
    """Sort key that puts "stream 9" before "stream 10"."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", label) if part]
