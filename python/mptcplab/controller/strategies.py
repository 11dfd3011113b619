"""Loads the strategies of recovery that a resolved experiment names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mptcplab import recovery

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mptcplab.controller.network import Experiment
    from mptcplab.recovery import Strategy


def strategies_of(experiment: Experiment) -> tuple[Strategy, Mapping[str, Strategy]]:
    """Returns the first strategy, and those that follow, by the ids of the actions that stand for
    the events which choose them.
    """
    first, *others = recovery.strategies_of(experiment["control"]["recovery"])
    of_events = {one["event"]: _made(one, experiment) for one in others}
    by_action = {action["id"]: of_events.get(action["parent"] or action["id"]) for action in experiment["events"]}
    return _made(first, experiment), {name: strategy for name, strategy in by_action.items() if strategy is not None}


def _made(chosen: recovery.StrategySince, experiment: Experiment) -> Strategy:
    return recovery.strategy(chosen["strategy"], chosen["parameters"], experiment["user_code"])
