"""Random times of failure and of repair in turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random


def renewals(
    names: Sequence[str], mean_up_ns: int, mean_down_ns: int, duration_ns: int, draws: Random
) -> Iterator[tuple[str, int, int]]:
    """Yields for each name when it fails and for how long, both exponential and at least 1 ns.

    Each name has a generator of its own, made from one draw and the name.
    """
    common = draws.getrandbits(64)
    for name in names:
        own = Random(f"{common}/{name}")
        at_ns = _time_ns(own, mean_up_ns)
        while at_ns < duration_ns:
            for_ns = _time_ns(own, mean_down_ns)
            yield name, at_ns, for_ns
            at_ns += for_ns + _time_ns(own, mean_up_ns)


def _time_ns(draws: Random, mean_ns: int) -> int:
    return max(1, round(draws.expovariate(1 / mean_ns)))
