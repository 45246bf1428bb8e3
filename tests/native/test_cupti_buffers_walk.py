"""The compiled walk against its twin in Python and against libcupti's own."""

from __future__ import annotations

import ctypes
import itertools
from importlib import metadata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuviz._native import cupti_records
from gpuviz.capture.cupti import walk
from gpuviz.capture.cupti.layouts import DTYPES, Kind, strides
from gpuviz.capture.cupti.records import Decoded, blank, decode_all, decode_in_python, encode
from tests.capture.cupti.records_by_hand import VERSIONS, random_tables

pytestmark = pytest.mark.native

type Bytes = np.ndarray[tuple[int], np.dtype[np.uint8]]

VERSION = 130001
SUCCESS = 0
PACKAGE = "nvidia-cuda-cupti"
ORACLE_VERSION = "13.0.85"


def equal(one: Decoded, other: Decoded) -> bool:
    return (
        one.records.keys() == other.records.keys()
        and all(one.records[kind].tobytes() == other.records[kind].tobytes() for kind in one.records)
        and dict(one.skipped) == dict(other.skipped)
        and (one.decoded_bytes, one.undecoded_bytes) == (other.decoded_bytes, other.undecoded_bytes)
        and one.stopped_at_kind == other.stopped_at_kind
    )


@st.composite
def buffers(draw: st.DrawFn) -> tuple[Bytes, int]:
    """Records of a version; then perhaps cut off, followed by anything, or with random words in the middle."""
    version = draw(st.sampled_from(list(VERSIONS)))
    tables, order = random_tables(draw(st.integers(0, 10_000)), most=draw(st.integers(1, 12)))
    raw = encode(tables, version, order)
    walked_only = [kind for kind in strides(version) if kind not in DTYPES]
    if draw(st.booleans()):
        kind = draw(st.sampled_from(walked_only))
        record = np.zeros(strides(version)[kind], dtype=np.uint8)
        record[0] = kind
        raw = np.concatenate((record, raw, record))
    if draw(st.booleans()):
        raw = raw[: draw(st.integers(0, len(raw)))]
    raw = np.concatenate((raw, np.frombuffer(draw(st.binary(max_size=40)), dtype=np.uint8)))
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, max(len(raw) // 8 - 1, 0))) * 8
        word = draw(st.integers(0, 300)).to_bytes(4, "little")
        raw[at : at + 4] = np.frombuffer(word, dtype=np.uint8)[: len(raw) - at]
    return raw, version


@given(buffers())
def test_equals_the_walk_in_python(case: tuple[Bytes, int]) -> None:
    raw, version = case
    assert equal(decode_all([raw], version), decode_in_python(raw, version))


@given(st.lists(st.binary(max_size=200), max_size=4), st.sampled_from(list(VERSIONS)))
def test_equals_it_for_any_bytes(parts: list[bytes], version: int) -> None:
    for part in parts:
        assert equal(decode_all([part], version), decode_in_python(part, version))
    whole = decode_all(parts, version)
    assert whole.decoded_bytes + whole.undecoded_bytes == sum(map(len, parts))


@given(st.integers(0, 10_000), st.integers(1, 5))
def test_several_buffers_are_one_after_the_other(seed: int, pieces: int) -> None:
    tables, order = random_tables(seed)
    sizes = [strides(VERSION)[int(tables[index]["kind"][0])] for index in order]
    ends = np.concatenate(([0], np.cumsum(sizes)))
    raw = encode(tables, VERSION, order)
    cuts = [0, *sorted(np.random.default_rng(seed).choice(ends, pieces).tolist()), len(raw)]
    parts = [raw[start:end] for start, end in itertools.pairwise(cuts)]
    assert equal(decode_all(parts, VERSION), decode_all([raw], VERSION))


def test_an_unknown_kind_and_a_truncated_tail_are_reported() -> None:
    raw = encode([blank(Kind.RUNTIME, 3), blank(Kind.CONCURRENT_KERNEL, 2)], VERSION)
    unknown = np.concatenate((raw, np.array([250, 0, 1], dtype="<u4").view(np.uint8)))
    decoded = decode_all([unknown], VERSION)
    assert (decoded.record_count, decoded.undecoded_bytes, decoded.stopped_at_kind) == (5, 12, 250)
    cut = decode_all([raw[:-8]], VERSION)
    assert (cut.record_count, cut.undecoded_bytes, cut.stopped_at_kind) == (4, 208, Kind.CONCURRENT_KERNEL)


def test_only_some_kinds_are_copied() -> None:
    raw = encode([blank(Kind.RUNTIME, 3), blank(Kind.MEMCPY, 2)], VERSION)
    gathered = walk.gather([raw], strides(VERSION), kinds=(Kind.MEMCPY, Kind.DEVICE))
    assert gathered is not None
    assert {kind: len(records) for kind, records in gathered.records.items()} == {Kind.MEMCPY: 2}
    assert gathered.skipped == {Kind.RUNTIME: 3}
    assert walk.offsets_of(raw, strides(VERSION), Kind.MEMCPY).tolist() == [120, 216]


def test_no_record_is_written_where_there_is_no_room() -> None:
    raw = encode([blank(Kind.RUNTIME, 5)], VERSION)
    table = walk.size_table(strides(VERSION))
    array = np.zeros(3, dtype=DTYPES[Kind.RUNTIME])
    filled = np.zeros(cupti_records.KINDS, dtype=np.uint64)
    cupti_records.gather(raw, table, {Kind.RUNTIME: array}, filled)
    assert filled[Kind.RUNTIME] == 3
    with pytest.raises(ValueError, match="no longer than a record"):
        cupti_records.gather(raw, table, {Kind.RUNTIME: np.zeros(5, dtype="V48")}, filled)


@pytest.fixture(scope="module")
def libcupti() -> ctypes.CDLL:
    """The one version that is known to parse buffers without a driver; later ones crash or refuse."""
    try:
        found = metadata.version(PACKAGE)
        files = metadata.files(PACKAGE) or []
    except metadata.PackageNotFoundError:
        pytest.skip(f"the real libcupti is not installed (pip install {PACKAGE}=={ORACLE_VERSION})")
    if found != ORACLE_VERSION:
        pytest.skip(f"{PACKAGE} is {found}; only {ORACLE_VERSION} is sure to work without a driver")
    path = next(file for file in files if file.name.startswith("libcupti.so"))
    return ctypes.CDLL(str(path.locate()))


@pytest.mark.parametrize("seed", range(5))
def test_the_offsets_are_those_of_libcupti(libcupti: ctypes.CDLL, seed: int) -> None:
    tables, order = random_tables(seed, most=200)
    raw = np.concatenate((encode(tables, VERSION, order), np.full(16, 251, dtype=np.uint8)))
    theirs: dict[int, list[int]] = {}
    record = ctypes.c_void_p()
    following = libcupti.cuptiActivityGetNextRecord
    while following(ctypes.c_void_p(raw.ctypes.data), ctypes.c_size_t(len(raw)), ctypes.byref(record)) == SUCCESS:
        assert record.value is not None
        kind = ctypes.c_uint32.from_address(record.value).value
        theirs.setdefault(kind, []).append(record.value - raw.ctypes.data)
    assert sum(map(len, theirs.values())) == len(order)
    for kind in strides(VERSION):
        assert walk.offsets_of(raw, strides(VERSION), kind).tolist() == theirs.get(kind, []), Kind(kind).name
