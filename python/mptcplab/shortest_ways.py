"""The shortest ways between two vertices of a graph: counted and picked by number, never listed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TypeVar

Value = TypeVar("Value")


class ShortestWays:
    """The shortest ways from the first vertex of a search to another one.

    `before` has for every vertex that the search reached the vertices before it on shortest ways;
    the first has none.
    """

    def __init__(self, before: Mapping[str, Sequence[str]], last: str) -> None:
        self._before = before
        self._last = last

    @cached_property
    def vertices(self) -> list[str]:
        """All vertices on any of the ways, each behind those that are before it; empty if there is
        no way.
        """
        found = [self._last] if self._last in self._before else []
        known = set(found)
        for vertex in found:
            new = [earlier for earlier in self._before[vertex] if earlier not in known]
            known |= set(new)
            found += new
        return found[::-1]

    def values(
        self,
        start: Value,
        extended: Callable[[Value, str, str], Value],
        chosen: Callable[[Sequence[Value]], Value],
    ) -> dict[str, Value]:
        """For each vertex: `start` at the first, `extended(value, a, b)` by a step, `chosen` where
        ways meet.
        """
        values: dict[str, Value] = {}
        for vertex in self.vertices:
            arriving = [extended(values[earlier], earlier, vertex) for earlier in self._before[vertex]]
            values[vertex] = chosen(arriving) if arriving else start
        return values

    @cached_property
    def _counts(self) -> dict[str, int]:
        return self.values(1, lambda count, _a, _b: count, sum)

    def __len__(self) -> int:
        """How many ways there are."""
        return self._counts.get(self._last, 0)

    def __getitem__(self, number: int) -> list[str]:
        """The vertices of way `number`, from 0; IndexError if there are not as many."""
        if not 0 <= number < len(self):
            raise IndexError(number)
        way = [self._last]
        while before := self._before[way[-1]]:
            for vertex in before:
                if number < self._counts[vertex]:
                    way.append(vertex)
                    break
                number -= self._counts[vertex]
        return way[::-1]
