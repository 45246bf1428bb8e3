"""Random records of every kind that gpuviz decodes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpuviz.capture.cupti.layouts import DTYPES
from gpuviz.capture.cupti.records import Records, blank

VERSIONS = {
    26: "12.8",
    28: "12.9",
    130001: "13.0",
    130101: "13.1",
    130202: "13.2",
    130301: "13.3",
    130401: "13.4",
    130500: "13.5",
}


def random_records(kind: int, count: int, random: np.random.Generator) -> Records:
    """Records whose every field holds random bits."""
    records = blank(kind, count)
    for name in records.dtype.names or ():
        if name != "kind":
            field = records[name]
            bits = random.integers(0, 256, size=(count, field.nbytes // max(count, 1)), dtype=np.uint8)
            records[name] = bits.view(field.dtype).reshape(field.shape)
    return records


def random_tables(seed: int, most: int = 40) -> tuple[list[Records], npt.NDArray[np.int64]]:
    """One table per kind, and a random order of all records."""
    random = np.random.default_rng(seed)
    tables = [random_records(kind, int(random.integers(0, most)), random) for kind in DTYPES]
    order = np.repeat(np.arange(len(tables)), [len(table) for table in tables])
    random.shuffle(order)
    return tables, order
