"""Times: exact to the nanosecond, and what is done with those that cannot be right."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuviz.formats.kineto.numbers import LIMIT_NS, difference, nanoseconds
from gpuviz.formats.kineto.times import report_unpadded_digits
from gpuviz.model.diagnostics import Diagnostics
from tests.formats.events import call, codes, document, kernel, launch, load_events, load_text

DAY_US = 86_400_000_000


def intervals(trace: Any, table: str = "host_calls") -> list[tuple[Any, ...]]:
    return list(trace.table(table).select("start_ns", "end_ns", "timing").iter_rows())


@given(st.lists(st.decimals(min_value=-4 * 10**15, max_value=4 * 10**15, places=3), max_size=20))
def test_decimal_text_is_exact(values: list[Decimal]) -> None:
    expected = [int(value * 1000) for value in values]
    assert nanoseconds([str(value) for value in values]).to_list() == expected
    assert nanoseconds([format(value, "f").rstrip("0").rstrip(".") or "0" for value in values]).to_list() == expected
    assert nanoseconds([f"{value:E}" for value in values]).to_list() == expected


@given(st.lists(st.integers() | st.none() | st.text(max_size=8) | st.booleans() | st.lists(st.integers(), max_size=2)))
def test_anything_else_is_null_or_a_number(values: list[Any]) -> None:
    found = nanoseconds(values).to_list()
    for value, ns in zip(values, found, strict=True):
        if type(value) is int:
            assert ns == max(-LIMIT_NS, min(LIMIT_NS, value * 1000))
        elif type(value) is not str:
            assert ns is None


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1712195495521715.401", 1712195495521715401),
        ("4458676522690.655", 4458676522690655),
        ("0.001", 1),
        (".5", None),
        ("5.", 5000),
        ("-0.5", -500),
        ("+7", 7000),
        (" 7.25 ", 7250),
        ("1.5e3", 1500000),
        ("1E-3", 1),
        ("1e-9", 0),
        ("0.-500", -500),
        ("0.-05", -5),
        ("-1.-500", -1500),
        ("5.-3", None),
        ("inf", None),
        ("nan", None),
        ("12abc", None),
        ("", None),
        ("0x10", None),
        ("1.2345678", 1234),
        ("9" * 30, LIMIT_NS),
        ("1e999999999", LIMIT_NS),
        ("-1e999999999", -LIMIT_NS),
        ("1e-999999999", 0),
        ("18446744073709551.615", LIMIT_NS),
    ],
)
def test_spellings_of_a_time(text: str, ns: int | None) -> None:
    expected = 500 if text == ".5" else ns
    assert nanoseconds([text]).to_list() == [expected]


def test_mixed_spellings() -> None:
    assert nanoseconds([1, "2.5", None, "3"]).to_list() == [1000, 2500, None, 3000]
    assert nanoseconds([]).to_list() == []
    assert difference("10.25", 4) == "6.25"
    assert difference(None, 4) is None


def test_nanoseconds_of_epoch_times_survive(tmp_path: Path) -> None:
    text = document([call("outer", "@1", "1.207"), call("inner", "@2", "0.956")])
    text = text.replace('"@1"', "1712195495521715.401").replace('"@2"', "1712195495521715.652")
    text = text.replace('"1.207"', "1.207").replace('"0.956"', "0.956")
    trace = load_text(tmp_path, text)
    assert intervals(trace) == [(0, 1207, "ok"), (251, 1207, "ok")]
    assert trace.meta.t0_source_ns == trace.meta.t0_unix_ns == 1712195495521715401
    assert trace.host_calls["parent_id"].to_list() == [None, 0]


def test_base_time(tmp_path: Path) -> None:
    text = document([call("a", "@", 0.001)], baseTimeNanoseconds=1751410836000000000)
    trace = load_text(tmp_path, text.replace('"@"', "4458676522690.655"))
    assert trace.meta.t0_unix_ns == 1755869512522690655
    assert trace.meta.t0_source_ns == 4458676522690655
    assert trace.meta.end_ns == 1


@pytest.mark.parametrize(("ts", "is_epoch"), [(10, False), (978307200 * 10**6, True), (4102444800 * 10**6, False)])
def test_wall_clock_only_where_it_is_plain(tmp_path: Path, ts: int, is_epoch: bool) -> None:
    meta = load_events(tmp_path, call("a", ts, 1)).meta
    assert meta.t0_unix_ns == (ts * 1000 if is_epoch else None)
    assert meta.t0_source_ns == ts * 1000


def test_unusable_times_keep_their_rows(tmp_path: Path) -> None:
    text = document([call("a", 100, -99), call("b", "@", 1), call("c", None, 1), call("d", 5, None)])
    trace = load_text(tmp_path, text.replace('"@"', "0.-500"))
    assert trace.host_calls.select("name", "start_ns", "end_ns", "timing").rows() == [
        ("b", 0, 1000, "ok"),
        ("d", 5500, None, "open"),
        ("a", 100500, None, "invalid"),
        ("c", None, None, "invalid"),
    ]
    assert codes(trace) == {
        "time_missing": 1,
        "duration_negative": 1,
        "negative_fraction": 1,
        "duration_missing": 1,
    }
    assert trace.meta.t0_source_ns == -500
    assert trace.meta.end_ns == 5500


def test_cupti_without_timing(tmp_path: Path) -> None:
    start = 1615207264504915
    trace = load_events(
        tmp_path,
        launch(1, start),
        kernel(1, 0, 0),
        launch(2, start + 75),
        kernel(2, start + 95, 3),
        kernel(3, 0, None),
    )
    assert intervals(trace, "kernels") == [
        (95000, 98000, "ok"),
        (None, None, "invalid"),
        (None, None, "invalid"),
    ]
    assert trace.kernels["api_id"].to_list() == [1, 0, None]
    assert codes(trace) == {"time_not_recorded": 2, "launch_missing": 1}


def test_zero_is_a_time_on_the_host(tmp_path: Path) -> None:
    assert intervals(load_events(tmp_path, call("a", 0, 0))) == [(0, 0, "ok")]


def test_absurd_ends(tmp_path: Path) -> None:
    events = [launch(n, 10 * n) for n in range(1, 6)]
    works = [kernel(1, 20, 15 * DAY_US), kernel(2, 30, 18446744073709552), kernel(3, 40, 3_000_000)]
    trace = load_events(tmp_path, *events, *works)
    assert intervals(trace, "kernels") == [
        (10_000, None, "invalid"),
        (20_000, None, "invalid"),
        (30_000, 3_000_030_000, "ok"),
    ]
    assert codes(trace) == {"end_absurd": 2}
    assert trace.meta.end_ns == 3_000_030_000


def test_long_recordings_are_not_absurd(tmp_path: Path) -> None:
    trace = load_events(tmp_path, call("a", 0, DAY_US), call("b", DAY_US / 4, 1), call("c", 0, 2 * DAY_US))
    assert codes(trace) == {}


def test_absurd_starts_on_the_gpu(tmp_path: Path) -> None:
    base = 1_700_000_000_000_000
    pairs = [event for n in range(1, 5) for event in (launch(n, base + 10 * n), kernel(n, base + 10 * n + 5, 2))]
    trace = load_events(tmp_path, *pairs, launch(9, base + 90), kernel(9, 17, 2), kernel(8, base + 9 * DAY_US, 2))
    assert codes(trace) == {"start_absurd": 2, "launch_missing": 1}
    assert trace.meta.t0_source_ns == (base + 10) * 1000
    assert trace.meta.end_ns == 85_000
    assert trace.kernels.filter(timing="invalid").height == 2


def test_another_clock_on_the_gpu_blames_no_record(tmp_path: Path) -> None:
    base = 1_700_000_000_000_000
    trace = load_events(tmp_path, launch(1, base), kernel(1, 17, 2), launch(2, base + 9), kernel(2, 29, 2))
    assert set(trace.kernels["timing"]) == {"ok"}
    assert codes(trace) == {"kernel_before_launch": 2}


def test_open_call_holds_what_follows_in_its_parent(tmp_path: Path) -> None:
    trace = load_events(
        tmp_path, call("outer", 0, 100), call("open", 10, None), call("inner", 20, 5), call("next", 100, 5)
    )
    assert trace.host_calls.select("name", "parent_id", "depth").rows() == [
        ("outer", None, 0),
        ("open", 0, 1),
        ("inner", 1, 2),
        ("next", None, 0),
    ]


def test_whole_microseconds_and_zero_durations(tmp_path: Path) -> None:
    trace = load_events(
        tmp_path, call("a", 10, 0), call("b", 10, 0), call("c", 10, 3), call("d", 12, 1), call("e", 13, 0)
    )
    assert trace.host_calls.select("name", "parent_id").rows() == [
        ("c", None),
        ("a", 0),
        ("b", 1),
        ("d", 0),
        ("e", None),
    ]
    assert trace.host_calls["depth"].to_list() == [0, 1, 2, 1, 0]


def test_equal_times_nest_by_layer(tmp_path: Path) -> None:
    trace = load_events(
        tmp_path,
        launch(1, 10, 5),
        call("aten::a", 10, 5),
        call("f.py(1): f", 10, 5, cat="python_function"),
        kernel(1, 20, 1),
    )
    assert trace.host_calls.select("name", "parent_id").rows() == [("aten::a", 1), ("f.py(1): f", None)]
    assert trace.api_calls["host_call_id"].to_list() == [0]


def unpadded(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000}"


def test_builds_with_unpadded_nanoseconds_are_named() -> None:
    times = [7919 * n for n in range(1, 400)]
    for write, doubtful in (
        (unpadded, 1),
        (lambda ns: f"{ns // 1000}.{ns % 1000:03}", 0),
        (lambda ns: str(ns / 1000), 0),
    ):
        diagnostics = Diagnostics()
        report_unpadded_digits([write(ns) for ns in times], diagnostics)
        assert len(diagnostics.table()) == doubtful
