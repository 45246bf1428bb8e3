"""What was lost, repaired or cannot be known.

One rule: no row is dropped silently and no file fails for one bad row. Whoever loses, repairs or doubts something
counts it here under a stable code; the views show the list in their header.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import polars as pl

from gpuviz.model import schema

_NO_SUM = "kept as rows; out of every sum, union and axis"

CODES: Mapping[str, str] = MappingProxyType(
    {
        # The text of the file.
        "number_not_finite": "inf or nan was read as unknown",
        "control_characters": "names hold raw control characters; shown escaped",
        "invalid_utf8": "names hold bytes that are not UTF-8; shown with replacement characters",
        "backslash_repaired": "an unescaped backslash was doubled; the text of that path is uncertain",
        "event_unreadable": "events were lost; counts and sums are lower bounds",
        "metadata_unreadable": "facts about the machine or the run were lost; they show as unknown",
        "file_truncated": "the file ends early; whatever came later is missing, sums are lower bounds",
        "duplicate_keys": "the last value of a repeated key was taken",
        "several_writers": "several processes wrote this file over each other; do not read it as one rank",
        "numbers_as_text": "numbers written as text were read exactly",
        # Time.
        "time_missing": _NO_SUM,
        "time_not_recorded": "records with the time 0 (CUPTI: no timing); " + _NO_SUM,
        "duration_negative": _NO_SUM,
        "negative_fraction": "times written as 0.-500 were read as negative nanoseconds",
        "end_not_recorded": "began and its end was never delivered; drawn to the end of the trace, out of sums",
        "duration_missing": "began and never ended in the file; drawn to the end of what holds them, out of sums",
        "start_absurd": "a start on the GPU far away from everything on the host; " + _NO_SUM,
        "end_absurd": "an end far outside the trace; " + _NO_SUM,
        "sub_microsecond_digits_doubtful": "written by a build with unpadded nanoseconds; only microseconds are sure",
        "bleeding_child": "ends up to 1 µs after its parent; still counted as its child",
        "crossing_call": "partly overlaps the call before it; its parent is the next call that holds it whole",
        # Links.
        "kernel_before_launch": "a GPU activity starts before its launch call (clock skew); out of latency percentiles",
        "launch_missing": "GPU activities without a host record; grouped under 'no host record'",
        "launched_before_window": "GPU activities whose launch lies before the recording; grouped so",
        "launch_ambiguous": "several processes could have launched it; linked to none",
        "graph_replay_without_kernels": "busy, idle and utilisation are unreliable: graph replays lack kernel records",
        "out_of_range_records": "the profiler itself reports records outside its window; they are missing here",
        "forward_missing": "backward work whose forward call is not in the trace",
        # The capture.
        "records_dropped": "CUPTI had no room for these records; counts and sums are lower bounds",
        "records_undecoded": "bytes that could not be decoded; whatever they held is missing, sums are lower bounds",
        "record_kind_ignored": "records of kinds that the tables do not hold; no number depends on them",
        "name_unknown": "names that could not be resolved; shown as a number",
        "steps_missing": "the steps that were asked for did not come; the trace holds what did",
        # Everything else.
        "category_unknown": "kept under its own category",
        "event_without_place": "an event without a thread or a device; kept where nothing is known of its place",
        "copy_kind_unknown": "the direction of a copy is not recorded; kept as 'other'",
        "phase_ignored": "events that carry no interval, mark or value that the tables hold",
        "no_gpu_activity": "no GPU work was recorded: GPU times are unknown, not zero",
    }
)
"""Code → which numbers it touches, and how."""


@dataclass
class Diagnostics:
    """A collector: `add` while something is read or captured, `table` at the end."""

    _counts: dict[str, int] = field(default_factory=dict)
    _examples: dict[str, str] = field(default_factory=dict)

    def add(self, code: str, count: int = 1, example: str | None = None) -> None:
        """Count `count` more cases of `code` (a key of `CODES`); the first example is kept."""
        if code not in CODES:
            raise KeyError(f"unknown diagnostic code {code!r}: add it to gpuviz.model.diagnostics.CODES")
        if count <= 0:
            return
        self._counts[code] = self._counts.get(code, 0) + count
        if example is not None:
            self._examples.setdefault(code, example)

    def count(self, code: str) -> int:
        """How often `code` was counted so far."""
        return self._counts.get(code, 0)

    def table(self) -> pl.DataFrame:
        """The table `diagnostics`, in the order of `CODES`."""
        codes = [code for code in CODES if code in self._counts]
        columns = {
            "code": codes,
            "count": [self._counts[code] for code in codes],
            "first_example": [self._examples.get(code) for code in codes],
            "effect": [CODES[code] for code in codes],
        }
        return pl.DataFrame(columns, schema=schema.TABLES["diagnostics"].polars_schema)
