"""Reordering of a sequence of arrivals (RFC 4737, RFC 5236). Sequences are without duplicates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mptcplab.metrics.arrays import Integers, Numbers


@dataclass(frozen=True)
class Reordered:
    """A reordered arrival: sequence number, position in the order of arrival, extent and
    n-reordering, in packets.
    """

    sequence: int
    index: int
    extent: int
    n_reordering: int


def reordered(arrivals: Numbers) -> list[Reordered]:
    """Returns the arrivals below an earlier one (RFC 4737 section 3.3), with extent (4.2.2) and
    n-reordering (5.4).
    """
    sequence = np.asarray(arrivals, dtype=np.int64)
    if len(sequence) < 2:
        return []
    highest = np.maximum.accumulate(sequence)
    late = np.flatnonzero(sequence < highest)
    # The first earlier arrival above s is where the running maximum first exceeds s.
    earliest = np.searchsorted(highest, sequence[late], side="right")
    return [
        Reordered(int(sequence[i]), int(i), int(i - j), _larger_just_before(sequence, int(i)))
        for i, j in zip(late, earliest, strict=True)
    ]


def reordering_ratio(arrivals: Numbers) -> float | None:
    """Returns the share of the arrivals that are reordered (RFC 4737 section 3.4); None without
    arrivals.
    """
    sequence = np.asarray(arrivals, dtype=np.int64)
    if len(sequence) == 0:
        return None
    return float(np.count_nonzero(sequence < np.maximum.accumulate(sequence)) / len(sequence))


def reorder_density(arrivals: Numbers) -> dict[int, float]:
    """Returns the share of each displacement in packets (RFC 5236 section 4). Lost numbers are
    skipped.
    """
    sequence = np.asarray(arrivals, dtype=np.int64)
    displacement, count = np.unique(np.sort(sequence) - sequence, return_counts=True)
    return {int(d): float(n / len(sequence)) for d, n in zip(displacement, count, strict=True)}


def _larger_just_before(sequence: Integers, index: int) -> int:
    count = 0
    while count < index and sequence[index - 1 - count] > sequence[index]:
        count += 1
    return count
