"""Memory is bounded; lines and functions that are too short are switched off, and on again."""

from __future__ import annotations

import threading
import time

import pytest

from gpuviz.capture.lineclock import LineClock, LineRecord, ShortPlace, short_lines
from gpuviz.capture.ranges import thread_key
from tests.capture.lineclock.probing import Notebook


@pytest.fixture
def every_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is too short."""
    monkeypatch.setattr(short_lines, "SHORT_NS", 0)


@pytest.mark.usefixtures("every_line")
def test_memory_is_bounded_and_what_is_lost_is_counted(notebook: Notebook) -> None:
    source = "for i in range(20000):\n    x = i\nprobe()\n"
    whole = notebook.run(source)
    bounded = notebook.run(source, memory_bytes=100_000)
    assert whole.lost_stamps == 0
    assert bounded.stamps * 16 <= 100_000
    assert bounded.lost_stamps > 0
    assert abs(bounded.stamps + bounded.lost_stamps - whole.stamps) < 10
    # After that nothing is known, and nothing is guessed.
    assert bounded.stack_ids(*notebook.probes[1][:2]) == -1
    assert whole.stack_ids(*notebook.probes[0][:2]) >= 0


@pytest.mark.usefixtures("every_line")
def test_the_bound_is_one_for_all_threads(notebook: Notebook) -> None:
    notebook.names["threading"] = threading
    record = notebook.run(
        "def work():\n    for i in range(5000):\n        x = i\n"
        "threads = [threading.Thread(target=work) for i in range(4)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n",
        memory_bytes=200_000,
    )
    assert record.stamps * 16 <= 200_000
    assert record.stamps + record.lost_stamps >= 4 * 10_000


def short(record: LineRecord) -> set[tuple[str, int | None]]:
    return {(place.function, place.line) for place in record.short_places}


def test_short_lines_are_switched_off_and_flagged(notebook: Notebook) -> None:
    record = notebook.run(
        "def loop(n):\n    total = 0\n    for i in range(n):\n        total += i\n    return total\n"
        "loop(300000)\nprobe()\n"
    )
    assert record.stamps < 30_000
    assert {("loop", 3), ("loop", 4)} <= short(record)
    place = next(place for place in record.short_places if place.line == 4)
    assert place == ShortPlace("loop", "<cell 1>", 4, place.times)
    notebook.check(record)


def test_short_functions_are_switched_off_and_flagged(notebook: Notebook) -> None:
    record = notebook.run(
        "def add(x):\n    return x + 1\n"
        "def loop(n):\n    x = 0\n    for i in range(n):\n        x = add(x)\n    return x\n"
        "loop(200000)\nprobe()\n"
    )
    assert record.stamps < 30_000
    assert ("add", None) in short(record)
    notebook.check(record)


def test_long_lines_and_lines_that_call_stay_on(notebook: Notebook) -> None:
    notebook.names["burn"] = burn
    record = notebook.run(
        "def launch():\n    burn(5000)\n    probe()\n"
        "def step(n):\n"
        "    for i in range(n):\n"
        "        a = i\n"
        "        b = a\n"
        "        launch()\n"
        "step(2000)\n"
    )
    stayed = {("launch", 2), ("launch", 3), ("step", 8)}
    assert not stayed & short(record)
    assert not {"launch", "step"} & {name for name, line in short(record) if line is None}
    notebook.check(record)


def burn(nanoseconds: int) -> None:
    """Time passes, as in a call of a library."""
    end = time.perf_counter_ns() + nanoseconds
    while time.perf_counter_ns() < end:
        pass


burn.__code__ = burn.__code__.replace(co_filename="<string>")  # library code


def test_a_line_that_has_become_long_is_seen_again(notebook: Notebook) -> None:
    notebook.names |= {"sleep": time.sleep, "size": [0]}
    record = notebook.run(
        "def loop(n, work):\n"
        "    for i in range(n):\n"
        "        x = work and (sleep(0.002), probe())\n"
        "        y = x\n"
        "loop(20000, False)\n"
        "sleep(0.2)\n"
        "loop(200, True)\n"
    )
    assert ("loop", 3) in short(record)
    late = notebook.probes[100:]
    right = sum(notebook.clocked_stack(record, thread, time_ns) == truth for thread, time_ns, truth in late)
    assert right == len(late)


def test_a_loop_whose_lines_are_all_off_is_woken(notebook: Notebook) -> None:
    record = notebook.run("import time\nend = time.time() + 0.4\nwhile time.time() < end:\n    x = 1\nprobe()\n")
    place = next(place for place in record.short_places if place.line == 4)
    assert place.times >= 2
    notebook.check(record)


def test_short_functions_in_several_threads(notebook: Notebook) -> None:
    notebook.names["threading"] = threading
    record = notebook.run(
        "def add(x):\n    return x + 1\n"
        "def work():\n"
        "    for i in range(60000):\n"
        "        add(i)\n"
        "    probe()\n"
        "threads = [threading.Thread(target=work) for i in range(3)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
        "probe()\n"
    )
    notebook.check(record)


def test_switching_off_in_many_captures_in_a_row(notebook: Notebook) -> None:
    cell = notebook.define("def add(x):\n    return x + 1\nfor i in range(3000):\n    add(i)\nprobe()\n")
    for _ in range(20):
        notebook.probes.clear()
        clock = LineClock(notebook.sources.get)
        clock.start()
        cell()
        record = clock.stop()
        assert record.stack_ids(thread_key(), notebook.probes[0][1]) >= 0
        notebook.check(record)


def test_captures_begin_and_end_while_threads_run(notebook: Notebook) -> None:
    """Whatever a thread is about to tell the clock when it stops, the thread goes on undisturbed."""
    stop = threading.Event()
    errors: list[BaseException] = []
    notebook.define(
        "def add(x):\n    return x + 1\n"
        "def numbers(n):\n    for i in range(n):\n        yield add(i)\n"
        "def work():\n"
        "    while not stop.is_set():\n"
        "        assert sum(numbers(500)) == 125250\n"
    )()
    notebook.names["stop"] = stop

    def run() -> None:
        try:
            notebook.names["work"]()  # type: ignore[operator]
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        clock = LineClock(notebook.sources.get)
        clock.start()
        time.sleep(0.005)
        record = clock.stop()
        assert record.problem is None
    stop.set()
    for thread in threads:
        thread.join()
    assert errors == []
