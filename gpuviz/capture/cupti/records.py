"""CUPTI activity buffers → structured arrays, many records at a time, and back.

A buffer has no framing: where a record starts follows from the kinds of all records before it. To find the starts
without a step of Python per record, every 8-byte word that *could* start a record (its low half is a kind whose length
we know; a few in a hundred words by chance) gets a pointer to the word after it, and pointers are followed 64 at a
time by doubling them. Whatever the bytes are, a record is read only where it lies whole inside the buffer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from gpuviz.capture.cupti import walk
from gpuviz.capture.cupti.layouts import DTYPES, Kind, strides
from gpuviz.errors import CaptureError

type Buffer = bytes | bytearray | memoryview | npt.NDArray[np.uint8]
type Records = npt.NDArray[np.void]
type _Ints = npt.NDArray[np.int64]

_WORD = 8  # every struct is a multiple of 8 bytes long
_DOUBLINGS = 6
_WINDOW = 1 << 16  # words; 512 KiB of a buffer


@dataclass(frozen=True)
class Decoded:
    """What was in the buffers.

    `records`: kind → structured array (`layouts.DTYPES`), in the order of the buffers. `skipped`: kind → how many
    records of known length were walked over, because no field of theirs is used. `decoded_bytes` and
    `undecoded_bytes` add up to all bytes given. `stopped_at_kind`: the kind of the record where the (first) walk ended
    early: unknown, or longer than what was left; None where nothing was left over, or less than a record's head.
    """

    records: Mapping[int, Records] = field(default_factory=dict)
    skipped: Mapping[int, int] = field(default_factory=dict)
    decoded_bytes: int = 0
    undecoded_bytes: int = 0
    stopped_at_kind: int | None = None

    def of(self, kind: int) -> Records:
        """The records of this kind; an empty array where there were none."""
        found = self.records.get(kind)
        return found if found is not None else np.empty(0, dtype=DTYPES[kind])

    @property
    def record_count(self) -> int:
        """All records, those walked over included."""
        return sum(map(len, self.records.values())) + sum(self.skipped.values())


def decode(buffer: Buffer, api_version: int) -> Decoded:
    """Read one buffer, written by the CUPTI of this version.

    An unknown kind ends the walk, for nobody knows how long its record is; so does a record that the end of the buffer
    cuts off. What was not read is counted, never guessed.
    """
    return decode_all([buffer], api_version)


def decode_all(buffers: Iterable[Buffer], api_version: int) -> Decoded:
    """Read several buffers; the records of a kind follow each other in the order of the buffers."""
    every = [np.frombuffer(buffer, dtype=np.uint8) for buffer in buffers]
    gathered = walk.gather(every, strides(api_version))
    if gathered is None:
        return _joined([decode_in_python(raw, api_version) for raw in every])
    ends = list(zip(every, gathered.ends, strict=True))
    return Decoded(
        gathered.records,
        gathered.skipped,
        sum(gathered.ends),
        sum(len(raw) - end for raw, end in ends),
        next((kind for kind in (_stopped_at(raw, end) for raw, end in ends) if kind is not None), None),
    )


def decode_in_python(buffer: Buffer, api_version: int) -> Decoded:
    """What `decode` does, without the compiled walk."""
    raw = np.frombuffer(buffer, dtype=np.uint8)
    steps = _steps(api_version)
    words = raw[: len(raw) // _WORD * _WORD].view("<u8")
    heads = words.astype(np.uint32)  # the low half of every word: what would be the kind
    starts, end = _walk(heads, steps)
    kinds = heads[starts]
    records: dict[int, Records] = {}
    skipped: dict[int, int] = {}
    counts = np.bincount(kinds, minlength=1)
    for kind in np.flatnonzero(counts).tolist():
        dtype = DTYPES.get(kind)
        if dtype is None:
            skipped[kind] = int(counts[kind])
        else:
            records[kind] = _sliding(raw, dtype.itemsize)[starts[kinds == kind]].view(dtype)
    decoded = end * _WORD
    return Decoded(records, skipped, decoded, len(raw) - decoded, _stopped_at(raw, decoded))


def _stopped_at(raw: npt.NDArray[np.uint8], end: int) -> int | None:
    """The kind that follows where a walk ended; None where less than a record's head is left."""
    return int.from_bytes(raw[end : end + 4].tobytes(), "little") if len(raw) - end >= 4 else None


def _joined(parts: Sequence[Decoded]) -> Decoded:
    if len(parts) == 1:  # nothing to join: spare the copy
        return parts[0]
    kinds = sorted({kind for part in parts for kind in part.records})
    skipped = sorted({kind for part in parts for kind in part.skipped})
    return Decoded(
        {kind: np.concatenate([part.of(kind) for part in parts]) for kind in kinds},
        {kind: sum(part.skipped.get(kind, 0) for part in parts) for kind in skipped},
        sum(part.decoded_bytes for part in parts),
        sum(part.undecoded_bytes for part in parts),
        next((part.stopped_at_kind for part in parts if part.stopped_at_kind is not None), None),
    )


def blank(kind: int, count: int) -> Records:
    """`count` records of this kind, all zero but for the kind: to be filled and given to `encode`."""
    records = np.zeros(count, dtype=DTYPES[kind])
    records["kind"] = kind
    return records


def encode(tables: Sequence[Records], api_version: int, order: npt.ArrayLike | None = None) -> npt.NDArray[np.uint8]:
    """The bytes that CUPTI of this version would have written for these records.

    Each table holds records of one kind (or of several that share a dtype), each with its `kind` set. ``order[i]`` is
    the index of the table that the i-th record of the buffer comes from, each table giving its records in their
    order; without it, table follows table. Fields that later versions have added are zero.
    """
    sizes = _steps(api_version) * _WORD
    counts = [len(table) for table in tables]
    source = np.repeat(np.arange(len(tables)), counts) if order is None else np.asarray(order, dtype=np.int64)
    if np.bincount(source, minlength=len(tables)).tolist() != counts:
        raise CaptureError(
            f"Tried to encode {counts} records, but the order names "
            f"{np.bincount(source, minlength=len(tables)).tolist()}; every record must be named once."
        )
    size_of_record = np.zeros(len(source), dtype=np.int64)
    for index, table in enumerate(tables):
        size_of_record[source == index] = sizes[table["kind"]]
    offsets = np.concatenate(([0], np.cumsum(size_of_record)))
    buffer = np.zeros(int(offsets[-1]), dtype=np.uint8)
    for index, table in enumerate(tables):
        if len(table):
            size = table.dtype.itemsize
            rows = np.ascontiguousarray(table).view(f"V{size}")
            _sliding(buffer, size)[offsets[:-1][source == index] // _WORD] = rows
    return buffer


def _steps(api_version: int) -> npt.NDArray[np.int64]:
    """Kind → length in words; 0 for kinds whose length is not known."""
    steps = np.zeros(max(Kind) + 1, dtype=np.int64)
    for kind, size in strides(api_version).items():
        steps[kind] = size // _WORD
    return steps


def _sliding(raw: npt.NDArray[np.uint8], size: int) -> npt.NDArray[np.void]:
    """All windows of `size` bytes that start at a word; opaque bytes, because NumPy copies those in one go."""
    count = (len(raw) - size) // _WORD + 1
    return np.ndarray((count,), dtype=f"V{size}", buffer=raw, strides=(_WORD,))


def _walk(heads: npt.NDArray[np.uint32], steps: _Ints) -> tuple[_Ints, int]:
    """The words where records start, and the word where the walk ended; a window that fits the cache at a time."""
    found: list[_Ints] = []
    at, count = 0, len(heads)
    while at < count:
        starts, end = _walk_window(heads[at : at + _WINDOW], steps, count - at)
        if not len(starts):
            break
        found.append(starts + at)
        at += end
    return np.concatenate(found) if found else np.empty(0, dtype=np.int64), at


def _walk_window(heads: npt.NDArray[np.uint32], steps: _Ints, left: int) -> tuple[_Ints, int]:
    """The same for the records that start in `heads`; `left` words follow from its first word on."""
    known = np.flatnonzero(heads < len(steps))
    step = steps[heads[known]]
    whole = (step > 0) & (known + step <= left)
    candidates = known[whole]
    after = candidates + step[whole]
    # `position[word]`: index of the candidate at this word; the sentinel where the window or the walk ends.
    sentinel = len(candidates)
    position = np.full(len(heads) + 1, sentinel, dtype=np.int64)
    position[candidates] = np.arange(sentinel)
    jumps = [np.append(position[np.minimum(after, len(heads))], sentinel)]
    for _ in range(_DOUBLINGS):
        jumps.append(jumps[-1][jumps[-1]])
    anchors = []
    longest = jumps.pop()
    at = int(position[0])
    while at < sentinel:
        anchors.append(at)
        at = int(longest[at])
    chain = np.asarray(anchors, dtype=np.int64)
    for jump in reversed(jumps):
        chain = np.stack((chain, jump[chain]), axis=1).reshape(-1)
    chain = chain[chain < sentinel]
    return candidates[chain], int(after[chain[-1]]) if len(chain) else 0
