"""What `mptcplab routing show` shows: each address of an uplink, and what it has of what it should
have.
"""

from __future__ import annotations

from typing import Any

from mptcplab.errors import PrivilegeError
from mptcplab.routing.changes import Record, ours_among
from mptcplab.routing.machine import DEFAULT, Endpoint, Interface, Machine, family_of
from mptcplab.routing.plan import Choice, Plan, planned, uplinks

SCHEMA = "mptcplab/routing/1"
NONE = "-"


def shown(choice: Choice) -> dict[str, Any]:
    """Returns ``schema addresses stale daemon``. Each of ``addresses`` has ``interface address
    gateway table rule routes endpoint``; the last three are ``yes``, ``missing`` or, for an
    endpoint, ``backup``, ``of another program`` or ``-`` where the kernel has no MPTCP. ``stale``
    is the number of rules and routes without an uplink, and ``daemon`` None if only root may know.
    """
    machine = Machine.read()
    plan = planned(machine, choice)
    addresses = [
        _address(machine, plan, interface, address)
        for interface, found in uplinks(machine, choice).items()
        for address in found
    ]
    return {
        "schema": SCHEMA,
        "addresses": addresses,
        "stale": len(machine.rules - plan.rules) + len(machine.routes - plan.routes),
        "daemon": _has_daemon(),
    }


def _address(machine: Machine, plan: Plan, interface: Interface, address: str) -> dict[str, Any]:
    family = family_of(address)
    wanted = {route for route in plan.routes if (route.table, route.family) == (interface.table, family)}
    gateway = next(route.gateway for route in wanted if route.destination == DEFAULT)
    has_rule = any((rule.source, rule.table) == (address, interface.table) for rule in machine.rules)
    return {
        "interface": interface.name,
        "address": address,
        "gateway": gateway or "the link",
        "table": interface.table,
        "rule": "yes" if has_rule else "missing",
        "routes": "yes" if wanted <= machine.routes else "missing",
        "endpoint": _endpoint(machine, address),
    }


def _endpoint(machine: Machine, address: str) -> str:
    if machine.endpoints is None:
        return NONE
    there = {number: one for number, one in machine.endpoints.items() if one.address == address}
    if not there:
        return "missing"
    if not ours_among(there, _record()):
        return "of another program"
    return "backup" if any(one.is_backup for one in there.values()) else "yes"


def _record() -> dict[int, Endpoint]:
    try:
        return Record.here().read()
    except PrivilegeError:
        return {}


def _has_daemon() -> bool | None:
    """Returns whether a daemon runs here; None if this user may not know."""
    try:
        return Record.here().has_daemon()
    except PrivilegeError:
        return None
