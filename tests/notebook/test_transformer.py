"""What the transformer makes of a cell, with IPython's own manager around it."""

from __future__ import annotations

import pytest
from IPython.core.error import UsageError
from IPython.core.inputtransformer2 import TransformerManager

from gpuviz.notebook.transformer import asked_for, profile_transformer, timed_body


def manager(*, nested: bool = False) -> TransformerManager:
    made = TransformerManager()
    made.cleanup_transforms.append(profile_transformer(lambda: nested))
    return made


def transformed(cell: str) -> str:
    return str(manager().transform_cell(cell))


@pytest.mark.parametrize(
    "body",
    [
        "x = 1\n",
        "\n\nx = 1\n",
        "from __future__ import annotations\n",
        'text = """\n  two\n    four\n"""\ntext\n',
        "await f()\n",
        "# only a comment\n",
        "",
        "if x:\n    y\n",
        "x = 'not %%gpuprofile'\n",
    ],
)
def test_the_body_stays_as_it_is_and_keeps_its_lines(body: str) -> None:
    comment, _, rest = transformed("%%gpuprofile -o trace\n" + body).partition("\n")
    assert comment == "# gpuviz profiles this cell: %%gpuprofile -o trace"
    assert rest == body


@pytest.mark.parametrize("before", ["", "\n\n", "   \n"])
def test_blank_lines_before_it_are_ipython_s_to_take_off(before: str) -> None:
    assert transformed(before + "%%gpuprofile\nx\n") == "# gpuviz profiles this cell: %%gpuprofile \nx\n"


@pytest.mark.parametrize("blank", ["", "\n", "\n  \n"])
def test_a_cell_magic_below_takes_over(blank: str) -> None:
    lines = transformed(f"%%gpuprofile -q\n{blank}%%time\nx\n").splitlines()
    assert lines[0].endswith("%%gpuprofile -q")
    assert lines[-1] == "get_ipython().run_cell_magic('time', '', 'x\\n')"
    assert len(lines) == 2 + blank.count("\n")


def test_magics_in_the_body_are_transformed() -> None:
    assert "run_line_magic('time'" in transformed("%%gpuprofile\n%time x\n")
    assert "get_ipython().system('ls')" in transformed("%%gpuprofile\n!ls\n")


def test_a_bad_option_leaves_only_the_code_that_refuses() -> None:
    code = transformed("%%gpuprofile --veiw all\nfrom __future__ import annotations\nthis is no Python\n")
    assert code.count("\n") == 1
    with pytest.raises(UsageError, match="no option --veiw"):
        exec(code, {})


@pytest.mark.parametrize(
    "cell",
    [
        "%%gpuprofile?\n",
        "%%gpuprofile??\n",
        "%gpuprofile f(x)\n",
        "%%gpuprofiler\nx\n",
        "# %%gpuprofile\nx\n",
        "x\n%%gpuprofile\n",
        "x = 1\n",
    ],
)
def test_everything_else_is_ipython_s(cell: str) -> None:
    assert transformed(cell) == TransformerManager().transform_cell(cell)


def test_nested_it_stays_an_ordinary_magic() -> None:
    code = manager(nested=True).transform_cell("%%gpuprofile -o t\nx\n")
    assert code == "get_ipython().run_cell_magic('gpuprofile', '-o t', 'x\\n')\n"


@pytest.mark.parametrize("cell", ["%%gpuprofile\nx = 1", "%%gpuprofile\nx = 1\n", "%%gpuprofile\nx = (1,\n"])
def test_a_console_asks_for_the_blank_line_that_ends_a_cell_magic(cell: str) -> None:
    assert manager().check_complete(cell) == TransformerManager().check_complete(cell)


def test_what_was_asked_for_is_read_back() -> None:
    cell = "%%gpuprofile -o trace --label 'a b'\nx\n"
    assert asked_for(cell, transformed(cell)) == "-o trace --label 'a b'"
    assert asked_for("%%gpuprofile\nx\n", transformed("%%gpuprofile\nx\n")) == ""
    assert asked_for("# %%gpuprofile\nx\n", transformed("# %%gpuprofile\nx\n")) is None
    copied = transformed(cell)
    assert asked_for(copied, transformed(copied)) is None


def test_what_another_transformer_puts_before_it_does_not_hide_it() -> None:
    cell = "%%gpuprofile -q\nx\n"
    assert asked_for(cell, "# black\n" + transformed(cell)) == "-q"


@pytest.mark.parametrize(
    ("cell", "body"),
    [
        ("%%time\n\nf()\ng()\n", "f()\ng()\n"),
        ("\n%%gpuprofile -q\n\n%%time --no-raise-error\nf()\n", "f()\n"),
        ("%%timeit\nf()\n", None),
        ("f()\n%time g()\n", None),
        ("", None),
    ],
)
def test_what_time_compiles(cell: str, body: str | None) -> None:
    assert timed_body(cell) == body
