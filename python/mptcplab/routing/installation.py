"""The files that keep the routing of a machine up to date: a service for systemd, a script for the
dispatcher of NetworkManager, or scripts for networkd-dispatcher.
"""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mptcplab.errors import MachineError, PrivilegeError, UsageError
from mptcplab.routing.plan import Choice

#: The line by which `remove` knows a file as ours.
MARK = "# Written by `mptcplab routing install`; `mptcplab routing remove` removes it."
UNIT = "mptcplab-routing.service"
SYSTEMD_RUNS = Path("/run/systemd/system")


@dataclass(frozen=True)
class Way:
    """A way to keep the routing up to date: its files, and the directory that shows that the
    program which uses them is there.
    """

    summary: str
    needs: str
    files: tuple[str, ...]


_STATES = ("carrier", "degraded", "no-carrier", "off", "routable")
WAYS = {
    "daemon": Way(
        "a service of systemd that runs `mptcplab routing run`, whatever configures the network",
        "etc/systemd/system",
        (f"etc/systemd/system/{UNIT}",),
    ),
    "networkmanager": Way(
        "a script that NetworkManager runs when an interface comes, changes or goes",
        "etc/NetworkManager/dispatcher.d",
        ("etc/NetworkManager/dispatcher.d/90-mptcplab-routing",),
    ),
    "networkd": Way(
        "scripts that networkd-dispatcher runs when the state of an interface changes",
        "etc/networkd-dispatcher",
        tuple(f"etc/networkd-dispatcher/{state}.d/90-mptcplab-routing" for state in _STATES),
    ),
}


def install(way: str, choice: Choice, root: Path) -> list[Path]:
    """Writes the files of a way below `root`, and starts the daemon if it is for this machine.

    Raises UsageError if the program that uses them is not there, or a file of that name is not
    ours; MachineError if users other than root could change what root would run.
    """
    chosen = WAYS[way]
    if not (root / chosen.needs).is_dir():
        there = [name for name, one in WAYS.items() if (root / one.needs).is_dir()]
        problem = f"routing install --by {way}: there is no {root / chosen.needs}"
        raise UsageError(
            f"{problem}; allowed here: {', '.join(there) or 'none, but `mptcplab routing run` needs none'}"
        )
    if others := [name for name in installed(root) if name != way]:
        raise UsageError(f"routing install --by {way}: {others[0]} is installed; `mptcplab routing remove` removes it")
    files = [root / file for file in chosen.files]
    for file in files:
        if file.exists() and not _is_ours(file):
            raise UsageError(f"routing install: {file}: exists, and mptcplab did not write it; remove or rename it")
    program = _program()
    content = _service(program, choice) if way == "daemon" else _script(program, choice)
    for file in files:
        _write(file, content, 0o644 if way == "daemon" else 0o755)
    if way == "daemon":
        _systemctl(root, ["daemon-reload"], ["enable", "--now", UNIT])
    return files


def remove(root: Path) -> list[Path]:
    """Removes the files that `install` wrote below `root`, and stops the daemon. Returns the files."""
    found = [file for way in WAYS.values() for name in way.files if _is_ours(file := root / name)]
    if any(file.name == UNIT for file in found):
        _systemctl(root, ["disable", "--now", UNIT])
    for file in found:
        try:
            file.unlink()
        except OSError as error:
            raise PrivilegeError(None, f"routing remove: {file}: {error.strerror}", "use sudo") from error
    if any(file.name == UNIT for file in found):
        _systemctl(root, ["daemon-reload"])
    return found


def installed(root: Path) -> list[str]:
    """Returns the ways that are installed below `root`."""
    return [name for name, way in WAYS.items() if any(_is_ours(root / file) for file in way.files)]


def options(choice: Choice) -> list[str]:
    """Returns the options of a command line that state a choice."""
    words = [f"--interface={pattern}" for pattern in choice.interfaces]
    words += [f"--backup={pattern}" for pattern in choice.backup]
    return [*words, *([] if choice.with_endpoints else ["--no-endpoints"])]


def _service(program: Sequence[str], choice: Choice) -> str:
    command = shlex.join([*program, "routing", "run", *options(choice)]).replace("%", "%%").replace("$", "$$")
    return "\n".join(
        (
            MARK,
            "[Unit]",
            "Description=Rules, routes and MPTCP endpoints of each interface",
            "After=network-pre.target",
            "[Service]",
            f"ExecStart={command}",
            "Restart=on-failure",
            "CapabilityBoundingSet=CAP_NET_ADMIN",
            "NoNewPrivileges=yes",
            "ProtectSystem=strict",
            "ProtectHome=read-only",
            "PrivateTmp=yes",
            "RuntimeDirectory=mptcplab",
            "RuntimeDirectoryPreserve=yes",
            "[Install]",
            "WantedBy=multi-user.target",
            "",
        )
    )


def _script(program: Sequence[str], choice: Choice) -> str:
    command = shlex.join([*program, "routing", "apply", *options(choice)])
    return f"#!/bin/sh\n{MARK}\nexec {command}\n"


def _program() -> list[str]:
    """Returns the command that runs mptcplab. Raises MachineError if users other than root can
    change it.
    """
    python, package = Path(sys.executable), Path(__file__).resolve().parents[1]
    for path in (python, python.resolve(), package, *package.rglob("*.py")):
        if place := _changeable(path):
            remedy = "install mptcplab where only root may write, as in `sudo python3 -m venv /opt/mptcplab`"
            problem = f"users other than root can change {place}, which root would run"
            raise MachineError(f"routing install: {problem}; {remedy}")
    return [str(python), "-P", "-m", "mptcplab"]


def _changeable(path: Path) -> Path | None:
    """Returns the first of a path and the directories above it that users other than root can
    change.
    """
    for place in (path, *path.parents):
        found = place.stat()
        is_sticky = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX and place != path.parent
        if found.st_uid != 0 or (found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not is_sticky):
            return place
    return None


def _is_ours(file: Path) -> bool:
    try:
        return MARK in file.read_text().splitlines()[:2]
    except (OSError, UnicodeDecodeError):
        return False


def _write(file: Path, content: str, mode: int) -> None:
    fresh = file.with_name(f".{file.name}.new")
    try:
        file.parent.mkdir(exist_ok=True)
        fresh.unlink(missing_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        with os.fdopen(descriptor, "w") as new:
            new.write(content)
        fresh.chmod(mode)
        fresh.replace(file)
    except OSError as error:
        raise PrivilegeError(None, f"routing install: {file}: {error.strerror}", "use sudo") from error


def _systemctl(root: Path, *calls: Sequence[str]) -> None:
    """Calls systemctl, if the files are for this machine and systemd runs it. Raises MachineError."""
    program = shutil.which("systemctl")
    if root.resolve() != Path("/") or not SYSTEMD_RUNS.is_dir() or program is None:
        return
    for words in calls:
        ended = subprocess.run([program, *words], capture_output=True, text=True, check=False)
        if ended.returncode:
            said = ended.stderr.strip().splitlines() or [f"status {ended.returncode}"]
            raise MachineError(f"routing: systemctl {' '.join(words)}: {said[-1]}")
