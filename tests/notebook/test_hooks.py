"""Which cells the hooks believe to be running, when front ends call them in odd ways."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from gpuviz.notebook.hooks import CellHooks

PROFILED = "# gpuviz profiles this cell: %%gpuprofile -q\n1\n"


@dataclass
class Profiles:
    """Stands for the profiler: what was begun, and what was ended."""

    begun: list[str] = field(default_factory=list)
    ended: list[tuple[str, bool]] = field(default_factory=list)

    def begin(self, options: Any, *, what: str, cell: str | None, execution_count: int) -> str:
        self.begun.append(what)
        return what

    def end(self, profile: str, *, ran: bool = True) -> None:
        self.ended.append((profile, ran))


class Shell:
    """As much of a shell as the hooks look at. `request` None: no messages, as in a terminal."""

    def __init__(self) -> None:
        self.execution_count = 1
        self.request: str | None = "m1"

    def get_parent(self) -> dict[str, Any] | None:
        return None if self.request is None else {"header": {"msg_id": self.request}, "metadata": {"cellId": "c"}}


@pytest.fixture
def profiles() -> Profiles:
    return Profiles()


@pytest.fixture
def shell() -> Shell:
    return Shell()


@pytest.fixture
def hooks(shell: Shell, profiles: Profiles) -> CellHooks:
    cells = SimpleNamespace(remember=lambda *arguments, **more: None)
    return CellHooks(shell, cells, profiles)  # type: ignore[arg-type]


def info(raw: str = "%%gpuprofile -q\n1\n", transformed: str | None = PROFILED) -> Any:
    return SimpleNamespace(raw_cell=raw, transformed_cell=transformed, store_history=False, cell_id=None)


def result(of: Any, error_before_exec: object = None) -> Any:
    return SimpleNamespace(info=of, error_before_exec=error_before_exec)


def test_a_cell_begins_and_ends(hooks: CellHooks, profiles: Profiles) -> None:
    cell = info()
    hooks.pre_run_cell(cell)
    assert hooks.is_nested()
    assert hooks.current().jupyter_cell_id == "c"  # type: ignore[union-attr]
    hooks.post_run_cell(result(cell))
    assert (profiles.begun, profiles.ended) == (["In [1]"], [("In [1]", True)])
    assert not hooks.is_nested()


@pytest.mark.parametrize("outcome", [None, "another info for the same cell"])
def test_the_end_is_recognised_without_the_same_info(hooks: CellHooks, profiles: Profiles, outcome: str | None) -> None:
    hooks.pre_run_cell(info())
    hooks.post_run_cell(None if outcome is None else result(info()))
    assert profiles.ended == [("In [1]", True)]


def test_a_cell_that_could_not_be_compiled_has_not_run(hooks: CellHooks, profiles: Profiles) -> None:
    cell = info()
    hooks.pre_run_cell(cell)
    hooks.post_run_cell(result(cell, SyntaxError()))
    assert profiles.ended == [("In [1]", False)]


def test_an_empty_cell_ends_without_having_begun(hooks: CellHooks, profiles: Profiles) -> None:
    hooks.post_run_cell(result(info("", "")))
    hooks.pre_run_cell(info())
    hooks.post_run_cell(result(info("", "")))  # of a magic that ran an empty cell within ours
    assert profiles.ended == []


def test_cells_within_a_cell_are_not_profiled_on_their_own(hooks: CellHooks, profiles: Profiles) -> None:
    outer, inner = info("outer", "outer"), info()
    hooks.pre_run_cell(outer)
    hooks.pre_run_cell(inner)
    hooks.post_run_cell(result(inner))
    assert hooks.is_nested()
    hooks.post_run_cell(result(outer))
    assert not hooks.is_nested()
    assert profiles.begun == []


def test_a_cell_whose_end_never_came_ends_with_the_next_request(
    hooks: CellHooks, shell: Shell, profiles: Profiles
) -> None:
    hooks.pre_run_cell(info())
    shell.request = "m2"
    assert not hooks.is_nested()
    assert profiles.ended == [("In [1]", True)]
    hooks.pre_run_cell(info())
    assert len(profiles.begun) == 2


def test_threads_have_cells_of_their_own(hooks: CellHooks) -> None:
    hooks.pre_run_cell(info())
    seen: list[bool] = []
    thread = threading.Thread(target=lambda: seen.append(hooks.is_nested()))
    thread.start()
    thread.join()
    assert seen == [False]


def test_an_older_ipython_does_not_tell_the_transformed_cell(
    hooks: CellHooks, shell: Shell, profiles: Profiles
) -> None:
    shell.transform_cell = lambda raw: PROFILED  # type: ignore[attr-defined]
    hooks.pre_run_cell(info(transformed=None))
    assert profiles.begun == ["In [1]"]


def test_a_terminal_has_no_messages(hooks: CellHooks, shell: Shell, profiles: Profiles) -> None:
    shell.request = None
    cell = info()
    hooks.pre_run_cell(cell)
    assert hooks.current().jupyter_cell_id is None  # type: ignore[union-attr]
    hooks.post_run_cell(result(cell))
    assert profiles.ended == [("In [1]", True)]
