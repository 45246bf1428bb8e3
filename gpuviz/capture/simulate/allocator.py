"""A model of PyTorch's caching allocator: when it would call cudaMalloc, and what the memory queries answer.

Sizes are rounded and segments are grown as PyTorch's documentation of the allocator says; fragmentation is not
modelled, so that what is reserved is a lower bound.
"""

from __future__ import annotations

_BLOCK = 512  # every size is rounded up to this
_SMALL = 1 << 20  # requests up to here share small segments
_SMALL_SEGMENT = 2 << 20
_LARGE = 10 << 20  # requests up to here share large segments
_LARGE_SEGMENT = 20 << 20
_ROUND_SEGMENT = 2 << 20


class AllocatorModel:
    """Counts what is allocated and reserved, for one device."""

    def __init__(self, memory_bytes: int) -> None:
        self.memory_bytes = memory_bytes
        self.allocated = self.reserved = 0
        self.peak_allocated = self.peak_reserved = 0
        self.allocations = self.segments = 0
        self._allocated_of_pool = {True: 0, False: 0}
        self._reserved_of_pool = {True: 0, False: 0}

    def fits(self, size: int) -> bool:
        """False when a real device of this size would be out of memory."""
        return self.allocated + _rounded(size) <= self.memory_bytes

    def allocate(self, size: int) -> int:
        """Account for one allocation; the size of the new segment, 0 where the cache can serve it."""
        if not size:
            return 0
        rounded = _rounded(size)
        small = rounded <= _SMALL
        self.allocations += 1
        self.allocated += rounded
        self._allocated_of_pool[small] += rounded
        self.peak_allocated = max(self.peak_allocated, self.allocated)
        missing = self._allocated_of_pool[small] - self._reserved_of_pool[small]
        if missing <= 0:
            return 0
        if small:
            segment = _SMALL_SEGMENT
        elif rounded < _LARGE:
            segment = _LARGE_SEGMENT
        else:
            segment = -(-rounded // _ROUND_SEGMENT) * _ROUND_SEGMENT
        self.segments += 1
        self.reserved += segment
        self._reserved_of_pool[small] += segment
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        return segment

    def free(self, size: int) -> None:
        """Give one allocation back to the cache."""
        if size:
            rounded = _rounded(size)
            self.allocated -= rounded
            self._allocated_of_pool[rounded <= _SMALL] -= rounded

    def empty_cache(self) -> int:
        """Give unused segments back to the device; how many bytes."""
        given_back = 0
        for small in self._reserved_of_pool:
            unused = self._reserved_of_pool[small] - self._allocated_of_pool[small]
            segments = unused // _ROUND_SEGMENT * _ROUND_SEGMENT
            self._reserved_of_pool[small] -= segments
            given_back += segments
        self.reserved -= given_back
        return given_back

    def reset_peaks(self) -> None:
        """The peaks become what is used now."""
        self.peak_allocated = self.allocated
        self.peak_reserved = self.reserved


def _rounded(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK
