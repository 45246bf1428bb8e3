"""The backend ``cupti``: a capture on a real GPU, in a process that runs already.

`start` registers the pool's callbacks, switches records on, and leaves the program alone; `stop` waits until everything
has arrived, switches them off, and makes the trace. Nothing of it knows who launches: PyTorch, CuPy, Numba, Triton,
JAX and CUDA Python end in the same calls of the runtime or the driver.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable

from gpuviz.capture.assemble import assemble
from gpuviz.capture.backend import CaptureRequest
from gpuviz.capture.cupti.call_stacks import LineSourceFor, no_lines
from gpuviz.capture.cupti.checks import checked_control, require_no_graph_capture, require_no_torch_profiler
from gpuviz.capture.cupti.control import Control
from gpuviz.capture.cupti.driver import CudaDriver, Driver
from gpuviz.capture.cupti.pool import DEFAULT_BYTES, Pool
from gpuviz.capture.cupti.run import Run, version_words
from gpuviz.errors import CaptureError, DroppedRecordsWarning
from gpuviz.model import Trace

FENCE_TIMEOUT_S = 2.0


class CuptiBackend:
    """Captures with CUPTI.

    `memory_bytes` bounds the records that are kept until the end. `lines` gives the source of call stacks (a
    `LineClock`) for a request. `open_control` and `open_driver` find CUPTI and the CUDA driver, after asking whether
    a capture is possible at all.
    """

    name = "cupti"

    def __init__(
        self,
        *,
        memory_bytes: int = DEFAULT_BYTES,
        lines: LineSourceFor = no_lines,
        fence_timeout_s: float = FENCE_TIMEOUT_S,
        open_control: Callable[[], Control] = checked_control,
        open_driver: Callable[[], Driver] = CudaDriver,
    ) -> None:
        self._memory_bytes = memory_bytes
        self._lines = lines
        self._fence_timeout_s = fence_timeout_s
        self._open_control = open_control
        self._open_driver = open_driver
        self._run: Run | None = None
        self._control: Control | None = None

    @property
    def description(self) -> str:
        """``CUPTI 13.0 (ctypes)``, once it is known which."""
        control = self._control
        return "CUPTI" if control is None else f"CUPTI {version_words(control.version)} ({control.name})"

    def start(self, request: CaptureRequest) -> None:
        """Begin to record. What was launched before is waited for first, so that it is not in the trace."""
        if self._run is not None:
            raise CaptureError("Tried to start a capture with CUPTI that is running already. Stop it first.")
        began = time.perf_counter_ns()
        require_no_torch_profiler()
        require_no_graph_capture()
        control = self._control = self._open_control()
        run = self._run = Run(control, self._open_driver(), Pool(self._memory_bytes), request, self._lines(request))
        try:
            run.begin()
        except BaseException:
            self._run = None
            run.abandon()
            raise
        run.overhead_ns += time.perf_counter_ns() - began

    def stop(self) -> Trace:
        """End the capture. Whatever fails on the way, recording is off and the memory given back afterwards."""
        run, self._run = self._run, None
        if run is None:
            raise CaptureError("Tried to stop a capture with CUPTI that is not running. Start it first.")
        if run.process_id != os.getpid():
            raise CaptureError(
                f"Tried to stop a capture in process {os.getpid()}, a fork of the one that runs it "
                f"({run.process_id}). The capture is that process's alone: stop it there."
            )
        try:
            recording = run.end(self._fence_timeout_s)
            trace = assemble(recording)
        finally:
            run.abandon()
        for problem in run.problems:
            warnings.warn(problem, DroppedRecordsWarning, stacklevel=2)
        return trace
