"""The collection's small malformed files, each with the behaviour that its pitfall asks for."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from gpuviz.errors import TraceFileError
from gpuviz.formats import load
from gpuviz.model.trace import Trace
from tests.formats.events import codes, path_of

pytestmark = pytest.mark.shared


def opened(folder: Path, name: str) -> Trace:
    return load(folder / "malformed" / name).validate()


def busy_ns(trace: Trace) -> int:
    """Union of all GPU work."""
    total, until = 0, 0
    for start, end in sorted(trace.activities().select("start_ns", "end_ns").drop_nulls().rows()):
        total += max(0, end - max(start, until))
        until = max(until, end)
    return total


@pytest.mark.parametrize("name", ["p11_empty.json", "p11_no_traceEvents.json"])
def test_no_trace_is_a_typed_error(shared_traces: Path, name: str) -> None:
    with pytest.raises(TraceFileError):
        opened(shared_traces, name)


def test_every_other_file_opens(shared_traces: Path) -> None:
    names = {path.name for path in (shared_traces / "malformed").glob("*.json*")}
    for name in names - {"p11_empty.json", "p11_no_traceEvents.json"}:
        opened(shared_traces, name)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("other/corrupt_utf8_damaged.xplane.pb", "text conversion"),
        ("other/mi300_jax_conv.xplane.pb", "protobuf"),
    ],
)
def test_other_formats_are_named(shared_traces: Path, name: str, found: str) -> None:
    with pytest.raises(TraceFileError, match=found):
        load(shared_traces / name)


def test_p01_inf_nan(shared_traces: Path) -> None:
    trace = opened(shared_traces, "p01_inf_nan.json")
    assert trace.memcpys["size_bytes"].to_list() == [200]
    assert trace.counters["value"].to_list() == [None, None, None]
    assert codes(trace)["number_not_finite"] == 4


def test_p02_control_chars(shared_traces: Path) -> None:
    assert opened(shared_traces, "p02_control_chars.json").host_calls.height == 1


def test_p04_backslashes(shared_traces: Path) -> None:
    trace = opened(shared_traces, "p04_backslashes.json")
    assert trace.host_calls["name"].to_list() == [r"C:\work\proj\x.py(3): run"]
    assert codes(trace) == {"backslash_repaired": 3}


def test_p05_unescaped_quote(shared_traces: Path) -> None:
    trace = opened(shared_traces, "p05_unescaped_quote.json")
    assert trace.host_calls["name"].to_list() == ["aten::add"]
    assert codes(trace) == {"event_unreadable": 1}


@pytest.mark.parametrize(
    ("name", "calls", "kernels"), [("p06_truncated.json", 1, 0), ("p06_truncated.json.gz", 179, 178)]
)
def test_p06_truncated(shared_traces: Path, name: str, calls: int, kernels: int) -> None:
    trace = opened(shared_traces, name)
    assert (trace.api_calls.height, trace.kernels.height) == (calls, kernels)
    assert codes(trace) == {"file_truncated": 1}


def test_p08_empty_event(shared_traces: Path) -> None:
    trace = opened(shared_traces, "p08_empty_event.json")
    assert trace.host_calls.height == 1
    assert codes(trace) == {}


def test_p09_strings_for_numbers(shared_traces: Path) -> None:
    trace = opened(shared_traces, "p09_strings_for_numbers.json")
    assert trace.meta.t0_source_ns == 8306017670485000
    assert trace.meta.end_ns == 154889000


def test_p10_multi_member(shared_traces: Path) -> None:
    trace = opened(shared_traces, "p10_multi_member.json.gz")
    assert (trace.api_calls.height, trace.kernels.height, codes(trace)) == (1, 1, {})


def test_p12_duplicate_keys(shared_traces: Path) -> None:
    assert codes(opened(shared_traces, "p12_duplicate_keys.json")) == {"duplicate_keys": 1}


def test_p20_times(shared_traces: Path) -> None:
    base = opened(shared_traces, "p20_base_time.json")
    assert (base.meta.t0_unix_ns, base.meta.end_ns) == (1755869512522690655, 1)
    digits = opened(shared_traces, "p20_epoch_us_ns_digits.json")
    ends = digits.host_calls["end_ns"] + digits.meta.t0_source_ns
    assert ends.to_list() == [1712195495521716608] * 2


def test_p22_int_us_zero_dur(shared_traces: Path) -> None:
    calls = opened(shared_traces, "p22_int_us_zero_dur.json").host_calls
    assert calls.height == 4
    parents = dict(calls.select("name", "parent_id").iter_rows())
    assert calls["name"][parents["aten::d"]] == "aten::c"
    assert calls["depth"].to_list() == [0, 1, 2, 1]


def test_p23_kernel_before_launch(shared_traces: Path) -> None:
    trace = opened(shared_traces, "p23_kernel_before_launch.json")
    joined = trace.kernels.join(trace.api_calls, on="api_id", suffix="_api")
    assert (joined["start_ns"] - joined["start_ns_api"]).to_list() == [-3500, 10_000]
    assert codes(trace) == {"kernel_before_launch": 1}


def test_p24_zero_timestamps(shared_traces: Path) -> None:
    trace = opened(shared_traces, "p24_zero_timestamps.json")
    assert sorted(trace.kernels["timing"]) == ["invalid", "ok"]
    assert trace.kernels["api_id"].null_count() == 0
    assert trace.meta.end_ns == 98_000
    assert codes(trace) == {"time_not_recorded": 1}


def test_p25_negative_dur(shared_traces: Path) -> None:
    trace = opened(shared_traces, "p25_negative_dur.json")
    assert trace.host_calls.height == 4
    assert codes(trace) == dict.fromkeys(
        ["time_missing", "duration_negative", "negative_fraction", "duration_missing"], 1
    )


def test_p26_steps_cross_python(shared_traces: Path) -> None:
    trace = opened(shared_traces, "p26_steps_cross_python.json")
    assert trace.ranges["kind"].to_list() == ["step", "step"]
    assert trace.host_calls["parent_id"].to_list() == [None]


def test_p27_bleeding(shared_traces: Path) -> None:
    trace = opened(shared_traces, "p27_bleeding_sub_us.json")
    assert path_of(trace, trace.kernels["callpath_id"][0]) == ["aten::linear", "cudaLaunchKernel", "k"]


def test_p30_graph_fanout(shared_traces: Path) -> None:
    work = opened(shared_traces, "p30_graph_fanout.json").activities()
    assert work.height == 7
    assert set(work["api_id"]) == {0}
    assert (work["start_ns"].min(), work["end_ns"].max()) == (20_000, 52_000)


def test_p31_orphan_kernels(shared_traces: Path) -> None:
    trace = opened(shared_traces, "p31_orphan_kernels.json")
    assert trace.kernels["api_id"].to_list() == [None, None, 0]
    assert trace.frames.filter(layer="group")["function"].to_list() == ["launched before the window"]
    assert trace.api_calls.height == 2


def test_p33_two_ranks_one_file(shared_traces: Path) -> None:
    trace = opened(shared_traces, "p33_two_ranks_one_file.json")
    assert trace.kernels["api_id"].null_count() == 2
    assert codes(trace) == {"launch_ambiguous": 2}


def test_p34_external_id_clash(shared_traces: Path) -> None:
    trace = opened(shared_traces, "p34_external_id_clash.json")
    assert trace.api_calls["host_call_id"].to_list() == [None]
    assert trace.kernels["api_id"].to_list() == [0]


def test_p40_same_stream_overlap(shared_traces: Path) -> None:
    trace = opened(shared_traces, "p40_same_stream_overlap.json")
    assert (trace.kernels["end_ns"] - trace.kernels["start_ns"]).sum() == 14_000
    assert busy_ns(trace) == 12_000
    assert trace.streams.height == 1


def test_p41_sync_on_stream_lane(shared_traces: Path) -> None:
    trace = opened(shared_traces, "p41_sync_on_stream_lane.json")
    assert busy_ns(trace) == 4000
    labels = trace.syncs.join(trace.streams, on="stream_id", how="left", maintain_order="left")
    assert labels.select("sync_kind", "label").rows() == [("stream", "7"), ("stream", "7"), ("event", None)]


def test_p43_unknown_memcpy_kinds(shared_traces: Path) -> None:
    trace = opened(shared_traces, "p43_unknown_memcpy_kinds.json")
    assert trace.memcpys["copy_kind"].to_list() == ["HtoH", "PtoP", "other", "HtoD", "HtoD", "other"]


def test_p44_pid_is_gpu_index(shared_traces: Path) -> None:
    trace = opened(shared_traces, "p44_pid_is_gpu_index.json")
    assert trace.host_calls.height + trace.api_calls.height == 2
    assert trace.devices["ordinal"].to_list() == [1]
    assert trace.kernels["api_id"].to_list() == [0]


def test_p46_huge_names(shared_traces: Path) -> None:
    trace = opened(shared_traces, "p46_huge_names.json")
    assert trace.kernels["name"].cast(pl.String).str.len_bytes().max() > 3000


def test_numbers_as_text_and_an_empty_first_event(shared_traces: Path) -> None:
    trace = load(shared_traces / "other/rpd_matmul_chrome.json").validate()
    assert (trace.host_calls.height, trace.counters.height) == (210, 319)
    assert trace.meta.t0_source_ns == 8306017478773000
