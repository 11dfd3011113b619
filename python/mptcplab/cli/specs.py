"""Finds and resolves the experiments of the SPECs of a command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mptcplab.catalogue import find
from mptcplab.errors import SpecError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mptcplab.experiment import Member, Resolved
    from mptcplab.recorded import Recorded


def resolved(specs: list[str], settings: list[str] | None) -> tuple[list[Member | Recorded], list[Resolved]]:
    """Returns all experiments of the SPECs with the values of ``--set``, as described and as
    resolved. Raises SpecError or UsageError.
    """
    changes = overrides(settings)
    try:
        members = [member for spec in dict.fromkeys(specs) for member in find(spec, changes)]
        return members, [member.resolve() for member in members]
    except SpecError as error:
        raise _with_way_to_several_values(error, changes) from None


def _with_way_to_several_values(error: SpecError, changes: Mapping[str, str]) -> SpecError:
    """Returns the error. If it is about ``--set KEY=V1,V2``, it names the commands that take
    several values.
    """
    from mptcplab.sweep.factors import split_values

    key = str(error.where.file).removeprefix("--set ")
    if key not in changes or len(split_values(changes[key], key)) == 1:
        return error
    ways = [*([error.allowed] if error.allowed else []), "several values with `compare` or `sweep`"]
    return SpecError(error.problem, error.where, allowed="; ".join(ways))


def overrides(settings: list[str] | None) -> dict[str, str]:
    """Returns the keys and values of ``--set KEY=VALUE``. Raises UsageError."""
    found = {}
    for setting in settings or []:
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise UsageError(f"--set {setting}: not of the form KEY=VALUE, for example --set links.wifi.delay=20ms")
        if not value.strip():
            raise UsageError(f"--set {setting}: the value is missing; allowed: KEY=VALUE, or {key}=null for none")
        if key in found:
            raise UsageError(f"--set {key}: given twice; `compare` and `sweep` take several values: --set {key}=V1,V2")
        found[key] = value
    return found
