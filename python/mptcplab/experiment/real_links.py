"""Real links: which devices of machines they join, and what cannot be asked of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mptcplab.document import wrong
from mptcplab.experiment.names import expanded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mptcplab.document import FieldPath
    from mptcplab.experiment import resolved_form as form
    from mptcplab.experiment.description import Experiment
    from mptcplab.topology import Network, Port


def devices(experiment: Experiment, network: Network) -> dict[str, form.ParentDevice]:
    """Returns the device of each interface at a real link. Refuses a real link without two devices at
    hosts, a device without a real link, and what only an emulated link can do.
    """
    found: dict[str, form.ParentDevice] = {}
    for name, host in experiment.hosts.items():
        for interface, settings in host.interfaces.items():
            if settings.device is not None:
                found[f"{name}.{interface}"] = {"name": settings.device, "child": settings.child}
    for port in found:
        _check_device(experiment, network.ports[port])
    for name, link in experiment.links.items():
        if link.real:
            _check_link(experiment, name, network.links[name], found)
    _check_interfaces(experiment, found)
    return found


def _check_device(experiment: Experiment, port: Port) -> None:
    name, _, interface = port.id.partition(".")
    path = ("hosts", name, "interfaces", interface, "device")
    if not experiment.links[port.link].real:
        problem = f"'device' has no effect, because link {port.link} is emulated"
        raise wrong(experiment.tree, path, problem, f"real: true on {port.link}")
    machine = experiment.hosts[name].on
    if machine is not None and not experiment.machines[machine].touch:
        problem = f"hosts may not use devices of machine {machine}"
        raise wrong(experiment.tree, path, problem, f"touch: true on machines.{machine}")


def _check_link(
    experiment: Experiment, name: str, ends: tuple[Port, Port], devices: dict[str, form.ParentDevice]
) -> None:
    path: FieldPath = ("links", name, "real")
    for port in ends:
        if port.node not in experiment.hosts:
            raise wrong(experiment.tree, path, f"{port.node} at a real link is no host", "hosts at both ends")
        if port.id not in devices:
            problem = f"{port.id} at a real link has no device"
            interface = port.id.partition(".")[2]
            allowed = f"device of hosts.{port.node}.interfaces.{interface}, as in enp1s0"
            raise wrong(experiment.tree, path, problem, allowed)
    one, other = ((experiment.hosts[port.node].on, devices[port.id]["name"]) for port in ends)
    if one == other:
        raise wrong(experiment.tree, path, f"both ends are at the device {one[1]}", "two devices")


def _check_interfaces(experiment: Experiment, devices: dict[str, form.ParentDevice]) -> None:
    """Refuses captures and middleboxes at real links."""
    for path, names in _named(experiment):
        for port in expanded(names):
            if port in devices:
                problem = f"{port} is at a real link, whose packets mptcplab does not carry"
                raise wrong(experiment.tree, path, problem, "interfaces at emulated links")


def _named(experiment: Experiment) -> Iterator[tuple[FieldPath, list[str]]]:
    yield ("measure", "captures"), list(experiment.measure.captures)
    for number, middlebox in enumerate(experiment.middleboxes):
        yield ("middleboxes", number, "at"), list(middlebox.at)
