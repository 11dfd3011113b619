"""The statements of a paper about one of its experiments, judged by single runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

from mptcplab.backends import SIMULATOR
from mptcplab.catalogue import catalogue
from mptcplab.reproduction.arms import Arm, Chosen
from mptcplab.reproduction.claims import Claim, Paper, load
from mptcplab.reproduction.observation import Observation, observe
from mptcplab.reproduction.outcome import Compared, compare
from mptcplab.reproduction.sides import Side, arm_of
from mptcplab.reproduction.study import AS_DESCRIBED, Cell, Study, claims_about, kept_for, short, uses
from mptcplab.results import Bundle, digest, done_beside

Json = dict[str, Any]


@dataclass(frozen=True)
class Statement:
    """A claim, with its comparisons that concern one experiment."""

    claim: Claim
    compared: Sequence[Compared]


@dataclass(frozen=True)
class Publication:
    """The claims about an experiment. ``experiments`` holds it and those that the claims refer to,
    resolved.
    """

    paper: Paper
    #: The name in the catalogue.
    name: str
    claims: Sequence[Claim]
    experiments: Mapping[str, Json]

    @classmethod
    def about(cls, name: str) -> Publication | None:
        """Returns the publication about an experiment of the catalogue; None if there are no claims
        about it.
        """
        claims = claims_about(name)
        folder = name.partition("/")[0]
        members = {member.name: member for member in catalogue(folder)} if claims else {}
        if name not in members:
            return None
        looked_at = [one for one in members if one == name or any(uses(claim, short(one)) for claim in claims)]
        return cls(load(folder), name, claims, {one: members[one].resolve().data for one in looked_at})

    def is_about(self, bundle: Bundle) -> bool:
        """Returns whether a run used the description of the catalogue without changes."""
        return bool(bundle.record["digest"] == digest(self.experiments[self.name]))

    @cached_property
    def needed(self) -> dict[str, Json]:
        """Returns the resolved experiments that comparisons with this one need."""
        nothing = Side(Arm("then", SIMULATOR), {}, {})
        every = [one for statement in self.statements(nothing) for one in statement.compared]
        return {
            name: experiment
            for name, experiment in self.experiments.items()
            if any(_concerns(one, short(name)) for one in every)
        }

    def beside(self, bundle: Bundle) -> Side:
        """Returns a run of this experiment with done runs of the other needed experiments from the
        same directory.
        """
        found = {name: self._like(bundle, name) for name in self.needed if name != self.name}
        others = {name: other for name, other in found.items() if other is not None}
        return Side.of(bundle, others, {name: f"run {name} too" for name in found if name not in others})

    def _like(self, bundle: Bundle, name: str) -> Bundle | None:
        """Returns the latest run of another experiment in the same directory and
        on the same stack.
        """
        arm, others = arm_of(bundle), done_beside(bundle, self.experiments[name])
        return next((other for other in others if arm_of(other) == arm), None)

    def statements(self, side: Side) -> list[Statement]:
        """Returns the result of a side's runs for each claim."""
        cells = {name: self._cell(name, side) for name in self.experiments}
        of_key = {cell.key: cell for cell in cells.values()}
        study = Study(
            self.paper,
            self.claims,
            [side.arm],
            of_key,
            [],
            quick=True,
            rankings=[],
            tables=[],
            published={},
            ranked_in=[],
        )
        seen = {cells[name].key: [self._observed(name, bundle)] for name, bundle in side.runs.items()}
        every = {claim.id: compare(study, seen, claim, side.arm, AS_DESCRIBED) for claim in self.claims}
        here = short(self.name)
        return [Statement(claim, [one for one in every[claim.id] if _concerns(one, here)]) for claim in self.claims]

    def _cell(self, name: str, side: Side) -> Cell:
        run = side.runs.get(name)
        why_not = side.why_not.get(name, "not run") if run is None else None
        if run is not None and run.status != "done":
            why_not = f"the run is {run.status}"
        return Cell(side.arm, AS_DESCRIBED, short(name), self.experiments[name], Chosen(None, why_not))

    def _observed(self, name: str, bundle: Bundle) -> Observation:
        return observe(bundle.path, kept_for(self.claims, short(name))).of(self.experiments[name])


def _concerns(one: Compared, name: str) -> bool:
    """Returns whether a comparison needs an experiment. A comparison of a trend or a combination
    needs several.
    """
    return any(fnmatchcase(name, pattern) for pattern in (one.on, one.over) if pattern is not None)
