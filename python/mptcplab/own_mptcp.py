"""The state of this machine's own MPTCP, outside of any experiment: settings, endpoints, limits,
and the programs that manage them. Reads only.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

SYSCTLS = Path("/proc/sys/net/mptcp")
PROCESSES = Path("/proc")
#: Files that set sysctls at start.
SYSCTL_FILES = ("etc/sysctl.conf", "etc/sysctl.d/*.conf", "run/sysctl.d/*.conf", "usr/lib/sysctl.d/*.conf")
#: Files in which `connection.mptcp-flags` tells NetworkManager which endpoints it adds.
NETWORK_MANAGER_FILES = (
    "etc/NetworkManager/NetworkManager.conf",
    "etc/NetworkManager/conf.d/*.conf",
    "usr/lib/NetworkManager/conf.d/*.conf",
)
#: Flags of an endpoint that `ip` knows.
FLAGS = ("subflow", "signal", "backup", "fullmesh")
PATIENCE_S = 2.0


@dataclass(frozen=True)
class OwnMptcp:
    """The MPTCP of this machine. `endpoints` and `limits` are None without a program `ip` that
    reports them.
    """

    sysctls: dict[str, str]
    endpoints: list[str] | None
    limits: dict[str, int] | None
    managers: list[str]

    @classmethod
    def read(cls, root: Path = Path("/")) -> OwnMptcp | None:
        """Returns the state, or None where the kernel has no MPTCP. Configuration files are read
        below `root`.
        """
        if not SYSCTLS.is_dir():
            return None
        sysctls = {file.name: _content(file) for file in sorted(SYSCTLS.iterdir())}
        return cls(sysctls, _endpoints(_told_by_ip("endpoint")), _limits(_told_by_ip("limits")), _managers(root))

    @property
    def is_enabled(self) -> bool:
        """Whether programs may open MPTCP sockets."""
        return self.sysctls.get("enabled") == "1"


def _content(file: Path) -> str:
    try:
        return " ".join(file.read_text().split())
    except OSError:
        return "not readable"


def _told_by_ip(what: str) -> str | None:
    if not (program := shutil.which("ip")):
        return None
    command = [program, "-json", "mptcp", what, "show"]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ended.stdout if ended.returncode == 0 else None


def _endpoints(told: str | None) -> list[str] | None:
    """Returns one text for each endpoint: address, device, flags."""
    if told is None:
        return None
    found = json.loads(told or "[]")
    return [
        " ".join([one["address"], *([one["dev"]] if "dev" in one else []), *(flag for flag in FLAGS if one.get(flag))])
        for one in found
    ]


def _limits(told: str | None) -> dict[str, int] | None:
    """Returns the limits. Older versions of `ip` write them as text although JSON was asked for."""
    pairs = re.findall(r"(add_addr_accepted|subflows)\W+(\d+)", told or "")
    found = {name: int(number) for name, number in pairs}
    return found if len(found) == 2 else None


def _managers(root: Path) -> list[str]:
    """Returns who sets endpoints, limits or sysctls: one text each."""
    running = {_content(file) for file in PROCESSES.glob("[0-9]*/comm")}
    found = ["mptcpd, which runs"] if "mptcpd" in running else []
    if "NetworkManager" in running:
        files = _files_with(root, NETWORK_MANAGER_FILES, r"^\s*connection\.mptcp-flags\s*=")
        found.append(f"NetworkManager, {'by ' + ', '.join(files) if files else 'which runs'}")
    return [*found, *_files_with(root, SYSCTL_FILES, r"^\s*-?net[./]mptcp[./]")]


def _files_with(root: Path, patterns: tuple[str, ...], setting: str) -> list[str]:
    """Returns the files that have a line with the setting."""
    files = [file for pattern in patterns for file in sorted(root.glob(pattern))]
    return [str(file) for file in files if re.search(setting, _text(file), re.MULTILINE)]


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""
