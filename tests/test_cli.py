"""The command line: what it prints, what it writes, how it fails."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from gpuviz.cli import main

SAMPLE = Path(__file__).parents[1] / "gpuviz" / "samples" / "cpu_training.json.gz"


def run(*arguments: str | Path) -> int:
    return main([str(argument) for argument in arguments])


def test_info_prints_the_counts_and_says_what_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("info", SAMPLE) == 0
    printed = capsys.readouterr().out
    assert "No GPU was recorded; GPU times are unknown." in printed
    assert "host_calls" in printed


def test_info_for_machines_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("info", "--json", SAMPLE) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["rows"]["kernels"] == 0
    assert facts["rows"]["host_calls"] > 5_000
    assert facts["device_time"] == []


def test_view_writes_one_page_named_after_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("view", SAMPLE) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["cpu_training.html"]
    assert "wrote cpu_training.html" in capsys.readouterr().out


def test_a_saved_trace_opens_like_the_original(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from gpuviz import load

    saved = load(SAMPLE).save(tmp_path / "x.gpuviz")
    assert run("info", "--json", saved) == 0
    from_saved = json.loads(capsys.readouterr().out)
    assert run("info", "--json", SAMPLE) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == from_saved["rows"]


def damaged_files(folder: Path) -> dict[str, Path]:
    files = {
        "empty": b"",
        "text": b"hello, this is not a trace\n",
        "binary": bytes(range(256)) * 8,
        "other_json": b'{"answer": 42}',
        "gzip_of_text": gzip.compress(b"not a trace either"),
    }
    made = {name: folder / f"{name}.json" for name in files}
    for name, data in files.items():
        made[name].write_bytes(data)
    return {**made, "missing": folder / "missing.json", "folder": folder}


@pytest.mark.parametrize("kind", ["empty", "text", "binary", "other_json", "gzip_of_text", "missing", "folder"])
def test_a_file_that_is_no_trace_ends_with_one_sentence_and_1(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = damaged_files(tmp_path)[kind]
    before = sorted(tmp_path.iterdir())
    assert run("view", path, "-o", tmp_path / "page.html") == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("gpuviz: ")
    assert str(path) in printed.err
    assert printed.err.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before


def test_a_page_that_cannot_be_written_ends_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("view", SAMPLE, "-o", tmp_path / "missing" / "page.html") == 1
    assert "Tried to write" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["veiw", "x"], ["info"], ["info", "--jsn", "x"]])
def test_a_wrong_command_ends_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run(*arguments)
    assert ended.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_a_page_never_replaces_its_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace.json.gz"
    trace.write_bytes(SAMPLE.read_bytes())
    assert run("view", trace, "-o", trace) == 1
    assert "that is the trace itself" in capsys.readouterr().err
    assert trace.read_bytes() == SAMPLE.read_bytes()


def test_names_cannot_talk_to_the_terminal_and_are_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    event = {"ph": "X", "cat": "kernel", "pid": 0, "tid": 7, "ts": 1, "dur": 2, "args": {"device": 0, "stream": 7}}
    events = [{**event, "name": "\x1b[31mred\nline"}, {**event, "ts": 5, "name": "long<" + "x" * 9_000 + ">tail"}]
    path = tmp_path / "hostile.json"
    path.write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
    for command in ("info", "report"):
        assert run(command, path) == 0
        printed = capsys.readouterr().out
        assert "\x1b" not in printed
        assert "␛[31mred␊line" in printed
        assert "x>tail" in printed
        assert max(map(len, printed.splitlines())) < 1_500
