"""Tables → boxes in lanes → bytes: every usable interval once, where it belongs, exactly."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import gpuviz
from gpuviz.model import Trace, schema
from gpuviz.view.dashboard import header_meta
from gpuviz.view.geometry import build_scene
from gpuviz.view.payload import encode_payload
from tests.drawing import trace_from_text
from tests.view.payloads import decode_payload

STEP = """
    thread 1: ffffffffffff....
    thread 1: .ooo..oo........
    thread 1: ..A...>......S..
    range 1: rrrrrr..........
    stream 7: ....AAAAA.......
    stream 7: ......BBB.......
    stream 10: .......>>>>.....
    f = python step train.py:12
    o = op aten::mm
    A = kernel gemm
    B = kernel softmax
    > = copy HtoD pageable device 4K
    S = api cudaDeviceSynchronize
"""


@pytest.fixture(scope="module")
def step() -> Trace:
    return trace_from_text(STEP)


def test_lanes_come_in_the_order_of_the_devices_then_the_host(step: Trace) -> None:
    lanes = [(lane.kind, lane.label, lane.row_count) for lane in build_scene(step).lanes]
    assert lanes == [
        ("stream", "GPU 0 stream 7", 2),  # the two kernels overlap, so the lane has two rows
        ("stream", "GPU 0 stream 10", 1),  # 10 after 7: natural order, not the text's
        ("range", "thread 1 · ranges", 1),
        ("thread", "thread 1", 3),
    ]


def test_every_box_is_an_interval_of_the_tables(step: Trace) -> None:
    scene = build_scene(step)
    drawn = Counter(zip(scene.boxes.start.tolist(), scene.boxes.end.tolist(), strict=True))
    recorded: Counter[tuple[int, int]] = Counter()
    for name in schema.INTERVAL_TABLES:
        recorded.update(step.table(name).filter(timing="ok").select("start_ns", "end_ns").iter_rows())
    assert drawn == recorded


def test_rows_are_sorted_and_free_of_overlap(step: Trace) -> None:
    scene = build_scene(step)
    for begin, end in zip(scene.row_offset[:-1], scene.row_offset[1:], strict=True):
        starts, ends = scene.boxes.start[begin:end], scene.boxes.end[begin:end]
        assert (np.diff(starts) >= 0).all()
        assert (starts[1:] >= ends[:-1]).all()


def test_an_activity_knows_the_box_of_its_launch(step: Trace) -> None:
    scene = build_scene(step)
    launched = np.flatnonzero(scene.boxes.launch >= 0)
    pairs = {(int(scene.boxes.start[box]), int(scene.boxes.start[scene.boxes.launch[box]])) for box in launched}
    assert pairs == {(4_000, 2_000), (7_000, 6_000)}  # softmax has no host record
    assert len(launched) == 2


def test_a_call_without_an_end_is_drawn_to_the_end_and_marked() -> None:
    trace = trace_from_text(
        """
        thread 1: ..oo~.....
        stream 7: ....kkkk..
        o = op aten::mm
        """
    )
    scene = build_scene(trace)
    (opened,) = np.flatnonzero(scene.boxes.is_open)
    assert (scene.boxes.start[opened], scene.boxes.end[opened]) == (2_000, trace.meta.end_ns)


def test_the_payload_gives_back_what_the_scene_holds(step: Trace) -> None:
    scene = build_scene(step)
    header, columns = decode_payload(encode_payload(step, scene, header_meta(step, None)))
    assert (columns["box_start"] == scene.boxes.start).all()
    assert (columns["box_duration"] == scene.boxes.end - scene.boxes.start).all()
    assert (columns["box_node"] == scene.boxes.node).all()
    assert (columns["box_launch"] == scene.boxes.launch).all()
    assert (columns["row_offset"] == scene.row_offset).all()
    assert columns["node_parent"].tolist() == step.callpaths["parent_id"].fill_null(-1).to_list()
    assert columns["node_last"].tolist() == step.callpaths["last_id"].to_list()
    (copy,) = columns["copy_box"]
    assert columns["copy_bytes"].tolist() == [4096]
    assert header["directions"][columns["copy_direction"][0]] == {"device": 0, "kind": "HtoD", "label": "GPU 0 · HtoD"}
    assert columns["box_start"][copy] == 7_000
    names = [header["names"][index] for index in header["frames"]["name"]]
    assert names == step.frames["function"].cast(pl.String).to_list()
    layers = [header["layers"][index] for index in header["frames"]["layer"]]
    assert layers == step.frames["layer"].cast(pl.String).to_list()
    (ranged,) = np.flatnonzero(columns["box_name"] >= 0)
    assert columns["box_node"][ranged] == -1
    assert columns["box_start"][ranged] == 0


def test_a_trace_without_anything_has_an_empty_scene() -> None:
    trace = trace_from_text("thread 1: o\no = op aten::mm").window(10_000_000, 10_000_001)
    header, columns = decode_payload(encode_payload(trace, build_scene(trace), header_meta(trace, None)))
    assert header["lanes"] == []
    assert len(columns["box_start"]) == 0


def test_hostile_names_survive_as_text() -> None:
    hostile = "</script><img src=x onerror=alert(1)>\x00\x1f\ud800é"
    trace = trace_from_text("thread 1: ooo\no = op PLACEHOLDER")
    frames = trace.frames.with_columns(
        pl.col("function").cast(pl.String).str.replace("PLACEHOLDER", hostile.replace("\ud800", "?"), literal=True)
    )
    trace = trace.replace(frames=frames.with_columns(pl.col("function").cast(pl.Categorical)))
    header, _ = decode_payload(encode_payload(trace, build_scene(trace), header_meta(trace, None)))
    assert hostile.replace("\ud800", "?") in header["names"]


@pytest.mark.shared
def test_real_traces_are_drawn_whole(shared_traces: Path) -> None:
    for name in ("h100_bert_with_stack", "b200_vllm_eager", "event_sync_multi_stream", "mi300_vllm_decode_hip_graph"):
        trace = gpuviz.load(shared_traces / "kineto" / f"{name}.json.gz")
        scene = build_scene(trace)
        usable = sum(
            trace.table(table).filter(pl.col("timing") != "invalid").height for table in schema.INTERVAL_TABLES
        )
        assert len(scene.boxes.start) == usable, name
        header, columns = decode_payload(encode_payload(trace, scene, header_meta(trace, None)))
        assert (columns["box_start"] == scene.boxes.start).all()
        assert json.dumps(header["meta"])
