"""The user who called sudo. Code of a description runs with that user's rights, not with those of
root, and results belong to that user.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

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
    ids = _ids()
    if ids is None or os.environ.get(ROOT_PROGRAMS):
        return None
    uid, gid = ids
    import pwd

    try:
        known = pwd.getpwuid(uid)
    except KeyError:
        return Caller(str(uid), uid, gid, (gid,), "/")
    return Caller(known.pw_name, uid, gid, tuple(os.getgrouplist(known.pw_name, gid)), known.pw_dir)


def _ids() -> tuple[int, int] | None:
    """Returns user and group of the caller of sudo; None without sudo."""
    if sys.platform == "win32" or os.geteuid() != 0:
        return None
    try:
        uid, gid = int(os.environ[USER]), int(os.environ[GROUP])
    except (KeyError, ValueError):
        return None
    return (uid, gid) if uid > 0 and gid >= 0 else None


def give(path: Path) -> None:
    """Makes the caller of sudo the owner of a file, or of a directory with all that it holds. Only
    changes what belongs to root. Does nothing without sudo.

    A link that leads elsewhere is not followed, because the caller may have put it there to own a
    file of root.
    """
    ids = _ids()
    if sys.platform == "win32" or ids is None or path.is_symlink() or not path.exists():
        return
    if path.is_dir():
        for _, _, files, directory in os.fwalk(path):
            if os.fstat(directory).st_uid == 0:
                os.chown(directory, *ids)
            for name in files:
                _give_file(name, ids, directory)
    else:
        _give_file(path, ids)


def _give_file(name: str | Path, ids: tuple[int, int], directory: int | None = None) -> None:
    found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if found.st_uid == 0 and found.st_nlink == 1:
        os.chown(name, *ids, dir_fd=directory, follow_symlinks=False)


def make_directory(path: Path) -> None:
    """Makes a directory and the missing ones above it. Those that it makes belong to the caller of
    sudo.
    """
    missing = [one for one in (path, *path.parents) if not one.exists()]
    path.mkdir(parents=True, exist_ok=True)
    ids = _ids()
    if ids is not None:
        for one in missing:
            os.chown(one, *ids, follow_symlinks=False)


def became() -> str | None:
    """Returns the user's name if this process, or the one that started it, gave up root for the
    caller of sudo.
    """
    if sys.platform == "win32" or os.environ.get(USER) != str(os.geteuid()):
        return None
    return os.environ.get("USER", "")


def keep_root() -> None:
    """Lets code of descriptions run as root from now on."""
    os.environ[ROOT_PROGRAMS] = "1"


def leave_root_for_classes(backend: str, *, needs_root: bool) -> None:
    """Gives this process the identity of the caller of sudo, because classes of a description are
    loaded into it.

    Raises PrivilegeError if the back-end needs root.
    """
    found = caller()
    if found is None:
        return
    if needs_root:
        why = "classes of a description run in the process that has to be root here"
        raise PrivilegeError(backend, f"{why}; --root-programs lets them, or use --on sim")
    found.take_over()
