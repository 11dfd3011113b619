"""The environment that a result depends on: versions, machine, command."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from functools import cache
from pathlib import Path

from mptcplab import _core
from mptcplab.results.entities import Json


def environment() -> Json:
    """Returns the versions, kernel, machine and command line, and the git commit of a checkout."""
    return {
        "versions": {"mptcplab": _core.__version__, "python": platform.python_version(), "commit": _commit()},
        "kernel": f"{platform.system()} {platform.release()} {platform.version()}",
        "machine": {
            "architecture": platform.machine(),
            "cpu": _cpu_model(),
            "cpus": os.cpu_count(),
            "memory_bytes": _memory_bytes(),
        },
        "command": sys.argv,
    }


@cache
def _commit() -> str | None:
    """Returns the checked-out commit, marked if files differ from it, or None for an installed
    package.
    """
    directory = Path(__file__).resolve().parents[3]
    if not (directory / ".git").exists():
        return None
    try:
        described = subprocess.run(
            ["git", "-C", str(directory), "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"],
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return described.stdout.strip()


@cache
def _cpu_model() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or None
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else None


@cache
def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None
