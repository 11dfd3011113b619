"""The usable parts of the network and their rates, as events change them."""

from __future__ import annotations

from dataclasses import dataclass, field

from mptcplab.capacities import capacity_bps
from mptcplab.results.entities import Json


@dataclass
class NetworkState:
    """The unusable interfaces, addresses and links, and the rate of each link
    direction in bit/s.
    """

    down: set[str] = field(default_factory=set)
    without_address: set[str] = field(default_factory=set)
    cut: set[str] = field(default_factory=set)
    rates: dict[tuple[str, str], float | None] = field(default_factory=dict)

    @classmethod
    def whole(cls, resolved: Json) -> NetworkState:
        """Returns the state with everything up, at the rates of the description."""
        state = cls()
        for link in resolved["links"]:
            for direction in ("forward", "backward"):
                state.rates[link["id"], direction] = _rate(link[direction])
        return state

    @classmethod
    def initial(cls, resolved: Json) -> NetworkState:
        """Returns the state before all events."""
        state = cls.whole(resolved)
        state.down = {interface["id"] for interface in resolved["interfaces"] if not interface["up"]}
        return state

    def after(self, action: Json) -> NetworkState:
        """Returns the state after an action."""
        state = NetworkState(self.down.copy(), self.without_address.copy(), self.cut.copy(), self.rates.copy())
        state._apply(action)
        return state

    def _apply(self, action: Json) -> None:
        """Applies an action. Actions that do not affect connectivity change nothing."""
        match action["kind"]:
            case "interface_down":
                self.down.add(action["interface"])
            case "interface_up":
                self.down.discard(action["interface"])
            case "address_remove":
                self.without_address.add(action["interface"])
            case "address_add":
                self.without_address.discard(action["interface"])
            case "link_down":
                self.cut.add(action["link"])
            case "link_up":
                self.cut.discard(action["link"])
            case "set_link":
                for direction in ("forward", "backward"):
                    self.rates[action["link"], direction] = _rate(action[direction])


def _rate(direction: Json) -> float | None:
    """Returns the rate of a direction in bit/s. A trace counts with its mean rate."""
    rate = capacity_bps(direction["rate_bps"], direction["trace"])
    return None if rate is None else float(rate)
