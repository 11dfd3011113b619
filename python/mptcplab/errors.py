"""The errors of mptcplab. The library raises them and never prints; the command line makes a message of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass


class MptcplabError(Exception):
    """Base of all errors that a user can cause or meet. ``exit_status`` is what the command line ends with."""

    exit_status = 4


@dataclass(frozen=True)
class Where:
    """A place in a description: line and column count from 1; ``field`` is the path, as in ``links.wifi.rate``."""

    file: str | None = None
    line: int | None = None
    column: int | None = None
    field: str | None = None

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        return ": ".join(part for part in (place, self.field) if part)


class SpecError(MptcplabError):
    """The description is wrong: where, what was found, what is allowed."""

    exit_status = 2

    def __init__(self, problem: str, where: Where | None = None, *, allowed: str | None = None) -> None:
        self.problem = problem
        self.where = where or Where()
        self.allowed = allowed
        text = f"{self.where}: {problem}" if str(self.where) else problem
        text = f"{text}; allowed: {allowed}" if allowed else text
        # One line, whatever was found.
        super().__init__(text.replace("\r", "").replace("\n", "\\n"))


class UsageError(MptcplabError):
    """The command was called in a way that makes no sense."""

    exit_status = 2


class Unsupported(MptcplabError):
    """A back-end cannot do what the description asks for."""

    exit_status = 3

    def __init__(self, backend: str, missing: list[tuple[str, str]], experiment: str = "this") -> None:
        self.backend = backend
        self.missing = missing
        reasons = first_few([f"{feature} ({why})" for feature, why in missing], "; ")
        super().__init__(f"back-end {backend} cannot run {experiment}: {reasons}")


class PrivilegeError(MptcplabError):
    """A back-end needs rights that this user does not have; the message has the remedy."""

    exit_status = 3

    def __init__(self, backend: str, remedy: str) -> None:
        self.backend = backend
        super().__init__(f"back-end {backend}: {remedy}")


class NotAllowed(MptcplabError):
    """A description runs code of its own, and nobody has allowed that."""

    exit_status = 3


def first_few(items: Sequence[str], separator: str = ", ", most: int = 4) -> str:
    """The items in one text; of many, the first and how many more there are."""
    shown = [*items[:most], *([f"and {len(items) - most} more"] if len(items) > most else [])]
    return separator.join(shown)


class RunFailed(MptcplabError):
    """A run ended without a usable result."""

    exit_status = 4


class ClusterError(MptcplabError):
    """A cluster cannot carry out runs; the message says why, and what helps."""

    exit_status = 3


@contextmanager
def of_core(backend: str) -> Iterator[None]:
    """What the compiled core raises inside becomes PrivilegeError, UsageError or RunFailed."""
    try:
        yield
    except PermissionError as error:
        raise PrivilegeError(backend, str(error)) from error
    except ValueError as error:
        raise UsageError(str(error)) from error
    except RuntimeError as error:
        raise RunFailed(str(error)) from error
