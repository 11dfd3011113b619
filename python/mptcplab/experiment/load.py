"""Reads description files: their families and members."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mptcplab.document import Node, read, wrong
from mptcplab.experiment.description import Experiment, MemberOf
from mptcplab.experiment.family import Combination, combinations, families, member_name, member_title, reference_labels
from mptcplab.experiment.family_metrics import FamilyMetric, family_metrics
from mptcplab.experiment.overrides import Change
from mptcplab.experiment.resolve import Resolved, resolve


@dataclass(frozen=True)
class FamilyOf:
    """Data that all members of a family share."""

    name: str
    metrics: list[FamilyMetric]


class Member:
    """An experiment of a file. Only name and title are computed at once; the rest is validated and
    resolved on demand.
    """

    def __init__(self, wanted: MemberOf, name: str, title: str, family: FamilyOf, reference: str | None) -> None:
        self._wanted = wanted
        self._family = family
        self.name = name
        self.title = title
        self.reference = reference
        """Name of the member that ratios are relative to, or None; then `why_no_reference` has the
        reason.
        """

    @property
    def family(self) -> str:
        """The name of its family, the common beginning of the names of the members. It is unique in
        a file.
        """
        return self._family.name

    @property
    def family_metrics(self) -> list[FamilyMetric]:
        """The metrics over the members of its family."""
        return self._family.metrics

    @property
    def why_no_reference(self) -> str | None:
        """The reason that there is no reference member, or None if there is one."""
        if self.reference is not None:
            return None
        node = self._wanted.template.child("reference")
        if node is None:
            return "the description names no reference"
        return f"{node.source.file or 'a change'} leaves out the reference"

    @property
    def template(self) -> Node:
        """The description of its family, with references."""
        return self._wanted.template

    def alone(self) -> Node:
        """Returns its description without the family: with references replaced. Profiles and
        generators remain.
        """
        return self._wanted.alone()

    @property
    def assignment(self) -> Mapping[str, object]:
        """The values of the parameters."""
        return self._wanted.combination.values

    @cached_property
    def experiment(self) -> Experiment:
        """The filled-in description. Raises SpecError if it is wrong."""
        return Experiment.model_validate(self._wanted)

    def resolve(self) -> Resolved:
        """Returns the resolved form. Raises SpecError if the description is wrong."""
        return resolve(self.experiment)

    def __repr__(self) -> str:
        return f"Member({self.name!r})"

    def _repr_html_(self) -> str:
        """Returns what a notebook shows."""
        from mptcplab.card import as_html  # the templates load only for a notebook

        return as_html(self.resolve().data)


def members(path: str | Path, changes: Mapping[str, str] | None = None) -> list[Member]:
    """Returns all experiments of a description file, with `changes` (path or parameter -> YAML)
    made.

    Only names and titles are computed; the rest is validated on demand. Raises SpecError if the
    file cannot be read, a parameter is wrong, or two members have the same name.
    """
    document = read(Path(path))
    wanted = [Change.parse(key, text) for key, text in (changes or {}).items()]
    described = [_Family.of(family, wanted) for family in families(document)]
    _check_names(described)
    shared = Counter(family.folder for family in described)
    return [member for family in described for member in family.members(unique=shared[family.folder] == 1)]


def load(path: str | Path, changes: Mapping[str, str] | None = None) -> list[Member]:
    """Returns all experiments of a description file, each validated."""
    found = members(path, changes)
    for member in found:
        member.experiment  # noqa: B018 (validates)
    return found


@dataclass(frozen=True)
class _Family:
    """A family after changes to its parameters, with the changes to its members that are still to
    be made, and its names.
    """

    template: Node
    changes: tuple[Change, ...]
    combinations: list[Combination]
    names: list[str]

    @classmethod
    def of(cls, template: Node, changes: list[Change]) -> _Family:
        of_members = []
        for change in changes:
            if change.is_parameter(template):
                template = change.on_family(template)
            else:
                of_members.append(change)
        found = combinations(template)
        return cls(template, tuple(of_members), found, [member_name(template, one) for one in found])

    @property
    def folder(self) -> str:
        """The common beginning of the names of all members, up to a slash. With one member, its
        name.
        """
        steps = zip(*(name.split("/") for name in self.names), strict=False)
        return "/".join(step[0] for step in itertools.takewhile(lambda step: len(set(step)) == 1, steps))

    def members(self, *, unique: bool) -> list[Member]:
        """Returns the members. A family whose folder is not unique is named by its first and last
        member.
        """
        last = self.names[-1].removeprefix(f"{self.folder}/")
        name = self.folder if unique and self.folder else f"{self.names[0]}..{last}"
        family = FamilyOf(name, family_metrics(self.template))
        return [self._member(place, family) for place in range(len(self.names))]

    def _member(self, place: int, family: FamilyOf) -> Member:
        one = self.combinations[place]
        labels = reference_labels(self.template, one, self.combinations)
        # `reference_labels` has checked that the reference is a combination of the family.
        reference = next((n for c, n in zip(self.combinations, self.names, strict=True) if c.labels == labels), None)
        wanted = MemberOf(self.template, one, self.changes)
        return Member(wanted, self.names[place], member_title(self.template, one), family, reference)


def _check_names(described: list[_Family]) -> None:
    seen: set[str] = set()
    for family in described:
        for name in family.names:
            if name in seen:
                raise wrong(family.template, ("name",), f"two experiments are named '{name}'", "different names")
            seen.add(name)
