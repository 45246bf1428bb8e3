"""Bytes → records and back."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpuviz.capture.cupti.layouts import DTYPES, Kind, strides
from gpuviz.capture.cupti.records import Decoded, blank, decode, decode_all, decode_in_python, encode
from gpuviz.errors import CaptureError
from tests.capture.cupti.records_by_hand import VERSIONS, random_tables

VERSION = 130001


def reference(raw: bytes, version: int) -> tuple[list[tuple[int, int]], int]:
    """(kind, offset) of each record, and where the walk ends: one record at a time."""
    sizes = strides(version)
    found, at = [], 0
    while at + 8 <= len(raw):
        kind = int.from_bytes(raw[at : at + 4], "little")
        size = sizes.get(kind)
        if size is None or at + size > len(raw):
            break
        found.append((kind, at))
        at += size
    return found, at


def check(raw: bytes, version: int = VERSION) -> None:
    """Both walks agree with the reference, byte for byte; `decode` takes the compiled one where there is one."""
    for decoded in (decode(raw, version), decode_in_python(raw, version)):
        check_one(decoded, raw, version)


def check_one(decoded: Decoded, raw: bytes, version: int) -> None:
    expected, end = reference(raw, version)
    assert decoded.decoded_bytes == end
    assert decoded.decoded_bytes + decoded.undecoded_bytes == len(raw)
    assert decoded.record_count == len(expected)
    for kind, records in decoded.records.items():
        size = DTYPES[kind].itemsize
        wanted = b"".join(raw[at : at + size] for found, at in expected if found == kind)
        assert records.tobytes() == wanted
    for kind, count in decoded.skipped.items():
        assert count == sum(found == kind for found, _ in expected)
    left = raw[end:]
    assert decoded.stopped_at_kind == (int.from_bytes(left[:4], "little") if len(left) >= 4 else None)


@pytest.mark.parametrize("version", VERSIONS, ids=VERSIONS.values())
def test_round_trip(version: int) -> None:
    tables, order = random_tables(version)
    raw = encode(tables, version, order)
    decoded = decode(raw, version)
    assert decoded.undecoded_bytes == 0
    assert decoded.decoded_bytes == len(raw) == sum(strides(version)[int(kind)] for t in tables for kind in t["kind"])
    for table, kind in zip(tables, DTYPES, strict=True):
        assert (decoded.of(kind) == table).all()
    check(raw.tobytes(), version)


def test_every_known_kind_is_walked_over() -> None:
    for version in VERSIONS:
        for kind, size in strides(version).items():
            raw = int(kind).to_bytes(4, "little") + bytes(size - 4)
            check(raw * 3, version)
            assert decode(raw * 3, version).record_count == 3


def test_records_are_copies() -> None:
    raw = bytearray(encode([blank(Kind.RUNTIME, 3)], VERSION).tobytes())
    decoded = decode(raw, VERSION)
    raw[:] = b"\xff" * len(raw)
    assert decoded.of(Kind.RUNTIME)["kind"].tolist() == [Kind.RUNTIME] * 3


def test_an_unknown_kind_ends_the_walk() -> None:
    runtime = encode([blank(Kind.RUNTIME, 2)], VERSION).tobytes()
    decoded = decode(runtime + (250).to_bytes(8, "little") + runtime, VERSION)
    assert (decoded.record_count, decoded.undecoded_bytes, decoded.stopped_at_kind) == (2, 88, 250)
    assert decode(bytes(64), VERSION).stopped_at_kind == 0


@pytest.mark.parametrize("cut", range(1, 41))
def test_a_truncated_record_is_not_read(cut: int) -> None:
    raw = encode([blank(Kind.RUNTIME, 2)], VERSION).tobytes()[:-cut]
    decoded = decode(raw, VERSION)
    assert (decoded.record_count, decoded.decoded_bytes, decoded.undecoded_bytes) == (1, 40, 40 - cut)
    check(raw)


def test_several_buffers() -> None:
    tables, order = random_tables(1)
    raw = encode(tables, VERSION, order).tobytes()
    decoded = decode_all([raw, b"", raw + b"\x01" * 5, raw], VERSION)
    assert decoded.record_count == 3 * len(order)
    assert decoded.undecoded_bytes == 5
    assert decoded.stopped_at_kind == 0x01010101
    assert decode_all([], VERSION).record_count == 0


@pytest.mark.parametrize("version", [0, 18, 25, 130600, 140000])
def test_versions_that_nobody_has_measured(version: int) -> None:
    with pytest.raises(CaptureError, match="knows the lengths"):
        decode(b"", version)


def test_an_order_that_names_other_records() -> None:
    with pytest.raises(CaptureError, match="must be named once"):
        encode([blank(Kind.RUNTIME, 2)], VERSION, [0, 0, 0])


def test_a_long_buffer_is_walked_in_windows() -> None:
    runtime, kernels = blank(Kind.RUNTIME, 30_000), blank(Kind.CONCURRENT_KERNEL, 30_000)
    runtime["correlation_id"] = kernels["correlation_id"] = np.arange(30_000)
    kernels["grid_x"] = np.arange(30_000) % 60  # looks like a kind
    raw = encode([runtime, kernels], VERSION, np.tile([0, 1], 30_000))
    for decoded in (decode(raw, VERSION), decode_in_python(raw, VERSION)):
        assert decoded.undecoded_bytes == 0
        assert (decoded.of(Kind.RUNTIME) == runtime).all()
        assert (decoded.of(Kind.CONCURRENT_KERNEL) == kernels).all()


KINDS = st.sampled_from(sorted(strides(VERSION)))


@given(st.binary(max_size=2000))
@example(b"")
@example((5).to_bytes(4, "little"))
@example((5).to_bytes(8, "little") * 200)
def test_fuzz_random_bytes(raw: bytes) -> None:
    check(raw)


@given(st.lists(st.one_of(KINDS, st.integers(0, 60), st.just(0)), max_size=400))
def test_fuzz_words_that_look_like_kinds(words: list[int]) -> None:
    check(np.array(words, dtype=np.uint64).tobytes())


@given(
    st.integers(0, 2**32),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 7)), max_size=5),
    st.integers(0, 300),
    st.sampled_from(sorted(VERSIONS)),
)
def test_fuzz_flipped_bits_and_truncated_tails(seed: int, flips: list[tuple[int, int]], cut: int, version: int) -> None:
    raw: npt.NDArray[np.uint8] = encode(*(random_tables(seed, 6)[0], version, random_tables(seed, 6)[1])).copy()
    for position, bit in flips:
        if len(raw):
            raw[position % len(raw)] ^= 1 << bit
    check(raw[: max(len(raw) - cut, 0)].tobytes(), version)


@given(st.lists(KINDS, max_size=30), st.integers(0, 7))
def test_fuzz_unaligned_memory(kinds: list[int], shift: int) -> None:
    """A buffer may start anywhere; what lies before and behind it is never read."""
    raw = b"".join(int(kind).to_bytes(4, "little") + bytes(strides(VERSION)[kind] - 4) for kind in kinds)
    around = np.full(len(raw) + 32, 5, dtype=np.uint8)
    around[shift : shift + len(raw)] = np.frombuffer(raw, dtype=np.uint8)
    for read in (decode, decode_in_python):
        decoded = read(around[shift : shift + len(raw)], VERSION)
        assert decoded.record_count == len(kinds)
        assert decoded.undecoded_bytes == 0
