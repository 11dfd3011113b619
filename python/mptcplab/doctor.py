"""Checks what this machine can do for mptcplab, and names the remedy for each problem."""

from __future__ import annotations

import os
import platform
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mptcplab.backends import BACKENDS, PRIVILEGES, backend
from mptcplab.errors import MptcplabError, PrivilegeError, Unsupported

#: Space for a day of 60 s runs at the default sampling interval. Users are warned if less is free.
LOW_DISK_BYTES = 1_000_000_000


@dataclass(frozen=True)
class Finding:
    """The result of one check. ``state`` is ``ok``, ``warning`` (works with limits) or ``problem`` (does not work)."""

    subject: str
    state: str
    found: str
    remedy: str = ""


def examine(directory: Path = Path()) -> list[Finding]:
    """Checks the installation, the machine and each back-end. ``directory`` is where results would be written."""
    return [_core(), _machine(), _disk(directory), *(_backend(name) for name in BACKENDS)]


def as_json(findings: list[Finding]) -> dict[str, Any]:
    """Returns the document of ``doctor --json``."""
    return {"schema": "mptcplab/doctor/1", "findings": [asdict(finding) for finding in findings]}


def _core() -> Finding:
    from importlib.metadata import version

    installed = version("mptcplab")
    try:
        from mptcplab import _core
    except ImportError as error:
        return Finding("compiled part", "problem", str(error), "reinstall mptcplab, or `make build` in a checkout")
    if _core.__version__ != installed:
        found = f"{_core.__version__}, but the package is {installed}"
        return Finding("compiled part", "problem", found, "reinstall mptcplab, or `make build` in a checkout")
    return Finding("compiled part", "ok", f"mptcplab {installed}")


def _machine() -> Finding:
    found = f"{platform.system()} {platform.release()}, Python {platform.python_version()}, {os.cpu_count()} cores"
    return Finding("machine", "ok", found)


def _disk(directory: Path) -> Finding:
    free_bytes = shutil.disk_usage(directory).free
    found = f"{free_bytes / 1e9:.1f} GB free where results go"
    if free_bytes < LOW_DISK_BYTES:
        return Finding("disk", "warning", found, "free some space or give --out")
    return Finding("disk", "ok", found)


def _backend(name: str) -> Finding:
    try:
        found = backend(name)
        capabilities = found.probe()
    except Unsupported as error:
        return Finding(f"back-end {name}", "warning", "; ".join(why for _, why in error.missing))
    except (MptcplabError, ImportError) as error:
        return Finding(f"back-end {name}", "problem", str(error))
    able = ", ".join(one.feature for one in capabilities if one.available and one.feature != PRIVILEGES)
    unable: dict[str, list[str]] = {}
    for capability in capabilities:
        if not capability.available:
            unable.setdefault(capability.why, []).append(capability.feature)
    reasons = [f"not {', '.join(features)}: {why}" for why, features in unable.items()]
    told = "\n".join([f"can: {able}", *reasons])
    try:
        found.ready()
    except PrivilegeError:
        return Finding(f"back-end {name}", "warning", told)
    return Finding(f"back-end {name}", "ok", told)
