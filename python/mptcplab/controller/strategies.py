"""Loads the strategy of recovery that a resolved experiment names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mptcplab import recovery

if TYPE_CHECKING:
    from mptcplab.controller.network import Experiment
    from mptcplab.recovery import Strategy


def strategy_of(experiment: Experiment) -> Strategy:
    """Returns the strategy, made with its parameters."""
    chosen = experiment["control"]["recovery"]
    return recovery.strategy(chosen["strategy"], chosen["parameters"], experiment["user_code"])
