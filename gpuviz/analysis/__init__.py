"""What a trace means: pure functions from a `Trace` to a Polars table.

Each takes an optional window ``(start_ns, end_ns)``, ns since t0; without one it uses the window of the trace, or all
of it. Durations are cut to the window, an activity is counted in the window that holds its start, and percentiles use
whole durations, so that disjoint windows add up. Rows without usable times stay out of every number; what cannot be
known is null. An impossible argument raises `AnalysisError`. Formulas, units, and the definitions of other tools where
they differ: docs/formulas.md.
"""

from gpuviz.analysis.busy_share import busy_share
from gpuviz.analysis.by_line import by_line
from gpuviz.analysis.by_range import by_range, by_step
from gpuviz.analysis.copies import copies, copy_time
from gpuviz.analysis.copy_reasons import copy_verdicts
from gpuviz.analysis.device_time import device_time
from gpuviz.analysis.findings import explain as explain
from gpuviz.analysis.findings import findings
from gpuviz.analysis.first_calls import first_calls
from gpuviz.analysis.gpu_time import cpu_time, gpu_time
from gpuviz.analysis.graph_gain import graph_gain
from gpuviz.analysis.groupings import by_kernel, by_module, by_op, by_shape
from gpuviz.analysis.idle import idle, idle_summary
from gpuviz.analysis.launch_bound import launch_bound
from gpuviz.analysis.launch_budget import launch_budget
from gpuviz.analysis.launch_tree import launch_tree
from gpuviz.analysis.launches import launch_summary, launches
from gpuviz.analysis.queue_depth import queue_depth, queue_depth_summary
from gpuviz.analysis.serialized_copies import serialized_copies
from gpuviz.analysis.top_kernels import top_kernels
from gpuviz.analysis.waterfall import launch_stages

__all__ = [
    "busy_share",
    "by_kernel",
    "by_line",
    "by_module",
    "by_op",
    "by_range",
    "by_shape",
    "by_step",
    "copies",
    "copy_time",
    "copy_verdicts",
    "cpu_time",
    "device_time",
    "findings",
    "first_calls",
    "gpu_time",
    "graph_gain",
    "idle",
    "idle_summary",
    "launch_bound",
    "launch_budget",
    "launch_stages",
    "launch_summary",
    "launch_tree",
    "launches",
    "queue_depth",
    "queue_depth_summary",
    "serialized_copies",
    "top_kernels",
]
