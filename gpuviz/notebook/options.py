"""The options of ``%%gpuprofile`` and ``%gpuprofile``: text in, one frozen object out, or a `UsageError`."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from IPython.core.error import UsageError

from gpuviz.capture.backend import CHOICES as BACKEND_CHOICES
from gpuviz.capture.simulate.gpus import gpu_named
from gpuviz.errors import CaptureError

CHOICES_OF_VIEW = ("all", "flamegraph", "timeline", "copies", "none")

_WORD = re.compile(r"""\s*((?:"[^"]*"|'[^']*'|[^\s"'])+)""")
_QUOTED = re.compile(r""""([^"]*)"|'([^']*)'""")


@dataclass(frozen=True)
class ProfileOptions:
    """What was asked of one profile. `expression` is the rest of the line, as it was written."""

    name: str | None = None
    quiet: bool = False
    view: str = "all"
    backend: str = "auto"
    steps: int | None = None
    warmup: int = 0
    label: str | None = None
    save: str | None = None
    expression: str = ""


def parse_options(text: str, *, line_magic: bool = False) -> ProfileOptions:
    """The options in `text`; for the line magic, what follows them is the expression.

    An expression that begins with a minus stands behind ``--``.
    """
    options = ProfileOptions()
    rest = text
    while (match := _WORD.match(rest)) and match[1].startswith("-"):
        word, rest = match[1], rest[match.end() :]
        if word == "--":
            break
        flag, given, value = word.partition("=")
        if flag in ("-q", "--quiet"):
            if given:
                raise _refused(f"{flag} takes no value")
            options = replace(options, quiet=True)
            continue
        if flag not in _READERS:
            raise _refused(f"there is no option {flag}")
        if not given:
            follows = _WORD.match(rest)
            if follows is None or (follows[1].startswith("-") and follows[1][1:2].isalpha()):
                raise _refused(f"{flag} lacks its value")
            value, rest = follows[1], rest[follows.end() :]
        field, read = _READERS[flag]
        changes: dict[str, Any] = {field: read(flag, _unquoted(value))}
        options = replace(options, **changes)
    expression = rest.strip()
    if expression and not line_magic:
        raise _refused(
            f"{expression!r} stands behind the options; the code of a cell begins in the next line, "
            "and `%gpuprofile EXPR`, with one %, profiles an expression"
        )
    if not expression and line_magic:
        raise _refused("no expression was given: `%gpuprofile model(batch)`; `%%gpuprofile` profiles a whole cell")
    if options.warmup and options.steps is None:
        raise _refused("--warmup counts steps, and --steps is not given")
    return replace(options, expression=expression)


def _identifier(flag: str, value: str) -> str:
    if not value.isidentifier() or keyword.iskeyword(value):
        raise _refused(f"{flag} {value!r} is not a name that a variable can have")
    return value


def _view(flag: str, value: str) -> str:
    if value not in CHOICES_OF_VIEW:
        raise _refused(f"{flag} {value!r} is none of {', '.join(CHOICES_OF_VIEW)}")
    return value


def _backend(flag: str, value: str) -> str:
    """Only what can be seen from the text, and before the cell runs; whether it works, its start shows."""
    kind, colon, argument = value.partition(":")
    if kind == "replay" and argument:
        if not Path(argument).expanduser().is_file():
            raise _refused(f"{flag} {value!r}: there is no file {argument!r}")
    elif kind == "simulate" and (argument or not colon):
        try:
            gpu_named(argument or "H100")
        except CaptureError as error:
            raise _refused(f"{flag} {value!r}: {error}") from None
    elif value != "auto":
        raise _refused(f"{flag} {value!r} is none of {BACKEND_CHOICES}")
    return value


def _text(flag: str, value: str) -> str:
    if not value:
        raise _refused(f"{flag} lacks its value")
    return value


def _count(smallest: int) -> Callable[[str, str], int]:
    def read(flag: str, value: str) -> int:
        if not value.isdecimal() or int(value) < smallest:
            raise _refused(f"{flag} {value!r} is not a whole number of at least {smallest}")
        return int(value)

    return read


_READERS: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "-o": ("name", _identifier),
    "--output": ("name", _identifier),
    "--view": ("view", _view),
    "--backend": ("backend", _backend),
    "--steps": ("steps", _count(1)),
    "--warmup": ("warmup", _count(0)),
    "--label": ("label", _text),
    "--save": ("save", _text),
}


def _unquoted(value: str) -> str:
    return _QUOTED.sub(lambda match: match[1] if match[1] is not None else match[2], value)


def _refused(found: str) -> UsageError:
    return UsageError(f"gpuprofile: {found}. `%%gpuprofile?` shows all options.")
