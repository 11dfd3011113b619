"""Who called sudo: what a description brings along runs with that user's rights, not with those of root."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

from mptcplab.errors import PrivilegeError

#: Set by ``--root-programs``, also for the processes that this one starts.
ROOT_PROGRAMS = "MPTCPLAB_ROOT_PROGRAMS"
#: What sudo(8) leaves behind.
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
        """What of root's environment is not theirs."""
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name}

    @property
    def identity(self) -> tuple[int, int, list[int], dict[str, str]]:
        """As the compiled part wants it."""
        return self.uid, self.gid, list(self.groups), self.environment

    def take_over(self) -> None:
        """Make this process theirs, with all its threads and for good."""
        os.setgroups(list(self.groups))
        os.setresgid(self.gid, self.gid, self.gid)
        os.setresuid(self.uid, self.uid, self.uid)
        os.environ.update(self.environment)


def caller() -> Caller | None:
    """Who called sudo; None without sudo, and where programs shall be root's."""
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


def keep_root() -> None:
    """What descriptions bring along has the rights of root from now on."""
    os.environ[ROOT_PROGRAMS] = "1"


def leave_root_for_classes(backend: str, *, needs_root: bool) -> None:
    """Classes of a description run in this process: under sudo it becomes its caller's before they are loaded.

    Raises PrivilegeError where the back-end needs root.
    """
    found = caller()
    if found is None:
        return
    if needs_root:
        why = "classes of a description run in the process that has to be root here"
        raise PrivilegeError(backend, f"{why}; --root-programs lets them, or use --on sim")
    found.take_over()
