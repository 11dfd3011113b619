"""Failures at equal intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from mptcplab.error_models.model import ErrorModel, Failure, check_positive
from mptcplab.errors import SpecError


@dataclass(frozen=True)
class Periodic(ErrorModel):
    """All links fail every `every_ns`, for `for_ns`. The first outage begins after the first
    interval.
    """

    every_ns: int
    for_ns: int

    summary = "causes outages at regular intervals"

    def __post_init__(self) -> None:
        check_positive("periodic", every_ns=self.every_ns, for_ns=self.for_ns)
        if self.for_ns >= self.every_ns:
            raise SpecError(f"errors.periodic.for_ns: found {self.for_ns}", allowed=f"below every_ns, {self.every_ns}")

    def failures(
        self,
        links: Sequence[str],
        groups: Mapping[str, Sequence[str]],  # noqa: ARG002
        duration_ns: int,
        draws: Random,  # noqa: ARG002
    ) -> list[Failure]:
        begins = range(self.every_ns, duration_ns, self.every_ns)
        return [Failure(at_ns, self.for_ns, link) for link in links for at_ns in begins]
