"""Links that fail at random, independently of each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from mptcplab.error_models.model import ErrorModel, Failure, check_positive
from mptcplab.error_models.renewals import renewals


@dataclass(frozen=True)
class Poisson(ErrorModel):
    """Each link works for a random time of mean `mtbf_ns`, then fails for one of mean `mttr_ns`;
    both are exponential.

    Another link changes nothing for the others.
    """

    mtbf_ns: int
    mttr_ns: int

    summary = "each link fails at random, with exponentially distributed times to failure and repair"

    def __post_init__(self) -> None:
        check_positive("poisson", mtbf_ns=self.mtbf_ns, mttr_ns=self.mttr_ns)

    def failures(
        self,
        links: Sequence[str],
        groups: Mapping[str, Sequence[str]],  # noqa: ARG002
        duration_ns: int,
        draws: Random,
    ) -> list[Failure]:
        drawn = renewals(links, self.mtbf_ns, self.mttr_ns, duration_ns, draws)
        return [Failure(at_ns, for_ns, link=link) for link, at_ns, for_ns in drawn]
