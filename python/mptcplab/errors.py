"""The errors of mptcplab. The library raises them and never prints; the
command line prints them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass


class MptcplabError(Exception):
    """Base of all errors that a user can cause or meet. `exit_status` is that
    of the command line.
    """

    exit_status = 4


@dataclass(frozen=True)
class Where:
    """A place in a description. Line and column count from 1; `field` is a path, as in
    ``links.wifi.rate``.
    """

    file: str | None = None
    line: int | None = None
    column: int | None = None
    field: str | None = None

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        if place == f"--set {self.field}":
            return place
        return ": ".join(part for part in (place, self.field) if part)


class SpecError(MptcplabError):
    """The description is wrong. The message has the place, what was found, and what is allowed."""

    exit_status = 2

    def __init__(self, problem: str, where: Where | None = None, *, allowed: str | None = None) -> None:
        self.problem = problem
        self.where = where or Where()
        self.allowed = allowed
        text = f"{self.where}: {problem}" if str(self.where) else problem
        text = f"{text}; allowed: {allowed}" if allowed else text
        # The message stays on one line, whatever was found.
        super().__init__(text.replace("\r", "").replace("\n", "\\n"))


class UsageError(MptcplabError):
    """The arguments of a command are wrong."""

    exit_status = 2


class Unsupported(MptcplabError):
    """A back-end does not support a part of the description."""

    exit_status = 3

    def __init__(self, backend: str, missing: list[tuple[str, str]], experiment: str = "this") -> None:
        self.backend = backend
        self.missing = missing
        features: dict[str, list[str]] = {}
        for feature, why in missing:
            features.setdefault(why, []).append(feature)
        reasons = first_few([f"{first_few(lacking)} ({why})" for why, lacking in features.items()], "; ")
        super().__init__(f"back-end {backend} cannot run {experiment}: {reasons}")


class PrivilegeError(MptcplabError):
    """A back-end, or a command without one, needs privileges that the user does not have. `remedy`
    may be part of `lack`.
    """

    exit_status = 3

    def __init__(self, backend: str | None, lack: str, remedy: str = "") -> None:
        self.backend = backend
        self.lack = lack
        self.remedy = remedy
        place = f"back-end {backend}" if backend else ""
        super().__init__(": ".join(part for part in (place, lack, remedy) if part))


class NotAllowed(MptcplabError):
    """The user has not allowed the code of a description."""

    exit_status = 3


def first_few(items: Sequence[str], separator: str = ", ", most: int = 4) -> str:
    """Returns the items in one text. Of more than `most` items it has the first, and the number of
    the others.
    """
    shown = [*items[:most], *([f"and {len(items) - most} more"] if len(items) > most else [])]
    return separator.join(shown)


class RunFailed(MptcplabError):
    """A run ended without a usable result."""

    exit_status = 4


class ClusterError(MptcplabError):
    """A cluster cannot carry out runs. The message has the reason and the remedy."""

    exit_status = 3


class MachineError(MptcplabError):
    """A machine named by `--on` or by a description cannot be used. The message has the place, the
    reason and the remedy.
    """

    exit_status = 3


@contextmanager
def of_core(backend: str) -> Iterator[None]:
    """Converts exceptions of the compiled core to PrivilegeError, UsageError or RunFailed."""
    try:
        yield
    except PermissionError as error:
        raise PrivilegeError(backend, str(error)) from error
    except ValueError as error:
        raise UsageError(str(error)) from error
    except RuntimeError as error:
        raise RunFailed(str(error)) from error
