"""A rate that runs in real time share on one machine, so that none makes another late."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Condition
from typing import Any


class SharedRate:
    """A total rate in bit/s of which runs take parts. A run that needs more than the total runs
    alone.
    """

    def __init__(self, total_bps: float) -> None:
        self._total_bps = total_bps
        self._taken: list[float] = []
        self._is_returned = Condition()

    @contextmanager
    def taken(self, part_bps: float) -> Iterator[None]:
        """Waits until the part is free, and takes it for the duration of the block."""
        with self._is_returned:
            self._is_returned.wait_for(lambda: self._has_room(part_bps))
            self._taken.append(part_bps)
        try:
            yield
        finally:
            with self._is_returned:
                self._taken.remove(part_bps)
                self._is_returned.notify_all()

    def _has_room(self, part_bps: float) -> bool:
        return not self._taken or sum(self._taken) + part_bps <= self._total_bps


def rate_bps(experiment: Mapping[str, Any]) -> float:
    """Returns the highest rate in bit/s that the flows of a resolved experiment can carry together,
    infinity if neither its links nor its flows tell.
    """
    sides = ("forward", "backward")
    links = [max(_known(link[side]["rate_bps"]) for side in sides) for link in experiment["links"]]
    ceilings = [_known(flow["ceiling_bps"]) for flow in experiment["flows"]]
    return min(sum(links), sum(ceilings))


def _known(bps: float | None) -> float:
    return math.inf if bps is None else bps
