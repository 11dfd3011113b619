"""The names of congestion controls, schedulers and path managers: one table, with the old names they also go by."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Family:
    """The algorithms of one kind: `names` as we call them, `aliases` as others do."""

    kind: str
    names: tuple[str, ...]
    aliases: Mapping[str, str]

    def find(self, name: str) -> str | None:
        """Our name for `name`, None if there is no such algorithm."""
        plain = self.aliases.get(name.lower().replace("-", "").replace("_", ""))
        return name if name in self.names else plain


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that looks most like `name`, None if none does."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return close[0] if close else None


def _also(names: Iterable[str], others: Mapping[str, str]) -> dict[str, str]:
    """Aliases without case, hyphen and underscore: `RoundRobin`, `round-robin` and `roundrobin` are one name."""
    return {name.replace("_", "").replace("-", ""): name for name in names} | dict(others)


_CC = (
    *("reno", "cubic", "bbr", "lia", "olia", "balia", "wvegas", "ewtcp", "coupled", "semicoupled", "fixed_cwnd"),
    *("lia-oot", "olia-oot", "balia-oot", "wvegas-oot"),
    *("x-dwc", "x-mpcubic"),
)
_SCHEDULERS = (
    *("min_rtt", "round_robin", "weighted_round_robin", "redundant", "blest", "ecf", "blest-oot", "ecf-oot"),
    *("kernel_default", "x-lamps", "x-adaptive_redundant"),
)
_PATH_MANAGERS = ("passive", "full_mesh", "n_diff_ports", "binder", "kernel_endpoints")

CC = Family("congestion control", _CC, _also(_CC, {"newreno": "reno"}))
SCHEDULER = Family(
    "scheduler",
    _SCHEDULERS,
    _also(
        _SCHEDULERS,
        {
            "lowestrtt": "min_rtt",
            "minrtt": "min_rtt",
            "default": "min_rtt",
            "wrr": "weighted_round_robin",
            "rr": "round_robin",
        },
    ),
)
PATH_MANAGER = Family("path manager", _PATH_MANAGERS, _also(_PATH_MANAGERS, {"default": "passive"}))
