"""The input transformer that takes the ``%%gpuprofile`` line off a cell.

A cell magic gets its body as text and would have to run it itself: `await`, the display of the last expression, the
lines of tracebacks and the stop of Run All would all have to be imitated. So the line is taken off before IPython runs
the cell. The comment in its place keeps the numbers of the lines, and tells `pre_run_cell` what was asked for: IPython
transforms the same text more than once, at times without running it, so that a transformer must not remember anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from IPython.core.error import UsageError
from IPython.core.inputtransformer2 import cell_magic

from gpuviz.notebook.options import parse_options

_PROFILE_LINE = re.compile(r"%%gpuprofile(?:[ \t]+(?P<options>.*?))?\s*$")
_COMMENT = "# gpuviz profiles this cell: %%gpuprofile "
_COMMENT_LINE = re.compile("^" + re.escape(_COMMENT) + "(.*)$", re.MULTILINE)


def profile_transformer(is_nested: Callable[[], bool]) -> Callable[[list[str]], list[str]]:
    """The transformer. Where `is_nested`, another magic asks on behalf of the cell that is running, as ``%%time`` above
    ``%%gpuprofile`` does: no cell will begin, so that the ordinary magic has to do the work."""

    def take_off_profile_line(lines: list[str]) -> list[str]:
        match = _PROFILE_LINE.match(lines[0]) if lines else None
        if match is None or is_nested():
            return lines
        options = match["options"] or ""
        try:
            parse_options(options)
        except UsageError:
            # Reading them again, as the whole of the cell, raises where it stops Run All; here it would be an error
            # of the transformation, with a traceback that nobody wants to see.
            return [f"__import__('gpuviz.notebook.options', fromlist=['_']).parse_options({options!r})\n"]
        return [f"{_COMMENT}{options}\n", *_other_magic(lines[1:])]

    # The check whether a cell is complete leaves such transformers out; it has to see the cell as a cell magic.
    take_off_profile_line.has_side_effects = True  # type: ignore[attr-defined]
    return take_off_profile_line


def _other_magic(lines: list[str]) -> list[str]:
    """The lines, with a cell magic that stands first among them turned into its call."""
    first = next((index for index, line in enumerate(lines) if not line.isspace()), len(lines))
    called: list[str] = cell_magic(lines[first:])
    return lines[:first] + called


def asked_for(raw_cell: str, transformed_cell: str) -> str | None:
    """The options that the transformer has taken off this cell; None where it has not."""
    if _COMMENT in raw_cell:  # copied from the history of transformed cells: there it is only a comment
        return None
    match = _COMMENT_LINE.search(transformed_cell)
    return None if match is None else match[1]


def timed_body(source: str) -> str | None:
    """What ``%%time`` runs of this cell, as it compiles it; None when it is not the magic of the cell."""
    lines = source.lstrip().splitlines(keepends=True)
    if lines and _PROFILE_LINE.match(lines[0]):
        lines = "".join(lines[1:]).lstrip().splitlines(keepends=True)
    if not lines or not re.match(r"%%time(\s|$)", lines[0]):
        return None
    return without_leading_blank_lines("".join(lines[1:]))


def without_leading_blank_lines(source: str) -> str:
    """The cell from its first line that is not blank: IPython counts lines from there."""
    lines = source.splitlines(keepends=True)
    first = next((index for index, line in enumerate(lines) if not line.isspace()), 0)
    return "".join(lines[first:])
