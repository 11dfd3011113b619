"""Recovery by the hosts alone: Multipath TCP moves its data to another subflow."""

from __future__ import annotations

from dataclasses import dataclass

from mptcplab.recovery.strategy import Strategy


@dataclass(frozen=True)
class Transport(Strategy):
    """Does nothing in the network. It differs from `none` in what a description says about its
    hosts.
    """

    summary = "the hosts move data to another subflow, and the network does nothing"
