"""Makes all combinations of a SPEC and values of ``--set``, resolved and checked before any of them
runs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os.path import commonpath
from typing import TYPE_CHECKING, Any

from mptcplab.catalogue import find
from mptcplab.errors import MptcplabError, SpecError, Unsupported, UsageError
from mptcplab.recorded import Recorded
from mptcplab.results import check_metric, digest
from mptcplab.runner import choose
from mptcplab.sweep.factors import Factor, each_combination, split_settings

if TYPE_CHECKING:
    from mptcplab.experiment import Member

Json = dict[str, Any]
#: The value of each factor, as written, by the name of the factor.
Values = dict[str, str]

#: The factor if the experiments of a SPEC differ in more than their parameters.
EXPERIMENT = "experiment"


class WrongCombinations(MptcplabError):
    """Some combinations cannot run. The message names each with its reason."""

    exit_status = 2


@dataclass(frozen=True)
class Combination:
    """A combination of a sweep: its values and the resolved experiment."""

    values: Values
    experiment: Json


@dataclass(frozen=True)
class Sweep:
    """All combinations of some factors."""

    factors: list[Factor]
    combinations: list[Combination]

    @property
    def name(self) -> str:
        """The common beginning of the names of its experiments."""
        names = {combination.experiment["name"] for combination in self.combinations}
        return commonpath(names) or "sweep"

    @property
    def digest(self) -> str:
        """SHA-256, in hex, of the experiments without seeds."""
        asked = [repr(sorted(c.values.items())) + digest(c.experiment) for c in self.combinations]
        return hashlib.sha256("\n".join(asked).encode()).hexdigest()


def combinations_of(spec: str, settings: Mapping[str, str], backend: str, metrics: Sequence[str] = ()) -> Sweep:
    """Returns the full factorial over the values of ``settings`` and the parameters of ``spec``.

    ``settings`` maps a key to values separated by commas. All experiments must have the
    ``metrics``, each ``ENTITY.METRIC``. Raises UsageError, or WrongCombinations, which names all
    invalid combinations. If all fail for the same reason, raises that error.
    """
    values = split_settings(settings)
    listed: list[tuple[Values, Member | Recorded]] = []
    refused: list[tuple[Values, MptcplabError]] = []
    for changes in each_combination(values):
        chosen = {key: value for key, value in changes.items() if len(values[key]) > 1}
        try:
            listed += [(chosen, member) for member in find(spec, changes)]
        except SpecError as error:
            refused.append((chosen, error))
    found: list[Combination] = []
    for (chosen, member), own in zip(listed, _own_values(listed, values), strict=True):
        try:
            found.append(_checked(member, chosen | own, backend, metrics))
        except (SpecError, Unsupported) as error:
            refused.append((chosen | own, error))
    _refuse(refused, len(found) + len(refused))
    return Sweep(_factors(found), found)


def arms_by_value(specs: Sequence[str], values: Mapping[str, Sequence[str]]) -> list[Member | Recorded]:
    """Returns the experiments of all SPECs once for each combination of the values of ``--set``."""
    return [member for spec in dict.fromkeys(specs) for one in each_combination(values) for member in find(spec, one)]


def _own_values(listed: Sequence[tuple[Values, Member | Recorded]], set_keys: Mapping[str, object]) -> list[Values]:
    """Returns how the experiments differ apart from ``--set``: by the values of parameters, or by
    name.
    """
    assigned = [{} if isinstance(member, Recorded) else _parameters(member) for _, member in listed]
    names = dict.fromkeys(name for one in assigned for name in one)
    are_set = [name for name in names if name in set_keys or f"parameters.{name}" in set_keys]
    varying = [name for name in names if name not in are_set and len({one.get(name) for one in assigned}) > 1]
    if all(name in one for one in assigned for name in varying):
        own = [{name: one[name] for name in varying} for one in assigned]
        points = [tuple((chosen | values).items()) for (chosen, _), values in zip(listed, own, strict=True)]
        if len(set(points)) == len(points):
            return own
    picks = {tuple(chosen.items()) for chosen, _ in listed}
    for name in are_set:
        if len({(*c.items(), one.get(name)) for (c, _), one in zip(listed, assigned, strict=True)}) > len(picks):
            raise UsageError(f"--set {name}: a value of a sweep is one value, not a list; write --set {name}=1,2,3")
    return [{EXPERIMENT: member.name} for _, member in listed]


def _parameters(member: Member) -> Values:
    return {name: str(value) for name, value in member.assignment.items()}


def _checked(member: Member | Recorded, values: Values, backend: str, metrics: Sequence[str]) -> Combination:
    experiment = member.resolve().data
    for metric in metrics:
        check_metric(metric, experiment, "--find or --metric")
    choose([experiment], backend)
    return Combination(values, experiment)


def _refuse(refused: Sequence[tuple[Values, MptcplabError]], among: int) -> None:
    if not refused:
        return
    if len(refused) == among and len({str(error) for _, error in refused}) == 1:
        raise refused[0][1]
    lines = [f"  {in_words(values)}: {error}" for values, error in refused]
    raise WrongCombinations(
        "\n".join([f"{len(refused)} of {among} combinations cannot run; nothing was started", *lines])
    )


def in_words(values: Mapping[str, str]) -> str:
    """Formats values as text: ``links.wifi.queue=10p, flows.bulk.cc=lia``."""
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _factors(combinations: Sequence[Combination]) -> list[Factor]:
    names = dict.fromkeys(name for combination in combinations for name in combination.values)
    factors = [Factor(name, tuple(dict.fromkeys(c.values[name] for c in combinations))) for name in names]
    if not factors:
        raise UsageError("nothing varies; give values with commas, for example --set links.wifi.queue=10p,100p")
    return factors
