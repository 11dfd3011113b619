"""Machines on which hosts are, other than the one that runs the experiment."""

from __future__ import annotations

import ipaddress
import shlex
from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from mptcplab.document import wrong
from mptcplab.experiment.base import Model, described, nearest_hint

if TYPE_CHECKING:
    from mptcplab.experiment import resolved_form as form
    from mptcplab.experiment.description import Experiment

#: The address of a machine of the first form has to be given. One of the second form has none.
COMMAND, GUEST = "exec:", "qemu:"
#: How all forms begin.
FORMS = ("ssh://", GUEST, COMMAND)


class Machine(Model):
    """A machine for hosts, other than the one that runs the experiment."""

    at: str = Field(examples=["ssh://root@192.0.2.7"])
    """How mptcplab starts an agent there: `ssh://[USER@]HOST[:PORT]`, `qemu:SERIES` or
    `qemu:PATH/bzImage` for a guest with another kernel on this machine, or `exec:COMMAND` for a
    command that runs the program that is appended to it."""
    address: str | None = Field(None, examples=["192.0.2.7"])
    """The IP address at which the machine receives UDP datagrams with the packets of its hosts. The
    default is that of the SSH connection. A guest needs none."""
    touch: bool = False
    """Whether hosts may use devices of the machine (`device` of an interface). An interface then sends
    and receives in the machine's network."""

    @model_validator(mode="after")
    def _can_be_reached(self) -> Machine:
        if not self.at.startswith(FORMS):
            allowed = "ssh://[USER@]HOST[:PORT], qemu:SERIES, qemu:PATH/bzImage or exec:COMMAND"
            raise described(f"'{self.at}' is not a machine", allowed, field="at")
        if self.at.startswith(COMMAND):
            _require_command(self.at.removeprefix(COMMAND))
        if self.at.startswith(GUEST) and self.address is not None:
            raise described("a guest has no address", "a guest without address", field="address")
        if self.at.startswith(GUEST) and self.touch:
            raise described("a guest has no devices of its own", "a guest without touch", field="touch")
        if self.address is None:
            if self.at.startswith(COMMAND):
                allowed = "the IP address at which it receives UDP datagrams, as in 192.0.2.7"
                raise described("the machine has no address", allowed, field="address")
            return self
        try:
            address = ipaddress.ip_address(self.address)
        except ValueError:
            address = None
        if address is None or address.is_unspecified or address.is_multicast:
            raise described(f"invalid address '{self.address}'", "an IP address, as in 192.0.2.7", field="address")
        return self


def _require_command(text: str) -> None:
    try:
        problem = "no command" if not shlex.split(text) else None
    except ValueError as error:
        problem = str(error)
    if problem:
        raise described(problem, "a command line, as in exec:docker exec -i c1", field="at")


def resolved(experiment: Experiment) -> dict[str, form.Machine]:
    """Returns the resolved machine of each host that has one. Refuses an unknown machine, and one
    without hosts.
    """
    machines = experiment.machines
    found: dict[str, form.Machine] = {}
    for name, host in experiment.hosts.items():
        if host.on is None:
            continue
        if host.on not in machines:
            problem = f"unknown machine '{host.on}'{nearest_hint(host.on, list(machines))}"
            raise wrong(
                experiment.tree, ("hosts", name, "on"), problem, ", ".join(machines) or "declare it under machines"
            )
        machine = machines[host.on]
        found[name] = {"id": host.on, "at": machine.at, "address": machine.address}
    for name in machines:
        if all(machine["id"] != name for machine in found.values()):
            raise wrong(experiment.tree, ("machines", name), "no host is on it", f"a host with on: {name}")
    return found
