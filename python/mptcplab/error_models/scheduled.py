"""Failures at given times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from mptcplab.error_models.model import ErrorModel, Failure, check_positive
from mptcplab.errors import SpecError


@dataclass(frozen=True)
class Scheduled(ErrorModel):
    """All links fail at each of the times `at_ns`, for `for_ns`."""

    at_ns: Sequence[int]
    for_ns: int

    summary = "causes outages at given times"

    def __post_init__(self) -> None:
        check_positive("scheduled", for_ns=self.for_ns)
        wrong = [time for time in self.at_ns if type(time) is not int or time < 0]
        if wrong:
            raise SpecError(f"errors.scheduled.at_ns: found {wrong[0]!r}", allowed="whole numbers from 0")
        for earlier, later in pairwise(sorted(self.at_ns)):
            if earlier + self.for_ns >= later:
                problem = f"errors.scheduled: the outage at {earlier} ns lasts until the next at {later} ns"
                raise SpecError(problem, allowed=f"for_ns below {later - earlier}")

    def failures(
        self,
        links: Sequence[str],
        groups: Mapping[str, Sequence[str]],  # noqa: ARG002
        duration_ns: int,
        draws: Random,  # noqa: ARG002
    ) -> list[Failure]:
        return [Failure(at_ns, self.for_ns, link) for link in links for at_ns in self.at_ns if at_ns < duration_ns]
