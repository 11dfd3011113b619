"""A trace in memory: capacity, delay and loss of one direction over time, and
where they are from.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Generic, TypeVar

from mptcplab.units import NANOS_PER_SECOND

V = TypeVar("V", int, float)

#: Bytes of a delivery opportunity, as in mahimahi.
OPPORTUNITY_BYTES = 1500

#: The usual length of the intervals over which opportunities are averaged to rates.
EVERY_NS = 100_000_000


@dataclass(frozen=True, slots=True)
class Step(Generic[V]):
    """A value that holds from an instant to the next step or the end of the trace."""

    from_ns: int
    value: V


@dataclass(frozen=True, slots=True)
class Train:
    """What packets meet that are sent after a pause: the delay of the first, and when further ones
    may arrive after it (CellReplay's light opportunities).
    """

    at_ns: int
    delay_ns: int
    opportunities_ns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a trace is from, and under which licence."""

    source: str | None = None
    licence: str | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """One direction of a link over `period_ns`, after which it repeats.

    Capacity is a list of opportunities for `opportunity_bytes`, ascending, or of rates in bit/s, or
    neither. Delays are one-way, in nanoseconds. Losses are probabilities. The first step of each
    list is at 0.
    """

    period_ns: int
    opportunities_ns: tuple[int, ...] = ()
    rates: tuple[Step[int], ...] = ()
    delays: tuple[Step[int], ...] = ()
    losses: tuple[Step[float], ...] = ()
    trains: tuple[Train, ...] = ()
    opportunity_bytes: int = OPPORTUNITY_BYTES
    origin: Origin = field(default=Origin())

    @property
    def has_capacity(self) -> bool:
        """Whether the trace gives the capacity, in place of a rate."""
        return bool(self.opportunities_ns or self.rates)

    def bits_up_to(self, end_ns: int) -> Fraction:
        """Returns the bits that can be carried before an instant of the trace."""
        if self.opportunities_ns:
            return Fraction(8 * self.opportunity_bytes * bisect.bisect_left(self.opportunities_ns, end_ns))
        work = sum(
            step.value * (min(end, end_ns) - step.from_ns)
            for step, end in self.spans(self.rates)
            if step.from_ns < end_ns
        )
        return Fraction(work, NANOS_PER_SECOND)

    def spans(self, steps: Sequence[Step[V]]) -> Iterator[tuple[Step[V], int]]:
        """Yields each step with its end."""
        ends = [step.from_ns for step in steps[1:]] + [self.period_ns]
        return zip(steps, ends, strict=True)

    def mean_rate_bps(self) -> float | None:
        """Returns the mean rate in bit/s; None without a capacity."""
        if not self.has_capacity:
            return None
        return float(self.bits_up_to(self.period_ns) * NANOS_PER_SECOND / self.period_ns)


def opportunities(trace: Trace, size_bytes: int) -> list[int]:
    """Returns the instants of the opportunities for `size_bytes` of a trace with a capacity."""
    if not trace.opportunities_ns:
        return evenly(trace, size_bytes)
    found = trace.opportunities_ns
    if trace.opportunity_bytes == size_bytes:
        return list(found)
    # Each comes with the opportunity that carries its last byte.
    count = len(found) * trace.opportunity_bytes // size_bytes
    return [found[-(-number * size_bytes // trace.opportunity_bytes) - 1] for number in range(1, count + 1)]


def evenly(trace: Trace, size_bytes: int = OPPORTUNITY_BYTES) -> list[int]:
    """Returns the instants at which rates have carried `size_bytes` more, within one period.

    What is left of an opportunity at a step counts for the next, and what is left at the end is
    lost.
    """
    found: list[int] = []
    carried, work = 0, 8 * size_bytes * NANOS_PER_SECOND
    for step, end in trace.spans(trace.rates):
        before, carried = carried, carried + step.value * (end - step.from_ns)
        for number in range(before // work + 1, carried // work + 1):
            wanted = number * work - before
            found.append(step.from_ns - (-wanted // step.value))
    return found


def rates_for(trace: Trace, every_ns: int | None) -> list[Step[int]]:
    """Returns the rates of a trace with a capacity: its own, or the means of intervals of
    `every_ns` if this is given, or of the usual length if the trace has opportunities.
    """
    if every_ns is None and trace.rates:
        return list(trace.rates)
    return per_interval(trace, every_ns or EVERY_NS)


def per_interval(trace: Trace, every_ns: int) -> list[Step[int]]:
    """Returns the mean rate in bit/s of each interval of a trace with a capacity. The last may be
    shorter.
    """
    return means(trace, range(0, trace.period_ns, every_ns))


def averaged(trace: Trace, every_ns: int) -> list[Step[int]]:
    """Returns the mean rates of intervals as `per_interval`, but those within one rate, or without
    an opportunity, as one step.
    """
    changes = trace.opportunities_ns or [step.from_ns for step in trace.rates]
    numbers = {change // every_ns + further for change in changes for further in (0, 1)}
    starts = {0, trace.period_ns // every_ns * every_ns} | {number * every_ns for number in numbers}
    return means(trace, sorted(start for start in starts if start < trace.period_ns))


def means(trace: Trace, starts: Sequence[int]) -> list[Step[int]]:
    """Returns the mean rate in bit/s from each of ascending instants, the first of which is 0, to
    the next or to the end.
    """
    ends = [*starts[1:], trace.period_ns]
    bits = _bits_before(trace, ends)
    differences = (later - earlier for earlier, later in itertools.pairwise([Fraction(0), *bits]))
    return [
        Step(start, round(carried * NANOS_PER_SECOND / (end - start)))
        for start, end, carried in zip(starts, ends, differences, strict=True)
    ]


def _bits_before(trace: Trace, instants: Sequence[int]) -> list[Fraction]:
    """Returns the bits carried before each of ascending instants, in one pass."""
    if trace.opportunities_ns:
        return [trace.bits_up_to(instant) for instant in instants]
    found: list[Fraction] = []
    spans = trace.spans(trace.rates)
    step, end = next(spans)
    carried = 0
    for instant in instants:
        while end < instant:
            carried += step.value * (end - step.from_ns)
            step, end = next(spans)
        found.append(Fraction(carried + step.value * (instant - step.from_ns), NANOS_PER_SECOND))
    return found


def merged(steps: Sequence[Step[V]]) -> tuple[Step[V], ...]:
    """Returns the steps without those that change nothing."""
    return tuple(step for number, step in enumerate(steps) if number == 0 or step.value != steps[number - 1].value)
