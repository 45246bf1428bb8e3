"""Whatever is in the buffers: the trace keeps the laws, and every record."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gpuviz.capture.assemble import assemble
from gpuviz.capture.backend import CellSource
from gpuviz.capture.cupti.layouts import API_KINDS, KERNEL_KINDS, Kind
from gpuviz.capture.cupti.records import Records, blank, decode_all, encode
from gpuviz.capture.ranges import RecordedRange
from gpuviz.capture.recording import HostCalls, Recording, StackFrame
from tests.capture.cupti.records_by_hand import VERSIONS, random_tables
from tests.capture.recordings import KERNEL_NAMES, MAIN, PROCESS, T0, VERSION, WORKER, recording

FRAMES = [
    StackFrame("cell", "In [1]", cell="c"),
    StackFrame("line", "a()", cell="c", line=1),
    StackFrame("python", "a", file="a.py", line=3),
    StackFrame("module", "Linear"),
    StackFrame("line", "b()", file="a.py", line=4),
]
SMALL = st.integers(0, 40)


def timed(kind: int, random: np.random.Generator, count: int) -> Records:
    """Records with small times that overlap, touch and cross; some of them 0, some backwards."""
    records = blank(kind, count)
    start = random.integers(0, 200, count)
    records["start"] = np.where(random.random(count) < 0.1, 0, T0 + start)
    records["end"] = np.where(random.random(count) < 0.1, 0, T0 + start + random.integers(-5, 60, count))
    for name, high in (("correlation_id", 12), ("device_id", 2), ("context_id", 3), ("stream_id", 3), ("graph_id", 2)):
        if name in (records.dtype.names or ()):
            records[name] = random.integers(0, high, count)
    return records


def random_recording(seed: int) -> Recording:
    random = np.random.default_rng(seed)
    tables = []
    for kind in API_KINDS:
        records = timed(kind, random, int(random.integers(0, 8)))
        records["process_id"] = random.choice([PROCESS, PROCESS, 77], len(records))
        records["thread_id"] = random.choice([MAIN, WORKER], len(records))
        records["callback_id"] = random.choice([211, 307, 5000], len(records))
        tables.append(records)
    activities = (*KERNEL_KINDS, Kind.MEMCPY, Kind.MEMCPY2, Kind.MEMSET, Kind.GRAPH_TRACE, Kind.SYNCHRONIZATION)
    tables.extend(timed(kind, random, int(random.integers(0, 8))) for kind in activities)
    for table in tables:
        if "name_address" in (table.dtype.names or ()):
            table["name_address"] = random.choice([*KERNEL_NAMES, 0, 17], len(table))
    overhead = timed(Kind.OVERHEAD, random, 3)
    overhead["object_kind"], overhead["process_id"] = [0, 2, 2], PROCESS
    overhead["overhead_kind"] = random.choice([0, 1 << 16, 5 << 16], 3)
    tables.append(overhead)
    calls = HostCalls()
    for index in range(int(random.integers(0, 12))):
        start = T0 + int(random.integers(0, 200))
        end = None if random.random() < 0.1 else start + int(random.integers(-3, 90))
        calls.add(
            str(random.choice(["op", "module", "python", "other"])),
            str(random.choice(["Linear", "aten::mm", "f"])),
            start,
            end,
            int(random.choice([MAIN, WORKER])),
            stack_id=None if random.random() < 0.3 else int(random.integers(0, 8)),
            forward_of=None if index == 0 or random.random() < 0.7 else int(random.integers(0, index)),
        )
    stacks = [tuple(FRAMES[i] for i in sorted(random.choice(5, random.integers(0, 6), False))) for _ in range(8)]
    ranges = [
        RecordedRange("region", "r", T0 + start, None if start % 5 == 0 else T0 + start + 9, MAIN)
        for start in random.integers(0, 100, 4).tolist()
    ]
    order = np.repeat(np.arange(len(tables)), [len(table) for table in tables])
    random.shuffle(order)
    return recording(
        buffers=[encode(tables, VERSION, order)],
        host_calls=calls,
        stacks=stacks,
        ranges=ranges,
        cells={"c": CellSource(None, 1, "a()")},
        api_stacks={(MAIN, 3): 0, (WORKER, 3): 5, (MAIN, 4): 2},
        process_id=None if seed % 3 == 0 else PROCESS,
    )


@given(st.integers(0, 2**32))
def test_every_record_is_kept(seed: int) -> None:
    given_recording = random_recording(seed)
    trace = assemble(given_recording).validate()
    decoded = decode_all(given_recording.buffers, VERSION)
    raw = {
        "api_calls": np.concatenate([decoded.of(kind) for kind in API_KINDS]),
        "kernels": np.concatenate([decoded.of(kind) for kind in KERNEL_KINDS]),
        "memsets": decoded.of(Kind.MEMSET),
        "graph_runs": decoded.of(Kind.GRAPH_TRACE),
        "syncs": decoded.of(Kind.SYNCHRONIZATION),
    }
    for name, records in raw.items():
        table = trace.table(name)
        assert table.height == len(records)
        usable = (records["start"] > 0) & (records["end"] > 0) & (records["end"] >= records["start"])
        ok = table.filter(timing="ok")
        assert ok.height == np.count_nonzero(usable)
        durations = (records["end"] - records["start"])[usable]
        assert (ok["end_ns"] - ok["start_ns"]).sum() == int(durations.sum())
        assert table["correlation_id"].null_count() == np.count_nonzero(records["correlation_id"] == 0)
        begun = records["start"][records["start"] > 0].astype(np.int64) - trace.meta.t0_unix_ns
        assert sorted(table["start_ns"].drop_nulls()) == sorted(begun.tolist())
    copies = len(decoded.of(Kind.MEMCPY)) + len(decoded.of(Kind.MEMCPY2))
    assert trace.memcpys.height == copies
    assert trace.host_calls.height == len(given_recording.host_calls) + len(decoded.of(Kind.OVERHEAD))
    assert trace.ranges.height == len(given_recording.ranges)


@given(st.integers(0, 2**32))
def test_links_and_paths(seed: int) -> None:
    trace = assemble(random_recording(seed))
    calls = {row["api_id"]: row for row in trace.api_calls.iter_rows(named=True)}
    pid = dict(trace.processes.select("process_id", "pid").iter_rows())
    own = {row["thread_id"] for row in trace.threads.iter_rows(named=True) if pid[row["process_id"]] == pid[0]}
    joinable = {row["correlation_id"] for row in calls.values() if row["thread_id"] in own} - {None}
    nodes = trace.callpaths.join(trace.frames, on="frame_id", maintain_order="left").rows(named=True)
    for activity in trace.activities().iter_rows(named=True):
        assert (activity["api_id"] is None) == (activity["correlation_id"] not in joinable)
        leaf = nodes[activity["callpath_id"]]
        assert leaf["function"] == activity["name"]
        assert leaf["layer"] == activity["table"].removesuffix("s")
        above = nodes[leaf["parent_id"]]
        if activity["api_id"] is None:
            assert above["layer"] == "group"
            continue
        launch = calls[activity["api_id"]]
        assert launch["correlation_id"] == activity["correlation_id"]
        assert leaf["parent_id"] == launch["callpath_id"]
        assert above["function"] == launch["name"]


@given(st.integers(0, 2**32), st.sampled_from(sorted(VERSIONS)))
def test_random_bits_never_break_a_trace(seed: int, version: int) -> None:
    tables, order = random_tables(seed, 6)
    raw = encode(tables, version, order).copy()
    trace = assemble(recording(buffers=[raw], cupti_version=version)).validate()
    assert trace.kernels.height == sum(int(np.isin(table["kind"], KERNEL_KINDS).sum()) for table in tables)


@given(st.binary(max_size=600))
def test_random_bytes_never_break_a_trace(raw: bytes) -> None:
    assemble(recording(buffers=[raw, b"\x05\0\0\0" + bytes(36) + raw])).validate()
