"""What a backend that speaks CUPTI has in its hands when a capture ends, before it becomes a trace.

Times of host calls, ranges and counters are Unix ns; times inside the buffers are CUPTI's and are converted with
`clock`. A thread is the number that CUPTI writes into its API records (`ranges.thread_key`). Nothing here is a row of
a trace yet: `assemble.assemble` makes those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpuviz.capture.backend import CellSource
from gpuviz.capture.cupti.records import Buffer
from gpuviz.capture.ranges import RecordedRange


@dataclass(frozen=True)
class ClockPair:
    """The same instant on both clocks."""

    cupti_ns: int
    unix_ns: int


@dataclass(frozen=True)
class StackFrame:
    """One level of a call path: a cell, a line, a Python function or an nn.Module.

    `layer`: ``cell``, ``line``, ``python`` or ``module``. `cell` is a key of `Recording.cells`; a frame has a cell or
    a file. The frame of a line has its stripped source text as `function`.
    """

    layer: str
    function: str
    file: str | None = None
    cell: str | None = None
    line: int | None = None


type Stack = tuple[StackFrame, ...]
"""Frames, outermost first."""


@dataclass
class HostCalls:
    """Operators, modules and Python functions that ran on host threads, one list per column.

    `layer`: ``python``, ``module``, ``op``, ``other``. `stack_id` is an index of `Recording.stacks`: the frames around
    the call. `forward_of` is an index of this table: the forward call that a backward call belongs to. `end_ns` None:
    it had not ended.
    """

    start_ns: list[int] = field(default_factory=list)
    end_ns: list[int | None] = field(default_factory=list)
    layer: list[str] = field(default_factory=list)
    name: list[str] = field(default_factory=list)
    thread: list[int] = field(default_factory=list)
    sequence_number: list[int | None] = field(default_factory=list)
    input_shapes: list[str | None] = field(default_factory=list)
    stack_id: list[int | None] = field(default_factory=list)
    forward_of: list[int | None] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.start_ns)

    def add(
        self,
        layer: str,
        name: str,
        start_ns: int,
        end_ns: int | None,
        thread: int,
        *,
        sequence_number: int | None = None,
        input_shapes: str | None = None,
        stack_id: int | None = None,
        forward_of: int | None = None,
    ) -> int:
        """Add a call; returns its index. `end_ns` may be filled in later."""
        self.start_ns.append(start_ns)
        self.end_ns.append(end_ns)
        self.layer.append(layer)
        self.name.append(name)
        self.thread.append(thread)
        self.sequence_number.append(sequence_number)
        self.input_shapes.append(input_shapes)
        self.stack_id.append(stack_id)
        self.forward_of.append(forward_of)
        return len(self.start_ns) - 1


@dataclass
class Stacks:
    """Distinct call stacks, numbered by their first appearance."""

    stacks: list[Stack] = field(default_factory=list)
    _ids: dict[Stack, int] = field(default_factory=dict, repr=False)

    def add(self, stack: Stack) -> int:
        """The id of this stack; the same frames always give the same id."""
        stack_id = self._ids.setdefault(stack, len(self.stacks))
        if stack_id == len(self.stacks):
            self.stacks.append(stack)
        return stack_id


@dataclass(frozen=True)
class CounterSample:
    """One value of a series at a time; `device` is an ordinal."""

    series: str
    unit: str
    time_ns: int
    value: float | None
    device: int | None = None


@dataclass(frozen=True)
class DeviceFacts:
    """What is known about a device besides its CUPTI record, which is asked first."""

    name: str | None = None
    uuid: str | None = None
    compute_capability: str | None = None
    sm_count: int | None = None
    memory_bytes: int | None = None
    warp_size: int | None = None
    max_threads_per_sm: int | None = None
    registers_per_sm: int | None = None
    shared_memory_per_sm_bytes: int | None = None
    link_bytes_per_s: int | None = None


@dataclass
class Recording:
    """One finished capture.

    `names`: pointer → kernel or device name. `callback_names`: (api, callback id) → name, asked before the built-in
    table; api is ``runtime`` or ``driver``. `api_stacks`: (thread, correlation id) → index of `stacks`, for API calls;
    inside an operator the operator's stack serves. `dropped_records` None: nobody could count. `overhead_ns`: what the
    capture itself cost on the host, besides CUPTI's own overhead records; None: not measured. `devices`: ordinal →
    facts.
    """

    title: str
    source: str
    cupti_version: int
    clock: tuple[ClockPair, ClockPair]
    buffers: Sequence[Buffer] = ()
    names: Mapping[int, str] = field(default_factory=dict)
    callback_names: Mapping[tuple[str, int], str] = field(default_factory=dict)
    host_calls: HostCalls = field(default_factory=HostCalls)
    stacks: Sequence[Stack] = ()
    api_stacks: Mapping[tuple[int, int], int] = field(default_factory=dict)
    ranges: Sequence[RecordedRange] = ()
    counters: Sequence[CounterSample] = ()
    process_id: int | None = None
    host: str | None = None
    threads: Mapping[int, str] = field(default_factory=dict)
    devices: Mapping[int, DeviceFacts] = field(default_factory=dict)
    cells: Mapping[str, CellSource] = field(default_factory=dict)
    dropped_records: int | None = None
    overhead_ns: int | None = None
    modelled: bool = False
    versions: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
