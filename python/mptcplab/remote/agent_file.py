"""The agent: the program that runs experiments elsewhere, as a file of this installation."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mptcplab.errors import MachineError

#: The variable with the path of another agent.
VARIABLE = "MPTCPLAB_AGENT"
NAME = "mptcplab-agent"
#: Architectures by their number in the header of ELF files (e_machine), as `uname -m` prints them.
ARCHITECTURES = {0x3E: "x86_64", 0xB7: "aarch64"}


@dataclass(frozen=True)
class AgentFile:
    """An agent, its architecture and its checksum."""

    path: Path
    content: bytes
    architecture: str
    sha256: str


def agent_file() -> AgentFile:
    """Returns the agent of the variable, or the one beside the package. Raises MachineError if
    there is none.
    """
    given = os.environ.get(VARIABLE)
    path = Path(given) if given else Path(__file__).resolve().parents[1] / NAME
    if not path.is_file():
        remedy = f"`make agent` in a checkout makes it, and {VARIABLE}=PATH names another one"
        raise MachineError(f"{path}: there is no agent to run experiments elsewhere; {remedy}")
    return _read(path, path.stat().st_mtime_ns)


@cache
def _read(path: Path, _changed_ns: int) -> AgentFile:
    content = path.read_bytes()
    architecture = ARCHITECTURES.get(int.from_bytes(content[18:20], "little"))
    if not content.startswith(b"\x7fELF") or architecture is None:
        raise MachineError(f"{path}: not an agent; allowed: a program for {', '.join(ARCHITECTURES.values())}")
    return AgentFile(path, content, architecture, hashlib.sha256(content).hexdigest())
