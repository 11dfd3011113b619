"""A user's simulator as a back-end: the program that `simulator::main` makes of a crate with
algorithms.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mptcplab.backends import Capability
from mptcplab.backends.conversation import Conversation, ConversationRun
from mptcplab.errors import RunFailed, SpecError, UsageError
from mptcplab.remote.channel import ProgramChannel

#: Time limit for an answer. A large experiment takes a second.
PATIENCE_S = 60.0


class Program:
    """A simulator with algorithms that mptcplab does not have."""

    in_real_time = False

    def __init__(self, path: Path) -> None:
        self._path = path
        if not path.is_file() or not os.access(path, os.X_OK):
            raise UsageError(f"--on {path}: there is no such program; build it, or use --on sim")
        # Results of different builds of a program have different names.
        self.name = f"{path.stem}-{hashlib.sha256(path.read_bytes()).hexdigest()[:8]}"

    def ready(self) -> None:
        """Does nothing: the program needs no privileges."""

    def probe(self) -> list[Capability]:
        return [Capability(feature, available, why) for feature, available, why in self._ask("capabilities")]

    def check(self, experiment: Mapping[str, Any]) -> list[tuple[str, str]]:
        return [(feature, why) for feature, why in self._ask({"check": experiment})]

    def start(self, experiment: Mapping[str, Any], seed: int, directory: Path) -> ConversationRun:
        step_ns = experiment["measure"]["every_ns"]
        conversation = self._conversation()
        return ConversationRun(conversation, experiment, seed, directory, step_ns=step_ns, own_disk=True, keeps=False)

    def _conversation(self) -> Conversation:
        channel = ProgramChannel([self._path.resolve(), "serve"])
        return Conversation(channel, str(self._path), patience_s=PATIENCE_S, beats=False)

    def _ask(self, request: Any) -> Any:
        try:
            conversation = self._conversation()
            answer = conversation.ask(request)
            conversation.close()
        except ValueError as error:
            raise SpecError(f"{self._path}: {error}") from error
        except (OSError, RunFailed) as error:
            allowed = "a program with simulator::main, of this version"
            raise UsageError(f"--on {self._path}: not a simulator of mptcplab: {error}; allowed: {allowed}") from error
        return answer
