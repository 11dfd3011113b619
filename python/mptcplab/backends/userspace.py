"""The userspace stack: the kernel back-end, in which some hosts have the engine as their TCP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mptcplab.backends import OWN_CLASS, Capability, sender, user_code
from mptcplab.backends.kernel import Kernel, KernelRun

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class Userspace(Kernel):
    """Runs the engine on hosts with `stack: userspace`, and on hosts that send MPTCP and leave the
    choice to the back-end.
    """

    name = "userspace"
    has_own_stack = True

    def probe(self) -> list[Capability]:
        return [one for one in super().probe() if one.feature != OWN_CLASS] + [Capability(OWN_CLASS, available=True)]

    def of_kernel_hosts(self) -> Kernel:
        return Kernel(on_any_machine=self._on_any_machine)

    def kernel_hosts(self, experiment: Mapping[str, Any]) -> set[str]:
        return {host["id"] for host in with_stacks(experiment)["hosts"] if host["stack"] == "kernel"}

    def check(self, experiment: Mapping[str, Any]) -> list[tuple[str, str]]:
        return self._check(with_stacks(experiment), user_code.load(experiment))

    def start(self, experiment: Mapping[str, Any], seed: int, directory: Path) -> KernelRun:
        return KernelRun(with_stacks(experiment), seed, directory, user_code.load(experiment))


def with_stacks(experiment: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the experiment with a stack for each host that leaves it to the back-end: the engine
    if it sends MPTCP, otherwise the kernel's.
    """
    senders = {sender(flow) for flow in experiment["flows"] if flow["transport"] == "mptcp"}

    def stack_of(host: Mapping[str, Any]) -> str:
        if host["stack"] != "backend":
            return str(host["stack"])
        return "userspace" if host["mptcp"] and host["id"] in senders else "kernel"

    return {**experiment, "hosts": [{**host, "stack": stack_of(host)} for host in experiment["hosts"]]}


BACKEND = Userspace()
ON_ANY_MACHINE = Userspace(on_any_machine=True)
