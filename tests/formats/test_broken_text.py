"""Text that is not JSON, or is not all there: what is recovered, and what the diagnostics say.

The numbers in the names of the tests' groups are those of field reports, cited in the reader where a rule is kept.
"""

from __future__ import annotations

import json
import random
from contextlib import suppress
from pathlib import Path

import pytest

from gpuviz.errors import TraceFileError
from gpuviz.formats import load
from gpuviz.formats.kineto.text import TraceText
from gpuviz.model.diagnostics import Diagnostics
from gpuviz.model.trace import Trace
from tests.formats.events import call, codes, document, kernel, launch, load_events, load_text, memcpy

GOOD = json.dumps(call("aten::add", 4.0, 1.0))


def names(trace: Trace) -> list[str]:
    return trace.host_calls["name"].cast(str).to_list()


def test_bare_inf_and_nan_become_unknown(tmp_path: Path) -> None:
    copy = json.dumps(memcpy(1, 20, 0, bytes=200, rate="@")).replace('"@"', "inf")
    sample = '{"ph":"C","name":"util","pid":0,"ts":21.0,"args":{"u": nan, "v": -Infinity, "w": NaN, "x": -nan(ind)}}'
    trace = load_text(tmp_path, '{"traceEvents":[\n' + copy + ",\n" + sample + "]}")
    assert codes(trace) == {"number_not_finite": 5, "launch_missing": 1}
    assert trace.memcpys["size_bytes"].to_list() == [200]
    assert trace.counters["value"].to_list() == [None] * 4


def test_nan_that_json_accepts_is_counted_once(tmp_path: Path) -> None:
    trace = load_text(tmp_path, '{"traceEvents":[{"ph":"C","name":"a","ts":1,"args":{"v":NaN,"w":2.5}}]}')
    assert codes(trace) == {"number_not_finite": 1}
    assert trace.counters.select("series", "value").rows() == [("a: v", None), ("a: w", 2.5)]


def test_the_words_inf_and_nan_in_a_name_stay(tmp_path: Path) -> None:
    bad = '{"ph":"X","cat":"cpu_op","name":"a: inf, nan","pid":1,"tid":1,"ts":1,"dur":1,"args":{"x": inf}}'
    trace = load_text(tmp_path, '{"traceEvents":[' + bad + "]}")
    assert names(trace) == ["a: inf, nan"]


def test_control_characters(tmp_path: Path) -> None:
    event = '{"ph":"X","cat":"python_function","name":"@","pid":1,"tid":1,"ts":1.0,"dur":2.0}'
    text = "[" + event.replace("@", "cfg(0): f\ttab\nnew\x01line") + "]"
    trace = load_text(tmp_path, text)
    assert codes(trace) == {"control_characters": 1}
    assert names(trace) == ["cfg(0): f\ttab\nnew\x01line"]
    frame = trace.frames.row(1, named=True)
    assert (frame["file"], frame["line"], frame["function"]) == ("cfg", 0, "f\ttab\nnew\x01line")


def test_invalid_utf8(tmp_path: Path) -> None:
    text = document([call("a@b", 1, 1), call("c", 3, 1)]).encode().replace(b"@", b"\xff\xfe\xe4")
    trace = load_text(tmp_path, text)
    assert names(trace) == ["a\ufffd\ufffd\ufffdb", "c"]
    assert codes(trace) == {"invalid_utf8": 3}


def test_replacement_characters_of_the_writer_are_no_damage(tmp_path: Path) -> None:
    assert codes(load_events(tmp_path, call("a\ufffdb", 1, 1))) == {}


def test_half_of_a_surrogate_pair(tmp_path: Path) -> None:
    text = document([call("X1", 1, 1), call("\U0001f600", 3, 1)]).replace("X1", r"a\ud800b \\ud800 \udc00")
    trace = load_text(tmp_path, text)
    assert names(trace) == ["a\ufffdb \\ud800 \ufffd", "\U0001f600"]


def test_unescaped_backslashes(tmp_path: Path) -> None:
    text = document([call("@(3): run", 1, 2, cat="python_function")]).replace("@", r"C:\work\proj\x.py")
    trace = load_text(tmp_path, text)
    assert names(trace) == [r"C:\work\proj\x.py(3): run"]
    assert codes(trace) == {"backslash_repaired": 3}
    assert trace.frames.row(1, named=True)["file"] == r"C:\work\proj\x.py"


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("name", ['<eval {"dev": "cpu"}>(1): h', 'a"b', '"', '}, {"', '"x":[{"y":1}],"z"'])
def test_unescaped_quotes_cost_one_event(tmp_path: Path, name: str, position: int) -> None:
    events = [json.dumps(call("aten::add", 4 * n, 1)) for n in range(3)]
    events[position] = events[position].replace("aten::add", name)
    text = '{"traceEvents":[\n' + ",\n".join(events) + ']\n, "baseTimeNanoseconds": 1000}'
    trace = load_text(tmp_path, text)
    assert names(trace) == ["aten::add", "aten::add"]
    assert codes(trace) == {"event_unreadable": 1}
    assert trace.meta.t0_unix_ns is not None
    example = trace.diagnostics["first_example"][0]
    assert f"at byte {text.index(events[position])}" in example


def test_two_bad_events_side_by_side(tmp_path: Path) -> None:
    bad = GOOD.replace("aten::add", 'a"b')
    trace = load_text(tmp_path, '{"traceEvents":[\n' + ",\n".join([GOOD, bad, bad, GOOD]) + "]}")
    assert names(trace) == ["aten::add"] * 2
    assert codes(trace) == {"event_unreadable": 2}


def test_what_looks_like_an_event_inside_a_bad_one(tmp_path: Path) -> None:
    bad = GOOD.replace('"args": {}', '"args": {"a": [{"name": 1}, {"name": 2}], "b": "c"d"}')
    trace = load_text(tmp_path, '{"traceEvents":[\n' + ",\n".join([GOOD, bad, GOOD]) + "]}")
    assert names(trace) == ["aten::add"] * 2
    assert codes(trace)["event_unreadable"] >= 1


def test_events_that_begin_with_any_key(tmp_path: Path) -> None:
    odd = '{"x":1,' + GOOD[1:]
    bad = odd.replace("aten::add", 'a"b')
    trace = load_text(tmp_path, '{"traceEvents":[\n' + ",\n".join([odd, bad, odd, odd]) + "]}")
    assert names(trace) == ["aten::add"] * 3
    assert codes(trace) == {"event_unreadable": 1}


def test_bad_metadata_costs_itself(tmp_path: Path) -> None:
    text = '{\n"schemaVersion": 1,\n"INFO": ["said "no" twice", "b"],\n"displayTimeUnit": "ms",\n"traceEvents": [\n'
    text += GOOD + '\n],\n"trace_id": "x"y",\n"baseTimeNanoseconds": 5\n}'
    trace = load_text(tmp_path, text)
    assert names(trace) == ["aten::add"]
    assert codes(trace) == {"metadata_unreadable": 2}
    assert trace.meta.t0_unix_ns == 4005


def test_bad_metadata_at_the_end_is_no_truncation(tmp_path: Path) -> None:
    tail = ',\n"a": "said "no" to everything that was asked of it"\n}'
    trace = load_text(tmp_path, '{"traceEvents": [' + GOOD + "]" + tail)
    assert names(trace) == ["aten::add"]
    assert codes(trace) == {"metadata_unreadable": 1}


def test_bad_metadata_on_the_same_line_as_the_events(tmp_path: Path) -> None:
    trace = load_text(tmp_path, '{"INFO": "a"b", "traceEvents": [' + GOOD + "]}")
    assert names(trace) == ["aten::add"]
    assert codes(trace) == {"metadata_unreadable": 1}


@pytest.mark.parametrize("tail", ["", "]", ",", ",]", ",\n\n", " ]  \n"])
def test_the_array_may_lack_its_bracket(tmp_path: Path, tail: str) -> None:
    trace = load_text(tmp_path, "[" + GOOD + tail)
    assert names(trace) == ["aten::add"]
    assert codes(trace) == {}


def test_trailing_and_missing_commas(tmp_path: Path) -> None:
    trace = load_text(tmp_path, '{"traceEvents":[,' + GOOD + ",," + GOOD + " " + GOOD + ',],"x":1,}')
    assert names(trace) == ["aten::add"] * 3
    assert codes(trace) == {}


def test_empty_events_and_null(tmp_path: Path) -> None:
    text = '{"traceEvents":[{},null,{"ph":"X","name":"a","pid":1,"tid":1,"ts":1,"dur":1},{}]}'
    trace = load_text(tmp_path, text)
    assert names(trace) == ["a"]
    assert codes(trace) == {}


def test_elements_that_are_no_events(tmp_path: Path) -> None:
    trace = load_text(tmp_path, '{"traceEvents":[1,"a",[2],{"x":1},{"ph":[]},' + GOOD + "]}")
    assert names(trace) == ["aten::add"]
    assert codes(trace) == {"phase_ignored": 5}


def test_numbers_in_quotes(tmp_path: Path) -> None:
    event = '{"pid":"2","tid":"0","name":"CopyHostToDevice","ts":"8306017670485","dur":"154889","ph":"X"}'
    thread = '{"name":"thread_name","ph":"M","pid":"2","tid":0,"args":{"name":"GPU2"}}'
    trace = load_text(tmp_path, "[" + thread + "," + event + "]")
    assert trace.meta.t0_source_ns == 8306017670485000
    assert trace.host_calls.select("start_ns", "end_ns").rows() == [(0, 154889000)]
    assert trace.threads["name"].to_list() == ["GPU2"]
    assert codes(trace) == {"numbers_as_text": 2}


def test_duplicate_keys_last_wins(tmp_path: Path) -> None:
    text = document([launch("@", 1)]).replace('"@"', '3, "correlation": 4, "correlation": 5')
    trace = load_text(tmp_path, text)
    assert trace.api_calls["correlation_id"].to_list() == [5]
    assert codes(trace) == {"duplicate_keys": 2}


def test_only_metadata_is_an_empty_trace_with_a_hint(tmp_path: Path) -> None:
    trace = load_events(tmp_path, {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}})
    assert trace.meta.t0_source_ns is None
    assert trace.diagnostics["code"].to_list() == ["no_gpu_activity"]
    assert "CUPTI" in trace.diagnostics["first_example"][0]
    assert load_text(tmp_path, "[]").host_calls.height == 0
    assert load_text(tmp_path, '{"traceEvents":[]}').callpaths.height == 1


@pytest.mark.parametrize("text", ["{", "[{]", '{"a":', '{"traceEvents"', '{"traceEvents":', "{]", '{"a" 1}', "{1:2}"])
def test_no_events_at_all(tmp_path: Path, text: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(text)
    with suppress(TraceFileError):
        assert load(path).validate().host_calls.height == 0


def test_deep_nesting_and_endless_numbers(tmp_path: Path) -> None:
    deep = GOOD.replace('"args": {}', '"args": ' + "[" * 100_000 + "]" * 100_000)
    endless = GOOD.replace("4.0", "9" * 10_000)
    trace = load_text(tmp_path, '{"traceEvents":[' + ",\n".join([GOOD, deep, endless, GOOD]) + "]}")
    assert names(trace) == ["aten::add"] * 2
    assert codes(trace) == {"event_unreadable": 2}


def test_two_documents_one_after_the_other(tmp_path: Path) -> None:
    text = document([call("a", 1, 1)], baseTimeNanoseconds=7) + "\n" + document([call("b", 3, 1, pid=2)])
    trace = load_text(tmp_path, text)
    assert names(trace) == ["a", "b"]
    assert codes(trace) == {"several_writers": 1}
    assert trace.meta.t0_unix_ns == 1007


def test_a_document_inside_the_array(tmp_path: Path) -> None:
    inner = document([call("b", 3, 1, pid=2)])
    trace = load_text(tmp_path, '{"traceEvents":[' + json.dumps(call("a", 1, 1)) + "," + inner + "]}")
    assert names(trace) == ["a", "b"]
    assert codes(trace) == {"several_writers": 1}


def test_two_writers_over_each_other(tmp_path: Path) -> None:
    first = document([call(f"first {n}", 2 * n, 1) for n in range(40)])
    second = document([call(f"second {n}", 2 * n, 1, pid=2) for n in range(40)])
    cut = len(first) // 2
    trace = load_text(tmp_path, first[:cut] + second + first[cut + 300 :])
    found = names(trace)
    assert sum(name.startswith("first") for name in found) >= 36
    assert sum(name.startswith("second") for name in found) >= 39
    assert codes(trace)["several_writers"] == 1
    assert codes(trace)["event_unreadable"] >= 1


def test_the_words_of_a_header_in_a_name_are_no_second_writer(tmp_path: Path) -> None:
    events = [call('"traceEvents": [', 1, 1), call('"schemaVersion"', 3, 1)]
    assert codes(load_events(tmp_path, *events, metadata={"schemaVersion": 2})) == {}


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    hostile = [
        "<img src=x onerror=alert(1)>",
        "</script><script>",
        "a\x00b",
        "\u202eevil",
        "'; drop",
        "x" * 50_000,
    ]
    events = [call(name, 10 * n, 1) for n, name in enumerate(hostile)]
    events += [kernel(n, 10 * n, 1, name=name) for n, name in enumerate(hostile, 1)]
    trace = load_events(tmp_path, *events)
    assert names(trace) == hostile
    assert trace.kernels["name"].cast(str).to_list() == hostile
    trace.save(tmp_path / "a.gpuviz")
    assert load(tmp_path / "a.gpuviz").kernels.equals(trace.kernels)


TRUNCATED = document(
    [launch(1, 10), kernel(1, 20.5, 4), call('say "hi" \\ {}, {"ph"', 30, 1), memcpy(2, 40, 2)],
    displayTimeUnit="ms",
    baseTimeNanoseconds=1000,
).encode()
ENDS = [
    TRUNCATED.index(json.dumps(event).encode()) + len(json.dumps(event))
    for event in json.loads(TRUNCATED)["traceEvents"]
]


def test_truncation_at_every_byte() -> None:
    """Never a crash, never an event lost that was complete, and always a word about it."""
    for cut in range(1, len(TRUNCATED)):
        diagnostics = Diagnostics()
        events = list(TraceText(TRUNCATED[:cut], diagnostics).events())
        assert len(events) == sum(end <= cut for end in ENDS), cut
        assert diagnostics.table()["code"].to_list() == ["file_truncated"], cut


def test_truncated_traces_keep_the_laws(tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    for cut in range(1, len(TRUNCATED), 13):
        path.write_bytes(TRUNCATED[:cut])
        try:
            trace = load(path).validate()
        except TraceFileError:
            assert cut <= TRUNCATED.index(b"[")
            continue
        rows = trace.host_calls.height + trace.api_calls.height + trace.kernels.height + trace.memcpys.height
        assert rows == sum(end <= cut for end in ENDS)
        assert codes(trace)["file_truncated"] == 1


def test_truncation_keeps_what_was_repaired(tmp_path: Path) -> None:
    bad = GOOD.replace('"args": {}', '"args": {"x": inf}')
    trace = load_text(tmp_path, '{"traceEvents":[\n' + GOOD + ",\n" + bad)
    assert names(trace) == ["aten::add"] * 2
    assert codes(trace) == {"number_not_finite": 1, "file_truncated": 1}


def test_random_damage_never_crashes(tmp_path: Path) -> None:
    """Bytes changed, cut out or doubled anywhere: a trace that keeps the laws, or the one typed error."""
    generator = random.Random(1)
    path = tmp_path / "damaged.json"
    for _ in range(100):
        data = bytearray(TRUNCATED)
        for _ in range(generator.randint(1, 4)):
            at = generator.randrange(len(data))
            until = min(len(data), at + generator.randint(0, 30))
            data[at:until] = generator.choice(
                [b"", b'"', b"{", b"}", b"]", b"\\", b"\xff", data[at:until] * 2, b"-9e999"]
            )
        path.write_bytes(bytes(data))
        with suppress(TraceFileError):
            load(path).validate()
