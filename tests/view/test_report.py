"""The report: what it says, in which forms, and when the command fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuviz.analysis.findings import RULES
from gpuviz.cli import main
from gpuviz.errors import AnalysisError
from gpuviz.model import Trace
from gpuviz.view.report import report
from tests.drawing import trace_from_text

PAGEABLE = """
    range 1: s.................
    thread 1: ffff..............
    thread 1: >.................
    stream 7: .>>>>>>>>>>>>KKKKK
    f = python load train.py:12
    > = copy HtoD pageable device 4M
    K = kernel 'void gemm<float, 4>(int*, float*)'
"""


@pytest.fixture(scope="module")
def trace() -> Trace:
    return trace_from_text(PAGEABLE, column_ns=100_000, title="a *bold* title")


@pytest.fixture
def file(trace: Trace, tmp_path: Path) -> str:
    return str(trace.save(tmp_path / "drawing.gpuviz"))


def test_text(trace: Trace) -> None:
    lines = report(trace).splitlines()
    assert lines[0] == "a *bold* title"
    assert any("Look at train.py:12 (load)" in line for line in lines)
    assert "Most GPU time" in lines
    assert "Looked for and not found" in lines
    assert "Not judged" in lines


def test_markdown_shows_names_as_they_are(trace: Trace) -> None:
    text = report(trace, format="markdown")
    assert text.startswith("# a \\*bold\\* title\n")
    assert "void gemm\\<float, 4\\>(int\\*, float\\*)" in text
    assert "\n## " in text


def test_json_has_every_rule_and_the_whole_names(trace: Trace) -> None:
    facts = json.loads(report(trace, format="json"))
    assert set(facts["rules"]) == set(RULES)
    assert facts["rules"]["pageable_copies"] == "found"
    assert facts["rules"]["item_in_a_loop"] == "abstained"
    assert facts["rules"]["synchronous_fills"] == "nothing"
    assert facts["findings"][0]["evidence_ids"]
    assert facts["lines"][0]["place"] == "train.py:12 (load)"


def test_a_window(trace: Trace) -> None:
    facts = json.loads(report(trace, (0, 500_000), format="json"))
    assert facts["window"] == [0, 500_000]
    assert facts["device_time"][0]["span_ns"] == 500_000


def test_an_unknown_form_is_refused(trace: Trace) -> None:
    with pytest.raises(AnalysisError, match="text, markdown, json"):
        report(trace, format="pdf")


@pytest.mark.parametrize("form", ["text", "markdown", "json"])
def test_traces_with_nothing_to_tell(form: str) -> None:
    for drawing in ("thread 1: fff", "stream 7: K", "stream 7: K!"):
        assert report(trace_from_text(drawing), format=form)
    assert report(Trace({}), format=form)


def test_the_command_fails_with_3_when_the_rule_fires(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", file]) == 0
    assert main(["report", file, "--fail-on", "synchronous_fills"]) == 0
    assert main(["report", file, "--fail-on", "synchronous_fills", "--fail-on", "pageable_copies"]) == 3
    assert "pageable memory" in capsys.readouterr().out


def test_a_rule_that_abstains_does_not_fail_and_says_so(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", file, "--fail-on", "item_in_a_loop"]) == 0
    assert "item_in_a_loop cannot fail: Not judged" in capsys.readouterr().err


def test_the_forms_of_the_command(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", file, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rules"]["pageable_copies"] == "found"
    assert main(["report", file, "--markdown"]) == 0
    assert capsys.readouterr().out.startswith("# ")


@pytest.mark.parametrize("arguments", [["--fail-on", "nosuch"], ["--json", "--markdown"], ["--fail-on"]])
def test_a_wrong_command_ends_with_2(file: str, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["report", file, *arguments])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "usage:" in said
    if arguments[-1] == "nosuch":
        assert all(rule in said for rule in RULES)
