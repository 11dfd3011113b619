"""Which links are down, by the state of the ports at their ends."""

from __future__ import annotations

from collections.abc import Mapping

from mptcplab.controller.network import Network


class LinkStates:
    """The state of each port of the switches. A link is down while a port at one of its ends is."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._down: set[tuple[str, int]] = set()

    @property
    def down(self) -> set[str]:
        """The links that are down."""
        return {self._network.port_by_number[port].link for port in self._down}

    def set_all(self, switch: str, is_up: Mapping[int, bool]) -> list[tuple[str, bool]]:
        """Records all ports of a switch. Returns the links that changed, each with whether it is
        up.
        """
        found = (self.set(switch, number, up) for number, up in is_up.items())
        return [change for change in found if change is not None]

    def set(self, switch: str, number: int, is_up: bool) -> tuple[str, bool] | None:
        """Records a port. Returns its link and whether that is up, if this has changed."""
        port = self._network.port_by_number.get((switch, number))
        if port is None:
            return None
        before = port.link in self.down
        if is_up:
            self._down.discard((switch, number))
        else:
            self._down.add((switch, number))
        after = port.link in self.down
        return (port.link, not after) if before != after else None
