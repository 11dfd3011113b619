"""Lists of preference: from each, the first choice that all back-ends concerned have; all else is a substitution.

A list stands in ``flows.*.cc``, ``scheduler``, ``path_manager`` and ``hosts.*.behaviour``. Only where the transport
makes use of it is it looked at, and a single name is never substituted. Where hosts differ in their stack, that of who
sends the data has the say; a path manager has to be there at both ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mptcplab import algorithms
from mptcplab.backends import OWN_CLASS, OWN_OBJECT, OWN_SIMULATOR, TwoStacks, sender

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from mptcplab.backends import Backend

Json = dict[str, Any]

#: Which lists of a flow its transport makes use of.
OF_TRANSPORT: dict[str, tuple[str, ...]] = {"tcp": ("cc",), "mptcp": ("cc", "scheduler", "path_manager")}


@dataclass(frozen=True)
class Choice:
    """An experiment whose lists hold one choice each.

    ``substitutions`` names every choice that was not the first: ``where``, ``asked``, ``used``, ``why``.
    ``missing`` has (list and its choices, why) for each list of which nothing is there; it is left as it was.
    """

    experiment: Json
    substitutions: list[Json] = field(default_factory=list)
    missing: list[tuple[str, str]] = field(default_factory=list)

    @property
    def substitute(self) -> Json | None:
        """The experiment that runs, if it is not what was asked for first."""
        return self.experiment if self.substitutions else None


@dataclass(frozen=True)
class Offer:
    """What a back-end has here: each feature that it names, with why it is not there, None if it is."""

    backend: str
    features: Mapping[str, str | None]
    #: What those hosts of an experiment have that run the kernel's stack beside others with ours, and which they are.
    beside: tuple[Offer, Callable[[Mapping[str, Any]], set[str]]] | None = None

    @classmethod
    def of(cls, backend: Backend) -> Offer:
        """Ask a back-end. That may take a while: once is enough for many experiments."""
        features = {one.feature: None if one.available else one.why for one in backend.probe()}
        beside = None
        if isinstance(backend, TwoStacks):
            beside = Offer.of(backend.of_kernel_hosts()), backend.kernel_hosts
        return cls(backend.name, features, beside)

    def at(self, host: str | None, experiment: Mapping[str, Any]) -> Offer:
        """What a host of an experiment has."""
        if self.beside is None:
            return self
        kernel, hosts = self.beside
        return kernel if host in hosts(experiment) else self

    def why_not(self, feature: str) -> str | None:
        """Why it is not there; None if it is."""
        _, _, name = feature.partition(" ")
        if feature not in self.features and algorithms.is_users(name):
            feature = _origin(name)
        return self.features.get(feature, f"the {self.backend} back-end does not know it")


def _origin(name: str) -> str:
    """The feature that running a user's own algorithm is."""
    if algorithms.is_in_crate(name):
        return OWN_SIMULATOR
    return OWN_OBJECT if algorithms.is_object(name) else OWN_CLASS


@dataclass(frozen=True)
class _List:
    """A list of preference at its place in an experiment: ``flows.bulk.cc`` with two names."""

    where: str
    kind: str
    choices: Sequence[Any]
    #: Whose stacks have the say; None where they make no difference.
    hosts: Sequence[str | None]


def first_choices(experiment: Mapping[str, Any], offers: Sequence[Offer]) -> Choice:
    """Reduce every list of a resolved experiment to the first choice that all back-ends offer.

    The experiment that is given stays as it is.
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
            # Each choice that was passed over had a reason; the first is what was asked for.
            why = reasons[0]
            substitutions.append({"where": listed.where, "asked": names[0], "used": names[at], "why": why})
    return Choice(_reduced(experiment, chosen), substitutions, missing)


def as_recorded(experiment: Mapping[str, Any], substitutions: Sequence[Json]) -> Choice:
    """What a run ran as, by the substitutions in its record: from each list what was used, else its first choice."""
    used = {one["where"]: one["used"] for one in substitutions}
    chosen: dict[str, Any] = {}
    for listed in _lists(experiment, ()):
        names = [_name(listed.kind, choice) for choice in listed.choices]
        chosen[listed.where] = listed.choices[names.index(used.get(listed.where, names[0]))]
    return Choice(_reduced(experiment, chosen), list(substitutions))


def _lists(experiment: Mapping[str, Any], offers: Sequence[Offer]) -> Iterator[_List]:
    """The lists that matter. Where the transport itself is not there, ``check`` refuses it, and nothing is chosen."""
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
            # Who only receives has no failures to meet.
            who = host["id"] if host["id"] in senders else None
            yield _List(f"hosts.{host['id']}.behaviour", "behaviour", host["behaviour"], [who])


def _why_not(kind: str, choice: Any, offers: Sequence[Offer]) -> str | None:
    """Why one of the back-ends does not have a choice; None if all have it."""
    reasons = (offer.why_not(feature) for feature in _features(kind, choice) for offer in offers)
    return next((why for why in reasons if why is not None), None)


def _features(kind: str, choice: Any) -> Iterator[str]:
    """A choice, and each parameter of an algorithm; what one of a user's own takes only that knows."""
    name = choice if isinstance(choice, str) else choice["name"]
    yield f"{kind} {name}"
    if (
        kind != "behaviour"
        and not isinstance(choice, str)
        and (not algorithms.is_users(name) or algorithms.is_object(name))
    ):
        yield from (f"{kind} {name} {parameter}" for parameter in choice if parameter != "name")


def _name(kind: str, choice: Any) -> str:
    """A choice as people write it, with the parameter that tells two of one name apart."""
    if isinstance(choice, str):
        return choice
    delay_ns = choice.get("path_manager_delay_ns")
    if kind == "behaviour" and choice["name"] == "mainline" and delay_ns:
        return f"mainline with path_manager_delay {delay_ns / 1e6:g}ms"
    return str(choice["name"])


def _reduced(experiment: Mapping[str, Any], chosen: Mapping[str, Any]) -> Json:
    """The experiment with lists of one choice where one was made."""

    def with_choices(group: str, fields: Sequence[str]) -> list[Json]:
        return [
            item | {name: [chosen[where]] for name in fields if (where := f"{group}.{item['id']}.{name}") in chosen}
            for item in experiment[group]
        ]

    hosts, flows = with_choices("hosts", ["behaviour"]), with_choices("flows", OF_TRANSPORT["mptcp"])
    return {**experiment, "hosts": hosts, "flows": flows}
