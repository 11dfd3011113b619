"""The user who called sudo. Code of a description runs with that user's rights, not with those of root."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

from mptcplab.errors import PrivilegeError

#: Set by ``--root-programs``. Processes that this one starts inherit it.
ROOT_PROGRAMS = "MPTCPLAB_ROOT_PROGRAMS"
#: Variables that sudo(8) sets.
USER, GROUP = "SUDO_UID", "SUDO_GID"


@dataclass(frozen=True)
class Caller:
    """A user who is not root."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str

    @property
    def environment(self) -> dict[str, str]:
        """The variables in which the environment differs from root's."""
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name}

    @property
    def identity(self) -> tuple[int, int, list[int], dict[str, str]]:
        """The identity in the form of the compiled part."""
        return self.uid, self.gid, list(self.groups), self.environment

    def take_over(self) -> None:
        """Gives this process the user's identity, in all its threads and permanently."""
        os.setgroups(list(self.groups))
        os.setresgid(self.gid, self.gid, self.gid)
        os.setresuid(self.uid, self.uid, self.uid)
        os.environ.update(self.environment)


def caller() -> Caller | None:
    """Returns the user who called sudo; None without sudo, or if programs shall run as root."""
    if sys.platform == "win32" or os.geteuid() != 0 or os.environ.get(ROOT_PROGRAMS):
        return None
    try:
        uid, gid = int(os.environ[USER]), int(os.environ[GROUP])
    except (KeyError, ValueError):
        return None
    if uid <= 0 or gid < 0:
        return None
    import pwd

    try:
        known = pwd.getpwuid(uid)
    except KeyError:
        return Caller(str(uid), uid, gid, (gid,), "/")
    return Caller(known.pw_name, uid, gid, tuple(os.getgrouplist(known.pw_name, gid)), known.pw_dir)


def became() -> str | None:
    """Returns the user's name if this process, or the one that started it, gave up root for the caller of sudo."""
    if sys.platform == "win32" or os.environ.get(USER) != str(os.geteuid()):
        return None
    return os.environ.get("USER", "")


def keep_root() -> None:
    """Lets code of descriptions run as root from now on."""
    os.environ[ROOT_PROGRAMS] = "1"


def leave_root_for_classes(backend: str, *, needs_root: bool) -> None:
    """Gives this process the identity of the caller of sudo, because classes of a description are loaded into it.

    Raises PrivilegeError if the back-end needs root.
    """
    found = caller()
    if found is None:
        return
    if needs_root:
        why = "classes of a description run in the process that has to be root here"
        raise PrivilegeError(backend, f"{why}; --root-programs lets them, or use --on sim")
    found.take_over()
