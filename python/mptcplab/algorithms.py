"""Congestion controls, schedulers and path managers: their names, the old names they also go by, their parameters.

And where congestion controls settle.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Family:
    """The algorithms of one kind: `names` as we call them, `aliases` as others do; `field` names one in a flow."""

    kind: str
    field: str
    names: tuple[str, ...]
    aliases: Mapping[str, str]

    def find(self, name: str) -> str | None:
        """Our name for `name`, None if there is no such algorithm."""
        plain = self.aliases.get(name.lower().replace("-", "").replace("_", ""))
        return name if name in self.names else plain

    def parameters(self) -> list[Parameter]:
        """What its algorithms can be given."""
        from mptcplab import _core  # the compiled part has the table, and loads only when it is asked for

        return [
            Parameter(name, tuple(algorithms), unit, values, default, meaning)
            for field, name, algorithms, unit, values, default, meaning in _core.parameters()
            if field == self.field
        ]

    def refusal(self, name: str, parameters: Mapping[str, object]) -> Refusal | None:
        """What is wrong with what an algorithm of ours is given, None if nothing is."""
        from mptcplab import _core

        refused = _core.check_parameters(self.field, name, json.dumps(parameters)) if parameters else None
        return None if refused is None else Refusal(*refused)


@dataclass(frozen=True)
class Parameter:
    """A parameter of some algorithms: its unit, what it may be, its default and what it does, in words."""

    name: str
    algorithms: tuple[str, ...]
    unit: str
    values: str
    default: str
    meaning: str


@dataclass(frozen=True)
class Refusal:
    """A parameter that an algorithm does not take, or not with that value."""

    parameter: str
    found: str
    allowed: str


#: A congestion control as in a resolved experiment: its name, or an object with its name and parameters.
Control = str | Mapping[str, object]


def equilibrium(control: Control, paths: Sequence[tuple[float, float]]) -> list[float]:
    """The windows in packets at which a congestion control settles as a fluid, one for each path.

    A path is (loss rate, round-trip time in seconds). Raises ValueError if the control has no fluid or does not take
    its parameters, and for a path without loss.
    """
    from mptcplab import _core

    return _core.equilibrium(control_name(control), list(paths), _parameters(control))


def why_no_fluid(control: Control) -> str | None:
    """Why a congestion control has no fluid, None if it has one.

    Raises ValueError for parameters that it does not take.
    """
    from mptcplab import _core

    return _core.why_no_fluid(control_name(control), _parameters(control))


def control_name(control: Control) -> str:
    """The name of a congestion control."""
    return control if isinstance(control, str) else str(control["name"])


def _parameters(control: Control) -> str:
    """Its parameters as JSON."""
    return json.dumps({} if isinstance(control, str) else {key: control[key] for key in control if key != "name"})


#: A class in a file, `./mine.py:MyControl`, an eBPF object, `./mine.bpf.o`, or one of a simulator of one's own,
#: `crate:my_control`.
_OF_A_USER = re.compile(
    r"(?P<file>(\.{0,2}/).*\.py):(?P<name>[A-Za-z_]\w*)|(?P<object>(\.{0,2}/).*\.bpf\.o)|crate:[a-z0-9_-]+"
)


def is_users(name: str) -> bool:
    """Whether a name means an algorithm of a user's own."""
    return _OF_A_USER.fullmatch(name) is not None


def file_of(name: str) -> str | None:
    """The file of a user's own algorithm, None if it is in none."""
    found = _OF_A_USER.fullmatch(name)
    return found["file"] or found["object"] if found else None


def is_object(name: str) -> bool:
    """Whether a user's own algorithm, or the file that it is in, is an eBPF object."""
    return name.endswith(".bpf.o")


def is_in_crate(name: str) -> bool:
    """Whether it is an algorithm of a simulator of a user's own."""
    return name.startswith("crate:")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that looks most like `name`, None if none does."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return close[0] if close else None


def _also(names: Iterable[str], others: Mapping[str, str]) -> dict[str, str]:
    """Aliases without case, hyphen and underscore: `RoundRobin`, `round-robin` and `roundrobin` are one name."""
    return {name.replace("_", "").replace("-", ""): name for name in names} | dict(others)


_CC = (
    *("reno", "cubic", "cubic-rfc9438", "bbr", "lia", "olia", "balia", "wvegas"),
    *("ewtcp", "coupled", "semicoupled", "fixed_cwnd"),
    *("lia-oot", "olia-oot", "balia-oot", "wvegas-oot"),
    *("x-dwc", "x-mpcubic"),
)
_SCHEDULERS = (
    *("min_rtt", "round_robin", "weighted_round_robin", "redundant", "blest", "ecf", "blest-oot", "ecf-oot"),
    *("kernel_default", "x-lamps", "x-adaptive_redundant"),
)
_PATH_MANAGERS = ("passive", "full_mesh", "n_diff_ports", "binder", "kernel_endpoints")

CC = Family("congestion control", "cc", _CC, _also(_CC, {"newreno": "reno"}))
SCHEDULER = Family(
    "scheduler",
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
PATH_MANAGER = Family("path manager", "path_manager", _PATH_MANAGERS, _also(_PATH_MANAGERS, {"default": "passive"}))
