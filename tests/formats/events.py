"""Small traces for tests: events in Kineto's layout, one function each. Times are in microseconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpuviz.formats import load
from gpuviz.model.trace import Trace

type Event = dict[str, Any]


def call(name: str, ts: Any, dur: Any, *, cat: str = "cpu_op", pid: Any = 1, tid: Any = 1, **args: Any) -> Event:
    """A call on the host."""
    event = {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}
    return {key: value for key, value in event.items() if value is not None}


def launch(
    correlation: Any, ts: Any, dur: Any = 5, *, name: str = "cudaLaunchKernel", pid: Any = 1, **more: Any
) -> Event:
    """An API call."""
    return call(name, ts, dur, pid=pid, correlation=correlation, **{"cat": "cuda_runtime", **more})


def kernel(
    correlation: Any, ts: Any, dur: Any, *, name: str = "k", device: Any = 0, stream: Any = 7, cat: str = "kernel",
    context: Any = 1, **args: Any,
) -> Event:  # fmt: skip
    """A kernel, or other work of a GPU."""
    place = {"device": device, "stream": stream, "context": context, "correlation": correlation}
    return call(name, ts, dur, cat=cat, pid=device, tid=stream, **place, **args)


def memcpy(correlation: Any, ts: Any, dur: Any, name: str = "Memcpy HtoD (Pinned -> Device)", **more: Any) -> Event:
    """A copy."""
    return kernel(correlation, ts, dur, name=name, cat="gpu_memcpy", **more)


def document(events: list[Event], **members: Any) -> str:
    """The text of a trace, laid out as Kineto does: one event after another, each on lines of its own."""
    body = ",\n".join(json.dumps(event) for event in events)
    rest = "".join(f",\n  {json.dumps(key)}: {json.dumps(value)}" for key, value in members.items())
    return '{\n  "schemaVersion": 1,\n  "traceEvents": [\n' + body + "\n  ]" + rest + "\n}"


def load_text(folder: Path, text: str | bytes) -> Trace:
    """The trace that this text is; it keeps the laws of the model."""
    path = folder / "trace.json"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load(path).validate()


def load_events(folder: Path, *events: Event, **members: Any) -> Trace:
    """The trace that these events are."""
    return load_text(folder, document(list(events), **members))


def codes(trace: Trace) -> dict[str, int]:
    """Diagnostic code → count, without the one that every trace of the host alone has."""
    found = dict(trace.diagnostics.select("code", "count").iter_rows())
    found.pop("no_gpu_activity", None)
    return found


def path_of(trace: Trace, callpath_id: int | None) -> list[str]:
    """The names from below the root down to this node."""
    parents, frames = trace.callpaths["parent_id"], trace.callpaths["frame_id"]
    names: list[str] = []
    while callpath_id:
        names.append(trace.frames["function"].cast(str)[frames[callpath_id]])
        callpath_id = parents[callpath_id]
    return names[::-1]
