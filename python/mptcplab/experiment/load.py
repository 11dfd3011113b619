"""Description files: their families and members."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mptcplab.document import Node, read, wrong
from mptcplab.experiment.description import Experiment, MemberOf
from mptcplab.experiment.family import Combination, combinations, families, member_name, member_title, reference_labels
from mptcplab.experiment.overrides import Change
from mptcplab.experiment.resolve import Resolved, resolve


class Member:
    """One experiment of a file. Name and title cost little; the rest is read and resolved when it is asked for."""

    def __init__(self, wanted: MemberOf, name: str, title: str, reference: str | None) -> None:
        self._wanted = wanted
        self.name = name
        self.title = title
        self.reference = reference
        """The name of the member that ratios are taken to."""

    @property
    def assignment(self) -> Mapping[str, object]:
        """The parameters' values."""
        return self._wanted.combination.values

    @cached_property
    def experiment(self) -> Experiment:
        """The filled-in description; SpecError if something in it is wrong."""
        return Experiment.model_validate(self._wanted)

    def resolve(self) -> Resolved:
        """What every back-end gets; SpecError if something in the description is wrong."""
        return resolve(self.experiment)

    def __repr__(self) -> str:
        return f"Member({self.name!r})"


def members(path: str | Path, changes: Iterable[str] = ()) -> list[Member]:
    """All experiments of a description file, `changes` (each KEY=VALUE) made. Only names and titles are worked out yet.

    SpecError where the file cannot be read, a parameter is wrong, or two members have one name.
    """
    document = read(Path(path))
    wanted = [Change.parse(text) for text in changes]
    found = [member for family in families(document) for member in _members(family, wanted)]
    _check_names(found)
    return [member.member for member in found]


def load(path: str | Path, changes: Iterable[str] = ()) -> list[Member]:
    """All experiments of a description file, each of them validated."""
    found = members(path, changes)
    for member in found:
        member.experiment  # noqa: B018 (validates)
    return found


@dataclass(frozen=True)
class _Placed:
    """A member and where its name stands."""

    member: Member
    family: Node


def _members(family: Node, changes: list[Change]) -> list[_Placed]:
    for_members = []
    for change in changes:
        if change.is_parameter(family):
            family = change.on_family(family)
        else:
            for_members.append(change)
    all_of_them = combinations(family)
    names = {tuple(one.labels.items()): member_name(family, one) for one in all_of_them}
    return [_Placed(_member(family, one, all_of_them, names, tuple(for_members)), family) for one in all_of_them]


def _member(
    family: Node,
    one: Combination,
    all_of_them: list[Combination],
    names: Mapping[tuple[tuple[str, str], ...], str],
    changes: tuple[Change, ...],
) -> Member:
    labels = reference_labels(family, one, all_of_them)
    reference = None if labels is None else names[tuple(labels.items())]
    return Member(
        MemberOf(family, one, changes), names[tuple(one.labels.items())], member_title(family, one), reference
    )


def _check_names(found: list[_Placed]) -> None:
    seen: set[str] = set()
    for placed in found:
        if placed.member.name in seen:
            raise wrong(
                placed.family, ("name",), f"two experiments are named '{placed.member.name}'", "different names"
            )
        seen.add(placed.member.name)
