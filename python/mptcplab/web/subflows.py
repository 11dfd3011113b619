"""Which path each subflow of a run takes, while the run goes on.

A back-end tells the addresses of subflows only when a run has ended. Until then, they follow from
what the links have carried: a subflow takes no path that has a link which carried less than the
subflow received.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mptcplab.plots.colours import natural, numbers_of_links

Resolved = Mapping[str, Any]
Values = Mapping[str, Mapping[str, float]]
Json = dict[str, Any]

#: A path is ruled out if a subflow received this much more than one of its links carried: a part,
#: and bytes for samples that are not taken at one instant.
BEYOND, BEYOND_BYTES = 1.02, 20_000


#: The states of a subflow by their gauges: the value, and what is said when it enters and leaves.
STATES = {
    "alive": (0.0, "has closed", "is open again"),
    "backup": (1.0, "is backup now", "is regular again"),
    "stale": (1.0, "is stale: it makes no progress", "makes progress again"),
}


@dataclass(frozen=True)
class NamedPath:
    """A path of a flow, with the link that tells it apart from the others, if one does."""

    number: int
    #: The entities of its links in the samples, in the direction of the flow.
    links: tuple[str, ...]
    #: The interfaces at its ends: at the sender and at the receiver.
    ends: tuple[str, str]
    link: str | None

    @property
    def name(self) -> str:
        """The link, or the number of the path."""
        return self.link or f"path {self.number + 1}"


def named_paths(flow: Resolved) -> list[NamedPath]:
    """Returns the paths of a flow. Their names are their first links if these differ, or their last
    ones.
    """
    hops = [[hop["link"] for hop in path["hops"]] for path in flow["paths"]]
    ways: list[list[str | None]] = [
        [one[0] if one else None for one in hops],
        [one[-1] if one else None for one in hops],
    ]
    names = next((way for way in ways if None not in way and len(set(way)) == len(way)), [None] * len(hops))
    return [
        NamedPath(
            number,
            tuple(f"links.{hop['link']}.{hop['direction']}" for hop in path["hops"]),
            (path["local"], path["remote"]),
            names[number],
        )
        for number, path in enumerate(flow["paths"])
    ]


@dataclass
class _Subflow:
    """A subflow, the paths that it may take, and what had been carried before it was seen."""

    entity: str
    id: int
    candidates: list[NamedPath]
    carried: dict[str, float]
    received: dict[str, float]
    is_told: bool = False
    #: The states that it is in.
    states: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """Its number and its flow."""
        return f"subflow {self.id} of {self.entity.removeprefix('flows.').rpartition('.subflows.')[0]}"

    def changes(self, values: Values) -> list[str]:
        """Returns what has happened to it, in words, and takes note of it."""
        metrics = values.get(self.entity, {"alive": 0.0})
        now = frozenset(state for state in STATES if metrics.get(state, 0.0) == STATES[state][0])
        before, self.states = self.states, now
        entered = [STATES[state][1] for state in STATES if state in now - before]
        return entered + [STATES[state][2] for state in STATES if state in before - now]


class Subflows:
    """Tells the subflows of a run: which there are, and which path each takes."""

    def __init__(self, experiment: Resolved) -> None:
        self._paths = {flow["id"]: named_paths(flow) for flow in experiment["flows"]}
        #: The first subflow of these takes the first path.
        self._primary = {flow["id"] for flow in experiment["flows"] if flow.get("handshake") == "primary"}
        self._colours = numbers_of_links(link["id"] for link in experiment["links"])
        self._known: dict[str, _Subflow] = {}
        self._before: Values = {}

    def messages(self, time_s: float, values: Values) -> Iterator[Json]:
        """Yields a message for each subflow that is new, and for each whose path is now known, and
        notes on what happened to them.
        """
        for entity in sorted((name for name in values if ".subflows." in name), key=natural):
            if entity not in self._known:
                self._known[entity] = begun = self._begun(entity)
                yield self._message(begun)
                over = f" over {begun.candidates[0].name}" if begun.is_told else ""
                yield _note(time_s, f"{begun.name} has opened{over}")
        for subflow in self._known.values():
            self._rule_out(subflow, values)
            if len(subflow.candidates) == 1 and not subflow.is_told:
                yield self._message(subflow)
                yield _note(time_s, f"{subflow.name} goes over {subflow.candidates[0].name}")
            yield from (_note(time_s, f"{subflow.name} {what}") for what in subflow.changes(values))
        self._before = values

    def corrected(self, flows: list[Json]) -> Iterator[Json]:
        """Yields a message for each subflow whose path the result of a run tells, if it is not the
        one that was told.
        """
        for flow in flows:
            paths = {path.ends: path for path in self._paths.get(flow["id"], [])}
            for reported in flow.get("subflows") or []:
                path = paths.get((reported.get("interface"), reported.get("remote_interface")))
                known = self._known.get(f"flows.{flow['id']}.subflows.{reported['id']}")
                if path is not None and known is not None and known.candidates != [path]:
                    known.candidates = [path]
                    yield self._message(known)

    def _begun(self, entity: str) -> _Subflow:
        flow, _, number = entity.removeprefix("flows.").rpartition(".subflows.")
        paths = self._paths.get(flow, [])
        is_first = number == "0" and flow in self._primary
        carried = {link: metrics["wire_bytes"] for link, metrics in self._before.items() if "wire_bytes" in metrics}
        received = {name: self._before[name].get("bytes_received", 0.0) for name in self._known if name in self._before}
        return _Subflow(entity, int(number), paths[:1] if is_first else list(paths), carried, received)

    def _rule_out(self, subflow: _Subflow, values: Values) -> None:
        now = values.get(subflow.entity, {}).get("bytes_received")
        if len(subflow.candidates) < 2 or now is None:
            return
        possible = [path for path in subflow.candidates if self._is_possible(subflow, path, now, values)]
        # Counters of programs that are read at different times may contradict each other.
        subflow.candidates = possible or subflow.candidates

    def _is_possible(self, subflow: _Subflow, path: NamedPath, received: float, values: Values) -> bool:
        for link in path.links:
            wire = values.get(link, {}).get("wire_bytes")
            if wire is None:
                return True
            others = sum(
                values.get(other.entity, {}).get("bytes_received", 0.0) - subflow.received.get(other.entity, 0.0)
                for other in self._known.values()
                if other is not subflow and len(other.candidates) == 1 and link in other.candidates[0].links
            )
            if received + max(0.0, others) > BEYOND * (wire - subflow.carried.get(link, 0.0)) + BEYOND_BYTES:
                return False
        return True

    def _message(self, subflow: _Subflow) -> Json:
        subflow.is_told = len(subflow.candidates) == 1
        flow = subflow.entity.removeprefix("flows.").rpartition(".subflows.")[0]
        path = subflow.candidates[0] if len(subflow.candidates) == 1 else None
        link = path.link if path else None
        return {
            "kind": "subflow",
            "entity": subflow.entity,
            "flow": flow,
            "label": f"{path.name}, subflow {subflow.id}" if path else f"subflow {subflow.id}",
            "link": link,
            "colour": self._colours[link] if link else subflow.id,
            "interface": _of_its_own(path, self._paths[flow]) if path else None,
        }


def _note(time_s: float, text: str) -> Json:
    return {"kind": "note", "at_s": time_s, "text": text}


def _of_its_own(path: NamedPath, paths: list[NamedPath]) -> str | None:
    """Returns the interface at an end of a path that no other path has, of the receiver before that
    of the sender.
    """
    for end in (1, 0):
        if sum(other.ends[end] == path.ends[end] for other in paths) == 1:
            return path.ends[end]
    return None
