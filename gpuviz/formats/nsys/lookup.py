"""Small tables looked up by large ones, and the names of ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import polars as pl

from gpuviz.formats.nsys.database import Database
from gpuviz.model.diagnostics import Diagnostics

UNNAMED = "unnamed"


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
