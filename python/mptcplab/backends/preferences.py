"""Preference lists: reduces each to the first choice that all back-ends support.

Lists are in ``flows.*.cc``, ``scheduler``, ``path_manager`` and ``hosts.*.behaviour``. Using
another choice than the first is a substitution. Lists that the transport does not use are ignored,
and a single name is never substituted. If the stacks of hosts differ, that of the sender of the
data decides; both hosts must support a path manager.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mptcplab import algorithms
from mptcplab.backends import OWN_CLASS, OWN_OBJECT, OWN_SIMULATOR, TwoStacks, sender
from mptcplab.behaviours import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from mptcplab.backends import Backend

Json = dict[str, Any]

#: The lists of a flow that each transport uses.
OF_TRANSPORT: dict[str, tuple[str, ...]] = {"tcp": ("cc",), "mptcp": ("cc", "scheduler", "path_manager")}


@dataclass(frozen=True)
class Choice:
    """An experiment whose lists have one choice each.

    `substitutions` has every choice that was not the first: `where`, `asked`, `used`, `why`.
    `missing` has (list and choice, reason) for each list without a supported choice, which stays
    unchanged.
    """

    experiment: Json
    substitutions: list[Json] = field(default_factory=list)
    missing: list[tuple[str, str]] = field(default_factory=list)

    @property
    def substitute(self) -> Json | None:
        """The experiment that runs, if it has substitutions; otherwise None."""
        return self.experiment if self.substitutions else None


@dataclass(frozen=True)
class Offer:
    """The features of a back-end on this machine: each with the reason that it
    is missing, or None.
    """

    backend: str
    features: Mapping[str, str | None]
    #: The offer of hosts with the kernel's stack, if others have the engine, and a function that
    #: returns these hosts.
    beside: tuple[Offer, Callable[[Mapping[str, Any]], set[str]]] | None = None

    @classmethod
    def of(cls, backend: Backend) -> Offer:
        """Returns the offer of a back-end. It can take a while, so call it once for many
        experiments.
        """
        features = {one.feature: None if one.available else one.why for one in backend.probe()}
        beside = None
        if isinstance(backend, TwoStacks):
            beside = Offer.of(backend.of_kernel_hosts()), backend.kernel_hosts
        return cls(backend.name, features, beside)

    def at(self, host: str | None, experiment: Mapping[str, Any]) -> Offer:
        """Returns the offer of a host of an experiment."""
        if self.beside is None:
            return self
        kernel, hosts = self.beside
        return kernel if host in hosts(experiment) else self

    def why_not(self, feature: str) -> str | None:
        """Returns the reason that a feature is missing, or None if it is available."""
        _, _, name = feature.partition(" ")
        if feature not in self.features and algorithms.is_users(name):
            feature = _origin(name)
        return self.features.get(feature, f"the {self.backend} back-end does not know it")


def _origin(name: str) -> str:
    """Returns the feature that a user-defined algorithm needs."""
    if algorithms.is_in_crate(name):
        return OWN_SIMULATOR
    return OWN_OBJECT if algorithms.is_object(name) else OWN_CLASS


@dataclass(frozen=True)
class _List:
    """A preference list at its place in an experiment, such as
    `flows.bulk.cc` with two names.
    """

    where: str
    kind: str
    choices: Sequence[Any]
    #: The hosts whose stacks decide; None if the stack makes no difference.
    hosts: Sequence[str | None]


def first_choices(experiment: Mapping[str, Any], offers: Sequence[Offer]) -> Choice:
    """Reduces every list of a resolved experiment to the first choice that all back-ends offer.

    Does not change `experiment` itself.
    """
    substitutions: list[Json] = []
    missing: list[tuple[str, str]] = []
    chosen: dict[str, Any] = {}
    for listed in _lists(experiment, offers):
        there = [offer.at(host, experiment) for offer in offers for host in listed.hosts]
        reasons = [_why_not(listed.kind, choice, there) for choice in listed.choices]
        at = next((index for index, why in enumerate(reasons) if why is None), None)
        names = [_name(listed.kind, choice) for choice in listed.choices]
        if at is None:
            missing += [(f"{listed.where}: {name}", why or "") for name, why in zip(names, reasons, strict=True)]
            continue
        chosen[listed.where] = listed.choices[at]
        if at > 0:
            # The recorded reason is that of the first choice.
            why = reasons[0]
            substitutions.append({"where": listed.where, "asked": names[0], "used": names[at], "why": why})
    return Choice(_reduced(experiment, chosen), substitutions, missing)


def as_recorded(experiment: Mapping[str, Any], substitutions: Sequence[Json]) -> Choice:
    """Returns the choices of a run by the substitutions in its record. Lists without one had their
    first choice.
    """
    used = {one["where"]: one["used"] for one in substitutions}
    chosen: dict[str, Any] = {}
    for listed in _lists(experiment, ()):
        names = [_name(listed.kind, choice) for choice in listed.choices]
        chosen[listed.where] = listed.choices[names.index(used.get(listed.where, names[0]))]
    return Choice(_reduced(experiment, chosen), list(substitutions))


def _lists(experiment: Mapping[str, Any], offers: Sequence[Offer]) -> Iterator[_List]:
    """Yields the lists that the transports use. A flow whose transport is missing has none, because
    `check` refuses it.
    """
    multipath: set[str] = set()
    senders: set[str] = set()
    for flow in experiment["flows"]:
        transport = flow["transport"]
        if any(offer.why_not(f"transport {transport}") is not None for offer in offers):
            continue
        for kind in OF_TRANSPORT.get(transport, ()):
            hosts = [flow["from"], flow["to"]] if kind == "path_manager" else [sender(flow)]
            yield _List(f"flows.{flow['id']}.{kind}", kind, flow[kind], hosts)
        if transport == "mptcp":
            multipath |= {flow["from"], flow["to"]}
            senders.add(sender(flow))
    for host in experiment["hosts"]:
        if host["id"] in multipath:
            # The behaviour of a host that only receives has no effect.
            who = host["id"] if host["id"] in senders else None
            yield _List(f"hosts.{host['id']}.behaviour", "behaviour", host["behaviour"], [who])


def _why_not(kind: str, choice: Any, offers: Sequence[Offer]) -> str | None:
    """Returns the reason that one of the back-ends lacks a choice, or None if all have it."""
    reasons = (offer.why_not(feature) for feature in _features(kind, choice) for offer in offers)
    return next((why for why in reasons if why is not None), None)


def _features(kind: str, choice: Any) -> Iterator[str]:
    """Yields the features of a choice: its name, and each parameter. The parameters of a
    user-defined algorithm are excluded, because only it knows them.
    """
    name = choice if isinstance(choice, str) else choice["name"]
    yield f"{kind} {name}"
    if (
        kind != "behaviour"
        and not isinstance(choice, str)
        and (not algorithms.is_users(name) or algorithms.is_object(name))
    ):
        yield from (f"{kind} {name} {parameter}" for parameter in choice if parameter != "name")


def _name(kind: str, choice: Any) -> str:
    """Returns a choice as written by people, with the parameter that distinguishes equal names."""
    if isinstance(choice, str):
        return choice
    delay_ns = choice.get("path_manager_delay_ns")
    if kind == "behaviour" and choice["name"] == DEFAULT and delay_ns:
        return f"{DEFAULT} with path_manager_delay {delay_ns / 1e6:g}ms"
    return str(choice["name"])


def _reduced(experiment: Mapping[str, Any], chosen: Mapping[str, Any]) -> Json:
    """Returns the experiment with each decided list reduced to its choice."""

    def with_choices(group: str, fields: Sequence[str]) -> list[Json]:
        return [
            item | {name: [chosen[where]] for name in fields if (where := f"{group}.{item['id']}.{name}") in chosen}
            for item in experiment[group]
        ]

    hosts, flows = with_choices("hosts", ["behaviour"]), with_choices("flows", OF_TRANSPORT["mptcp"])
    return {**experiment, "hosts": hosts, "flows": flows}
