"""A link that goes down and up several times in a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from mptcplab.error_models.model import ErrorModel, Failure, check_positive
from mptcplab.errors import SpecError


@dataclass(frozen=True)
class Flapping(ErrorModel):
    """From `at_ns` on all links are `times` times down for `down_ns`, and up for `up_ns` in
    between.
    """

    at_ns: int
    times: int
    down_ns: int
    up_ns: int

    summary = "causes several short outages in a row"

    def __post_init__(self) -> None:
        check_positive("flapping", times=self.times, down_ns=self.down_ns, up_ns=self.up_ns)
        if type(self.at_ns) is not int or self.at_ns < 0:
            raise SpecError(f"errors.flapping.at_ns: found {self.at_ns!r}", allowed="a whole number from 0")

    def failures(
        self,
        links: Sequence[str],
        groups: Mapping[str, Sequence[str]],  # noqa: ARG002
        duration_ns: int,
        draws: Random,  # noqa: ARG002
    ) -> list[Failure]:
        begins = [self.at_ns + index * (self.down_ns + self.up_ns) for index in range(self.times)]
        return [Failure(at_ns, self.down_ns, link) for link in links for at_ns in begins if at_ns < duration_ns]
