"""Finds and resolves the experiments of the SPECs of a command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mptcplab.catalogue import find
from mptcplab.errors import UsageError

if TYPE_CHECKING:
    from mptcplab.experiment import Member, Resolved
    from mptcplab.recorded import Recorded


def members_of(specs: list[str], settings: list[str] | None) -> list[Member | Recorded]:
    """Returns all experiments of the SPECs, with the values of ``--set``. Raises SpecError or
    UsageError.
    """
    changes = overrides(settings)
    return [member for spec in dict.fromkeys(specs) for member in find(spec, changes)]


def resolved(specs: list[str], settings: list[str] | None) -> list[Resolved]:
    """Returns all experiments of the SPECs, resolved."""
    return [member.resolve() for member in members_of(specs, settings)]


def overrides(settings: list[str] | None) -> dict[str, str]:
    """Returns the keys and values of ``--set KEY=VALUE``. Raises UsageError."""
    found = {}
    for setting in settings or []:
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise UsageError(f"--set {setting}: not of the form KEY=VALUE, for example --set links.wifi.delay=20ms")
        if key in found:
            raise UsageError(f"--set {key}: given twice; `compare` and `sweep` take several values: --set {key}=V1,V2")
        found[key] = value
    return found
