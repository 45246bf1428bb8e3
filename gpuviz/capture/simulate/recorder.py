"""The host's side of one capture: operators as they nest, their threads and lines, and what is backward of what."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gpuviz.capture.ranges import RangeLog, thread_key
from gpuviz.capture.recording import CounterSample, HostCalls
from gpuviz.capture.simulate.clock import VirtualClock
from gpuviz.capture.simulate.gpus import Gpu
from gpuviz.capture.simulate.operators import OperatorModel
from gpuviz.capture.simulate.stacks import StackWalker
from gpuviz.capture.simulate.timeline import Timeline

AUTOGRAD_THREAD = "pt_autograd_0"  # what PyTorch calls the engine's thread of the first device


class Recorder:
    """Collects one capture. `silent`: something of our own is going on, which a GPU would not see."""

    def __init__(
        self, gpu: Gpu, clock: VirtualClock, loaded: set[str], stream: int, walker: StackWalker, ranges: RangeLog
    ) -> None:
        import torch

        self.clock = clock
        self._sequence_now: Callable[[], int] = torch._C._autograd._get_sequence_nr
        self._node_now: Callable[[], Any] = torch._C._current_autograd_node
        self._shapes: dict[tuple[Any, ...], str] = {}
        self.walker = walker
        self.ranges = ranges
        self.model = OperatorModel(gpu)
        self.main_thread = thread_key()
        # pthread_self is the address of an aligned struct, so that no real thread has an odd number.
        self.autograd_thread = self.main_thread | 1
        self.timeline = Timeline(gpu, clock, loaded, self.main_thread, stream)
        self.calls = HostCalls()
        self.api_stacks: dict[tuple[int, int], int] = {}
        self.allocated: list[CounterSample] = []
        self.silent = False
        self.threads = {self.main_thread: threading.current_thread().name}
        self._dropped: set[int] = set()
        self._forward: dict[int, int] = {}  # autograd sequence number → index of the forward call
        self._sequence = self._sequence_now()
        self._stack: int | None = None
        self._outer: _OuterCall | None = None
        self._node: tuple[int, str] | None = None
        self._node_call = -1
        self._backward_depth = 0

    # The clock stands while PyTorch works: what that takes on a CPU is not what it would take beside a GPU.

    @contextmanager
    def working(self) -> Iterator[None]:
        """PyTorch or the simulator is at work, called from the user's code."""
        self.clock.pause()
        if self.clock.deterministic:
            self.clock.spend(self.timeline.gpu.assumed.host_python_ns)
        try:
            yield
        finally:
            self.clock.resume()

    @contextmanager
    def direct_calls(self) -> Iterator[Timeline]:
        """The user's code calls the runtime outside of any operator: a synchronize, an event."""
        before = self.timeline.correlation
        with self.working():
            yield self.timeline
        made = range(before + 1, self.timeline.correlation + 1)
        if made:
            stack = self.walker.current()
            self.api_stacks.update({(self.timeline.thread, number): stack for number in made})

    def begin_outer(self, name: str, base: str, warm: bool) -> None:
        """A function of PyTorch is called by the user's code, or by a library on its behalf.

        `warm`: it ran on the device before the capture, so that its kernels are loaded.
        """
        self._stack = None
        self.timeline.warm = warm
        self._outer = _OuterCall(name, base, self.clock.now())

    def end_outer(self) -> None:
        """It returns. It becomes a host call of its own unless it is but another name of the one operator in it."""
        outer, self._outer = self._outer, None
        if outer is not None and outer.last_operator >= 0:
            self._claim_nodes(outer.last_operator)
        self._stack = None
        self.timeline.warm = False
        if outer is not None and outer.index is not None and outer.is_redundant:
            self._dropped.add(outer.index)
        elif outer is not None and outer.index is not None:
            self.calls.end_ns[outer.index] = self.clock.now()

    @contextmanager
    def operator(self, name: str, inputs: list[Any], base: str) -> Iterator[None]:
        """One operator, in whichever thread is at work."""
        index = self.begin_operator(name, inputs, base)
        try:
            yield
        finally:
            self.end_operator(index)

    def begin_operator(self, name: str, inputs: list[Any], base: str) -> int:
        """It begins; the index of its call."""
        node = self._enter_node() if self._backward_depth else None
        if self._stack is None:
            self._stack = self.walker.current()
        self._note_in_outer(base)
        index = self.calls.add(
            "op",
            name,
            self.clock.now(),
            None,
            self.timeline.thread,
            sequence_number=node,
            input_shapes=self._shapes_of(inputs),
            stack_id=self._stack,
            forward_of=None if node is None else self._forward.get(node),
        )
        self._claim_nodes(index)
        if self._outer is not None:
            self._outer.last_operator = index
        return index

    def end_operator(self, index: int) -> None:
        """It ends."""
        self.calls.end_ns[index] = self.clock.now()

    def _shapes_of(self, inputs: list[Any]) -> str | None:
        """As Kineto writes them; the same shapes come again and again."""
        if not inputs:
            return None
        key = tuple([tensor.shape for tensor in inputs])
        text = self._shapes.get(key)
        if text is None:
            text = self._shapes[key] = str([list(shape) for shape in key])
        return text

    def _note_in_outer(self, base: str) -> None:
        outer = self._outer
        if outer is None or self._backward_depth:
            return
        if outer.index is None:
            outer.index = self.calls.add(
                "op", outer.name, outer.start_ns, None, self.timeline.thread, stack_id=self._stack
            )
        outer.operators += 1
        outer.inner_base = base

    def _claim_nodes(self, index: int) -> None:
        """Nodes that autograd has made since the last operator belong to this one: it makes them before it calls it."""
        now = self._sequence_now()
        for number in range(self._sequence, now):
            self._forward[number] = index
            if self.calls.sequence_number[index] is None:
                self.calls.sequence_number[index] = number
        self._sequence = now

    # Backward: on a GPU the engine runs in a thread of its own, while the caller waits.

    @contextmanager
    def backward(self, on_device: bool) -> Iterator[None]:
        """The autograd engine runs."""
        if self._stack is None:
            self._stack = self.walker.current()
        before = self.timeline.thread
        if on_device:
            self.threads[self.autograd_thread] = AUTOGRAD_THREAD
            self.timeline.thread = self.autograd_thread
        if self._outer is not None and not self._backward_depth:
            self._note_in_outer("")
        stack = self._stack
        self._backward_depth += 1
        try:
            yield
        finally:
            self._leave_node()
            self._backward_depth -= 1
            self.timeline.thread = before
            self._stack = stack

    def _enter_node(self) -> int | None:
        node = self._node_now()
        if node is None:
            return None
        number, name = node._sequence_nr(), node.name()
        known = number if number < 1 << 62 else None  # AccumulateGrad has none, which is written as all ones
        if self._node != (number, name):
            self._leave_node()
            self.clock.spend(self.timeline.gpu.assumed.host_backward_node_ns)
            self._node = (number, name)
            self._node_call = self.calls.add(
                "op",
                name,
                self.clock.now(),
                None,
                self.timeline.thread,
                sequence_number=known,
                stack_id=self._stack,
                forward_of=None if known is None else self._forward.get(known),
            )
        return known

    def _leave_node(self) -> None:
        if self._node is not None:
            self.calls.end_ns[self._node_call] = self.clock.now()
            self._node = None

    def note_allocated(self, allocated: int) -> None:
        """The device memory in use has changed."""
        self.allocated.append(CounterSample("allocated device memory", "bytes", self.clock.now(), float(allocated), 0))

    def finished_calls(self) -> HostCalls:
        """All host calls, without those that were but another name of one inside them."""
        if not self._dropped:
            return self.calls
        kept = [index for index in range(len(self.calls)) if index not in self._dropped]
        new_index = {index: position for position, index in enumerate(kept)}
        columns = {name: [column[index] for index in kept] for name, column in vars(self.calls).items()}
        columns["forward_of"] = [None if index is None else new_index.get(index) for index in columns["forward_of"]]
        return HostCalls(**columns)


class _OuterCall:
    """A function of PyTorch that the user's code has called."""

    __slots__ = ("base", "index", "inner_base", "last_operator", "name", "operators", "start_ns")

    def __init__(self, name: str, base: str, start_ns: int) -> None:
        self.name, self.base, self.start_ns = name, base, start_ns
        self.index: int | None = None
        self.last_operator = -1
        self.operators = 0
        self.inner_base = ""

    @property
    def is_redundant(self) -> bool:
        base, inner = self.base.strip("_"), self.inner_base.strip("_")
        return self.operators == 1 and (base == inner or (base in ("cuda", "cpu") and inner == "to"))
