"""Calls of ip(8), the interface to the kernel's rules, routes and endpoints."""

from __future__ import annotations

import json
import shutil
import subprocess
from itertools import groupby
from typing import Any

from mptcplab.errors import MachineError, PrivilegeError, RunFailed

PROGRAM = "ip"
PATIENCE_S = 10.0
_NO_RIGHTS = "Operation not permitted"


def program() -> str:
    """Returns the path of `ip`. Raises MachineError."""
    found = shutil.which(PROGRAM) or shutil.which(PROGRAM, path="/usr/sbin:/sbin")
    if found is None:
        raise MachineError("routing: there is no `ip` here: sudo apt install iproute2")
    return found


def told(*words: str) -> list[dict[str, Any]]:
    """Returns what `ip -json` prints, and an empty list for a table that does not exist. Raises
    RunFailed.
    """
    ended = _run([program(), "-json", "-details", *words])
    if ended.returncode:
        if "does not exist" in ended.stderr:
            return []
        raise RunFailed(f"routing: ip {' '.join(words)}: {_last_line(ended.stderr)}")
    found: list[dict[str, Any]] = json.loads(ended.stdout or "[]")
    return [one for one in found if one]


def batch(lines: list[str]) -> str:
    """Carries out arguments of `ip`, a line each, all of them. Each begins with its family, `-4` or
    `-6`. Returns what went wrong, on one line. Raises PrivilegeError.
    """
    problems: dict[str, None] = {}
    for family, group in groupby(lines, key=lambda line: line[:2]):
        given = "".join(f"{line[3:]}\n" for line in group)
        ended = _run([program(), family, "-force", "-batch", "-"], given)
        if _NO_RIGHTS in ended.stderr:
            raise PrivilegeError(None, "routing: changes of rules and routes need root", "use sudo")
        problems |= {line: None for line in ended.stderr.splitlines() if not line.startswith("Command failed")}
    return "; ".join(problems)


def _run(argv: list[str], given: str | None = None) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(argv, input=given, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RunFailed(f"routing: {error}") from error


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"
