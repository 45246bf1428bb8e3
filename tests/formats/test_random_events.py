"""Random event lists: the reader against one that is too simple to be wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuviz.model.trace import Trace
from tests.formats.events import Event, call, document, kernel, launch, load_text

# Distances of 2 µs: more than what a child may stick out of its parent, so that containment is plain. Not 0, which
# means "no timing" on a GPU.
TIMES = st.integers(1, 30).map(lambda value: 2 * value)
DURATIONS = st.integers(0, 12).map(lambda value: 2 * value)
CORRELATIONS = st.sampled_from([None, -1, 0, 1, 2, 3, 4])


@st.composite
def event_lists(draw: st.DrawFn) -> list[Event]:
    """Calls of two processes with two threads each, API calls, kernels of two devices."""
    events: list[Event] = []
    for index in range(draw(st.integers(0, 14))):
        ts, dur = draw(TIMES), draw(DURATIONS)
        kind = draw(st.sampled_from(["op", "python", "api", "api", "kernel", "kernel"]))
        pid, tid = draw(st.sampled_from([10, 20])), draw(st.sampled_from([1, 2]))
        if kind == "kernel":
            device, stream = draw(st.sampled_from([0, 1])), draw(st.sampled_from([7, 8]))
            events.append(kernel(draw(CORRELATIONS), ts, dur, name=f"k{index}", device=device, stream=stream))
        elif kind == "api":
            events.append(launch(draw(CORRELATIONS), ts, dur, name=f"a{index}", pid=pid, tid=tid))
        else:
            category = "cpu_op" if kind == "op" else "python_function"
            events.append(call(f"h{index}", ts, dur, cat=category, pid=pid, tid=tid))
    return events


@dataclass
class Naive:
    """Event index → what the reader should say about it, by looking at every other event."""

    events: list[Event]
    parent: dict[int, int | None] = field(default_factory=dict)
    launch: dict[int, int | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        calls = [index for index, event in enumerate(self.events) if event["cat"] != "kernel"]
        for index in calls:
            self.parent[index] = self._innermost(index, calls)
        for index, event in enumerate(self.events):
            if event["cat"] == "kernel":
                self.launch[index] = self._launch(event, calls)

    def _order(self, index: int) -> tuple[int, ...]:
        event = self.events[index]
        rank = {"python_function": 0, "cpu_op": 1, "cuda_runtime": 2}[event["cat"]]
        return (event["ts"], -event["dur"], rank, index)

    def _innermost(self, index: int, calls: list[int]) -> int | None:
        """The last call to begin before this one, in its thread, that holds it whole."""
        start, end = self._span(index)
        holding = [
            other
            for other in calls
            if self._thread(other) == self._thread(index)
            and self._order(other) < self._order(index)
            and self._span(other)[1] >= end
            and (self._span(other)[1] > start or self._span(other)[0] == start)
        ]
        return max(holding, key=self._order, default=None)

    def _launch(self, event: Event, calls: list[int]) -> int | None:
        correlation = event["args"]["correlation"]
        if correlation in (None, 0, -1):
            return None
        launches = self._launches(calls)
        candidates = {pid for pid, other in launches if other == correlation}
        if len({self.events[index]["pid"] for index in calls if self.events[index]["cat"] == "cuda_runtime"}) > 1:
            owners = {
                next(iter(pids))
                for other in self.events
                if other["cat"] == "kernel" and other["pid"] == event["pid"]
                and len(pids := {pid for pid, number in launches if number == other["args"]["correlation"]}) == 1
            }  # fmt: skip
            if len(candidates) > 1 and len(owners) == 1:
                candidates &= owners
        if len(candidates) != 1:
            return None
        return launches[next(iter(candidates)), correlation]

    def _launches(self, calls: list[int]) -> dict[tuple[int, int], int]:
        """The launch of each id of each process: the first to begin, the outer one of two that begin together."""
        found: dict[tuple[int, int], int] = {}
        for index in sorted(calls, key=lambda index: (self._span(index)[0], self._level(index), self._order(index))):
            event = self.events[index]
            correlation = event["args"].get("correlation")
            if event["cat"] == "cuda_runtime" and correlation not in (None, 0, -1):
                found.setdefault((event["pid"], correlation), index)
        return found

    def _level(self, index: int) -> int:
        above = self.parent[index]
        return 0 if above is None else 1 + self._level(above)

    def _thread(self, index: int) -> tuple[int, int]:
        return self.events[index]["pid"], self.events[index]["tid"]

    def _span(self, index: int) -> tuple[int, int]:
        event = self.events[index]
        return event["ts"], event["ts"] + event["dur"]

    def nearest(self, index: int, wanted: bool) -> int | None:
        """The nearest call around this one that is an API call (or is none)."""
        above = self.parent[index]
        while above is not None and (self.events[above]["cat"] == "cuda_runtime") is not wanted:
            above = self.parent[above]
        return above


def rows_by_name(trace: Trace, table: str) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in trace.table(table).iter_rows(named=True)}


@settings(max_examples=120)
@given(event_lists())
def test_reader_equals_the_naive_one(events: list[Event]) -> None:
    with TemporaryDirectory() as folder:
        trace = load_text(Path(folder), document(events))
    naive = Naive(events)
    rows = {table: rows_by_name(trace, table) for table in ("host_calls", "api_calls", "kernels")}
    name_of_host = {row["host_call_id"]: name for name, row in rows["host_calls"].items()} | {None: None}
    name_of_api = {row["api_id"]: name for name, row in rows["api_calls"].items()} | {None: None}
    t0 = min((event["ts"] for event in events), default=0) * 1000
    assert sum(len(found) for found in rows.values()) == len(events)
    for index, event in enumerate(events):
        table = {"kernel": "kernels", "cuda_runtime": "api_calls"}.get(event["cat"], "host_calls")
        row = rows[table][event["name"]]
        assert row["start_ns"] + t0 == event["ts"] * 1000
        assert row["end_ns"] - row["start_ns"] == event["dur"] * 1000
        if table == "kernels":
            assert name_of_api[row["api_id"]] == _name(events, naive.launch[index])
        elif table == "host_calls":
            assert name_of_host[row["parent_id"]] == _name(events, naive.nearest(index, wanted=False))
        else:
            assert name_of_host[row["host_call_id"]] == _name(events, naive.nearest(index, wanted=False))
            above = naive.parent[index]
            direct = above if above is not None and events[above]["cat"] == "cuda_runtime" else None
            assert name_of_api[row["parent_api_id"]] == _name(events, direct)


@given(event_lists())
def test_overlapping_rows_of_a_thread_never_share_a_depth(events: list[Event]) -> None:
    with TemporaryDirectory() as folder:
        trace = load_text(Path(folder), document(events))
    columns = ("thread_id", "depth", "start_ns", "end_ns")
    rows = trace.host_calls.select(*columns).rows() + trace.api_calls.select(*columns).rows()
    for index, (thread, depth, start, end) in enumerate(rows):
        for other_thread, other_depth, other_start, other_end in rows[:index]:
            if (thread, depth) == (other_thread, other_depth):
                assert end <= other_start or other_end <= start


def _name(events: list[Event], index: int | None) -> str | None:
    return None if index is None else events[index]["name"]
