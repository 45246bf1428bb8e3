"""`Trace`: a few Polars tables and what is known about their capture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import polars as pl

from gpuviz.errors import TraceError
from gpuviz.model import schema

if TYPE_CHECKING:
    from typing import Self

type Window = tuple[int, int]
"""A half-open time window ``(start_ns, end_ns)``, ns since t0."""


FRAMES_WITHOUT_CALLS = "frames_without_calls"
"""Property of `TraceMeta` that names the layers, as in "python, module", whose frames come from call stacks: the trace
holds no interval and no count of their calls."""


@dataclass(frozen=True)
class TraceMeta:
    """Facts about a capture. A fact that nobody recorded is None, never a default that looks like one.

    `t0_unix_ns` is the wall-clock time of time zero; `t0_source_ns` the same instant on the source's own clock.
    `end_ns` is the latest usable time, ns since t0. `window` is set on traces made by `Trace.window`. `modelled` marks
    numbers that a simulator computed. `dropped_records` None means that nobody counted. `properties` keeps what else
    the source said about itself, as text.
    """

    title: str = "trace"
    source: str | None = None
    format: str | None = None
    t0_unix_ns: int | None = None
    t0_source_ns: int | None = None
    end_ns: int = 0
    window: Window | None = None
    modelled: bool = False
    dropped_records: int | None = None
    overhead_ns: int | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    schema_version: int = schema.SCHEMA_VERSION


type TableSource = pl.DataFrame | Callable[[], pl.DataFrame]
"""A table, or a function that reads it when it is first asked for."""


class _TableAccess:
    """The attribute `trace.<table>`: reads the table at first use and checks its names and dtypes."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name
        self.__doc__ = f"The table `{name}`: one row is {schema.TABLES[name].row}."

    def __get__(self, trace: Trace | None, owner: type | None = None) -> pl.DataFrame:
        if trace is None:
            raise AttributeError(f"`{self._name}` is a table of a trace, not of the class")
        return trace.table(self._name)


class Trace:
    """One capture as tables (`gpuviz.model.schema`), with `meta`. Tables are never changed in place.

    The constructor checks names and dtypes of the tables that are given as tables, nothing more, so that reopening a
    file stays lazy; `validate` checks the laws. A table that is not given is empty.
    """

    processes = _TableAccess()
    threads = _TableAccess()
    devices = _TableAccess()
    streams = _TableAccess()
    cells = _TableAccess()
    frames = _TableAccess()
    callpaths = _TableAccess()
    host_calls = _TableAccess()
    api_calls = _TableAccess()
    kernels = _TableAccess()
    memcpys = _TableAccess()
    memsets = _TableAccess()
    graph_runs = _TableAccess()
    syncs = _TableAccess()
    ranges = _TableAccess()
    counters = _TableAccess()
    diagnostics = _TableAccess()

    def __init__(self, tables: Mapping[str, TableSource], meta: TraceMeta | None = None) -> None:
        unknown = sorted(set(tables) - set(schema.TABLES))
        if unknown:
            raise TraceError(
                f"A trace was made with the table {unknown[0]!r}, which the data model does not have; "
                f"it has {', '.join(schema.TABLES)}.",
                table=unknown[0],
            )
        self.meta = meta if meta is not None else TraceMeta()
        self._tables: dict[str, TableSource] = dict(tables)
        for name, source in tables.items():
            if isinstance(source, pl.DataFrame):
                check_columns(name, source)

    def table(self, name: str) -> pl.DataFrame:
        """The table of this name; read now if it was not read yet."""
        source = self._tables.get(name)
        if source is None:
            source = self._tables[name] = schema.empty(name)
        elif not isinstance(source, pl.DataFrame):
            source = self._tables[name] = check_columns(name, source())
        return source

    @property
    def tables(self) -> Mapping[str, pl.DataFrame]:
        """All tables by name, read-only."""
        return MappingProxyType({name: self.table(name) for name in schema.TABLES})

    def activities(self) -> pl.DataFrame:
        """All GPU activities in one table, sorted by start.

        Columns: ``table`` (kernels, memcpys, memsets, graph_runs), activity_id, correlation_id, api_id, name,
        start_ns, end_ns, timing, stream_id, device_id, graph_id, callpath_id, forward_callpath_id.
        """
        columns = [
            "activity_id",
            "correlation_id",
            "api_id",
            "name",
            "start_ns",
            "end_ns",
            "timing",
            "stream_id",
        ]
        columns += ["graph_id", "callpath_id", "forward_callpath_id"]
        kind = pl.Enum(schema.ACTIVITY_TABLES)
        parts = [
            self.table(name).select(pl.lit(name, dtype=kind).alias("table"), *columns)
            for name in schema.ACTIVITY_TABLES
        ]
        joined = pl.concat(parts).join(
            self.streams.select("stream_id", "device_id"), on="stream_id", how="left", maintain_order="left"
        )
        return joined.sort("start_ns", nulls_last=True, maintain_order=True)

    def replace(
        self,
        tables: Mapping[str, pl.DataFrame] | None = None,
        /,
        *,
        meta: TraceMeta | None = None,
        **named: pl.DataFrame,
    ) -> Self:
        """A trace with some tables, or the meta data, exchanged; tables by name, or as a mapping."""
        exchanged = {**self._tables, **(tables or {}), **named}
        return type(self)(exchanged, meta if meta is not None else self.meta)

    def window(self, start_ns: int, end_ns: int) -> Self:
        """The rows that touch ``[start_ns, end_ns)``, uncut, with `meta.window` set.

        Ids stay the ids of the whole trace. The launches of kept activities are kept, and launches whose work is still
        queued when the window ends; of kept calls all activities are kept (which of a graph's activities came first
        must stay known, and what was queued). So every analysis of the windowed trace gives what the same analysis of
        the whole trace gives for that window. Rows without usable times are left out. `TraceError` when the window is
        empty, or wider than the window that this trace was cut to before.
        """
        if end_ns <= start_ns:
            raise TraceError(
                f"The window ({start_ns}, {end_ns}) ns was asked for, which is empty: its end must be after its start."
            )
        if self.meta.window is not None and (start_ns < self.meta.window[0] or end_ns > self.meta.window[1]):
            raise TraceError(
                f"The window ({start_ns}, {end_ns}) ns was asked for, but this trace was cut to {self.meta.window} ns "
                "and does not hold the rest: cut the whole trace instead."
            )
        last = pl.col("end_ns").fill_null(self.meta.end_ns)
        touches = (pl.col("start_ns") < end_ns) & (
            (last > start_ns) | ((pl.col("start_ns") == last) & (pl.col("start_ns") >= start_ns))
        )
        touches = touches.fill_null(False)
        tables = {name: self.table(name).filter(touches) for name in schema.INTERVAL_TABLES}
        calls = pl.concat([tables[name]["api_id"] for name in (*schema.ACTIVITY_TABLES, "api_calls")])
        begun = self.api_calls.filter(pl.col("start_ns") < start_ns)["api_id"]
        for name in schema.ACTIVITY_TABLES:
            later = self.table(name).filter((pl.col("timing") == "ok") & (pl.col("start_ns") >= end_ns))["api_id"]
            calls = pl.concat([calls, later.filter(later.is_in(begun.implode()))])
        kept = pl.col("api_id").is_in(calls.drop_nulls().unique().implode()).fill_null(False)
        for name in schema.ACTIVITY_TABLES:
            tables[name] = self.table(name).filter(touches | (kept & (pl.col("timing") == "ok")))
        tables["api_calls"] = self.api_calls.filter(kept)
        tables["counters"] = self.counters.filter(pl.col("time_ns").is_between(start_ns, end_ns, closed="left"))
        return self.replace(tables, meta=replace(self.meta, window=(start_ns, end_ns)))

    def validate(self) -> Self:
        """Check the laws of the data model; raises `TraceError` at the first one that is broken."""
        from gpuviz.model.validation import validate

        validate(self)
        return self

    def save(self, path: str | PathLike[str]) -> Path:
        """Write a ``.gpuviz`` file (`gpuviz.model.store`); returns its path."""
        from gpuviz.model.store import save

        return save(self, path)

    def __repr__(self) -> str:
        modelled = "modelled, " if self.meta.modelled else ""
        read = {name: table.height for name, table in self._tables.items() if isinstance(table, pl.DataFrame)}
        counts = [f"{count:,} {name}" for name, count in read.items() if count and name in schema.INTERVAL_TABLES]
        nothing = "empty" if len(read) == len(self._tables) else "nothing read yet"
        return f"<Trace {self.meta.title!r}: {modelled}{', '.join(counts) or nothing}>"


def check_columns(name: str, table: pl.DataFrame) -> pl.DataFrame:
    """The table itself, when its names and dtypes are those of the schema; else `TraceError`."""
    expected = schema.TABLES[name].polars_schema
    if table.schema == expected:
        return table
    for column, dtype in expected.items():
        found = table.schema.get(column)
        if found is None or found != dtype:
            raise TraceError(
                f"The table {name!r} was checked: its column {column!r} is {found or 'missing'}, "
                f"the data model (docs/data-model.md) wants {dtype}.",
                table=name,
                column=column,
            )
    extra = next(column for column in [*table.columns, None] if column not in expected)
    raise TraceError(
        f"The table {name!r} was checked: its columns are {table.columns}, "
        f"the data model (docs/data-model.md) wants {list(expected)} in this order.",
        table=name,
        column=extra,
    )
