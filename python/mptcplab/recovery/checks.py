"""Every answer of a strategy is checked before it reaches a switch or the simulator."""

from __future__ import annotations

from collections.abc import Mapping

from mptcplab.errors import SpecError, first_few
from mptcplab.paths import Way
from mptcplab.recovery.strategy import Detour, Network, PathKey, Reaction, Strategy
from mptcplab.user_classes import reporting


class Checked(Strategy):
    """A strategy whose answers are checked. Raises SpecError for a way that has a loop or does not
    arrive.
    """

    def __init__(self, name: str, strategy: Strategy, file: str | None) -> None:
        self.name = name
        self.strategy = strategy
        self._file = file
        after_ns = strategy.link_returns_after_ns
        if after_ns is not None and (type(after_ns) is not int or after_ns < 0):
            raise SpecError(f"{name}: link_returns_after_ns is {after_ns!r}", allowed="None, or a whole number from 0")
        self.link_returns_after_ns = after_ns

    def reserves(self, network: Network) -> Mapping[str, int]:
        with reporting(f"{self.name}: reserves", self._file):
            reserved = dict(self.strategy.reserves(network))
        for link, units in reserved.items():
            if link not in network.graph.edges or type(units) is not int or units < 0:
                allowed = f"a whole number from 0 for each of {first_few(list(network.graph.edges))}"
                raise SpecError(f"{self.name}: reserves: found {units!r} for {link!r}", allowed=allowed)
        return reserved

    def prepare(self, network: Network) -> Mapping[tuple[PathKey, str], Detour]:
        with reporting(f"{self.name}: prepare", self._file):
            detours = dict(self.strategy.prepare(network))
        for place, detour in detours.items():
            try:
                key, link = place
            except (TypeError, ValueError) as error:
                raise SpecError(f"{self.name}: prepare: found {place!r}", allowed="((FLOW, INDEX), LINK)") from error
            self._check_key("prepare", network, key)
            if link not in network.graph.edges:
                allowed = first_few(list(network.graph.edges))
                raise SpecError(f"{self.name}: prepare: unknown link {link!r}", allowed=allowed)
            self._check(f"prepare: around {link}", network, key, detour, network.down | {link})
        return detours

    def failed(self, network: Network, link: str) -> Reaction:
        with reporting(f"{self.name}: failed", self._file):
            reaction = self.strategy.failed(network, link)
        return self._checked(f"failed: {link}", network, reaction)

    def repaired(self, network: Network, link: str) -> Reaction:
        with reporting(f"{self.name}: repaired", self._file):
            reaction = self.strategy.repaired(network, link)
        return self._checked(f"repaired: {link}", network, reaction)

    def _checked(self, hook: str, network: Network, reaction: Reaction) -> Reaction:
        if not isinstance(reaction, Reaction) or not isinstance(reaction.detours, Mapping):
            raise SpecError(f"{self.name}: {hook}: the answer is {reaction!r}", allowed="a Reaction with a mapping")
        if type(reaction.after_ns) is not int or reaction.after_ns < 0:
            raise SpecError(f"{self.name}: {hook}: after_ns is {reaction.after_ns!r}", allowed="a whole number from 0")
        for key, detour in reaction.detours.items():
            self._check_key(hook, network, key)
            self._check(hook, network, key, detour, network.down)
        return reaction

    def _check_key(self, hook: str, network: Network, key: object) -> None:
        if key not in network.ways:
            allowed = first_few([repr(one) for one in network.ways])
            raise SpecError(f"{self.name}: {hook}: unknown path {key!r}", allowed=allowed)

    def _check(self, hook: str, network: Network, key: PathKey, detour: Detour, down: frozenset[str]) -> None:
        flow, index = key
        place = f"{self.name}: {hook}: flows.{flow} path {index}"
        if not isinstance(detour, Detour):
            raise SpecError(f"{place}: the answer is {detour!r}", allowed="a Detour")
        source, target = network.ends[key]
        _check_way(f"{place}: there", network, detour.there, (source, target), down)
        _check_way(f"{place}: back", network, detour.back, (target, source), down)


def _check_way(place: str, network: Network, way: Way, ends: tuple[str, str], down: frozenset[str]) -> None:
    if not isinstance(way, tuple):
        raise SpecError(f"{place}: found {way!r}", allowed="a tuple of links")
    told = " ".join(map(str, way)) or "no link"
    unknown = [link for link in way if link not in network.graph.edges]
    if unknown:
        raise SpecError(f"{place}: unknown link {unknown[0]!r}", allowed=first_few(list(network.graph.edges)))
    try:
        nodes = network.graph.nodes_of(way, ends[0])
    except ValueError as error:
        raise SpecError(f"{place}: {told}: {error}", allowed=f"links that follow each other from {ends[0]}") from error
    if nodes[-1] != ends[1]:
        raise SpecError(f"{place}: {told}: ends at {nodes[-1]}", allowed=f"a way to {ends[1]}")
    twice = [node for index, node in enumerate(nodes) if node in nodes[:index]]
    if twice:
        raise SpecError(f"{place}: {told}: passes {twice[0]} twice", allowed="a way without a loop")
    broken = [link for link in way if link in down]
    if broken:
        raise SpecError(f"{place}: {told}: {broken[0]} is down", allowed="a way over links that work")
