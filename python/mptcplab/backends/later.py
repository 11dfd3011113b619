"""Injected actions that a running experiment carries out later."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from typing import Any


class Later:
    """Actions by the time at which they are due, and in the order in which they were added."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, Mapping[str, Any]]] = []
        self._number = count()

    def add(self, at_ns: int, action: Mapping[str, Any]) -> None:
        """Adds an action of the resolved form that is due at `at_ns` of the run."""
        heapq.heappush(self._waiting, (at_ns, next(self._number), action))

    def until(self, at_ns: int) -> int:
        """Returns the time up to which a run can go on towards `at_ns` before an action is due."""
        return min(at_ns, self._waiting[0][0]) if self._waiting else at_ns

    def apply_due(self, now_ns: int, inject: Callable[[Mapping[str, Any]], object]) -> None:
        """Removes the actions that are due, and injects each unless it would
        change nothing by now.
        """
        while self._waiting and self._waiting[0][0] <= now_ns:
            action = heapq.heappop(self._waiting)[2]
            # The compiled part refuses what changes nothing, for example a link that somebody else
            # restored.
            with suppress(ValueError):
                inject(action)
