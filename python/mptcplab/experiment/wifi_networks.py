"""The Wi-Fi networks of a description: which links are stations, and which end of them is the
access point.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mptcplab.document import wrong
from mptcplab.experiment import directions, wifi
from mptcplab.experiment.validation import at

if TYPE_CHECKING:
    from mptcplab.experiment import resolved_form as form
    from mptcplab.experiment.description import Experiment
    from mptcplab.experiment.links import Link
    from mptcplab.topology import Network


class WifiNetworks:
    """The media of a description that have `wifi`, with the links on them as their stations."""

    def __init__(self, experiment: Experiment, network: Network) -> None:
        """Raises SpecError for a station without such a medium, and for a medium with several
        access points.
        """
        self._networks = {name: medium.wifi for name, medium in experiment.media.items() if medium.wifi is not None}
        self._links = experiment.links
        self._tree = experiment.tree
        #: The directions to the access point, of the links that are stations.
        self.uplinks = self._uplinks_in(network)

    def resolved(self) -> list[form.Access]:
        """Returns the resolved form of the networks."""
        return [wifi.resolved(name, one, self._links, self.uplinks) for name, one in self._networks.items()]

    def queue_of_downlink(self, link: str, side: directions.Side) -> form.Queue:
        """Returns the queue of a station at its access point. Raises SpecError if the link has its
        own for `side`.
        """
        settings = self._links[link]
        if directions.is_for_side(settings.queue, side):
            problem = f"queue of {side}: the access point queues its packets"
            raise wrong(self._tree, ("links", link, "queue", side), problem, "wifi: {ap_queue: ..} of the medium")
        return wifi.ap_queue(self._networks[settings.medium or ""])

    def _uplinks_in(self, network: Network) -> dict[str, directions.Side]:
        uplinks: dict[str, directions.Side] = {}
        access_points: dict[str, str] = {}
        for name, link in self._links.items():
            medium = link.medium or ""
            if medium not in self._networks:
                if link.wifi is not None:
                    problem = "the link is on no Wi-Fi medium"
                    raise wrong(self._tree, ("links", name, "wifi"), problem, "a medium with wifi")
                continue
            self._check_station(name, link, medium)
            first, second = (port.node for port in network.links[name])
            uplinks[name] = wifi.uplink(network.kinds[first], network.kinds[second])
            access_point = second if uplinks[name] == "forward" else first
            if access_points.setdefault(medium, access_point) != access_point:
                problem = f"{medium} has two access points, {access_points[medium]} and {access_point}"
                raise wrong(self._tree, ("links", name, "medium"), problem, "one access point to a medium")
        return uplinks

    def _check_station(self, name: str, link: Link, medium: str) -> None:
        if link.rate is not None:
            problem = f"the link has a rate of its own, but {medium} is Wi-Fi"
            raise wrong(self._tree, ("links", name, "rate"), problem, "wifi: {rate: ..}")
        if link.mtu is not None and int(link.mtu) > wifi.LARGEST_PACKET_BYTES:
            problem = f"a frame of Wi-Fi carries no packet of {link.mtu}"
            raise wrong(self._tree, ("links", name, "mtu"), problem, f"at most {wifi.LARGEST_PACKET_BYTES} bytes")
        if link.wifi is not None:
            with at(self._tree, "links", name, "wifi"):
                wifi.check_station(link.wifi, self._networks[medium])
