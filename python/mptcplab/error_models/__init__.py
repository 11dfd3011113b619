"""Error models: what fails in a network, when, and for how long.

A model is a pure function, whose answers become events of a description. With another draw, the
experiment is another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from mptcplab.error_models.model import ErrorModel, Failure
from mptcplab.errors import SpecError, first_few
from mptcplab.user_classes import Shipped, check_parameters, class_named, reporting

#: The error models by their names in descriptions.
ERROR_MODELS: Shipped[ErrorModel] = Shipped(
    __name__,
    scheduled="scheduled.Scheduled",
    periodic="periodic.Periodic",
    poisson="poisson.Poisson",
    flapping="flapping.Flapping",
    srlg="srlg.SharedRisk",
)


class Checked(ErrorModel):
    """An error model whose answers are checked and in order of time."""

    def __init__(self, name: str, model: ErrorModel, file: str | None) -> None:
        self.name = name
        self.model = model
        self._file = file

    def failures(
        self, links: Sequence[str], groups: Mapping[str, Sequence[str]], duration_ns: int, draws: Random
    ) -> list[Failure]:
        with reporting(f"errors: {self.name}", self._file):
            failures = list(self.model.failures(links, groups, duration_ns, draws))
        for failure in failures:
            self._check(failure, links, groups, duration_ns)
        return sorted(failures, key=lambda one: (one.at_ns, one.group or "", one.link or "", one.for_ns))

    def _check(
        self, failure: Failure, links: Sequence[str], groups: Mapping[str, Sequence[str]], duration_ns: int
    ) -> None:
        place = f"errors: {self.name}: {failure!r}"
        if not isinstance(failure, Failure):
            raise SpecError(f"{place}: found a {type(failure).__name__}", allowed="a Failure")
        if (failure.link is None) == (failure.group is None):
            raise SpecError(f"{place}: found both or none of link and group", allowed="one of them")
        if failure.link is not None and failure.link not in links:
            raise SpecError(f"{place}: unknown link", allowed=first_few(links))
        if failure.group is not None and failure.group not in groups:
            raise SpecError(f"{place}: unknown group", allowed=first_few(sorted(groups)) or "no group is described")
        if type(failure.at_ns) is not int or not 0 <= failure.at_ns < duration_ns:
            raise SpecError(f"{place}: found at_ns {failure.at_ns!r}", allowed=f"a whole number below {duration_ns}")
        if type(failure.for_ns) is not int or failure.for_ns < 1:
            raise SpecError(f"{place}: found for_ns {failure.for_ns!r}", allowed="a whole number above 0")


def error_model(
    name: str, parameters: Mapping[str, Any] | None = None, code: Sequence[Mapping[str, str]] = ()
) -> Checked:
    """Returns an error model of the table, or the one of a user, `./FILE.py:CLASS`, whose text is
    in `code`.

    `code` has the form of `user_code` of a resolved experiment. Raises SpecError for a model that
    cannot be used, NotAllowed for code that the user has not allowed.
    """
    found, file = class_named(name, ERROR_MODELS, ErrorModel, code, "errors")
    given = dict(parameters or {})
    check_parameters(found, given, f"errors: {name}")
    with reporting(f"errors: {name}", file):
        made = found(**given)
    return Checked(name, made, file)


__all__ = ["ERROR_MODELS", "Checked", "ErrorModel", "Failure", "error_model"]
