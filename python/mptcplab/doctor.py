"""Checks what this machine can do for mptcplab, and names the remedy for each problem."""

from __future__ import annotations

import os
import platform
import shutil
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mptcplab.backends import BACKENDS, ON_KERNEL, PRIVILEGES, backend
from mptcplab.errors import MachineError, MptcplabError, PrivilegeError, Unsupported, UsageError
from mptcplab.own_mptcp import OwnMptcp
from mptcplab.remote.place import FORMS

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Space for a day of 60 s runs at the default sampling interval. Users are warned if less is free.
LOW_DISK_BYTES = 1_000_000_000
#: More endpoints and subflows than this are not tried: MANY in realtime::kernel::path_manager.
MOST_TRIED = 255
NO_MPTCP = "use Linux 6.1 or newer with MPTCP"
#: What the kernel's limits count. That of subflows does not count the initial one.
LIMITS = {"subflows": "subflows", "add_addr_accepted": "announcements"}
#: What is tried of the kernel's path manager, in words.
TRIED = {"endpoints": "endpoints", "subflows": "further subflows", "add_addr_accepted": "announcements"}
#: Time limit in seconds for an agent on this machine, which answers in a fraction of a second.
PATIENCE_S = 30.0
#: What experiments with switches on the kernel need: the name, how it is looked for, and the
#: command that installs it.
OF_SWITCHES = (
    ("os-ken", lambda: find_spec("os_ken"), "pip install 'mptcplab[sdn]'"),
    ("Open vSwitch", lambda: shutil.which("ovs-vswitchd"), "sudo apt install openvswitch-switch"),
)


@dataclass(frozen=True)
class Finding:
    """The result of one check. ``state`` is ``ok``, ``warning`` (works with limits) or ``problem``
    (does not work).

    ``remedy`` is a command or an action. ``details`` are lines for readers who want all of it.
    """

    subject: str
    state: str
    found: str
    remedy: str = ""
    details: tuple[str, ...] = ()


def examine(directory: Path = Path(), *, tries_kernel: bool = False) -> list[Finding]:
    """Checks the installation, the machine and each back-end. ``directory`` is where results would
    be written. With ``tries_kernel``, an agent also tries what this kernel's path manager takes.
    """
    tried = [_path_manager_here()] if tries_kernel else []
    return [_core(), _machine(directory), *(_backend(name) for name in BACKENDS), *tried, _switches(), *_own_mptcp()]


def examine_elsewhere(on: str) -> tuple[list[Finding], dict[str, Any]]:
    """Checks the back-end on another machine, or an agent on this one for ``kernel``, and reports
    that machine. Also returns its kernel and the machine as a bundle describes them. Raises
    MachineError if it is out of reach.
    """
    from mptcplab.backends.remote import Remote

    if on == ON_KERNEL:
        environment = _told_by_agent()
    elif isinstance(there := backend(on), Remote):
        environment = there.environment()
    else:
        raise UsageError(f"--on {on}: not a machine; allowed: {', '.join((ON_KERNEL, *FORMS))}")
    machine = environment["machine"]
    memory_gb = machine["memory_bytes"] / 1e9
    found = f"{environment['kernel'].partition(' #')[0]}, {machine['cpus']} cores, {memory_gb:.1f} GB"
    details = [f"{name}: {_in_line(value)}" for name, value in machine.items() if name not in ("load", "path_manager")]
    state = "ok"
    if machine.get("emulated"):
        state, found = "warning", f"{found}; emulated, so its processor limits the rates"
    findings = [
        Finding("machine", state, found, details=tuple(details)),
        path_manager(machine["path_manager"]),
        _backend(on),
    ]
    return findings, environment


def _told_by_agent() -> dict[str, Any]:
    """Returns what an agent on this machine tells of it. Raises MachineError without an agent, and
    RunFailed if it does not answer.
    """
    from mptcplab.backends.conversation import Conversation
    from mptcplab.remote.agent_file import agent_file
    from mptcplab.remote.channel import ProgramChannel

    path = agent_file().path
    try:
        channel = ProgramChannel([path, "serve", ON_KERNEL])
    except OSError as error:
        raise MachineError(f"{path}: {error.strerror}; `make agent` in a checkout makes it") from None
    conversation = Conversation(channel, str(path), patience_s=PATIENCE_S, beats=True)
    try:
        found: dict[str, Any] = conversation.ask("machine")
    finally:
        conversation.close()
    return found


def _path_manager_here() -> Finding:
    try:
        return path_manager(_told_by_agent()["machine"]["path_manager"])
    except MptcplabError as error:
        return Finding("path manager", "warning", f"not tried: {error}")


def _in_line(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} = {one}" for key, one in sorted(value.items()))
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def path_manager(abilities: dict[str, Any] | None) -> Finding:
    """Returns what the kernel's path manager took when it was tried."""
    if abilities is None:
        return Finding("path manager", "warning", "none in this kernel", NO_MPTCP)
    subflows, announced = abilities["usual_limits"]
    found = f"{_most(abilities)} (usually {subflows} and {announced})"
    return Finding("path manager", "ok", found, details=(f"flags: {', '.join(abilities['flags'])}",))


def _most(abilities: dict[str, Any]) -> str:
    """Returns ``at least 255 endpoints, at most 64 further subflows, 64 announcements``."""
    parts, bound = [], ""
    for field, word in TRIED.items():
        count = abilities[field]
        before, bound = bound, "at least" if count >= MOST_TRIED else "at most"
        parts.append(f"{count} {word}" if bound == before else f"{bound} {count} {word}")
    return ", ".join(parts)


def as_json(findings: list[Finding], environment: dict[str, Any] | None = None) -> dict[str, Any]:
    """Returns the document of ``doctor --json``, with the ``environment`` of another machine."""
    elsewhere = {} if environment is None else {"environment": environment}
    return {"schema": "mptcplab/doctor/2", "findings": [asdict(finding) for finding in findings], **elsewhere}


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


def _machine(directory: Path) -> Finding:
    system = f"{platform.system()} {platform.release()}, Python {platform.python_version()}, {os.cpu_count()} cores"
    free_bytes = shutil.disk_usage(directory).free
    disk = f"{free_bytes / 1e9:.1f} GB free"
    if free_bytes < LOW_DISK_BYTES:
        return Finding("machine", "warning", f"{disk} where results go", "mptcplab run SPEC --out DIR", (system,))
    return Finding("machine", "ok", system, details=(f"{disk} where results go",))


def _backend(name: str) -> Finding:
    refusal = None
    try:
        found = backend(name)
        try:
            found.ready()
        except PrivilegeError as error:
            refusal = error
        capabilities = found.probe()
    except Unsupported as error:
        return Finding(f"back-end {name}", "warning", "; ".join(why for _, why in error.missing))
    except (MptcplabError, ImportError) as error:
        return Finding(f"back-end {name}", "problem", str(error))
    able = [one.feature for one in capabilities if one.available and one.feature != PRIVILEGES]
    unable: dict[str, list[str]] = {}
    for capability in capabilities:
        if not capability.available:
            unable.setdefault(capability.why, []).append(capability.feature)
    lacking = (f"not {'; '.join(_by_kind(features))}: {why}" for why, features in unable.items())
    details = (*(f"can {kind}" for kind in _by_kind(able)), *lacking)
    if refusal is not None:
        return Finding(f"back-end {name}", "warning", refusal.lack, refusal.remedy, details)
    return Finding(f"back-end {name}", "ok", "runs here", details=details)


def _by_kind(features: Sequence[str]) -> list[str]:
    """Returns features with those of one kind together: ``app bulk, cbr``."""
    kinds: dict[str, list[str]] = {}
    for feature in features:
        kind, _, name = feature.partition(" ")
        kinds.setdefault(kind, []).append(name)
    return [f"{kind} {', '.join(names)}".rstrip() for kind, names in kinds.items()]


def _switches() -> Finding:
    """Returns whether controlled switches run here, beside the kernel back-end."""
    lacking = {name: remedy for name, find, remedy in OF_SWITCHES if find() is None}
    if lacking:
        found = f"without {' and '.join(lacking)}, none are under control on the kernel"
        return Finding("switches", "warning", found, "; ".join(lacking.values()))
    return Finding("switches", "ok", " and ".join(name for name, *_ in OF_SWITCHES))


def _own_mptcp() -> list[Finding]:
    """Returns the state of this machine's own MPTCP, which experiments neither use nor change."""
    own = OwnMptcp.read()
    if own is None:
        return [Finding("own MPTCP", "warning", "none in this kernel", NO_MPTCP)]
    sysctls = tuple(f"net.mptcp.{name} = {value}" for name, value in own.sysctls.items())
    if not own.is_enabled:
        return [Finding("own MPTCP", "warning", "disabled", "sudo sysctl net.mptcp.enabled=1", sysctls), _managers(own)]
    algorithm = own.sysctls.get("scheduler")
    limits = ", ".join(f"{own.limits[name]} {word}" for name, word in LIMITS.items()) if own.limits else ""
    scheduler = f", scheduler {algorithm}" if algorithm else ""
    told = f"on{scheduler}{', limits: ' if limits else ''}{limits}"
    return [Finding("own MPTCP", "ok", told, details=sysctls), _endpoints(own), _managers(own)]


def _endpoints(own: OwnMptcp) -> Finding:
    if own.endpoints is None:
        return Finding("endpoints", "warning", "unknown: no program `ip` with MPTCP", "sudo apt install iproute2")
    if not own.endpoints:
        remedy = "sudo ip mptcp endpoint add ADDRESS dev DEVICE subflow"
        return Finding("endpoints", "warning", "none: connections have one subflow", remedy)
    return Finding("endpoints", "ok", "; ".join(own.endpoints), details=tuple(own.endpoints))


def _managers(own: OwnMptcp) -> Finding:
    return Finding("managed by", "ok", "; ".join(own.managers) or "nobody", details=tuple(own.managers))
