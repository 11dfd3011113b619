"""Error models in a description, and the events that they make."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from random import Random
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from mptcplab.error_models import ERROR_MODELS, Failure, error_model
from mptcplab.experiment.base import Choice, described
from mptcplab.experiment.events import Event, RiskGroup
from mptcplab.experiment.names import expanded
from mptcplab.units import Duration


class Errors(Choice):
    """A model that generates failure events: its name or `./FILE.py:CLASS`, with its settings."""

    kind = "error model"
    choices = ERROR_MODELS

    links: Annotated[
        Annotated[Literal["all"], Tag("<word>")] | Annotated[list[str], Tag("<links>")],
        Discriminator(lambda value: "<word>" if isinstance(value, str) else "<links>"),
    ] = "all"
    """The links that can fail: those between OpenFlow switches, or the given ones; ranges are
    expanded.
    """
    draw: Annotated[int, Field(ge=0)] = 1
    """The seed of random failures. It is separate from the seed of a run, so all runs of an
    experiment have the same failures.
    """
    by: Literal["cut", "drop_rule", "port_down"] = "port_down"
    """How links are interrupted."""
    parameters: dict[str, Any] = {}
    """Parameters of the model, by name."""

    @classmethod
    def settings(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        own = {key: value for key, value in given.items() if key in ("links", "draw", "by")}
        return own | {"parameters": {key: value for key, value in given.items() if key not in own}}


def failures(
    errors: Errors,
    switched_links: Sequence[str],
    groups: Mapping[str, Sequence[str]],
    duration_ns: int,
    code: Sequence[Mapping[str, str]],
) -> list[Event]:
    """Returns the failures of an error model as events `failure1`, `failure2` .. Failures that
    overlap on a link become one, and a failure lasts until the end of the run at most.

    `code` is the `user_code` of the resolved form. Raises SpecError, or an error of `described`.
    """
    links = list(switched_links) if errors.links == "all" else expanded(errors.links)
    found = ERROR_MODELS.get(errors.name)
    parameters = errors.parameters if found is None else in_nanoseconds(found, errors.parameters)
    model = error_model(errors.name, parameters, code)
    made = model.failures(links, groups, duration_ns, Random(errors.draw))
    apart = _apart(made, groups)
    return [_event(failure, f"failure{number}", errors.by, duration_ns) for number, failure in enumerate(apart, 1)]


def in_nanoseconds(kind: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns parameters by the names that a class has: `mtbf: 60s` for `mtbf_ns`, as a whole
    number.
    """
    taken = inspect.signature(kind).parameters
    times = {name for name in given if name not in taken and f"{name}_ns" in taken}
    return {
        f"{name}_ns" if name in times else name: _time(value) if name in times else value
        for name, value in given.items()
    }


def _time(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_time(one) for one in value]
    try:
        return int(Duration(value))
    except (TypeError, ValueError) as error:
        raise described(str(error), "a time such as 60s or 200ms", field="parameters") from None


def _apart(made: Sequence[Failure], groups: Mapping[str, Sequence[str]]) -> list[Failure]:
    """Returns failures, in order of time, of which no two are down at once on one link.

    A failure of a group that overlaps with others becomes failures of its links.
    """
    each = [
        (failure.at_ns, failure.at_ns + failure.for_ns, link, failure)
        for failure in made
        for link in ([failure.link] if failure.link is not None else groups[failure.group or ""])
    ]
    whole: dict[str, list[tuple[int, int, Failure | None]]] = {}
    for start, end, link, failure in sorted(each, key=lambda one: one[:3]):
        periods = whole.setdefault(link, [])
        if periods and start <= periods[-1][1]:
            periods[-1] = (periods[-1][0], max(end, periods[-1][1]), None)
        else:
            periods.append((start, end, failure))
    untouched = {id(failure) for failure in made} - {
        id(failure) for failure in made if not _is_whole(failure, whole, groups)
    }
    kept = [failure for failure in made if id(failure) in untouched]
    single = [
        Failure(start, end - start, link)
        for link, periods in whole.items()
        for start, end, failure in periods
        if failure is None or id(failure) not in untouched
    ]
    return sorted([*kept, *single], key=lambda one: (one.at_ns, one.group or "", one.link or ""))


def _is_whole(
    failure: Failure,
    periods: Mapping[str, Sequence[tuple[int, int, Failure | None]]],
    groups: Mapping[str, Sequence[str]],
) -> bool:
    links = [failure.link] if failure.link is not None else groups[failure.group or ""]
    return all(any(of is failure for *_, of in periods[link]) for link in links)


def _event(failure: Failure, name: str, by: str, duration_ns: int) -> Event:
    target = failure.link if failure.link is not None else RiskGroup(srlg=failure.group or "")
    length = Duration(min(failure.for_ns, duration_ns - failure.at_ns))
    return Event.model_validate(
        {"id": name, "at": str(Duration(failure.at_ns)), "outage": target, "for": length, "by": by}
    )
