"""The modelled GPU by itself, with figures that can be added up by hand. No PyTorch in this file."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from gpuviz.capture.cupti.layouts import Kind
from gpuviz.capture.cupti.records import decode_all
from gpuviz.capture.simulate.allocator import AllocatorModel
from gpuviz.capture.simulate.clock import VirtualClock
from gpuviz.capture.simulate.encode import CUPTI_VERSION, buffers
from gpuviz.capture.simulate.gpus import GIGA, GPUS, H100, T4, Assumptions, gpu_named
from gpuviz.capture.simulate.roofline import duration_ns
from gpuviz.capture.simulate.timeline import (
    DEFAULT_STREAM,
    DTOD,
    DTOH,
    HTOD,
    ApiRow,
    CopyRow,
    KernelRow,
    SyncRow,
    Timeline,
)
from gpuviz.capture.simulate.timeline import Kernel as Launch
from gpuviz.errors import CaptureError

ROUND = replace(
    H100,
    memory_bytes_per_s=1_000 * GIGA,
    assumed=Assumptions(
        memory_efficiency=1.0,
        pinned_bytes_per_s=10 * GIGA,
        pageable_bytes_per_s=5 * GIGA,
        device_shortest_kernel_ns=100,
        device_kernel_gap_ns=10,
        device_launch_latency_ns=50,
        device_copy_fixed_ns=200,
        host_launch_ns=20,
        host_copy_call_ns=30,
        host_event_call_ns=5,
        host_synchronize_ns=15,
        host_first_launch_ns=1_000,
        launch_queue_length=4,
    ),
)


@pytest.fixture
def timeline() -> Timeline:
    clock = VirtualClock(deterministic=True)
    clock.start()
    return Timeline(ROUND, clock, loaded={"k", "long"}, thread=1)


def spans(timeline: Timeline, kind: type) -> list[tuple[int, int]]:
    """Starts and ends since the beginning."""
    clock = VirtualClock(deterministic=True)
    zero = clock.now()
    return [(row.start - zero, row.end - zero) for row in timeline.rows if isinstance(row, kind)]


def test_a_stream_is_first_in_first_out(timeline: Timeline) -> None:
    timeline.launch(Launch("k", 500))
    timeline.launch(Launch("k", 300))
    timeline.launch(Launch("k", 1))
    assert spans(timeline, ApiRow) == [(0, 20), (20, 40), (40, 60)]
    # 20 + latency 50; then the end of the one before + gap 10; the shortest kernel takes 100.
    assert spans(timeline, KernelRow) == [(70, 570), (580, 880), (890, 990)]


def test_a_kernel_is_loaded_at_its_first_launch(timeline: Timeline) -> None:
    for _ in range(2):
        timeline.launch(Launch("new", 100))
    timeline.warm = True
    timeline.launch(Launch("known from before", 100))
    assert [end - start for start, end in spans(timeline, ApiRow)] == [1_020, 20, 20]


def test_copies_and_kernels_of_two_streams_overlap(timeline: Timeline) -> None:
    timeline.launch(Launch("k", 10_000))
    timeline.stream = 13
    timeline.copy(HTOD, 50_000, pinned=True)  # 200 + 50 000 B at 10 GB/s = 5 200 ns
    timeline.copy(DTOH, 50_000, pinned=True)
    assert spans(timeline, KernelRow) == [(70, 10_070)]
    # The upload is called at 20, its call takes 30, latency 50; the download waits for its stream.
    assert spans(timeline, CopyRow) == [(100, 5_300), (5_300, 10_500)]
    assert spans(timeline, ApiRow)[1:] == [(20, 50), (50, 80)]  # the host does not wait


def test_one_copy_engine_for_each_direction(timeline: Timeline) -> None:
    for stream, direction in ((13, HTOD), (14, HTOD), (15, DTOH)):
        timeline.stream = stream
        timeline.copy(direction, 50_000, pinned=True)
    assert spans(timeline, CopyRow) == [(80, 5_280), (5_280, 10_480), (140, 5_340)]


def test_pageable_copies_block_the_host(timeline: Timeline) -> None:
    timeline.copy(HTOD, 100_000)  # 200 + 100 000 B at 5 GB/s = 20 200 ns
    timeline.copy(HTOD, 5_000)  # small enough to be staged
    timeline.copy(DTOH, 5_000)  # a download always returns when it is complete
    assert spans(timeline, CopyRow) == [(80, 20_280), (20_360, 21_560), (21_560, 22_760)]
    assert spans(timeline, ApiRow) == [(0, 20_280), (20_280, 20_310), (20_310, 22_760)]


def test_a_blocking_copy_is_followed_by_a_synchronize(timeline: Timeline) -> None:
    timeline.copy(HTOD, 10_000, pinned=True, blocking=True)
    assert [row.name for row in timeline.rows if isinstance(row, ApiRow)] == [
        "cudaMemcpyAsync",
        "cudaStreamSynchronize",
    ]
    assert spans(timeline, CopyRow) == [(80, 1_280)]
    assert spans(timeline, SyncRow) == [(30, 1_280)]


def test_on_the_device(timeline: Timeline) -> None:
    timeline.copy(DTOD, 1_000_000)  # 200 + read and written at 1 TB/s
    timeline.fill(1_000_000)
    assert timeline.copy_duration_ns(DTOD, 1_000_000, False) == 2_200
    assert [row.end - row.start for row in timeline.rows if not isinstance(row, ApiRow)] == [2_200, 1_200]


def test_events_order_streams(timeline: Timeline) -> None:
    timeline.launch(Launch("k", 10_000))  # 70 … 10 070
    happens = timeline.record_event(DEFAULT_STREAM)
    timeline.stream_waits(13, 1, happens)
    timeline.stream = 13
    timeline.launch(Launch("k", 100))
    start = spans(timeline, KernelRow)[1][0]
    assert start == 10_080
    assert not timeline.query("cudaEventQuery", happens)
    timeline.wait_for_event(1, happens)
    assert timeline.query("cudaEventQuery", happens)
    assert timeline.clock.now() - VirtualClock(deterministic=True).now() == 10_075
    timeline.synchronize_device()
    assert spans(timeline, SyncRow)[-1][1] == 10_180


def test_the_launch_queue_is_finite(timeline: Timeline) -> None:
    for _ in range(6):
        timeline.launch(Launch("long", 10_000))
    calls = spans(timeline, ApiRow)
    starts = [start for start, _ in spans(timeline, KernelRow)]
    assert [end - start for start, end in calls[:4]] == [20] * 4
    assert calls[4] == (80, 100)  # the first kernel has started by then (70)
    assert calls[5][1] == starts[1] == 10_080


def test_records_are_what_was_modelled(timeline: Timeline) -> None:
    timeline.launch(Launch("k", 500, (2, 3, 4), (32, 1, 1), 40, 1_024))
    timeline.copy(HTOD, 10, pinned=True, blocking=True)
    timeline.fill(64, 7)
    made, names = buffers(timeline, 4_711)
    decoded = decode_all(made, CUPTI_VERSION)
    assert decoded.undecoded_bytes == 0
    kernel = decoded.of(Kind.CONCURRENT_KERNEL)[0]
    assert names[int(kernel["name_address"])] == "k"
    assert (kernel["grid_x"], kernel["grid_y"], kernel["grid_z"], kernel["block_x"]) == (2, 3, 4, 32)
    assert kernel["registers_per_thread"] == 40
    assert kernel["end"] - kernel["start"] == 500
    assert decoded.of(Kind.MEMSET)["value"].tolist() == [7]
    assert decoded.of(Kind.RUNTIME)["callback_id"].tolist() == [211, 41, 131, 51]
    assert decoded.of(Kind.RUNTIME)["correlation_id"].tolist() == [1, 2, 3, 4]
    assert decoded.of(Kind.DEVICE)["multiprocessor_count"].tolist() == [132]
    assert decoded.of(Kind.CONTEXT)["null_stream_id"].tolist() == [DEFAULT_STREAM]


def test_many_rows_make_several_buffers(timeline: Timeline) -> None:
    for _ in range(20_000):
        timeline.launch(Launch("k", 100))
    made, _ = buffers(timeline, 1)
    assert len(made) == 4
    assert len(decode_all(made, CUPTI_VERSION).of(Kind.CONCURRENT_KERNEL)) == 20_000


def test_the_roofline() -> None:
    limits = H100.assumed
    assert duration_ns(H100, 0, 0, "float32", False) == limits.device_shortest_kernel_ns
    assert duration_ns(H100, 1e12, 0, "bfloat16", True) == round(1e12 / (989.5e12 * 0.7) * 1e9)
    assert duration_ns(H100, 1e12, 0, "float32", True) == round(1e12 / (67e12 * 0.7) * 1e9)
    assert duration_ns(T4, 0, 3.2e9, "float32", False) == round(3.2e9 / (320e9 * 0.85) * 1e9)
    assert duration_ns(T4, 1e12, 0, "complex64", False) == duration_ns(T4, 1e12, 0, "float32", False)


def test_gpus_by_name() -> None:
    assert gpu_named(" h100 ") is H100
    assert set(GPUS) == {"H100", "T4"}
    with pytest.raises(CaptureError, match=r"'RIVA128'; known are H100, T4"):
        gpu_named("RIVA128")
    for gpu in GPUS.values():
        assert gpu.assumed.pageable_bytes_per_s < gpu.assumed.pinned_bytes_per_s < gpu.link_bytes_per_s


def test_the_clock_stands_while_it_is_paused() -> None:
    clock = VirtualClock(deterministic=False)
    clock.start()
    clock.pause()
    paused = clock.now()
    time.sleep(0.01)
    assert clock.now() == paused
    clock.spend(100)
    clock.wait_until(paused + 50)
    assert clock.now() == paused + 100
    clock.resume()
    time.sleep(0.01)
    assert clock.now() - paused > 9_000_000
    assert abs(clock.now() - time.time_ns()) < 60_000_000_000


def test_the_allocator_rounds_and_keeps_segments() -> None:
    allocator = AllocatorModel(100 << 20)
    assert allocator.allocate(1) == 2 << 20
    assert allocator.allocated == 512
    assert allocator.allocate(1 << 20) == 0  # the small segment has room
    assert allocator.allocate(2 << 20) == 20 << 20
    assert allocator.allocate(30 << 20) == 30 << 20
    assert allocator.reserved == (2 + 20 + 30) << 20
    assert not allocator.fits(80 << 20)
    allocator.free(30 << 20)
    assert allocator.allocate(30 << 20) == 0
    allocator.free(30 << 20)
    assert allocator.empty_cache() == (30 + 18) << 20
    assert allocator.peak_allocated == 512 + (1 << 20) + (32 << 20)
    allocator.reset_peaks()
    assert allocator.peak_allocated == allocator.allocated
    assert allocator.allocate(0) == 0
