"""Many buffers → one array per kind, by the compiled walk. `records.decode_in_python` is its twin and its reference."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuviz._native import cupti_records
from gpuviz._native.cupti_records import KINDS
from gpuviz.capture.cupti.layouts import DTYPES

type _Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Gathered:
    """The records of some buffers, kind by kind, in the order of the buffers.

    `skipped`: kind → how many records were walked over. `ends`: for each buffer, the offset where its walk ended.
    """

    records: Mapping[int, npt.NDArray[np.void]]
    skipped: Mapping[int, int]
    ends: Sequence[int]


def size_table(sizes: Mapping[int, int]) -> cupti_records.Sizes:
    """`layouts.strides` as the compiled functions take it."""
    table = np.zeros(KINDS, dtype=np.uint32)
    for kind, size in sizes.items():
        table[kind] = size
    return table


def gather(buffers: Sequence[_Bytes], sizes: Mapping[int, int], kinds: Collection[int] = DTYPES) -> Gathered | None:
    """Read all buffers and copy the records of these `kinds`; None where there is no compiled walk.

    Each array is allocated once, for all buffers, so that no record is copied twice.
    """
    if not cupti_records.available():
        return None
    table = size_table(sizes)
    counts = np.zeros(KINDS, dtype=np.uint64)
    ends = [cupti_records.count(buffer, table, counts) for buffer in buffers]
    present = np.flatnonzero(counts).tolist()
    records = {kind: np.empty(int(counts[kind]), dtype=DTYPES[kind]) for kind in present if kind in kinds}
    skipped = {kind: int(counts[kind]) for kind in present if kind not in kinds}
    filled = np.zeros(KINDS, dtype=np.uint64)
    for buffer in buffers:
        cupti_records.gather(buffer, table, records, filled)
    return Gathered(records, skipped, ends)


def offsets_of(buffer: _Bytes, sizes: Mapping[int, int], kind: int) -> npt.NDArray[np.int64]:
    """Where the records of one kind start; only where the compiled walk is available."""
    return cupti_records.find(buffer, size_table(sizes), kind).astype(np.int64)
