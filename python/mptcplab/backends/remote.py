"""The kernel and userspace back-ends on another machine: an agent there runs the experiments."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mptcplab import consent
from mptcplab.backends import OWN_CLASS, PRIVILEGES, Capability
from mptcplab.backends.conversation import Conversation, ConversationRun
from mptcplab.backends.kernel import HEED_STOP_NS, other_behaviour
from mptcplab.backends.refusal import refusal
from mptcplab.backends.userspace import with_stacks
from mptcplab.errors import PrivilegeError
from mptcplab.remote.guest import GUEST_SECOND_S, why_short

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from mptcplab.remote.place import Place

#: Time without any line, the empty ones included, after which the agent counts as lost.
SILENCE_S = 10.0
#: Ticks come no closer, because each is sent.
CLOSEST_NS = 20_000_000


class RemoteRun(ConversationRun):
    """A run on another machine. Its result has the environment there."""

    def __init__(self, place: Place, conversation: Conversation, *given: Any, **named: Any) -> None:
        self._place = place
        super().__init__(conversation, *given, own_disk=False, keeps=True, **named)

    def result(self) -> dict[str, Any]:
        result = super().result()
        environment = result["environment"]
        environment["machine"] |= self._place.about()
        why = why_short(environment["machine"])
        if why is not None and result["status"] == "done":
            result |= {"status": "invalid", "why": why}
        return result


class Remote:
    """Runs experiments on another machine, one at a time. It connects when it is first asked."""

    in_real_time = True

    def __init__(self, place: Place) -> None:
        self._place = place
        self._open: Conversation | None = None

    @property
    def name(self) -> str:
        # Results of different kernels have different names. Debian's have its release and flavour
        # in theirs, too.
        release = re.sub(r"\+deb\d.*", "", self._release)
        return f"{self._place.stack}@{self._place.way.label}-{release}"

    @cached_property
    def _release(self) -> str:
        return str(self._agent().ask("machine")["release"])

    def environment(self) -> dict[str, Any]:
        """Returns the kernel and the machine there, as a bundle has them."""
        found: dict[str, Any] = self._agent().ask("machine")
        found["machine"] |= self._place.about()
        return found

    def _agent(self) -> Conversation:
        if self._open is None or not self._open.is_open:
            channel = self._place.way.open(f"serve {self._place.stack}")
            patience_s = GUEST_SECOND_S if channel.can_hold else SILENCE_S
            self._open = Conversation(channel, self._place.text, patience_s=patience_s, beats=True)
        return self._open

    def ready(self) -> None:
        """Raises MachineError if the machine cannot be reached, and PrivilegeError if it forbids
        network namespaces.
        """
        for capability in self.probe():
            if capability.feature == PRIVILEGES and not capability.available:
                remedy = "use an account that is root or may use sudo without a password there"
                raise PrivilegeError(self._place.text, capability.why, remedy)

    def close(self) -> None:
        """Ends the agent. The next request starts another one."""
        if self._open is not None:
            self._open.close()

    def probe(self) -> list[Capability]:
        table = [Capability(feature, available, why) for feature, available, why in self._agent().ask("capabilities")]
        why = "classes in Python run only on this machine"
        return [*(one for one in table if one.feature != OWN_CLASS), Capability(OWN_CLASS, available=False, why=why)]

    def check(self, experiment: Mapping[str, Any]) -> list[tuple[str, str]]:
        experiment = self._with_stacks(experiment)
        try:
            missing = self._agent().ask({"check": experiment})
        except ValueError as error:
            raise refusal(experiment, error) from error
        for feature, why in missing:
            if feature == PRIVILEGES:
                raise PrivilegeError(self._place.text, why)
        return [*((feature, why) for feature, why in missing), *other_behaviour(experiment)]

    def start(self, experiment: Mapping[str, Any], seed: int, directory: Path) -> RemoteRun:
        consent.require(experiment, in_real_time=True)
        step_ns = max(CLOSEST_NS, min(experiment["measure"]["every_ns"], HEED_STOP_NS))
        experiment = self._with_stacks(experiment)
        return RemoteRun(self._place, self._agent(), experiment, seed, directory, step_ns=step_ns)

    def _with_stacks(self, experiment: Mapping[str, Any]) -> Mapping[str, Any]:
        return with_stacks(experiment) if self._place.stack == "userspace" else experiment
