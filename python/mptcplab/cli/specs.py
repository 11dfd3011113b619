"""From the SPECs of a command line to resolved experiments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mptcplab.catalogue import find
from mptcplab.errors import UsageError

if TYPE_CHECKING:
    from mptcplab.experiment import Member, Resolved
    from mptcplab.recorded import Recorded


def members_of(specs: list[str], settings: list[str] | None) -> list[Member | Recorded]:
    """All experiments that the SPECs mean, with the values of ``--set`` in place. Raises SpecError or UsageError."""
    changes = overrides(settings)
    return [member for spec in dict.fromkeys(specs) for member in find(spec, changes)]


def resolved(specs: list[str], settings: list[str] | None) -> list[Resolved]:
    """The same, resolved."""
    return [member.resolve() for member in members_of(specs, settings)]


def overrides(settings: list[str] | None) -> dict[str, str]:
    """The keys of ``--set`` and what is written behind the equals sign. Raises UsageError."""
    found = {}
    for setting in settings or []:
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise UsageError(f"--set {setting}: not of the form KEY=VALUE, for example --set links.wifi.delay=20ms")
        if key in found:
            raise UsageError(f"--set {key}: given twice; run each value with a command of its own, then compare them")
        found[key] = value
    return found
