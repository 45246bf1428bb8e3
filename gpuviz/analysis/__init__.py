"""What a trace means: pure functions from a `Trace` to a Polars table.

Each takes an optional window ``(start_ns, end_ns)``, ns since t0; without one it uses the window of the trace, or all
of it. Durations are cut to the window, an activity is counted in the window that holds its start, and percentiles use
whole durations, so that disjoint windows add up. Rows without usable times stay out of every number; what cannot be
known is null. An impossible argument raises `AnalysisError`. Formulas, units, and the definitions of other tools where
they differ: docs/formulas.md.
"""

from gpuviz.analysis.copies import copies, copy_time
from gpuviz.analysis.device_time import device_time
from gpuviz.analysis.gpu_time import cpu_time, gpu_time
from gpuviz.analysis.launches import launch_summary, launches
from gpuviz.analysis.top_kernels import top_kernels

__all__ = [
    "copies",
    "copy_time",
    "cpu_time",
    "device_time",
    "gpu_time",
    "launch_summary",
    "launches",
    "top_kernels",
]
