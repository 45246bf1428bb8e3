"""Small tables looked up by large ones, and the names of ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from gpuviz.formats.nsys.database import Database
from gpuviz.model.diagnostics import Diagnostics

type Ints = npt.NDArray[np.int64]

UNNAMED = "unnamed"
_ROOM, _ROOM_AT_LEAST = 4, 1 << 20


def looked_up(asked: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """The further columns of `rows` for each row of `asked`, whose columns are its key; null matches null."""
    distinct = asked.unique()
    if distinct.height == 1:  # one process, one GPU, one stream
        one = distinct.join(rows, on=asked.columns, how="left", nulls_equal=True).drop(asked.columns)
        return one.select(pl.all().gather(pl.zeros(asked.height, pl.UInt32, eager=True)))
    joined = asked.join(rows, on=asked.columns, how="left", nulls_equal=True, maintain_order="left")
    return joined.drop(asked.columns)


def mapped(values: pl.Series, to: Mapping[int, int | None]) -> pl.Series:
    """Each value exchanged; null for what is not in `to`."""
    keys = pl.DataFrame({"key": list(to)}, schema={"key": values.dtype})
    rows = keys.with_columns(pl.Series("value", list(to.values()), dtype=pl.Int32))
    return looked_up(values.to_frame("key"), rows)["value"]


def numbered(keys: Ints) -> tuple[Ints, Ints]:
    """Equal keys have one number, in the order of their first rows; the number of each key, and these rows."""
    if not len(keys):
        return keys, keys
    smallest = int(keys.min())
    width = int(keys.max()) - smallest + 1
    if width > _ROOM * len(keys) + _ROOM_AT_LEAST:
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        rank = np.empty(len(first), dtype=np.int64)
        rank[np.argsort(first)] = np.arange(len(first))
        return rank[inverse], np.sort(first)
    # A place for each key that there could be: no sort and no hash.
    places = keys - smallest
    first_row = np.full(width, -1, dtype=np.int64)
    first_row[places[::-1]] = np.arange(len(keys) - 1, -1, -1)
    rows = np.sort(first_row[first_row >= 0])
    number = np.empty(width, dtype=np.int64)
    number[places[rows]] = np.arange(len(rows))
    return number[places], rows


class Names:
    """The texts of all ids that rows name things by, as categories."""

    def __init__(self, database: Database, ids: Iterable[pl.Series], diagnostics: Diagnostics) -> None:
        wanted = {value for one in ids for value in one.unique().to_list() if value is not None}
        self._texts = database.texts_of(wanted)
        self._diagnostics = diagnostics

    def text(self, name_id: int) -> str | None:
        """The text of one id."""
        return self._texts.get(name_id)

    def of(self, ids: pl.Series, what: str, shown: Callable[[str], str] = str) -> pl.Series:
        """The name of each id; one that has no text is shown as a number."""
        named = self.known(ids, what, shown)
        if named.null_count():
            self._diagnostics.add("name_unknown", named.null_count(), UNNAMED)
            named = named.fill_null(UNNAMED)
        return named

    def known(self, ids: pl.Series, what: str, shown: Callable[[str], str] = str) -> pl.Series:
        """The same, and null for null."""
        counts = ids.value_counts()
        numbers: list[int | None] = counts.to_series(0).to_list()
        names: list[str | None] = []
        for number, count in zip(numbers, counts["count"].to_list(), strict=True):
            text = None if number is None else self._texts.get(number)
            if text:
                names.append(shown(text))
            elif number is None:
                names.append(None)
            else:
                names.append(f"{what} {number}")
                self._diagnostics.add("name_unknown", count, names[-1])
        rows = pl.DataFrame({"key": counts.to_series(0), "name": pl.Series(names, dtype=pl.Categorical())})
        return looked_up(ids.to_frame("key"), rows)["name"]


def first_present(table: pl.DataFrame, columns: Sequence[str]) -> pl.Series:
    """The first of these columns that is there and not null, row by row."""
    present = [name for name in columns if name in table.columns]
    return table.select(pl.coalesce(present).alias("id")).to_series()
