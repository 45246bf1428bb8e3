"""The pool, called as CUPTI calls it."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gpuviz._native import cupti_buffers
from gpuviz._native.cupti_buffers import PoolStats
from gpuviz.capture.cupti.layouts import Kind, strides
from gpuviz.capture.cupti.records import blank, decode_all, encode
from gpuviz.capture.cupti.walk import size_table
from tests.capture.cupti.records_by_hand import random_tables

pytestmark = [
    pytest.mark.native,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="CUPTI is on Linux; /proc is read here"),
]

VERSION = 130001
BUFFER = 64 << 10
REQUEST = ctypes.CFUNCTYPE(
    None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t)
)
COMPLETE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
type Bytes = np.ndarray[tuple[int], np.dtype[np.uint8]]


def request() -> tuple[int | None, int]:
    buffer, size, most = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t(7)
    REQUEST(cupti_buffers.callbacks()[0])(ctypes.byref(buffer), ctypes.byref(size), ctypes.byref(most))
    assert most.value == 0
    return buffer.value, size.value


def complete(buffer: int, valid: int) -> None:
    COMPLETE(cupti_buffers.callbacks()[1])(None, 0, buffer, BUFFER, valid)


def deliver(raw: Bytes) -> bool:
    """One buffer as CUPTI would fill it; whether there was one."""
    buffer, size = request()
    if buffer is None:
        return False
    assert len(raw) <= size
    ctypes.memmove(buffer, raw.ctypes.data, len(raw))
    complete(buffer, len(raw))
    return True


def open_pool(most: int, *, never_refuse: bool = False) -> None:
    cupti_buffers.open_pool(BUFFER, most, size_table(strides(VERSION)), never_refuse=never_refuse)


def take_all() -> list[Bytes]:
    found: list[Bytes] = []
    while (buffer := cupti_buffers.take(BUFFER)) is not None:
        found.append(buffer)
    return found


def stats() -> PoolStats:
    return cupti_buffers.stats()


@pytest.fixture(autouse=True)
def an_idle_pool() -> Iterator[None]:
    yield
    cupti_buffers.close_pool()
    for buffer in take_all():
        cupti_buffers.release(buffer)
    cupti_buffers.trim()
    left = stats()
    assert (left.with_cupti, left.filled, left.with_reader, left.resident) == (0, 0, 0, 0)


def calls(count: int) -> Bytes:
    return encode([blank(Kind.RUNTIME, count)], VERSION)


def test_buffers_are_whole_aligned_and_distinct() -> None:
    open_pool(8)
    buffers = [request() for _ in range(8)]
    addresses = sorted(address for address, _ in buffers if address is not None)
    assert {size for _, size in buffers} == {BUFFER}
    assert all(address % 4096 == 0 for address in addresses)
    assert (np.diff(addresses) >= BUFFER).all()
    assert stats().with_cupti == 8
    for address in addresses:
        complete(address, 0)
    assert stats().empty == 8


def test_what_was_written_is_read_in_order() -> None:
    open_pool(4)
    for count in (1, 2, 3):
        assert deliver(calls(count))
    taken = take_all()
    assert [len(buffer) for buffer in taken] == [40, 80, 120]
    assert stats().with_reader == 3
    for buffer in taken:
        cupti_buffers.release(buffer)
    with pytest.raises(ValueError, match="given back already"):
        cupti_buffers.release(taken[0])


def test_the_bound_refuses_and_counts_and_keeps_a_reserve() -> None:
    open_pool(3)
    assert [deliver(calls(1)) for _ in range(5)] == [True] * 3 + [False] * 2
    assert stats().refused == 2
    cupti_buffers.use_reserve()
    assert deliver(calls(1))
    assert stats().most_out == 4
    for buffer in take_all():
        cupti_buffers.release(buffer)


def test_where_nothing_may_be_refused_the_oldest_is_overwritten_and_its_records_counted() -> None:
    open_pool(2, never_refuse=True)
    assert all(deliver(calls(count)) for count in (10, 20, 30, 40))
    taken = take_all()
    assert [len(buffer) // 40 for buffer in taken] == [30, 40]
    assert (stats().overwritten, stats().overwritten_records, stats().overwritten_bytes) == (2, 30, 1200)
    # Both are with the reader now: even so there is one for CUPTI.
    assert deliver(calls(1))
    assert stats().refused == 0
    for buffer in (*taken, *take_all()):
        cupti_buffers.release(buffer)


def test_what_is_not_ours_is_counted_and_left_alone() -> None:
    open_pool(2)
    foreign = np.zeros(4096, dtype=np.uint8)
    complete(foreign.ctypes.data, 64)
    address, _ = request()
    assert address is not None
    complete(address + 64, 64)  # inside a buffer, but no buffer
    complete(address, 80)
    complete(address, 80)  # twice
    assert stats().not_ours == 3
    (taken,) = take_all()
    assert len(taken) == 80
    cupti_buffers.release(taken)


def test_more_valid_bytes_than_there_are_do_not_reach_beyond_the_buffer() -> None:
    open_pool(1)
    address, _ = request()
    assert address is not None
    complete(address, BUFFER + 4096)
    (taken,) = take_all()
    assert len(taken) == BUFFER
    cupti_buffers.release(taken)


def test_a_late_buffer_survives_the_close_and_is_forgotten_at_the_next_opening() -> None:
    open_pool(2)
    address, _ = request()
    assert address is not None
    cupti_buffers.close_pool()
    cupti_buffers.trim()
    ctypes.memset(address, 1, BUFFER)  # CUPTI still writes
    complete(address, 40)
    assert request() == (None, 0)
    assert stats().filled == 1
    open_pool(2)
    assert stats().filled == 0
    assert take_all() == []
    assert deliver(calls(1))
    for buffer in take_all():
        cupti_buffers.release(buffer)


def test_memory_is_bounded_and_given_back() -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    open_pool(256)  # 16 MiB
    before = resident()
    full = np.ones(BUFFER, dtype=np.uint8)
    while deliver(full):
        pass
    assert stats().most_out == 256
    assert 14 << 20 < resident() - before < 24 << 20
    for buffer in take_all():
        cupti_buffers.release(buffer)
    cupti_buffers.trim()
    assert resident() - before < 6 << 20


@pytest.mark.parametrize("sizes", [(0, 1), (1000, 1), (4096, 0)])
def test_impossible_sizes_are_refused(sizes: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="Cannot open"):
        cupti_buffers.open_pool(*sizes, size_table({}), never_refuse=False)


def test_too_much_memory_is_a_memory_error() -> None:
    with pytest.raises(MemoryError):
        cupti_buffers.open_pool(1 << 40, 1 << 20, size_table({}), never_refuse=False)


def test_a_million_records_from_several_threads() -> None:
    """Random kinds; some buffers end in an unknown kind, some in half a record. Nothing is lost without a number."""
    open_pool(3000)
    chunks: list[Bytes] = []
    expected = 0
    undecoded = 0
    random = np.random.default_rng(1)
    for seed in range(40):
        tables, order = random_tables(seed, most=60)
        sizes = [strides(VERSION)[int(tables[index]["kind"][0])] for index in order]
        whole = int(np.searchsorted(np.cumsum(sizes), BUFFER - 64))
        raw = encode(tables, VERSION, order)[: sum(sizes[:whole])]
        tail = random.choice(["none", "unknown", "cut"])
        if tail == "unknown":
            raw = np.concatenate((raw, np.full(24, 250, dtype=np.uint8)))
        elif tail == "cut":
            raw = np.concatenate((raw, calls(1)[:24]))
        chunks.append(raw)
    repeats = 1_000_000 // sum(decode_all([chunk], VERSION).record_count for chunk in chunks) + 1
    for chunk in chunks:
        decoded = decode_all([chunk], VERSION)
        expected += repeats * decoded.record_count
        undecoded += repeats * decoded.undecoded_bytes
    assert expected >= 1_000_000
    assert undecoded > 0

    work = iter(np.random.default_rng(2).permutation(np.repeat(np.arange(len(chunks)), repeats)).tolist())
    lock = threading.Lock()
    failed: list[object] = []

    def cupti_thread() -> None:
        while True:
            with lock:
                index = next(work, None)
            if index is None:
                return
            while not deliver(chunks[index]):
                if failed:
                    return
                time.sleep(0.001)

    records = undecoded_found = 0
    writers = [threading.Thread(target=cupti_thread) for _ in range(6)]
    try:
        for writer in writers:
            writer.start()
        while any(writer.is_alive() for writer in writers) or stats().filled:
            taken = take_all()
            decoded = decode_all(taken, VERSION)
            records += decoded.record_count
            undecoded_found += decoded.undecoded_bytes
            for buffer in taken:
                cupti_buffers.release(buffer)
    except BaseException as error:
        failed.append(error)
        raise
    assert (records, undecoded_found) == (expected, undecoded)
    assert stats().not_ours == 0


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_child_never_touches_the_pool() -> None:
    open_pool(2)
    assert deliver(calls(1))
    child = os.fork()
    if child == 0:
        refused = request() == (None, 0) and cupti_buffers.take(BUFFER) is None
        try:
            open_pool(2)
        except cupti_buffers.ForkedError:
            os._exit(0 if refused else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    (taken,) = take_all()
    assert len(taken) == 40
    cupti_buffers.release(taken)


@pytest.fixture(scope="module")
def cupti_thread(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler named cc")
    library = tmp_path_factory.mktemp("cupti_thread") / "libcupti_thread.so"
    source = Path(__file__).with_name("cupti_thread.c")
    subprocess.run(
        ["cc", "-std=gnu11", "-O1", "-shared", "-fPIC", "-pthread", "-o", str(library), str(source)], check=True
    )
    return library


def test_callbacks_run_while_another_thread_holds_the_gil(cupti_thread: Path) -> None:
    """The deadlock of pytorch/pytorch#186295: a thread holds the GIL and waits for CUPTI, whose thread calls back."""
    open_pool(2)
    holding_the_gil = ctypes.PyDLL(str(cupti_thread))
    requested, completed = (ctypes.c_void_p(address) for address in cupti_buffers.callbacks())
    holding_the_gil.start(requested, completed, 1000)
    assert holding_the_gil.finished(5000) == 1
    assert stats().empty == 1000


def test_python_callbacks_would_have_waited_for_ever(cupti_thread: Path) -> None:
    """The test above can fail: with callbacks in Python the same wait ends in nothing."""
    called = threading.Event()

    @REQUEST
    def in_python(buffer: object, size: object, most: object) -> None:
        called.set()

    holding_the_gil = ctypes.PyDLL(str(cupti_thread))
    completed = ctypes.c_void_p(cupti_buffers.callbacks()[1])
    holding_the_gil.start(ctypes.cast(in_python, ctypes.c_void_p), completed, 1)
    assert holding_the_gil.finished(200) == 0
    assert called.wait(5)  # the GIL is free again
    assert ctypes.CDLL(str(cupti_thread)).finished(5000) == 1
