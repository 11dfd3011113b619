"""Recovery below the transport: what the network does when a link fails.

A strategy is one object with two users. The resolution of a description asks it over the schedule
and writes what it answers as actions of the simulator; the controller of a real network asks it
when a switch reports a failure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mptcplab.errors import SpecError
from mptcplab.recovery.checks import Checked
from mptcplab.recovery.resolved import ends_of, links_of, network_of, reserved_bps
from mptcplab.recovery.strategy import (
    PORT_STATUS_NS,
    Detour,
    Network,
    PathKey,
    Reaction,
    Rerouting,
    Strategy,
    both_directions,
)
from mptcplab.user_classes import Shipped, check_parameters, class_named, reporting

#: The strategies by their names in descriptions.
STRATEGIES: Shipped[Strategy] = Shipped(
    __name__,
    none="none.NoRecovery",
    optical="optical.Optical",
    ip_preinstalled="ip_preinstalled.IpPreinstalled",
    ip_reactive="ip_reactive.IpReactive",
    transport="transport.Transport",
)


def strategy(name: str, parameters: Mapping[str, Any] | None = None, code: Sequence[Mapping[str, str]] = ()) -> Checked:
    """Returns a strategy of the table, or the one of a user, `./FILE.py:CLASS`, whose text is in
    `code`.

    `code` has the form of `user_code` of a resolved experiment. Raises SpecError for a strategy
    that cannot be used, NotAllowed for code that the user has not allowed.
    """
    found, file = class_named(name, STRATEGIES, Strategy, code, "control.recovery")
    given = dict(parameters or {})
    check_parameters(found, given, f"control.recovery: {name}")
    for parameter, value in given.items():
        if file is None and (type(value) is not int or value < 0):
            raise SpecError(f"control.recovery: {name}.{parameter}: found {value!r}", allowed="a whole number from 0")
    with reporting(f"control.recovery: {name}", file):
        made = found(**given)
    return Checked(name, made, file)


def strategy_of(experiment: Mapping[str, Any], name: str) -> Checked:
    """Returns a strategy by its name for a resolved experiment. That of `control.recovery` has the
    parameters given there, any other one has its defaults.

    Raises SpecError and NotAllowed as `strategy` does.
    """
    first = experiment["control"]["recovery"]
    return strategy(name, first["parameters"] if name == first["strategy"] else {}, experiment["user_code"])


__all__ = [
    "PORT_STATUS_NS",
    "STRATEGIES",
    "Checked",
    "Detour",
    "Network",
    "PathKey",
    "Reaction",
    "Rerouting",
    "Strategy",
    "both_directions",
    "ends_of",
    "links_of",
    "network_of",
    "reserved_bps",
    "strategy",
    "strategy_of",
]
