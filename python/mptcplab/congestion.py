"""Installs mptcplab's coupled congestion controls in this machine's kernel, for any program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mptcplab import _core
from mptcplab.errors import Unsupported, UsageError, of_core

KERNEL = "kernel"


def controls(names: Sequence[str] | None = None) -> list[dict[str, str]]:
    """Returns ``name`` and ``state`` of all controls that the kernel has or can get, or of those in
    ``names``.

    The state is ``in_kernel``, ``installed`` (by ``install``) or ``not_installed``. Raises
    UsageError for an unknown name, and Unsupported on systems other than Linux.
    """
    found: list[dict[str, str]] = [{"name": name, "state": state} for name, state in _linux().live_controls()]
    known = [one["name"] for one in found]
    for name in names or ():
        if name not in known:
            raise UsageError(f"no congestion control is called {name!r}; allowed: {', '.join(known)}")
    return [one for one in found if not names or one["name"] in names]


def install(names: Sequence[str] | None = None) -> None:
    """Registers controls under their plain names, by default all, until ``remove`` or a reboot.

    Raises UsageError for a name that mptcplab cannot install, PrivilegeError without the rights,
    RunFailed if the kernel refuses.
    """
    _each("not_installed", names, _linux().install_control)


def remove(names: Sequence[str] | None = None) -> None:
    """Removes controls, by default all that are installed. Connections keep theirs. Raises as
    ``install``.
    """
    _each("installed", names, _linux().remove_control)


def _each(state: str, names: Sequence[str] | None, change: Callable[[str], None]) -> None:
    """Changes the named controls, or all that are in ``state``."""
    given = [one["name"] for one in controls(names)]
    for name in given if names else [one["name"] for one in controls() if one["state"] == state]:
        with of_core(KERNEL):
            change(name)


def _linux() -> Any:
    """Returns the compiled part, which has these functions only on Linux."""
    if not hasattr(_core, "live_controls"):
        raise Unsupported(KERNEL, [("congestion controls in eBPF", "they need Linux 6.4 or newer")])
    return _core
