"""What ran on host threads: API calls, other traced calls (OS runtime, cuDNN, OpenMP, …), and the profiler's overhead.

They nest by time, thread by thread. Overhead is drawn among the calls but calls nothing: what lies in it belongs to
what lies around it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import polars as pl

from gpuviz.formats.kineto.calls import Calls, Ints, Nested, nest_rows
from gpuviz.formats.nsys import layout
from gpuviz.formats.nsys.hosts import Hosts
from gpuviz.formats.nsys.layout import CALL_PREFIX, column
from gpuviz.formats.nsys.lookup import Names, first_present, looked_up
from gpuviz.model import schema
from gpuviz.model.diagnostics import Diagnostics
from gpuviz.model.nesting import nest

OVERHEAD = "overhead"

# ENUM_NSYS_EVENT_CLASS. Backtraces (67) repeat calls of both kinds, so a name counts more than a class.
_DRIVER_CLASS = 1
_VERSION = re.compile(r"_v\d{4,5}$")
"""Runtime calls carry the CUDA version of their parameters (cudaMalloc_v3020); ``_v2`` belongs to the name."""
# ENUM_CUPTI_OVERHEAD_TYPE: what would not have happened without the profiler; the rest is CUDA's own.
_CAPTURE_OVERHEAD = (3, 4, 5)
_API, _HOST, _OVERHEAD = 2, 1, 1


def api_calls(table: pl.DataFrame, names: Names, hosts: Hosts) -> pl.DataFrame:
    """The columns of `api_calls` that need no other table."""
    name = names.of(table["nameId"], "API call", lambda text: _VERSION.sub("", text))
    distinct = name.unique()
    kinds = [_kind(text) for text in distinct.to_list()]
    rows = pl.DataFrame({"name": distinct, "by_name": pl.Series(kinds, dtype=pl.Enum(schema.APIS))})
    by_name = looked_up(name.to_frame("name"), rows)["by_name"]
    api = pl.DataFrame(
        {
            "name": name,
            "start_ns": table["start"],
            "end_ns": table["end"],
            "thread_id": hosts.thread_of(table["globalTid"]),
            "correlation_id": column(table, "correlationId"),
            "return_value": column(table, "returnValue").cast(pl.Int32, strict=False),
            "api": by_name,
        }
    )
    if by_name.null_count():
        is_driver = (column(table, "eventClass") == _DRIVER_CLASS).fill_null(False)
        by_class = pl.when(is_driver).then(pl.lit("driver")).otherwise(pl.lit("runtime")).cast(by_name.dtype)
        api = api.with_columns(pl.col("api").fill_null(by_class))
    return api


def _kind(name: str) -> str | None:
    if name.startswith("cuda"):
        return "runtime"
    return "driver" if re.match(r"cu[A-Z]", name) else None


def host_calls(raw: Mapping[str, pl.DataFrame], names: Names, hosts: Hosts) -> pl.DataFrame:
    """The columns of `host_calls` that need no other table."""
    parts = [_no_calls()]
    for key, table in raw.items():
        if key.startswith(CALL_PREFIX):
            name_ids = first_present(table, ("nameId", "textId"))
            parts.append(_calls(table, name_ids, _category(key.removeprefix(CALL_PREFIX)), names, hosts))
    for key in (layout.PROFILER_OVERHEAD, layout.CUPTI_OVERHEAD):
        if key in raw:
            table = raw[key]
            is_capture = key == layout.PROFILER_OVERHEAD or column(table, "overheadType").is_in(_CAPTURE_OVERHEAD)
            part = _calls(table, column(table, "nameId"), OVERHEAD, names, hosts)
            parts.append(part.with_columns(is_capture=is_capture))
    return pl.concat(parts)


def _no_calls() -> pl.DataFrame:
    dtypes = schema.TABLES["host_calls"].polars_schema
    wanted = ("name", "start_ns", "end_ns", "thread_id", "layer", "category")
    return pl.DataFrame(schema={**{name: dtypes[name] for name in wanted}, "is_capture": pl.Boolean()})


def _calls(table: pl.DataFrame, name_ids: pl.Series, category: str, names: Names, hosts: Hosts) -> pl.DataFrame:
    dtypes = schema.TABLES["host_calls"].polars_schema
    return pl.DataFrame(
        {
            "name": names.of(name_ids, "call"),
            "start_ns": table["start"],
            "end_ns": table["end"],
            "thread_id": hosts.thread_of(column(table, "globalTid")),
        }
    ).with_columns(
        layer=pl.lit("other", dtype=dtypes["layer"]),
        category=pl.lit(category, dtype=dtypes["category"]),
        is_capture=pl.lit(False),
    )


def _category(table: str) -> str:
    """OSRT_API → osrt, OPENMP_EVENT_KIND_TASK → openmp_task."""
    return table.lower().removesuffix("_api").removesuffix("_events").replace("_event_kind", "")


def nest_calls(host: pl.DataFrame, api: pl.DataFrame, end_ns: int, diagnostics: Diagnostics) -> Calls:
    """Nest the rows of both tables, thread by thread: first all host calls, then all API calls."""
    columns = ("start_ns", "end_ns", "timing", pl.col("thread_id").alias("lane"))
    both = pl.concat(
        [
            host.select(*columns, rank=pl.lit(_HOST, dtype=pl.Int64)),
            api.select(*columns, rank=pl.lit(_API, dtype=pl.Int64)),
        ]
    )
    nested = nest_lanes(both, end_ns)
    diagnostics.add("bleeding_child", nested.bleeding)
    diagnostics.add("crossing_call", nested.crossing)
    is_overhead = np.zeros(both.height, dtype=bool)
    is_overhead[: host.height] = (host["category"].cast(pl.String) == OVERHEAD).to_numpy()
    parent = nested.parent.copy()
    if is_overhead.any():
        while (through := (parent >= 0) & is_overhead[parent]).any():
            parent[through] = parent[parent[through]]
    return Calls(parent, nested.level, nested.depth, nested.bleeding, nested.crossing, hosts=host.height)


def nest_lanes(rows: pl.DataFrame, end_ns: int) -> Nested:
    """Nest rows (lane, start_ns, end_ns, timing, rank) within their lanes, as `nest_rows` does.

    Where all times are usable and the rows of the export are in order already, which is the rule, less has to be
    sorted.
    """
    if rows["timing"].null_count() or not (rows["timing"] == "ok").all():
        return nest_rows(rows, end_ns)
    start, end, rank = (rows[name].to_numpy() for name in ("start_ns", "end_ns", "rank"))
    lane = rows["lane"].to_numpy()
    order = np.arange(len(start))
    if not _in_order(start, end, rank):
        order = np.lexsort((rank, -end, start))
    if len(lane) and lane.min() != lane.max():
        # A stable sort of 16-bit numbers is a radix sort; a trace hardly has more lanes.
        few = lane.astype(np.uint16) if lane.min() >= 0 and lane.max() < 1 << 16 else lane
        order = order[np.argsort(few[order], kind="stable")]
    found = nest(lane[order].astype(np.int64), start[order], end[order])
    parent, level, depth = (np.empty(len(order), dtype=np.int64) for _ in range(3))
    parent[order] = np.where(found.parent >= 0, order[found.parent], -1) if len(order) else -1
    level[order], depth[order] = found.level, found.depth
    return Nested(parent, level, depth, found.bleeding, found.crossing)


def _in_order(start: Ints, end: Ints, rank: Ints) -> bool:
    """Whether rows are sorted by start, then the longest, then the outer rank first."""
    later, same = start[1:] > start[:-1], start[1:] == start[:-1]
    shorter = same & ((end[1:] < end[:-1]) | ((end[1:] == end[:-1]) & (rank[1:] >= rank[:-1])))
    return bool((later | shorter).all())


def overhead_ns(host: pl.DataFrame, recorded: bool) -> int | None:
    """How long the profiler itself kept host threads busy: per thread the union, because its entries nest."""
    if not recorded:
        return None
    rows = host.filter(pl.col("is_capture") & (pl.col("timing") == "ok")).sort("thread_id", "start_ns")
    before = pl.col("end_ns").cum_max().shift(1).over("thread_id")
    begin = pl.max_horizontal("start_ns", before)
    return int(rows.select((pl.col("end_ns") - begin).clip(0).sum()).item())
