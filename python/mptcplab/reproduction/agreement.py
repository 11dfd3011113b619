"""On how many claims back-ends agree: those that both decide with the same stack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from mptcplab.reproduction.arms import NAMES, Arm

if TYPE_CHECKING:
    from mptcplab.reproduction.outcome import Outcome, Verdict

DECIDED = ("reproduced", "refuted")


@dataclass(frozen=True)
class Agreement:
    """The claims that two back-ends decide with the same stack, as pairs of verdicts. Verdicts count
    as described, whatever other assumptions give.
    """

    arms: tuple[Arm, Arm]
    alike: Sequence[tuple[Verdict, Verdict]]
    contrary: Sequence[tuple[Verdict, Verdict]]

    @property
    def decided(self) -> int:
        """The number of claims that both back-ends decide."""
        return len(self.alike) + len(self.contrary)


def agreements(outcomes: Sequence[Outcome]) -> list[Agreement]:
    """Returns the agreement of each two back-ends in each arm, over all claims of outcomes of the
    same back-ends; none for two back-ends that decide no claim in common.
    """
    arms = outcomes[0].study.arms if outcomes else ()
    of_arms = [_agreement(outcomes, two) for name in NAMES for two in combinations(_named(arms, name), 2)]
    return [one for one in of_arms if one.decided]


def _named(arms: Sequence[Arm], name: str) -> list[Arm]:
    return [arm for arm in arms if arm.name == name]


def _agreement(outcomes: Sequence[Outcome], arms: tuple[Arm, Arm]) -> Agreement:
    first, second = (_decided(outcomes, arm) for arm in arms)
    pairs = [(one, second[claim]) for claim, one in first.items() if claim in second]
    alike = [(one, other) for one, other in pairs if one.as_described == other.as_described]
    contrary = [(one, other) for one, other in pairs if one.as_described != other.as_described]
    return Agreement(arms, alike, contrary)


def _decided(outcomes: Sequence[Outcome], arm: Arm) -> dict[str, Verdict]:
    """Returns the verdicts of an arm that decide their claim, by the claim's ID."""
    verdicts = (one for outcome in outcomes for one in outcome.verdicts)
    return {one.claim.id: one for one in verdicts if one.arm == arm and one.as_described in DECIDED}
