"""No recovery: a path over a failed link carries nothing until the link is repaired."""

from __future__ import annotations

from dataclasses import dataclass

from mptcplab.recovery.strategy import Strategy


@dataclass(frozen=True)
class NoRecovery(Strategy):
    """Does nothing."""

    summary = "does nothing: a failed link stays down until it is repaired"
