"""Numbers of entities, from which their colours follow: an entity has one colour in all figures of
a run.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from mptcplab.plots.look import PALETTE
from mptcplab.results import RunData, Subflow


def in_order(names: Iterable[str]) -> list[str]:
    """Returns names in the order that people expect: ``n2`` before ``n10``."""
    return sorted(set(names), key=natural)


def natural(name: str) -> list[tuple[str, int]]:
    """Returns a key by which names sort with their numbers as numbers."""
    return [(text, int(number or 0)) for text, number in re.findall(r"(\D*)(\d*)", name)]


def links(run: RunData) -> dict[str, int]:
    """Returns the number of each link by its id."""
    sampled = [path.split(".", 1)[1].rpartition(".")[0] for path in run.samples.entities("links.")]
    return numbers_of_links([*run.links, *sampled])


def numbers_of_links(ids: Iterable[str]) -> dict[str, int]:
    """Returns the number of each link by its id: its place among their names."""
    return {name: number for number, name in enumerate(in_order(ids))}


def flows(run: RunData) -> dict[str, int]:
    """Returns the number of each flow by its id: after those of the links, if there are enough
    colours for both.
    """
    return numbers_of_flows(run.flows, links=len(run.links))


def numbers_of_flows(ids: Collection[str], *, links: int) -> dict[str, int]:
    """Returns the number of each flow by its id, beside that many `links`."""
    first = links if links + len(ids) <= len(PALETTE) else 0
    return {name: first + number for number, name in enumerate(in_order(ids))}


def address_pairs(
    run: RunData, subflows: Sequence[Subflow], names: dict[frozenset[str], str]
) -> dict[frozenset[str], int]:
    """Returns the number of each pair of addresses, in the order of their names.

    It is that of the first link of the pair's path if each pair has its own, or that of the last
    one.
    """
    pairs = sorted(dict.fromkeys(subflow.addresses for subflow in subflows), key=lambda pair: natural(names[pair]))
    of_links = links(run)
    firsts = {s.addresses: s.link or _link_of(run, s.interface) for s in subflows}
    lasts = {s.addresses: _link_of(run, s.remote_interface) for s in subflows}
    for ends in (firsts, lasts):
        used = [ends[pair] for pair in pairs]
        if len(set(used)) == len(pairs) and all(link in of_links for link in used):
            return {pair: of_links[link] for pair, link in zip(pairs, used, strict=True) if link is not None}
    return {pair: number for number, pair in enumerate(pairs)}


def _link_of(run: RunData, interface: str | None) -> str | None:
    found = (one["link"] for one in run.resolved["interfaces"] if one["id"] == interface)
    return next(found, None)
