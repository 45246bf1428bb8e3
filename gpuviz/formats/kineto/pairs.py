"""Begin and end events → whole events.

``B`` and ``E`` nest within a thread and become intervals (``X``). ``b``/``e`` and the older ``S``/``F`` are joined by
category and id over all threads and become ranges (phase "async", a name of our own).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

from gpuviz.formats.kineto.numbers import difference, nanoseconds
from gpuviz.formats.kineto.text import Event
from gpuviz.model.diagnostics import Diagnostics

_BEGINS = ("B", "b", "S")


def paired(halves: list[Event], diagnostics: Diagnostics) -> Iterator[Event]:
    """One event per begin; without an end it stays open. An end without a begin is counted."""
    if not halves:
        return
    times = nanoseconds([half.get("ts") for half in halves]).fill_null(0).to_list()
    in_order = sorted(zip(times, range(len(halves)), strict=True), key=itemgetter(0))
    open_events: dict[Any, list[Event]] = defaultdict(list)
    lonely_ends = 0
    for _, index in in_order:
        half = halves[index]
        phase = half["ph"]
        waiting = open_events[_lane(half)]
        if phase in _BEGINS:
            whole = {**half, "ph": "X" if phase == "B" else "async"}
            whole.pop("dur", None)
            waiting.append(whole)
        elif waiting:
            begin = waiting.pop(_of_same_name(waiting, half.get("name")))
            begin["dur"] = difference(half.get("ts"), begin.get("ts"))
            if isinstance(args := half.get("args"), dict):
                begin["args"] = {**args, **(begin["args"] if isinstance(begin.get("args"), dict) else {})}
            yield begin
        else:
            lonely_ends += 1
    for waiting in open_events.values():
        yield from waiting
    diagnostics.add("phase_ignored", lonely_ends, "an end without a begin")


def _lane(half: Event) -> tuple[Any, ...]:
    """What a begin and its end have in common; as text, because anything can stand there."""
    if half["ph"] in "BE":
        return (str(half.get("pid")), str(half.get("tid")))
    of_process = str(half.get("pid")) if half["ph"] in "be" else ""
    return ("async", of_process, str(half.get("cat")), str(half.get("id", half.get("id2"))))


def _of_same_name(waiting: list[Event], name: Any) -> int:
    """The innermost begin of this name; the innermost of all where the end has no name, or none of its own."""
    same = (index for index in range(len(waiting) - 1, -1, -1) if waiting[index].get("name") == name)
    return next(same, -1) if name is not None else -1
