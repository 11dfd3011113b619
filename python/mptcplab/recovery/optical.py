"""Recovery in the optical layer: the fibre below a link is protected, and the link returns by
itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from mptcplab.paths import NoWaysError, shortest
from mptcplab.recovery.strategy import Network, Strategy


@dataclass(frozen=True)
class Optical(Strategy):
    """Brings a link back a fixed time after its failure, whatever the failure, with the same way
    and capacity.

    Protection is 1+1: for each link of each path, the cheapest way around that link keeps one unit
    of capacity free. Links without a way around reserve nothing, because their protection lies
    outside of the described network.
    """

    link_returns_after_ns: int | None = 50_000_000

    summary = "the optical layer restores a failed link after 50 ms"

    def reserves(self, network: Network) -> Mapping[str, int]:
        reserved: Counter[str] = Counter()
        for link, paths in Counter(link for way in network.ways.values() for link in way).items():
            try:
                [around] = shortest(network.graph.without({link}), *network.graph.edges[link].ends, 1)
            except NoWaysError:
                continue
            reserved.update(dict.fromkeys(around, paths))
        return dict(sorted(reserved.items()))
