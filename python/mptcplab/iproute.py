"""Calls of ip(8), bridge(8) and nft(8), the interface to the kernel's devices, routes, rules,
endpoints and tables, and of the programs of Open vSwitch.

A call acts in the network namespace of the calling thread.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from mptcplab.errors import MachineError, PrivilegeError, RunFailed

PROGRAM = "ip"
PATIENCE_S = 30.0
OPEN_VSWITCH = ("ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovs-vsctl")
#: The packages of the programs.
PACKAGES = {
    **dict.fromkeys(("ip", "bridge"), "iproute2"),
    "nft": "nftables",
    **dict.fromkeys(OPEN_VSWITCH, "openvswitch-switch"),
}
_NO_RIGHTS = "Operation not permitted"
#: The line of a batch that only repeats where it failed.
_WHERE_IT_FAILED = "Command failed"


def program(name: str = PROGRAM) -> str:
    """Returns the path of a program of `PACKAGES`. Raises MachineError."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if found is None:
        raise MachineError(f"there is no program {name} here: sudo apt install {PACKAGES[name]}")
    return found


def run(name: str, *words: str, given: str = "") -> str:
    """Runs a program of `PACKAGES` with `given` as its input. Returns its output. Raises
    MachineError, PrivilegeError, and RunFailed with what the program says.
    """
    ended = _ended([program(name), *words], given)
    if ended.returncode:
        raise RunFailed(f"{name} {' '.join(words)}: {_problems(ended) or f'exit status {ended.returncode}'}")
    return ended.stdout


def told(*words: str) -> list[dict[str, Any]]:
    """Returns what `ip -json` prints, and an empty list for a table that does not exist. Raises as
    `run`.
    """
    ended = _ended([program(), "-json", "-details", *words])
    if ended.returncode:
        if "does not exist" in ended.stderr:
            return []
        raise RunFailed(f"ip {' '.join(words)}: {_problems(ended) or 'no reason given'}")
    found: list[dict[str, Any]] = json.loads(ended.stdout or "[]")
    return [one for one in found if one]


def batch(lines: Iterable[str], name: str = PROGRAM) -> None:
    """Carries out arguments of ip(8) or bridge(8), a line each. Raises as `run` at the first that
    fails.
    """
    if text := _text(lines):
        run(name, "-batch", "-", given=text)


def batch_of_all(lines: Sequence[str]) -> str:
    """Carries out arguments of ip(8), a line each, also after one has failed. A line may begin with
    its family, `-4` or `-6`. Returns what went wrong, on one line. Raises PrivilegeError.
    """
    problems: dict[str, None] = {}
    for family, group in groupby(lines, key=lambda line: line[:2] if line.startswith("-") else ""):
        given = _text(line.removeprefix(family).strip() for line in group)
        ended = _ended([program(), *([family] if family else []), "-force", "-batch", "-"], given)
        problems |= dict.fromkeys(_said(ended))
    return "; ".join(problems)


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _ended(argv: list[str], given: str = "") -> subprocess.CompletedProcess[str]:
    try:
        ended = subprocess.run(argv, input=given, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RunFailed(str(error)) from error
    if _NO_RIGHTS in ended.stderr:
        raise PrivilegeError(None, "changes of devices, rules and routes need root", "use sudo")
    return ended


def _said(ended: subprocess.CompletedProcess[str]) -> list[str]:
    lines = [" ".join(line.split()) for line in ended.stderr.splitlines()]
    return [line for line in lines if line and not line.startswith(_WHERE_IT_FAILED)]


def _problems(ended: subprocess.CompletedProcess[str]) -> str:
    return "; ".join(_said(ended))
