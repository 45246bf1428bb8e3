"""What kind of work the name of a host row stands for."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import polars as pl

HOST_KINDS = (
    "overhead",
    "launch_call",
    "dispatch",
    "copy_call",
    "allocator",
    "collective",
    "sync",
    "data_loader",
    "other_call",
    "operator",
    "python",
    "waiting",
)
"""What a host thread can be doing, and which counts when several threads do different things at one instant: the
first in this order.

- ``overhead``: a record of overhead: loading a module, compiling, a full command buffer, the profiler itself;
- ``launch_call``: in an API call that launches a kernel or a graph;
- ``dispatch``: in an operator that launches something, outside of its launches, copies, allocations and waits;
- ``copy_call``: in an API call that copies or fills memory;
- ``allocator``: in an API call that reserves or frees memory;
- ``collective``: waiting for a collective operation;
- ``sync``: in an API call that waits for the GPU;
- ``data_loader``: waiting for the next batch;
- ``other_call``: in another API call, or in a host call of a kind that the source does not explain;
- ``operator``: in an operator that launches nothing;
- ``python``: in a Python function or a module;
- ``waiting``: in a Python function that waits for a lock, a socket, a process or the clock.
"""

type Kinds = npt.NDArray[np.uint8]

OVERHEAD, LAUNCH_CALL, DISPATCH, COPY_CALL, ALLOCATOR, COLLECTIVE = range(6)
SYNC, DATA_LOADER, OTHER_CALL, OPERATOR, PYTHON, WAITING = range(6, 12)

_API_KINDS = (
    (re.compile(r"synchronize", re.IGNORECASE), SYNC),
    (re.compile(r"mem(cpy|set|prefetch)", re.IGNORECASE), COPY_CALL),
    (
        re.compile(
            r"malloc|free|hostalloc|host(un)?register|mem(alloc|create|map|unmap|release|address|pool)", re.IGNORECASE
        ),
        ALLOCATOR,
    ),
    (re.compile(r"launch", re.IGNORECASE), LAUNCH_CALL),
)
_DATA_LOADER = re.compile(
    r"enumerate\(DataLoader\)|data/dataloader\.py.*(__next__|_next_data|_get_data)|DataLoaderIter\.__next__"
)
_COLLECTIVE = re.compile(
    r"(nccl|c10d|gloo|rccl|processgroup|distributed|all_?(reduce|gather|to_?all)|all2all|reduce_?scatter|broadcast)"
    r".*(wait|barrier|synchroni)|\bbarrier\b|wait_tensor",
    re.IGNORECASE,
)
_WAITING = re.compile(
    r"acquire of _(thread|multiprocessing)\.|<built-in (method|function) (sleep|select|poll|wait|recv|accept)\b"
    r"|^(threading|selectors|queue|subprocess)\.py\(\d+\): (wait|join|select|get|_wait_for_tstate_lock)\b"
)


def api_kinds(names: pl.Series) -> Kinds:
    """The kind of each API call, by its name: (rows,)."""
    return _by_name(names, lambda name: next((kind for form, kind in _API_KINDS if form.search(name)), OTHER_CALL))


def special_kinds(names: pl.Series) -> Kinds:
    """`DATA_LOADER` and `COLLECTIVE` where a host call or a range is a wait of that kind, else `WAITING`, for Python
    functions that wait, else `PYTHON`: (rows,)."""
    return _by_name(names, _special)


def _special(name: str) -> int:
    if _DATA_LOADER.search(name):
        return DATA_LOADER
    if _COLLECTIVE.search(name):
        return COLLECTIVE
    return WAITING if _WAITING.search(name) else PYTHON


def _by_name(names: pl.Series, kind_of: Callable[[str], int]) -> Kinds:
    """Asks once per distinct name."""
    codes = names.to_physical().to_numpy()
    row_of_code = np.full(int(codes.max(initial=0)) + 1, -1, dtype=np.int64)
    row_of_code[codes] = np.arange(len(codes))
    present = np.flatnonzero(row_of_code >= 0)
    kind_of_code = np.zeros(len(row_of_code), dtype=np.uint8)
    distinct = names.gather(row_of_code[present]).cast(pl.String).to_list()
    kind_of_code[present] = [kind_of(name) for name in distinct]
    kinds: Kinds = kind_of_code[codes]
    return kinds
