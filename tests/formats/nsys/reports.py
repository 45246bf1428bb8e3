"""Nsight's reports twice: by the queries of docs/nsys.md over a trace, and by SQL over the file."""

from __future__ import annotations

import re
import sqlite3
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

import polars as pl

from gpuviz.model.trace import Trace

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "nsys.md"
NAMES = ("cuda_gpu_kern_sum", "cuda_gpu_mem_time_sum", "cuda_api_sum", "cuda_kern_exec_sum")

type Report = dict[tuple[Any, ...], tuple[Any, ...]]

# The kinds as docs/nsys.md says them: arrays lie on the device, moved pages have the direction of a copy.
OPERATIONS = {
    0: "other",
    1: "HtoD",
    2: "DtoH",
    3: "HtoD",
    4: "DtoH",
    5: "DtoD",
    6: "DtoD",
    7: "DtoD",
    8: "DtoD",
    9: "HtoH",
    10: "PtoP",
    11: "HtoD",
    12: "DtoH",
    13: "DtoD",
}
KERNELS = "SELECT s.value, k.end - k.start FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.demangledName"
API = "SELECT s.value, r.end - r.start FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds s ON s.id = r.nameId"
# Of the calls of a process with one correlation id the launch is the one that holds the others: the longest of the
# earliest.
EXECUTIONS = """
    SELECT (k.globalPid >> 24) & 16777215, r.globalTid & 16777215, a.value, n.value, k.start, k.end, r.start, r.end
    FROM CUPTI_ACTIVITY_KIND_KERNEL k
    JOIN (
        SELECT *, row_number() OVER (
            PARTITION BY globalTid >> 24, correlationId ORDER BY start, end DESC, rowid
        ) AS rank FROM CUPTI_ACTIVITY_KIND_RUNTIME
    ) r ON r.globalTid >> 24 = k.globalPid >> 24 AND r.correlationId = k.correlationId AND r.rank = 1
    JOIN StringIds a ON a.id = r.nameId
    JOIN StringIds n ON n.id = k.demangledName
    WHERE k.correlationId > 0
"""


def documented(trace: Trace) -> dict[str, Report]:
    """The reports by the document's own code."""
    names: dict[str, Any] = {"trace": trace, "pl": pl}
    for code in re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL):
        if "import gpuviz" not in code:
            exec(code, names)
    keys = {"cuda_kern_exec_sum": 4}
    reports = {}
    for name in NAMES:
        width = keys.get(name, 1)
        rows = [tuple(str(value) if isinstance(value, str) else value for value in row) for row in names[name].rows()]
        reports[name] = {row[:width]: row[width:] for row in rows}
        assert len(reports[name]) == len(rows)
    return reports


def by_sql(path: Path) -> dict[str, Report]:
    """The same, from the file itself."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}

        def rows(sql: str) -> list[tuple[Any, ...]]:
            named = set(re.findall(r"CUPTI_\w+", sql))
            return connection.execute(sql).fetchall() if named <= tables else []

        copies = rows("SELECT copyKind, end - start FROM CUPTI_ACTIVITY_KIND_MEMCPY")
        fills = rows("SELECT 'memset', end - start FROM CUPTI_ACTIVITY_KIND_MEMSET")
        return {
            "cuda_gpu_kern_sum": summed(rows(KERNELS)),
            "cuda_gpu_mem_time_sum": summed([*[(OPERATIONS[kind], ns) for kind, ns in copies], *fills]),
            "cuda_api_sum": summed([(shown(name), ns) for name, ns in rows(API)]),
            "cuda_kern_exec_sum": executions(rows(EXECUTIONS)),
        }


def shown(name: str) -> str:
    return re.sub(r"_v\d{4,5}$", "", name)


def summed(rows: list[tuple[Any, ...]]) -> Report:
    groups: dict[Any, list[int]] = defaultdict(list)
    for key, ns in rows:
        groups[key].append(ns)
    return {(key,): (sum(ns), len(ns), sum(ns) / len(ns), median(ns), min(ns), max(ns)) for key, ns in groups.items()}


def executions(rows: list[tuple[Any, ...]]) -> Report:
    groups: dict[Any, list[int]] = defaultdict(lambda: [0] * 6)
    for pid, tid, call, name, start, end, call_start, call_end in rows:
        queue = start - call_end
        values = (1, queue >= 0, max(end, call_end) - call_start, call_end - call_start, max(queue, 0), end - start)
        group = groups[pid, tid, shown(call), name]
        group[:] = [one + other for one, other in zip(group, values, strict=True)]
    return {key: tuple(values) for key, values in groups.items()}
