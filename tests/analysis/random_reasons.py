"""Random small traces with all that reasons and groupings look at: waits, ranges, kinds of streams, shapes, lines."""

from __future__ import annotations

from typing import Any

import polars as pl
from hypothesis import strategies as st

from gpuviz.model import Trace, Window, schema
from tests.analysis.random_traces import GPU_MEANINGS, HOST_MEANINGS, THREADS, intervals, windows_of
from tests.drawing import trace_from_intervals

STREAMS = ("7", "8", "9", "1/7")
API_NAMES = ("cudaLaunchKernel", "cudaMemcpyAsync", "cudaMemcpy", "cudaStreamSynchronize", "cudaStreamWaitEvent")
PLACES = (["python", "step", "train.py:3"], ["python", "forward", "torch/nn.py:7"], ["module", "Linear"])
HOST = HOST_MEANINGS + PLACES
COPIES = (["copy", "HtoD", "pinned", "device", "64"], ["copy", "DtoH", "device", "pageable"], ["copy", "DtoD"])
RANGE_KINDS = ("step", "annotation", "nvtx", "gpu_annotation")


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """A trace whose columns are drawn freely, within what readers write."""
    host = draw(st.lists(intervals("thread", THREADS, HOST), max_size=12))
    gpu = draw(st.lists(intervals("stream", STREAMS, GPU_MEANINGS + COPIES * 2), max_size=10))
    ranges = draw(st.lists(intervals("range", THREADS, (["range", "a"], ["range", "b"])), max_size=5))
    waits = draw(st.lists(intervals("wait", STREAMS, (["wait", "w"],)), max_size=3))
    calls = [row for row in host if row.kind in ("api", "driver")]
    for activity in gpu:
        activity.launch = draw(st.sampled_from([None, *calls]))
    trace = trace_from_intervals([*host, *gpu, *ranges, *waits])

    def column(table: str, name: str, values: Any, dtype: Any) -> pl.DataFrame:
        height = trace.table(table).height
        drawn = draw(st.lists(st.sampled_from(values), min_size=height, max_size=height))
        return trace.table(table).with_columns(pl.Series(name, drawn, dtype=pl.String).cast(dtype))

    nodes = [None, *range(trace.callpaths.height)]
    kernels = trace.kernels.with_columns(
        forward_callpath_id=pl.Series(
            draw(st.lists(st.sampled_from(nodes), min_size=trace.kernels.height, max_size=trace.kernels.height)),
            dtype=pl.Int32,
        )
    )
    return trace.replace(
        streams=column("streams", "kind", schema.STREAM_KINDS, pl.Enum(schema.STREAM_KINDS)),
        api_calls=column("api_calls", "name", API_NAMES, pl.Categorical()),
        host_calls=column("host_calls", "input_shapes", (None, "[[2]]", "[[3]]"), pl.Categorical()),
        ranges=column("ranges", "kind", RANGE_KINDS, pl.Enum(schema.RANGE_KINDS)),
        kernels=kernels,
    )


@st.composite
def traces_and_windows(draw: st.DrawFn) -> tuple[Trace, Window | None]:
    trace = draw(traces())
    return trace, draw(st.none() | windows_of(trace))
