"""The offline page in a real browser: real clicks and keys, and the numbers it then shows against `analysis`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from playwright.sync_api import Page

from gpuviz.analysis import copy_time, cpu_time, device_time, gpu_time
from gpuviz.model import Trace
from tests.browser.pages import Output, open_page
from tests.browser.traces import two_steps

TRACE = two_steps()
DEVICE_COLUMNS = [
    "span_ns",
    "busy_ns",
    "kernel_ns",
    "copy_ns",
    "memset_ns",
    "hidden_copy_ns",
    "exposed_copy_ns",
    "exposed_memset_ns",
    "idle_ns",
]


@pytest.fixture
def output(page: Page, tmp_path: Path) -> Iterator[Output]:
    page.set_viewport_size({"width": 1200, "height": 1000})
    page.emulate_media(reduced_motion="reduce")
    return open_page(page, TRACE, tmp_path)


def window_of(output: Output) -> tuple[int, int] | None:
    window = output.state()["window"]
    return None if window is None else (round(window[0]), round(window[1]))


def assert_numbers_are_those_of_the_analyses(output: Output, trace: Trace, window: tuple[int, int] | None) -> None:
    numbers = output.numbers()
    devices = device_time(trace, window).select(DEVICE_COLUMNS).to_dicts()
    assert [{name: row.get(name) for name in DEVICE_COLUMNS} for row in numbers["device_time"]] == devices
    expected = copy_time(trace, window).select(
        pl.col("copy_kind").cast(pl.String), "copy_ns", "hidden_ns", "exposed_ns"
    )
    shown = [
        {
            "copy_kind": row["kind"],
            "copy_ns": row["union_ns"],
            **{name: row[name] for name in ("hidden_ns", "exposed_ns")},
        }
        for row in numbers["copy_time"]
        if row["union_ns"]
    ]
    assert sorted(shown, key=str) == sorted(expected.filter(pl.col("copy_ns") > 0).to_dicts(), key=str)
    tree = {"gpu": gpu_time, "cpu": cpu_time}[output.state()["metric"]](trace, window)
    assert numbers["tree"]["inclusive"] == tree["inclusive_ns"].to_list()
    assert numbers["tree"]["exclusive"] == tree["exclusive_ns"].to_list()


def node(layer: str, name: str) -> dict[str, Any]:
    """The row of `gpu_time` for the one node of this layer and name."""
    return gpu_time(TRACE).filter(pl.col("layer") == layer, pl.col("name") == name).row(0, named=True)


def test_the_page_starts_with_the_numbers_of_the_whole_trace(output: Output) -> None:
    assert output.state()["metric"] == "gpu"
    assert window_of(output) is None
    assert_numbers_are_those_of_the_analyses(output, TRACE, None)
    text = output.root.inner_text()
    assert "49.00 µs" in text  # the summed GPU time: 21 of copies, 28 of kernels
    assert "exposed" in text
    assert "(first to last activity; the trace has 56.00 µs)" in text


def test_clicking_a_frame_selects_it_everywhere(output: Output) -> None:
    row = node("module", "Linear")
    output.click_frame(row["callpath_id"])
    assert output.state()["selected_node"] == row["callpath_id"]
    selected = output.numbers()["selected"]
    assert selected["inclusive"] == row["inclusive_ns"] == 28_000
    assert (selected["activities"], selected["calls"]) == (4, 2)
    assert (selected["p50"], selected["p99"], selected["max"]) == (8_000, 8_000, 8_000)
    assert selected["histogram"] == row["histogram"]
    shown = output.root.locator("[data-ns]").evaluate_all("(cells) => cells.map((cell) => Number(cell.dataset.ns))")
    assert 28_000 in shown
    assert 16_000 in shown  # gemm, in the table of the GPU work below
    output.page.keyboard.press("Escape")
    output.settle()
    assert output.state()["selected_node"] in (None, 0)


def test_a_selected_window_recomputes_everything_for_it(output: Output) -> None:
    output.drag("timeline", 0.3, 0.6)
    window = window_of(output)
    assert window is not None
    assert_numbers_are_those_of_the_analyses(output, TRACE, window)
    output.act("set_window", [0, 20_000])
    assert_numbers_are_those_of_the_analyses(output, TRACE, (0, 20_000))
    (device,) = output.numbers()["device_time"]
    assert (device["busy_ns"], device["exposed_copy_ns"], device["idle_ns"]) == (15_000, 7_000, 5_000)
    output.act("reset")
    assert_numbers_are_those_of_the_analyses(output, TRACE, None)


def test_the_metric_switch_shows_host_time_and_activities(output: Output) -> None:
    output.root.get_by_text("CPU time", exact=True).first.click()
    output.settle()
    assert output.state()["metric"] == "cpu"
    assert_numbers_are_those_of_the_analyses(output, TRACE, None)
    output.root.get_by_role("button", name="GPU activities", exact=True).first.click()
    output.settle()
    assert output.numbers()["tree"]["inclusive"] == gpu_time(TRACE)["activities"].to_list()


def test_search_highlights_and_counts_no_nested_match_twice(output: Output) -> None:
    box = output.root.locator("input[type=search], input[type=text]").first
    box.fill("gelu|gemm")  # aten::gelu holds gelu_kernel: its 12 µs count once
    output.settle()
    assert output.numbers()["matched"] == 28_000
    assert "57.1 %" in output.root.inner_text()
    box.fill("(")
    output.settle()
    assert not output.numbers()["matched"]
    assert "regular expression" in output.root.inner_text().lower()


def test_clicking_a_kernel_selects_its_call_path(output: Output) -> None:
    gemm = node("kernel", "gemm")["callpath_id"]
    output.click_interval(TRACE, 10_000, gemm)
    state = output.state()
    assert state["selected_node"] == gemm
    assert state["selected_box"] is not None
    assert "launch latency" in output.root.inner_text().lower()


def test_the_keys_move_only_while_the_view_has_the_focus(output: Output) -> None:
    before = output.state()["view"]
    output.page.keyboard.press("w")
    output.settle()
    assert output.state()["view"] == before
    area = output.area("timeline")
    output.page.mouse.click(area["x"] + area["width"] - 3, area["y"] + 3)
    output.page.keyboard.press("w")
    output.settle()
    zoomed = output.state()["view"]
    assert zoomed[1] - zoomed[0] < before[1] - before[0]
    output.page.keyboard.press("d")
    output.settle()
    panned = output.state()["view"]
    assert panned[0] > zoomed[0]
    output.page.keyboard.press("0")
    output.settle()
    assert output.state()["view"] == before


def test_a_bare_wheel_scrolls_the_page_and_ctrl_wheel_zooms(output: Output) -> None:
    before = output.state()["view"]
    area = output.area("timeline")
    output.page.mouse.move(area["x"] + area["width"] / 2, area["y"] + 20)
    output.page.mouse.wheel(0, -120)
    output.settle()
    assert output.state()["view"] == before
    output.page.keyboard.down("Control")
    output.page.mouse.wheel(0, -240)
    output.page.keyboard.up("Control")
    output.settle()
    after = output.state()["view"]
    assert after[1] - after[0] < before[1] - before[0]


def test_hovering_a_frame_tells_width_from_length(output: Output) -> None:
    area = output.area("flamegraph")
    output.page.mouse.move(area["x"] + area["width"] * 0.3, area["y"] + 10)
    output.page.mouse.move(area["x"] + area["width"] * 0.31, area["y"] + 12)
    output.settle()
    tooltip = output.page.locator(".gpuviz-tooltip").first
    text = tooltip.inner_text()
    assert "49.00 µs" in text
    assert "p50" in text
    assert "p99" in text


def listen_for_leaked_keys(page: Page) -> None:
    page.evaluate(
        "() => { window.leaked = []; document.addEventListener('keydown', (e) => window.leaked.push(e.key)) }"
    )


def test_after_an_action_in_the_panel_keys_stay_with_the_view(output: Output) -> None:
    page = output.page
    listen_for_leaked_keys(page)
    module, function = (node(*frame)["callpath_id"] for frame in (("module", "Linear"), ("python", "train")))
    for selector, selected in (
        (".gpuviz-work tbody button", module),
        (".gpuviz-lines tbody button", function),
        (".gpuviz-breadcrumb button", module),
    ):
        for press in (False, True):
            output.act("select_node", selected)
            button = output.root.locator(selector).last
            if press:
                button.focus()
                page.keyboard.press("Enter")
                page.evaluate("() => { window.leaked = [] }")  # a button's own Enter is nobody else's business
            else:
                button.click()
            output.settle()
            assert page.evaluate("document.activeElement.closest('.gpuviz-app') !== null"), selector
            for key in "nad":
                page.keyboard.press(key)
            output.settle()
            assert output.state()["selected_node"]
            page.keyboard.press("Escape")
            output.settle()
            assert output.state()["selected_node"] is None, selector
            assert page.evaluate("window.leaked") == []


def test_a_key_makes_what_is_shown_the_window(output: Output) -> None:
    output.area("timeline")
    output.root.locator('.gpuviz-view[data-view="timeline"] .gpuviz-plot').focus()
    output.act("set_view", [10_000, 30_000])
    output.page.keyboard.press("x")
    output.settle()
    assert window_of(output) == (10_000, 30_000)
    assert_numbers_are_those_of_the_analyses(output, TRACE, (10_000, 30_000))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [420, 1200, 2400])
def test_every_width_and_theme_draws_without_a_sideways_scroll(
    page: Page, tmp_path: Path, scheme: Any, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    output = open_page(page, TRACE, tmp_path)
    output.settle()
    assert output.state()["theme"] == scheme
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert output.state()["boxes_drawn"] > 0


def test_hostile_names_stay_text(page: Page, tmp_path: Path) -> None:
    hostile = "<img src=x onerror=alert(1)></script>"
    kernels = TRACE.frames.with_columns(
        pl.col("function").cast(pl.String).replace("gemm", hostile).cast(pl.Categorical)
    )
    output = open_page(page, TRACE.replace(frames=kernels), tmp_path)
    page.on("dialog", lambda dialog: pytest.fail(f"a name ran as code: {dialog.message}"))
    output.act("select_node", node("kernel", "gemm")["callpath_id"])
    assert hostile in output.root.inner_text()
    assert output.root.locator("img").count() == 0


def test_a_trace_without_gpu_work_starts_on_host_time_and_says_so(page: Page, tmp_path: Path) -> None:
    from tests.drawing import trace_from_text

    trace = trace_from_text("thread 1: ffffffff\nthread 1: .oo.pp..\nf = python main a.py:1\no = op one\np = op two")
    output = open_page(page, trace, tmp_path)
    assert output.state()["metric"] == "cpu"
    assert output.numbers()["tree"]["inclusive"] == cpu_time(trace)["inclusive_ns"].to_list()
    assert "CPU time" in output.root.inner_text()


@pytest.mark.shared
@pytest.mark.parametrize(
    "name",
    ["h100_bert_with_stack", "b200_vllm_eager", "triton_example", "mi300_vllm_decode_hip_graph", "cpu_only"],
)
def test_real_traces_show_the_numbers_of_the_analyses(
    page: Page, tmp_path: Path, shared_traces: Path, name: str
) -> None:
    import gpuviz

    trace = gpuviz.load(shared_traces / "kineto" / f"{name}.json.gz")
    output = open_page(page, trace, tmp_path)
    assert_numbers_are_those_of_the_analyses(output, trace, None)
    end = trace.meta.end_ns
    for window in ((0, end // 3), (end // 3, end // 2), (end // 2, end)):
        if window[1] > window[0]:
            output.act("set_window", list(window))
            assert_numbers_are_those_of_the_analyses(output, trace, window)
