"""The bytes of a trace file → its events, one at a time, and what it says about itself.

Every event is scanned on its own, by the C scanner of the standard library. So a file costs no more memory than its
text, the place of a bad event is known, and one bad event costs one event: the scan goes on where the next one
begins. Numbers with a fraction stay text (`gpuviz.formats.kineto.numbers` says why).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from gpuviz.formats.kineto.repair import attempts, replace_lone_surrogates
from gpuviz.model.diagnostics import Diagnostics

type Event = dict[str, Any]

_UNREADABLE = (ValueError, StopIteration, RecursionError)
"""What the scanner raises: StopIteration at the end of the text, ValueError for bad JSON and for absurd integers."""

# Commas count as space: trailing and doubled ones are common (google/perfetto#1822).
_SPACE = re.compile(r"[\s,\x00]*")
_COLON = re.compile(r"\s*:\s*")
_EVENT = re.compile(r'\{\s*"(?:ph|name|cat|pid|tid|ts|dur|args)"\s*:')
_NEXT_OBJECT = re.compile(r'(?:\}\s*,?|\[)\s*(?=\{\s*")')
_END_OF_ARRAY = re.compile(r'\}(?=\s*\](?:\s*,\s*"[^"\\\n]*"\s*:|\s*\}\s*(?:\{|\Z)|\s*\Z))')
_NEXT_MEMBER = re.compile(r'\n\s*(?="[^"\\\n]{1,80}"\s*:)|(?="traceEvents"\s*:\s*\[)')
_QUOTED_TIMES = ('"ts":"', '"ts": "', '"dur":"', '"dur": "')
_EXAMPLE_LENGTH = 80
_NEAR = 8192
"""Longer than nearly all events."""
_LONGEST_TOKEN = 16
"""An error this close to the end of a cut may be the cut itself."""
_MOST_ENDS = 20
"""How many ends of the array are tried for a bad last event, so that a mess cannot make this slow."""


class TraceText:
    """The text of one file. Go through `events` once; `metadata` is complete after that."""

    def __init__(self, data: bytes, diagnostics: Diagnostics) -> None:
        self.metadata: dict[str, Any] = {}
        self.has_events = False
        """Whether the file has the array of events that makes it a trace."""
        self._diagnostics = diagnostics
        self._text = replace_lone_surrogates(self._decode(data))
        self._position = 0
        # Inside a string the quotes would be escaped and not match.
        self._arrays = self._text.count('"traceEvents"')
        quoted = sum(self._text.count(key) for key in _QUOTED_TIMES)
        diagnostics.add("numbers_as_text", quoted, "a time in quotes")
        self._notes: list[tuple[str, int, str]] = []
        decoder: Any = json.JSONDecoder(
            strict=False, parse_float=str, parse_constant=self._not_finite, object_pairs_hook=self._object
        )
        self._scan = decoder.scan_once

    def events(self) -> Iterator[Event]:
        """All objects in the arrays of events, in the order of the file."""
        writers = 0
        while (start := self._skip(self._position)) < len(self._text):
            opening = self._text[start]
            self._position = start
            if writers and _EVENT.match(self._text, start):
                yield from self._elements()
            elif opening in "{[":
                writers += 1
                self._position = start + 1
                yield from self._members() if opening == "{" else self._bare_array()
            elif (found := self._next_event(start)) is not None:
                self._position = found
            else:
                left = f"{len(self._text) - start} characters after the end of the trace"
                self._diagnostics.add("metadata_unreadable", example=left)
                break
        self._report_writers(writers)
        self._text = ""  # as large as the file, and no longer needed

    def _members(self) -> Iterator[Event]:
        """The members of the outermost object: events are passed on, the rest is kept in `metadata`."""
        text = self._text
        while True:
            start = self._position = self._skip(self._position)
            if start >= len(text):
                self._truncated(start)
                return
            if text[start] == "}":
                self._position = start + 1
                return
            try:
                key, position = self._scan(text, start)
                colon = _COLON.match(text, position)
                if not isinstance(key, str) or colon is None:
                    raise StopIteration(position)
                position = colon.end()
                is_array = text[position : position + 1] == "["
                if not (key == "traceEvents" and is_array):
                    value, self._position = self._scan(text, position)
                    self.metadata.setdefault(key, value)
            except _UNREADABLE as error:
                self._notes.clear()
                self._lose_member(start, _may_be_cut(error, len(text)))
                continue
            self._commit()
            if key == "traceEvents" and is_array:
                self.has_events = True
                self._position = position + 1
                yield from self._elements()

    def _lose_member(self, start: int, may_be_cut: bool) -> None:
        """Go on at the next member that begins a line: writers put each on a line of its own."""
        found = _NEXT_MEMBER.search(self._text, start + 1)
        last_brace = self._text.rfind("}", start)
        if found is not None:
            self._count("metadata_unreadable", start)
            self._position = found.end()
        elif may_be_cut or last_brace < 0:
            self._truncated(start)
            self._position = len(self._text)
        else:
            self._count("metadata_unreadable", start)
            self._position = last_brace

    def _elements(self) -> Iterator[Event]:
        """The events of an array. Its closing bracket may be missing: the format allows that."""
        text, scan, skip = self._text, self._scan, self._skip
        position = self._position
        while True:
            position = skip(position)
            if position >= len(text) or text[position] == "]":
                self._position = position + 1
                return
            try:
                event, position = scan(text, position)
            except _UNREADABLE:
                self._notes.clear()
                event, position = self._recover(position)
                scan = self._scan_near
            if self._notes:
                self._commit()
            if type(event) is not dict:
                if event is not None:
                    self._diagnostics.add("phase_ignored", example=f"an element that is no event: {event!r:.40}")
            elif self._arrays > 1 and type(nested := event.get("traceEvents")) is list:
                yield from (inner for inner in nested if type(inner) is dict)
            else:
                yield event

    def _bare_array(self) -> Iterator[Event]:
        """The events of an array that stands alone. Any JSON may be one: it is a trace if an event has a phase."""
        start = self._position
        for event in self._elements():
            self.has_events = self.has_events or not event or "ph" in event
            yield event
        self.has_events = self.has_events or self._text[start : self._position].strip(" \t\r\n],") == ""

    def _recover(self, start: int) -> tuple[Event | None, int]:
        """The event at `start` repaired, or None where nothing helps; and where to go on."""
        text = self._text
        following = self._next_event(start)
        if following is None:
            found = zip(_END_OF_ARRAY.finditer(text, start), range(_MOST_ENDS), strict=False)
            ends = [match.end() for match, _ in found]
            tries = [*ends, len(text.rstrip())]
        else:
            last_brace = text.rfind("}", start, following)
            ends = [following]
            tries = [last_brace + 1 if last_brace >= 0 else following]
        for end in tries:
            for repaired, done in attempts(text[start:end]):
                try:
                    event, length = self._scan(repaired, 0)
                except _UNREADABLE:
                    self._notes.clear()
                    continue
                if length == len(repaired) and type(event) is dict:
                    for code, count in done.items():
                        self._count(code, start, count)
                    return event, end
                self._notes.clear()
        if not ends:
            self._truncated(start)
            return None, len(text)
        self._count("event_unreadable", start)
        return None, ends[0]

    def _next_event(self, start: int) -> int | None:
        """Where the next event after `start` begins. An object inside a bad event is none: it lacks a phase."""
        while (found := _NEXT_OBJECT.search(self._text, start)) is not None:
            start = found.end()
            try:
                value, _ = self._scan_near(self._text, start)
            except _UNREADABLE:
                is_event = _EVENT.match(self._text, start) is not None
            else:
                is_event = type(value) is dict and "ph" in value
            self._notes.clear()
            if is_event:
                return start
        return None

    def _scan_near(self, text: str, start: int) -> tuple[Any, int]:
        """Like `_scan`, for a file that has shown to be bad.

        The scanner's error counts all lines before it. With an error in each of many events that would take time in
        the square of their number, so the event is scanned in a copy of its surroundings first.
        """
        near = text[start : start + _NEAR]
        try:
            value, length = self._scan(near, 0)
        except _UNREADABLE as error:
            if not _may_be_cut(error, len(near)):
                raise
        else:
            if length < len(near):
                return value, start + length
        self._notes.clear()
        return self._scan(text, start)  # type: ignore[no-any-return]

    def _report_writers(self, documents: int) -> None:
        """Say where several processes wrote: a second array, or a second header between damaged events."""
        headers = self._text.count('"schemaVersion"')
        damaged = self._diagnostics.count("event_unreadable") > 0
        if documents > 1 or self._arrays > 1 or (headers > 1 and damaged):
            example = f"{documents} documents, {self._arrays} × traceEvents, {headers} × schemaVersion"
            self._diagnostics.add("several_writers", example=example)

    def _skip(self, position: int) -> int:
        return _SPACE.match(self._text, position).end()  # type: ignore[union-attr]  # it matches nothing too

    def _decode(self, data: bytes) -> str:
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            text = data.decode("utf-8-sig", "replace")
            # Names read from freed frames hold random bytes (pytorch/pytorch#113564).
            count = text.count("\ufffd") - data.count("\ufffd".encode())
            around = data[max(0, error.start - 20) : error.start + 20].decode("utf-8", "replace")
            self._diagnostics.add("invalid_utf8", max(count, 1), f"at byte {error.start}: {around!r}")
            return text

    # What the scanner calls while it reads a value. Only when the value turns out to be whole are the notes counted;
    # a bad event is read several times.

    def _not_finite(self, constant: str) -> None:
        self._notes.append(("number_not_finite", 1, constant))

    def _object(self, pairs: list[tuple[str, Any]]) -> Event:
        members = dict(pairs)
        if len(members) != len(pairs):
            keys = [key for key, _ in pairs]
            repeated = next(key for key in keys if keys.count(key) > 1)
            self._notes.append(("duplicate_keys", len(pairs) - len(members), repr(repeated)))
        return members

    def _commit(self) -> None:
        for code, count, example in self._notes:
            self._diagnostics.add(code, count, example)
        self._notes.clear()

    def _count(self, code: str, start: int, count: int = 1) -> None:
        """Count a case; its place and text are looked up for the first one only."""
        example = None
        if not self._diagnostics.count(code):
            offset = len(self._text[:start].encode())
            example = f"at byte {offset}: {self._text[start : start + _EXAMPLE_LENGTH]!r}"
        self._diagnostics.add(code, count, example)

    def _truncated(self, start: int) -> None:
        """Count it once: a file whose compressed form ends early was counted when it was opened."""
        if not self._diagnostics.count("file_truncated"):
            left = len(self._text[start:].encode())
            self._diagnostics.add("file_truncated", example=f"{left} bytes of an incomplete part at the end")


def _may_be_cut(error: Exception, length: int) -> bool:
    """Whether the scanner failed because the text (of this length) ends, and not for what stands in it."""
    if isinstance(error, StopIteration):
        return bool(error.value >= length - _LONGEST_TOKEN)
    if isinstance(error, json.JSONDecodeError):
        return error.pos >= length - _LONGEST_TOKEN or error.msg.startswith("Unterminated string")
    return False
