"""Exchanges attributes and puts every one of them back."""

from __future__ import annotations

from typing import Any

_ABSENT = object()


class Patcher:
    """Remembers what an attribute was. `restore` undoes in reverse order, so that twice the same is no problem."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, str, Any]] = []

    @property
    def patched(self) -> list[tuple[Any, str]]:
        """What is exchanged now."""
        return [(owner, name) for owner, name, _ in self._before]

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Exchange `owner.name`, also where it is only inherited; what is not there at all stays so."""
        if not hasattr(owner, name):
            return
        # The class's own entry, not what getattr makes of it: a static method would come back as a plain function.
        self._before.append((owner, name, vars(owner).get(name, _ABSENT)))
        setattr(owner, name, value)

    def restore(self) -> None:
        """Put everything back."""
        while self._before:
            owner, name, value = self._before[-1]
            if value is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
            self._before.pop()
