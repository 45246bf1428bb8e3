"""Every rule: a drawing in which it fires, and one in which it nearly does; what it says; when it abstains."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from gpuviz.analysis.findings import RULES, SCHEMA, explain, findings
from gpuviz.model import Diagnostics, Trace
from tests.drawing import trace_from_text

# rule → (drawing in which it fires, drawing in which it nearly does); a column is 0.1 ms
PAIRS = {
    "pageable_copies": (
        """
        thread 1: >.................
        stream 7: .>>>>>>>>>>>>KKKKK
        > = copy HtoD pageable device
        """,
        """
        thread 1: >.................
        stream 7: .>>>>>>>>>>>>.....
        stream 8: .KKKKKKKKKKKKKKKKK
        > = copy HtoD pageable device
        """,
    ),
    "synchronous_copies": (
        """
        thread 1: >>>>>>>>>>>>>>....
        stream 7: .>>>>>>>>>>>>KKKKK
        > = api cudaMemcpy
        """,
        """
        thread 1: >.................
        stream 7: .>>>>>>>>>>>>KKKKK
        """,
    ),
    "copies_on_the_compute_stream": (
        """
        thread 1: >K................
        stream 7: .>>>>>>>>>>>>KKKKK
        """,
        """
        thread 1: >K................
        stream 7: .>>>>>>>>>>>>.....
        stream 8: .............KKKKK
        """,
    ),
    "copies_behind_waits": (
        """
        thread 1: K.SSSSSS>.........
        stream 8: .KKKKK............
        stream 7: .........>>>>>>>>>
        S = api cudaDeviceSynchronize
        """,
        """
        thread 1: K.......>.........
        stream 8: .KKKKK............
        stream 7: .........>>>>>>>>>
        """,
    ),
    "copies_behind_copies": (
        """
        thread 1: >P................
        stream 7: .>>>>>>>>.........
        stream 8: .........PPPPPPPPP
        P = copy HtoD pinned device
        P = api cudaMemcpyAsync
        """,
        """
        thread 1: >........P........
        stream 7: .>>>>>>>>.........
        stream 8: ..........PPPPPPPP
        P = copy HtoD pinned device
        P = api cudaMemcpyAsync
        """,
    ),
    "copies_without_compute": (
        """
        thread 1: >............K....
        stream 7: .>>>>>>>>>>>>.....
        stream 8: ..............KKKK
        """,
        """
        thread 1: >K................
        stream 7: .>>>>>>>>>>>>.....
        stream 8: ..............KKKK
        """,
    ),
    "unexplained_copies": (
        """
        thread 1: >K................
        stream 7: .>>>>>>>>>>>>.....
        stream 8: ..............KKKK
        """,
        """
        thread 1: >K................
        stream 7: .>>>>>>>>>>>>.....
        stream 8: .KKKKKKKKKKKKKKKKK
        """,
    ),
    "synchronous_fills": (
        """
        thread 1: 00000000000000....
        stream 7: .000000000000KKKKK
        0 = api cudaMemset
        """,
        """
        thread 1: 0.................
        stream 7: .000000000000KKKKK
        """,
    ),
    "low_utilisation": ("stream 7: K.........K", "stream 7: KKKKK.KKKKK"),
    "launch_bound": (
        """
        thread 1: A....A....A....A..
        stream 7: .A....A....A....A.
        """,
        """
        thread 1: AAAAAA............
        stream 7: .A..A..A..A..A..A.
        """,
    ),
    "idle_launching": (
        """
        thread 1: ......AAAAA.......
        stream 7: .KKKKK.....AAAAAAA
        """,
        """
        thread 1: ....AAA...........
        stream 7: .KKKKKKKAAAAAAAAAA
        """,
    ),
    "idle_python": (
        """
        thread 1: fffffffffffff.....
        thread 1: A.........A.......
        stream 7: .AAA.......AAAAAAA
        f = python step train.py:12
        """,
        """
        thread 1: ..............ffff
        thread 1: A.........A.......
        stream 7: .AAA.......AAAAAAA
        f = python step train.py:12
        """,
    ),
    "idle_nothing_recorded": ("stream 7: KKK....KKK", "stream 7: KKKKKKKKKK"),
    "host_waits": (
        """
        thread 1: ...SSSSSSSS.......
        stream 7: KKKK.......KKKKKKK
        S = api cudaDeviceSynchronize
        """,
        """
        thread 1: ...SSSSSSSS.......
        stream 7: KKKKKKKKKKKKKKKKKK
        S = api cudaDeviceSynchronize
        """,
    ),
    "item_in_a_loop": (
        """
        thread 1: ffffffffffffffffffffffff
        thread 1: .i.i.i.i.i.i.i.i.i.i.i.i
        stream 7: KKKKKKKKKKKKKKKKKKKKKKKK
        f = python train train.py:3
        i = op aten::item
        """,
        """
        thread 1: ffffffffffffffffffffffff
        thread 1: .i.i.i.i.i.i.i.i.i......
        stream 7: KKKKKKKKKKKKKKKKKKKKKKKK
        f = python train train.py:3
        i = op aten::item
        """,
    ),
    "data_loader_without_workers": (
        """
        range 1: ...dddddddd.......
        stream 7: KKKK.......KKKKKKK
        d = range enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__
        """,
        """
        range 1: ...dddddddd.......
        stream 7: KKKKKKKKKKKKKKKKKK
        d = range enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__
        """,
    ),
    "data_loader_too_slow": (
        """
        thread 1: ...dddddddd.......
        stream 7: KKKK.......KKKKKKK
        d = other enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__
        """,
        """
        thread 1: ...dddddddd.......
        stream 7: KKKK.......KKKKKKK
        d = other enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__
        """,
    ),
}


def fired(trace: Trace) -> dict[str, dict[str, Any]]:
    return {row["rule"]: row for row in findings(trace).filter(status="found").iter_rows(named=True)}


@pytest.mark.parametrize("rule", PAIRS)
def test_a_rule_fires_and_nearly_fires(rule: str) -> None:
    shows, nearly = (trace_from_text(drawing, column_ns=100_000) for drawing in PAIRS[rule])
    row = fired(shows)[rule]
    assert 0 < row["share"] <= 1
    assert row["time_ns"] > 0
    assert row["start_ns"] < row["end_ns"]
    assert rule not in fired(nearly)


@pytest.mark.parametrize("rule", sorted(set(PAIRS) - {"low_utilisation"}))
def test_the_evidence_exists(rule: str) -> None:
    trace = trace_from_text(PAIRS[rule][0], column_ns=100_000)
    row = fired(trace)[rule]
    table = trace.table(row["evidence_table"])
    assert row["evidence_ids"]
    assert set(row["evidence_ids"]) <= set(table[table.columns[0]])
    assert all(word in explain(row) for word in (row["sentence"], "formula", "try", "unknown"))


def test_the_legacy_default_stream() -> None:
    trace = trace_from_text(PAIRS["unexplained_copies"][0], column_ns=100_000)
    kinds = trace.streams.with_columns(kind=pl.Series(["legacy", "blocking"], dtype=trace.streams["kind"].dtype))
    assert "copies_on_the_default_stream" not in fired(trace)
    assert "copies_on_the_default_stream" in fired(trace.replace(streams=kinds))


def tiny_kernels(count: int) -> Trace:
    call, kernel = "A." * count, ".A" * count
    return trace_from_text(f"""
        thread 1: {"f" * 2 * count}
        thread 1: {call}
        stream 7: {kernel}
        f = python step train.py:8
    """)


def test_many_tiny_kernels() -> None:
    row = fired(tiny_kernels(100))["many_tiny_kernels"]
    assert (row["lines"], len(row["evidence_ids"]), row["time_ns"]) == (["train.py:8 (step)"], 100, 100_000)
    assert "many_tiny_kernels" not in fired(tiny_kernels(99))


@pytest.mark.parametrize(
    ("kernel", "capability", "answer"),
    [
        ("ampere_sgemm_128x64_tn", "8.0", "found"),
        ("ampere_sgemm_128x64_tn", None, "found"),
        ("volta_sgemm_128x64_tn", "9.0", "found"),
        ("volta_sgemm_128x64_tn", "7.0", None),
        ("volta_sgemm_128x64_tn", None, "abstained"),
        ("void cutlass::Kernel<cutlass_80_simt_sgemm_256x128_8x4_nn_align1>", "8.0", "found"),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x64x8_stage3_warpsize1x4x1_ffma_aligna4", "8.6", "found"),
        ("sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize64x64x32_tensor16x8x8", "8.0", None),
        ("cutlass_80_tensorop_s1688gemm_128x128_32x3_nn_align4", "8.0", None),
        ("Cijk_Ailk_Bljk_SB_MT128x64x16", "9.4", None),
    ],
)
def test_float32_matrix_products(kernel: str, capability: str | None, answer: str | None) -> None:
    trace = trace_from_text(f"stream 7: KKKKKKKK\nK = kernel '{kernel}'")
    devices = trace.devices.with_columns(compute_capability=pl.lit(capability, dtype=pl.String))
    table = findings(trace.replace(devices=devices)).filter(rule="float32_matmul")
    assert table["status"].to_list() == ([] if answer is None else [answer])


@pytest.mark.parametrize("code", ["records_dropped", "file_truncated", "graph_replay_without_kernels"])
def test_nothing_is_judged_from_incomplete_data(code: str) -> None:
    trace = trace_from_text(PAIRS["pageable_copies"][0], column_ns=100_000)
    notes = Diagnostics()
    notes.add(code, 3)
    table = findings(trace.replace(diagnostics=notes.table()))
    warning, *others = table.iter_rows(named=True)
    assert (warning["rule"], warning["status"]) == ("incomplete_recording", "warning")
    assert {row["status"] for row in others} == {"abstained"}
    assert all(code in row["sentence"] for row in others)
    assert {row["rule"] for row in others} == set(RULES) - {"incomplete_recording"}


def test_dropped_records_of_the_meta_data_count_too() -> None:
    trace = trace_from_text(PAIRS["pageable_copies"][0], column_ns=100_000)
    table = findings(trace.replace(meta=replace(trace.meta, dropped_records=7)))
    assert table["sentence"][0] == "The recording is not whole: 7 records were dropped."
    assert table.filter(status="found").height == 0


def test_records_without_times_are_a_warning_and_many_of_them_no_verdict() -> None:
    many = trace_from_text("stream 7: K.........K\nstream 8: P!")
    assert findings(many)["status"].unique().to_list() == ["warning", "abstained"]
    few = trace_from_text(f"stream 7: {'K.........' * 200}\nstream 8: P!")
    assert set(findings(few)["status"]) == {"warning", "found", "abstained"}


def test_what_is_missing_is_said() -> None:
    table = findings(trace_from_text("stream 7: KKKK"))
    said = dict(table.select("rule", "sentence").iter_rows())
    assert "no framework operators were recorded" in said["item_in_a_loop"]
    assert "no CUDA calls were recorded" in said["host_waits"]
    assert "no GPU work was recorded" in findings(trace_from_text("thread 1: fff"))["sentence"][0]
    assert explain(table.head(1)).startswith("Not judged")


def test_findings_are_ranked_and_an_empty_trace_has_only_abstentions() -> None:
    trace = trace_from_text(PAIRS["synchronous_copies"][0], column_ns=100_000)
    shares = findings(trace).filter(status="found")["share"].to_list()
    assert shares == sorted(shares, reverse=True)
    empty = findings(Trace({}))
    assert empty.schema == SCHEMA
    assert set(empty["status"]) == {"abstained"}


def test_shares_are_of_the_window() -> None:
    trace = trace_from_text(PAIRS["pageable_copies"][0], column_ns=100_000)
    whole, part = (
        findings(trace, window).filter(rule="pageable_copies").row(0, named=True)
        for window in (None, (100_000, 600_000))
    )
    assert (whole["time_ns"], whole["share"]) == (1_200_000, pytest.approx(12 / 17))
    assert (part["time_ns"], part["share"]) == (500_000, pytest.approx(1))


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_every_rule_says_all_it_must(rule: Any) -> None:
    assert all((rule.title, rule.formula, rule.advice.endswith("."), rule.limits.endswith(".")))
