"""Events → raw rows: one pass that sorts each event into the table it belongs to.

Rows hold values as the file has them; times are still text and places still numbers of a (process, thread) or a
(device, stream) pair. All that is looked up per file and not per event happens later, column by column.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from gpuviz.formats.kineto import categories as cat
from gpuviz.formats.kineto.pairs import paired
from gpuviz.formats.kineto.text import Event
from gpuviz.model.diagnostics import Diagnostics

type HostPlace = tuple[Any, Any]
"""pid and tid, as in the file."""
type GpuPlace = tuple[Any, Any, Any, Any, Any]
"""pid, tid, device, stream and context, as in the file."""

OVERHEAD_PLACE = "profiler overhead"
"""Stands for the pid of the profiler's own work, which Kineto writes as -1."""

_NOTHING: dict[str, Any] = {}
_NO_SIZE = (None, None, None)
_LANES_OF_NO_THREAD = ("Spans", "Traces")
"""Kineto's made-up process ids, of lanes that belong to no thread."""


class Rows:
    """Rows of one raw table, and the names of their columns."""

    def __init__(self, *columns: str) -> None:
        self.columns = columns
        self.rows: list[tuple[Any, ...]] = []

    def lists(self) -> dict[str, list[Any]]:
        """The values of each column."""
        values = list(zip(*self.rows, strict=True)) or [()] * len(self.columns)
        return {column: list(column_values) for column, column_values in zip(self.columns, values, strict=True)}


_INTERVAL = ("name", "ts", "dur", "place")
_LAUNCHED = ("correlation",)
_SHAPE = ("registers", "shared_memory", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")


def _host_rows() -> Rows:
    return Rows(*_INTERVAL, "layer", "category", "sequence", "forward_thread", "shapes")


def _gpu_rows() -> Rows:
    return Rows(
        *_INTERVAL, "kind", *_LAUNCHED, "graph_id", "graph_node_id", "bytes", "value", "copy_kind", "src", "dst",
        "channel", *_SHAPE,
    )  # fmt: skip


def _sync_rows() -> Rows:
    return Rows(*_INTERVAL, *_LAUNCHED, "kind", "event", "waited_stream", "waited_correlation")


@dataclass
class Records:
    """Everything that the events of a file say, as raw rows."""

    host: Rows = field(default_factory=_host_rows)
    api: Rows = field(default_factory=lambda: Rows(*_INTERVAL, "api", *_LAUNCHED))
    gpu: Rows = field(default_factory=_gpu_rows)
    syncs: Rows = field(default_factory=_sync_rows)
    ranges: Rows = field(default_factory=lambda: Rows(*_INTERVAL, "kind", "domain"))
    """`place` is null for a range of no thread."""
    gpu_ranges: Rows = field(default_factory=lambda: Rows(*_INTERVAL, "kind", "domain"))
    counters: Rows = field(default_factory=lambda: Rows("series", "unit", "ts", "value", "device", "pid"))
    flows: Rows = field(default_factory=lambda: Rows("phase", "id", "ts", "place"))
    host_places: dict[HostPlace, int] = field(default_factory=dict)
    gpu_places: dict[GpuPlace, int] = field(default_factory=dict)
    labels: dict[tuple[str, Any, Any], str] = field(default_factory=dict)
    """What the metadata events say: (process_name, process_labels or thread_name, pid, tid) → text."""


def collect(events: Iterable[Event], diagnostics: Diagnostics) -> Records:
    """Sort all events into raw rows."""
    collector = _Collector()
    collector.take(events)
    collector.take(paired(collector.halves, diagnostics))
    collector.report(diagnostics)
    return collector.records


class _Collector:
    def __init__(self) -> None:
        self.records = Records()
        self.halves: list[Event] = []
        self._families: dict[Any, str] = {}
        self._unknown: Counter[str] = Counter()
        self._ignored: Counter[str] = Counter()
        self._of_phase: dict[Any, Callable[[Event], None]] = {
            "X": self._interval,
            "M": self._metadata,
            "s": self._flow,
            "t": self._flow,
            "f": self._flow,
            "i": self._mark,
            "I": self._mark,
            "n": self._mark,
            "C": self._counter,
            "async": self._async_range,
            **dict.fromkeys("BEbeSF", self.halves.append),
        }

    def take(self, events: Iterable[Event]) -> None:
        of_phase = self._of_phase
        for event in events:
            phase = event.get("ph")
            try:
                handle = of_phase[phase]
            except (KeyError, TypeError):
                if event:  # empty events are padding of some writers
                    self._ignored[f"phase {phase!r:.20}"] += 1
                continue
            handle(event)

    def report(self, diagnostics: Diagnostics) -> None:
        """Say what was not known or not used."""
        for code, counts in (("category_unknown", self._unknown), ("phase_ignored", self._ignored)):
            example = ", ".join(f"{what} ({count})" for what, count in counts.most_common(5))
            diagnostics.add(code, sum(counts.values()), example)

    # One function per phase.

    def _interval(self, event: Event) -> None:
        category = event.get("cat")
        try:
            family = self._families[category]
        except (KeyError, TypeError):
            family = cat.family_of(category)
            if isinstance(category, str):
                self._families[category] = family
        name = event.get("name")
        if type(name) is not str:
            name = _text(name)
        args = event.get("args")
        if type(args) is not dict:
            args = _NOTHING
        if family in cat.GPU_WORK:
            self._gpu_work(event, family, name, args)
        elif family == cat.SYNC:
            self._sync(event, name, args)
        elif family == cat.GPU_ANNOTATION:
            row = (name, event.get("ts"), event.get("dur"), self._gpu_place(event, args), family, category)
            self.records.gpu_ranges.rows.append(row)
        elif family in (cat.ANNOTATION, cat.PROFILER):
            self._range(event, family, name, category)
        elif family in (cat.RUNTIME, cat.DRIVER):
            times = (name, event.get("ts"), event.get("dur"), self._place(event))
            self.records.api.rows.append((*times, family, args.get("correlation")))
        else:
            self._host_call(event, family, name, args, category)

    def _host_call(self, event: Event, family: str, name: str, args: Event, category: Any) -> None:
        layer = family
        place = None
        if family == cat.PYTHON:
            layer = "module" if name.startswith("nn.Module: ") else "python"
        elif family == cat.OVERHEAD:
            layer = "other"
            place = _number_of(self.records.host_places, (OVERHEAD_PLACE, None))
        elif family == cat.UNKNOWN:
            layer = "other"
            if category is not None:
                category = _text(category)
                self._unknown[f"{category!r:.40}"] += 1
        shapes = args.get("Input Dims", args.get("Input dims"))
        self.records.host.rows.append(
            (
                name,
                event.get("ts"),
                event.get("dur"),
                self._place(event) if place is None else place,
                layer,
                category,
                args.get("Sequence number"),
                args.get("Fwd thread id"),
                None if shapes is None else str(shapes),
            )
        )

    def _gpu_work(self, event: Event, kind: str, name: str, args: Event) -> None:
        graph_id = _first(args, "graph id", "graph_id", "graphId")
        node_id = _first(args, "graph node id", "graph_node_id", "graphNodeId")
        is_kernel = kind == cat.KERNEL
        self.records.gpu.rows.append(
            (
                name,
                event.get("ts"),
                event.get("dur"),
                self._gpu_place(event, args),
                kind,
                args.get("correlation"),
                graph_id,
                node_id,
                args.get("bytes"),
                args.get("value"),
                args.get("kind"),
                args.get("fromDevice"),
                args.get("toDevice"),
                args.get("channel"),
                args.get("registers per thread"),
                args.get("shared memory"),
                *(_three(args.get("grid")) if is_kernel else _NO_SIZE),
                *(_three(args.get("block")) if is_kernel else _NO_SIZE),
            )
        )

    def _sync(self, event: Event, name: str, args: Event) -> None:
        self.records.syncs.rows.append(
            (
                name,
                event.get("ts"),
                event.get("dur"),
                self._gpu_place(event, args),
                args.get("correlation"),
                args.get("cuda_sync_kind", name),
                args.get("wait_on_cuda_event_id"),
                args.get("wait_on_stream"),
                args.get("wait_on_cuda_event_record_corr_id"),
            )
        )

    def _range(self, event: Event, kind: str, name: str, domain: Any) -> None:
        place = None if kind == cat.PROFILER or event.get("pid") in _LANES_OF_NO_THREAD else self._place(event)
        if kind == cat.ANNOTATION and name.startswith("ProfilerStep#"):
            kind = "step"
        row = (name, event.get("ts"), event.get("dur"), place, kind, domain)
        self.records.ranges.rows.append(row)

    def _async_range(self, event: Event) -> None:
        domain = _text(event.get("cat"))
        self._range(event, "nvtx" if "nvtx" in domain.lower() else "region", _text(event.get("name")), domain)

    def _mark(self, event: Event) -> None:
        name = _text(event.get("name"))
        args = event.get("args")
        if name == "[memory]" and type(args) is dict:
            self._memory(event, args)
            return
        of_thread = event.get("s", "t") == "t" and event.get("pid") not in (*_LANES_OF_NO_THREAD, "", None)
        place = self._place(event) if of_thread else None
        domain = event.get("cat")
        domain = None if domain is None else _text(domain)
        self.records.ranges.rows.append((name, event.get("ts"), 0, place, "mark", domain))

    def _memory(self, event: Event, args: Event) -> None:
        """What the allocator holds after it took or gave memory. c10 counts CPU as device type 0."""
        on_host = args.get("Device Type") in (0, "0")
        device, where = (None, "host") if on_host else (args.get("Device Id"), "device")
        totals = [(key, args.get(f"Total {key}")) for key in ("Allocated", "Reserved")]
        values = [(f"{where} memory {key.lower()}", value) for key, value in totals if value is not None]
        for series, value in values or [(f"{where} memory change", args.get("Bytes"))]:
            row = (series, "bytes", event.get("ts"), value, device, event.get("pid") if on_host else None)
            self.records.counters.rows.append(row)

    def _counter(self, event: Event) -> None:
        name = _text(event.get("name"))
        args = event.get("args")
        for key, value in args.items() if type(args) is dict else ():
            series = name if key.lower() == name.lower() else f"{name}: {key}"
            self.records.counters.rows.append((series, "", event.get("ts"), value, None, event.get("pid")))

    def _flow(self, event: Event) -> None:
        category = event.get("cat")
        if category == cat.FORWARD_BACKWARD:
            row = (event.get("ph"), event.get("id"), event.get("ts"), self._place(event))
            self.records.flows.rows.append(row)
        elif not isinstance(category, str) or category not in cat.FLOWS_SAID_BY_CORRELATION:
            self._ignored[f"flow {category!r:.40}"] += 1

    def _metadata(self, event: Event) -> None:
        what = event.get("name")
        if what in ("process_name", "process_labels", "thread_name"):
            args = event.get("args")
            values = args.values() if type(args) is dict else ()
            text = ", ".join(_text(value) for value in values).strip()
            self.records.labels[what, _hashable(event.get("pid")), _hashable(event.get("tid"))] = text

    # Places: numbered as they come, told apart in gpuviz.formats.kineto.places.

    def _place(self, event: Event) -> int:
        return _number_of(self.records.host_places, (event.get("pid"), event.get("tid")))

    def _gpu_place(self, event: Event, args: Event) -> int:
        place = (
            event.get("pid"),
            event.get("tid"),
            args.get("device"),
            args.get("stream"),
            args.get("context"),
        )
        return _number_of(self.records.gpu_places, place)


def _number_of[Place: tuple[Any, ...]](numbers: dict[Place, int], place: Place) -> int:
    try:
        return numbers.setdefault(place, len(numbers))
    except TypeError:
        return numbers.setdefault(tuple(_hashable(part) for part in place), len(numbers))  # type: ignore[arg-type]


def _hashable(value: Any) -> Any:
    return value if isinstance(value, str | int | None) else _text(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _first(args: Event, *keys: str) -> Any:
    return next((args[key] for key in keys if key in args), None)


def _three(value: Any) -> tuple[Any, Any, Any]:
    """The three sizes of a grid or a block."""
    if type(value) is list and len(value) == 3:
        return value[0], value[1], value[2]
    return _NO_SIZE
