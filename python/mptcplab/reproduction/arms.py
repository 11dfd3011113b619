"""The two arms of a reproduction: the stack of the paper's time, and the stack of today.

Experiments of papers list choices in order of preference: what the paper had, then what a mainline
kernel has. The arm ``then`` uses the first choice. The arm ``today`` uses the first choice that a
mainline kernel has, on any back-end.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from mptcplab.backends import ON_KERNEL, all_on_any_machine, backend
from mptcplab.backends.preferences import Choice, Offer, first_choices
from mptcplab.errors import Unsupported

Json = dict[str, Any]
Name = Literal["then", "today"]
NAMES: tuple[Name, ...] = ("then", "today")


@dataclass(frozen=True)
class Arm:
    """A stack on a back-end."""

    name: Name
    backend: str

    @property
    def label(self) -> str:
        """The label of the arm: ``then (sim)``."""
        return f"{self.name} ({self.backend})"


@dataclass(frozen=True)
class Chosen:
    """The form in which an experiment runs in an arm, or the reason why it cannot."""

    choice: Choice | None
    why_not: str | None


def chosen(arm: Arm, experiment: Json) -> Chosen:
    """Returns the form in which an experiment runs in an arm. A stack of another arm is never
    substituted.
    """
    try:
        offers = [_offer(arm.backend), *([_mainline()] if arm.name == "today" and arm.backend != ON_KERNEL else [])]
    except Unsupported as error:
        return Chosen(None, str(error))
    choice = first_choices(experiment, offers)
    reasons = dict.fromkeys(f"{where.rpartition('.')[2]} ({why})" for where, why in choice.missing)
    if arm.name == "then":
        reasons |= dict.fromkeys(
            f"{s['where'].rpartition('.')[2]}: {s['asked']} ({s['why']})" for s in choice.substitutions
        )
    if not reasons:
        there = backend(arm.backend)
        reasons |= dict.fromkeys(f"{feature} ({why})" for feature, why in there.check(choice.experiment))
    if reasons:
        whose = "a mainline kernel" if arm.name == "today" else arm.backend
        return Chosen(None, f"{whose} has no {'; no '.join(reasons)}")
    return Chosen(choice, None)


@cache
def _offer(backend_name: str) -> Offer:
    return Offer.of(backend(backend_name))


@cache
def _mainline() -> Offer:
    """Returns what a mainline kernel of today has, whichever kernel this machine runs."""
    return next(Offer.of(one) for one in all_on_any_machine() if one.name == ON_KERNEL)
