"""Shared-risk groups whose links fail together, at random."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from mptcplab.error_models.model import ErrorModel, Failure, check_positive
from mptcplab.error_models.renewals import renewals


@dataclass(frozen=True)
class SharedRisk(ErrorModel):
    """Each group works for a random time of mean `mtbf_ns`, then fails for one of mean `mttr_ns`;
    both are exponential.

    Another group changes nothing for the others. Single links do not fail.
    """

    mtbf_ns: int
    mttr_ns: int

    summary = "all links of a shared-risk group fail together at random times"

    def __post_init__(self) -> None:
        check_positive("srlg", mtbf_ns=self.mtbf_ns, mttr_ns=self.mttr_ns)

    def failures(
        self,
        links: Sequence[str],  # noqa: ARG002
        groups: Mapping[str, Sequence[str]],
        duration_ns: int,
        draws: Random,
    ) -> list[Failure]:
        drawn = renewals(sorted(groups), self.mtbf_ns, self.mttr_ns, duration_ns, draws)
        return [Failure(at_ns, for_ns, group=group) for group, at_ns, for_ns in drawn]
