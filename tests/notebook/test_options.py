"""Options of the magics: what is understood, and what a mistake is answered with."""

from __future__ import annotations

from pathlib import Path

import pytest
from IPython.core.error import UsageError

from gpuviz.notebook.options import ProfileOptions, parse_options


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ProfileOptions()),
        ("-o trace", ProfileOptions(name="trace")),
        ("  --output=trace   -q ", ProfileOptions(name="trace", quiet=True)),
        ("--view copies --backend simulate:T4", ProfileOptions(view="copies", backend="simulate:T4")),
        ("--backend simulate", ProfileOptions(backend="simulate")),
        ("--steps 3 --warmup 2", ProfileOptions(steps=3, warmup=2)),
        ('--label "first epoch" -q', ProfileOptions(label="first epoch", quiet=True)),
        ("--label='a \"b\" {c} $d'", ProfileOptions(label='a "b" {c} $d')),
        ("--save 'my runs'/one.gpuviz", ProfileOptions(save="my runs/one.gpuviz")),
        ("-o a -o b", ProfileOptions(name="b")),
    ],
)
def test_options_of_a_cell(text: str, expected: ProfileOptions) -> None:
    assert parse_options(text) == expected


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("f(x)", "f(x)"),
        ("  -o t  f( 'a  -o  b' ) ", "f( 'a  -o  b' )"),
        ("-q -- -x", "-x"),
        ("--label=a x = f(y); x", "x = f(y); x"),
        ("!ls -l", "!ls -l"),
        ("it's(1)", "it's(1)"),
    ],
)
def test_the_expression_of_a_line_stays_as_it_was_written(text: str, expression: str) -> None:
    assert parse_options(text, line_magic=True).expression == expression


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("-z", "no option -z"),
        ("-o", "-o lacks its value"),
        ("-o -q", "-o lacks its value"),
        ("-o 3x", "not a name"),
        ("-o class", "not a name"),
        ("-q=1", "takes no value"),
        ("--view everything", "all, flamegraph, timeline, copies, none"),
        ("--backend cuda", "auto, simulate[:GPU], replay:FILE"),
        ("--backend simulate:GT9", "known are H100, T4"),
        ("--backend simulate:", "is none of"),
        ("--backend replay:", "is none of"),
        ("--backend replay:/no/such/file", "no file '/no/such/file'"),
        ("--steps 0", "at least 1"),
        ("--steps three", "not a whole number"),
        ("--warmup 1", "--steps is not given"),
        ("--label ''", "--label lacks its value"),
        ("f(x)", "`%gpuprofile EXPR`, with one %"),
    ],
)
def test_a_mistake_is_named(text: str, found: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_options(text)
    assert found in str(raised.value)
    assert "`%%gpuprofile?` shows all options" in str(raised.value)


def test_a_line_needs_an_expression() -> None:
    with pytest.raises(UsageError, match="no expression"):
        parse_options("-o trace", line_magic=True)


def test_the_home_folder_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "t.gpuviz").touch()
    assert parse_options("--backend replay:~/t.gpuviz").backend == "replay:~/t.gpuviz"
