"""Every reason why a copy is exposed: a drawing that shows it, and one that nearly does."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from gpuviz.analysis.copy_reasons import REASONS, copy_verdicts
from gpuviz.analysis.serialized_copies import serialized_copies
from gpuviz.model import Trace, schema
from tests.drawing import trace_from_text

# name: (drawing, reason of the copy that ends last, name of the evidence: a kernel, a call, a wait)
SHOWN = {
    "pageable": (
        """
        thread 1: >......
        stream 7: ..>>>>.
        > = copy HtoD pageable device
        """,
        "pageable_memory",
        "cudaMemcpyAsync",
    ),
    "nearly pageable: pinned": (
        """
        thread 1: >......
        stream 7: ..>>>>.
        """,
        "nothing_to_overlap",
        None,
    ),
    "a synchronous call": (
        """
        thread 1: >>>>>>>
        stream 7: ..>>>>.
        > = api cudaMemcpy
        """,
        "synchronous_call",
        "cudaMemcpy",
    ),
    "nearly synchronous: within the device the call returns": (
        """
        thread 1: =======
        stream 7: ..====.
        = = api cudaMemcpy
        """,
        "nothing_to_overlap",
        None,
    ),
    "the host waits for an asynchronous copy": (
        """
        thread 1: >SSSSSS
        stream 7: ..>>>>.
        S = api cudaStreamSynchronize
        """,
        "synchronous_call",
        "cudaStreamSynchronize",
    ),
    "nearly waits: it looks once and goes on": (
        """
        thread 1: >SSS...
        stream 7: ..>>>>.
        S = api cudaStreamSynchronize
        """,
        "nothing_to_overlap",
        None,
    ),
    "nearly waits: it launches before it waits": (
        """
        thread 1: >ASSSSSSSS
        stream 7: ..>>>>....
        stream 8: ......AAA.
        S = api cudaStreamSynchronize
        """,
        "unknown",
        None,
    ),
    "a kernel of its stream behind it": (
        """
        thread 1: >A......
        stream 7: ..>>>AAA
        """,
        "same_stream",
        "A",
    ),
    "a kernel of its stream before it": (
        """
        thread 1: A>......
        stream 7: ..AAA>>>
        """,
        "same_stream",
        "A",
    ),
    "nearly the same stream: the kernel was launched when the copy had ended": (
        """
        thread 1: >....A..
        stream 7: ..>>>.AA
        """,
        "nothing_to_overlap",
        None,
    ),
    "nearly the same stream: the kernel runs on another": (
        """
        thread 1: >A......
        stream 7: ..>>>...
        stream 8: .....AAA
        """,
        "unknown",
        None,
    ),
    "an event on its stream": (
        """
        thread 1: A>........
        stream 8: .AAAA.....
        wait 7: ..www.....
        stream 7: .....>>>..
        """,
        "wait_before",
        "w",
    ),
    "nearly an event: a fill of its stream lies between": (
        """
        thread 1: A0>.......
        stream 8: .AAAA.....
        wait 7: ..www.....
        stream 7: .....0>>>.
        """,
        "unknown",
        None,
    ),
    "the host waited while a kernel ran": (
        """
        thread 1: A.SSSS>...
        stream 8: .AAAA.....
        stream 7: .......>>>
        S = api cudaDeviceSynchronize
        """,
        "wait_before",
        "cudaDeviceSynchronize",
    ),
    "nearly: no kernel ran while the host waited": (
        """
        thread 1: A..SSS>...
        stream 8: .AA.......
        stream 7: .......>>>
        S = api cudaDeviceSynchronize
        """,
        "nothing_to_overlap",
        None,
    ),
    "another copy of its direction": (
        """
        thread 1: >P.......
        stream 7: .>>>>....
        stream 8: .....PPPP
        P = copy HtoD pinned device
        P = api cudaMemcpyAsync
        """,
        "other_copy",
        "Memcpy HtoD",
    ),
    "nearly another copy: of the other direction": (
        """
        thread 1: <P.......
        stream 7: .<<<<....
        stream 8: .....PPPP
        P = copy HtoD pinned device
        P = api cudaMemcpyAsync
        """,
        "nothing_to_overlap",
        None,
    ),
    "nothing is queued": (
        """
        thread 1: A..>.....B
        stream 7: .AA.>>>>..
        stream 8: ..........BB
        """,
        "nothing_to_overlap",
        None,
    ),
    "nearly nothing: a kernel is queued on another stream": (
        """
        thread 1: A..>..B...
        stream 7: .AA.>>>>..
        stream 8: ..........BB
        """,
        "unknown",
        None,
    ),
    "who knows: the copy's launch was not recorded": (
        """
        thread 1: A.........
        stream 7: .AA.>>>>..
        """,
        "unknown",
        None,
    ),
}


@pytest.mark.parametrize("name", SHOWN)
def test_reasons(name: str) -> None:
    drawing, reason, evidence = SHOWN[name]
    trace = trace_from_text(drawing)
    row = copy_verdicts(trace).sort("end_ns").row(-1, named=True)
    assert (row["reason"], evidence_name(trace, row)) == (reason, evidence)


def evidence_name(trace: Trace, row: dict[str, Any]) -> str | None:
    if row["evidence_activity_id"] is not None:
        return str(
            trace.activities().row(by_predicate=pl.col("activity_id") == row["evidence_activity_id"], named=True)[
                "name"
            ]
        )
    if row["evidence_api_id"] is not None:
        return str(trace.api_calls["name"][row["evidence_api_id"]])
    if row["evidence_sync_id"] is not None:
        return str(trace.syncs["name"][row["evidence_sync_id"]])
    return None


@pytest.mark.parametrize(
    ("kinds", "reason"),
    [
        (["legacy", "blocking"], "legacy_default_stream"),
        (["blocking", "legacy"], "legacy_default_stream"),
        (["legacy", "per_thread"], "legacy_default_stream"),
        (["legacy", "non_blocking"], "unknown"),
        (["blocking", "blocking"], "unknown"),
        (["legacy", "unknown"], "unknown"),
    ],
)
def test_the_legacy_default_stream(kinds: list[str], reason: str) -> None:
    trace = trace_from_text("""
        thread 1: >A......
        stream 7: ..>>>...
        stream 8: .....AAA
    """)
    streams = trace.streams.with_columns(kind=pl.Series(kinds, dtype=pl.Enum(schema.STREAM_KINDS)))
    (row,) = copy_verdicts(trace.replace(streams=streams)).to_dicts()
    assert row["reason"] == reason
    assert (row["evidence_activity_id"] is not None) == (reason != "unknown")
    others = streams.with_columns(context=pl.Series([1, 2]))
    assert copy_verdicts(trace.replace(streams=others))["reason"].to_list() == ["unknown"], "of another context"


def test_the_first_reason_of_the_list_counts() -> None:
    trace = trace_from_text("""
        thread 1: >A......
        stream 7: ..>>>AAA
        > = copy HtoD pageable device
    """)
    assert copy_verdicts(trace)["reason"].to_list() == [REASONS[0]]


def test_a_hidden_copy_has_no_reason_and_saves_nothing() -> None:
    (row,) = copy_verdicts(trace_from_text("stream 7: .>>.\nstream 8: KKKK")).to_dicts()
    assert (row["exposed_ns"], row["reason"], row["saving_ns"]) == (0, None, 0)


def test_a_saving_is_at_most_what_is_exposed_and_what_could_hide_it() -> None:
    long, short = (
        copy_verdicts(trace_from_text(f"stream 7: >>>>........\nstream 8: ....{kernel}")).row(0, named=True)
        for kernel in ("KKKKKKKK", "KK......")
    )
    assert (long["exposed_ns"], long["saving_ns"]) == (4_000, 4_000)
    assert (short["exposed_ns"], short["saving_ns"]) == (4_000, 2_000)


def test_the_share_of_the_link_and_the_line() -> None:
    trace = trace_from_text("""
        thread 1: ffff......
        thread 1: .>........
        stream 7: ...>>>>>>.
        f = python load train.py:12
        > = copy HtoD pinned device 6000
    """)
    devices = trace.devices.with_columns(link_bytes_per_s=pl.lit(4_000_000_000, dtype=pl.Int64))
    (row,) = copy_verdicts(trace.replace(devices=devices)).to_dicts()
    assert row["link_share"] == pytest.approx(0.25)
    assert (row["file"], row["line"], row["function"]) == ("train.py", 12, "load")
    assert copy_verdicts(trace)["link_share"].to_list() == [None], "the peak is not known"


def test_serialized_copies() -> None:
    trace = trace_from_text("""
        thread 1: >A...PB....=..C
        stream 7: .>>>AA.PP..B.=.C
        stream 8: ...............
        P = copy HtoD pinned device
        P = api cudaMemcpyAsync
    """)
    table = serialized_copies(trace).drop("copy_activity_id", "kernel_activity_id", "device_id", "stream_id")
    assert table.rows() == [
        ("HtoD", 3_000, 3_000, 0, True),
        ("HtoD", 2_000, 2_000, 2_000, True),
        ("DtoD", 1_000, 1_000, 1_000, False),
    ]
    assert serialized_copies(trace_from_text("stream 7: >>.0.KK")).height == 0, "a fill lies between"
    assert serialized_copies(trace_from_text("stream 7: >>.KK"))["held_back"].to_list() == [None]
