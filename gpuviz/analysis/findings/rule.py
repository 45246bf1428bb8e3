"""What a rule is, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuviz.analysis.findings.facts import Facts


@dataclass(frozen=True)
class Hit:
    """One finding of a rule. `share` is of the device's window, 0 to 1; None where time is not the point."""

    sentence: str
    time_ns: int | None = None
    share: float | None = None
    device_id: int | None = None
    evidence_table: str | None = None
    """The table whose rows are the evidence."""
    evidence_ids: tuple[int, ...] = ()
    """Ids of these rows, by start."""
    start_ns: int | None = None
    end_ns: int | None = None
    """From the first to the last of the evidence: where to look."""
    lines: tuple[str, ...] = ()
    """Lines to look at, most time first."""
    callpath_ids: tuple[int, ...] = ()
    """The call paths of these lines."""


class Abstain(Exception):  # noqa: N818  (not an error: the answer of a rule that lacks data)
    """A rule cannot judge this trace; the message names the data that is missing."""


@dataclass(frozen=True)
class Rule:
    """One pattern: how to find it, how sure the finding is, what to do about it."""

    name: str
    title: str
    """What the rule looks for, in a few words."""
    formula: str
    """How the time and the threshold are computed."""
    advice: str
    """What to try."""
    limits: str
    """What the finding does not know."""
    look: Callable[[Facts], Iterator[Hit]]
    needs: tuple[str, ...] = ("gpu", "complete")
    """Keys of `Facts.missing`."""

    def about(self) -> dict[str, Any]:
        """The columns of a finding that are the same for every finding of this rule."""
        return {"rule": self.name, "formula": self.formula, "advice": self.advice, "limits": self.limits}
