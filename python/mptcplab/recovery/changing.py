"""Strategies that follow one another during a run, as the resolved form writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

#: The strategy of the resolved form for several strategies, one after another.
IN_TURN = "in_turn"


class StrategySince(TypedDict):
    """A strategy, the event that chose it, None for the first one, and its time in ns."""

    event: str | None
    at_ns: int
    strategy: str
    parameters: Mapping[str, Any]


class _Recovery(TypedDict):
    strategy: str
    parameters: dict[str, Any]


def recovery_of(strategies: Sequence[StrategySince]) -> _Recovery:
    """Returns strategies in order of time, of which the first begins at 0, as the strategy and the
    parameters of the resolved form.
    """
    first, *others = strategies
    if others:
        return {"strategy": IN_TURN, "parameters": {"strategies": list(strategies)}}
    return {"strategy": first["strategy"], "parameters": dict(first["parameters"])}


def strategies_of(recovery: Mapping[str, Any]) -> Sequence[StrategySince]:
    """Returns the strategies of the resolved form, in order of time."""
    if recovery["strategy"] == IN_TURN:
        found: list[StrategySince] = recovery["parameters"]["strategies"]
        return found
    return [{"event": None, "at_ns": 0, "strategy": recovery["strategy"], "parameters": recovery["parameters"]}]


def chooses_strategy(experiment: Mapping[str, Any], event: Mapping[str, Any]) -> bool:
    """Returns whether an event of a resolved experiment is a part of one that chooses a strategy."""
    chosen = {one["event"] for one in strategies_of(experiment["control"]["recovery"])}
    return (event["parent"] or event["id"]) in chosen
