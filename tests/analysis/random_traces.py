"""Random small traces, and windows on them: times are small whole numbers, so that brute force can count instants."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import strategies as st

from gpuviz.model import Trace, Window, schema
from tests.drawing import Interval, trace_from_intervals

HORIZON_NS = 40
THREADS = ("1", "2")
STREAMS = ("7", "8", "1/7", "2/7")
HOST_MEANINGS = (["python", "step", "train.py:3"], ["op", "aten::mm"], ["op", "aten::add"], ["api", "cudaLaunchKernel"])
HOST_MEANINGS += (["driver", "cuLaunchKernel"], ["module", "Linear"])
GPU_MEANINGS = (["kernel", "gemm"], ["kernel", "relu"], ["graph_run", "graph"], ["memset", "fill", "8"])
GPU_MEANINGS += (
    ["copy", "HtoD", "pageable", "device", "100"],
    ["copy", "HtoD"],
    ["copy", "DtoH", "device", "pinned", "64"],
)
TIMINGS = st.sampled_from(["ok"] * 12 + [name for name in schema.TIMINGS if name != "ok"])
LENGTHS = st.sampled_from([0, 1, 1, 2, 3, 5, 8, 13])


@st.composite
def intervals(draw: st.DrawFn, lane: str, places: tuple[str, ...], meanings: tuple[list[str], ...]) -> Interval:
    start = draw(st.integers(0, HORIZON_NS))
    kind, *words = draw(st.sampled_from(meanings))
    end = start + draw(LENGTHS)
    place, timing = draw(st.sampled_from(places)), draw(TIMINGS)
    return Interval(lane, place, "x", start, end, timing, kind, words)


@st.composite
def traces(draw: st.DrawFn, *, all_usable: bool = False) -> Trace:
    """A valid trace of a few host calls and GPU activities; calls launch none, one or many of them."""
    host = draw(st.lists(intervals("thread", THREADS, HOST_MEANINGS), max_size=12))
    gpu = draw(st.lists(intervals("stream", STREAMS, GPU_MEANINGS), max_size=14))
    calls = [row for row in host if row.kind in ("api", "driver")]
    for activity in gpu:
        activity.launch = draw(st.sampled_from([None, *calls]))
    if all_usable:
        for row in [*host, *gpu]:
            row.timing = "ok"
    return trace_from_intervals([*host, *gpu])


@st.composite
def windows_of(draw: st.DrawFn, trace: Trace) -> Window:
    """A window that touches the trace; it may stick out."""
    start = draw(st.integers(-2, trace.meta.end_ns))
    return start, draw(st.integers(max(start, 0) + 1, trace.meta.end_ns + 3))


@st.composite
def traces_and_windows(draw: st.DrawFn, *, all_usable: bool = False) -> tuple[Trace, Window]:
    trace = draw(traces(all_usable=all_usable))
    return trace, draw(windows_of(trace))


@st.composite
def partitions(draw: st.DrawFn, trace: Trace) -> list[Window]:
    """Windows that lie side by side and hold the whole trace, activities of no length at its end too."""
    end = trace.meta.end_ns + 1
    cuts = sorted(draw(st.sets(st.integers(1, max(end - 1, 1)), max_size=4)) - {end})
    bounds = [0, *cuts, end]
    return list(pairwise(bounds))
