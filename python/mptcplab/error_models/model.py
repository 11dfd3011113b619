"""What an error model is given and answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from mptcplab.errors import SpecError


@dataclass(frozen=True, slots=True)
class Failure:
    """An outage of a link, or of all links of a shared-risk group."""

    at_ns: int
    for_ns: int
    link: str | None = None
    group: str | None = None
    """Exactly one of `link` and `group` is given."""


class ErrorModel:
    """The base of all error models. Its parameters are the arguments of its class."""

    summary: ClassVar[str] = "a class of the user"

    def failures(
        self, links: Sequence[str], groups: Mapping[str, Sequence[str]], duration_ns: int, draws: Random
    ) -> list[Failure]:
        """Returns the failures that begin before `duration_ns`; some may end after it.

        The answer depends on the arguments alone, and randomness comes from `draws`.
        """
        raise NotImplementedError


def check_positive(model: str, **values: int) -> None:
    """Raises SpecError for a value that is no whole number above 0."""
    for name, value in values.items():
        if type(value) is not int or value < 1:
            raise SpecError(f"errors.{model}.{name}: found {value!r}", allowed="a whole number above 0")
