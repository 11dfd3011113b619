"""Congestion controls, schedulers and path managers: their names, the old names they also go by,
their parameters.

And where congestion controls settle.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Parameter:
    """A parameter of an algorithm: its unit, its allowed values, its default and what it controls,
    in words.
    """

    name: str
    unit: str
    values: str
    default: str
    meaning: str


@dataclass(frozen=True)
class Algorithm:
    """An algorithm of the engine; `aliases` are other names for it, in lower case, without hyphens
    and underscores.
    """

    name: str
    aliases: tuple[str, ...]
    summary: str
    source: str
    parameters: tuple[Parameter, ...]


@dataclass(frozen=True)
class Family:
    """The algorithms of one kind; `field` of a flow names one. The engine has the list
    (`_core.algorithms`).
    """

    kind: str
    field: str

    @cached_property
    def algorithms(self) -> tuple[Algorithm, ...]:
        """All algorithms of the family."""
        from mptcplab import _core  # loads only when a name is looked up

        return tuple(
            Algorithm(name, tuple(aliases), summary, source, tuple(Parameter(*one) for one in parameters))
            for field, name, aliases, summary, source, parameters in _core.algorithms()
            if field == self.field
        )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(one.name for one in self.algorithms)

    @cached_property
    def aliases(self) -> Mapping[str, str]:
        """The name for each alias: `RoundRobin`, `round-robin` and `rr` are `round_robin`."""
        plain = {_plain(name): name for name in self.names}
        return plain | {alias: one.name for one in self.algorithms for alias in one.aliases}

    def find(self, name: str) -> str | None:
        """Return our name for `name`, None if there is no such algorithm."""
        return name if name in self.names else self.aliases.get(_plain(name))

    def refusal(self, name: str, parameters: Mapping[str, object]) -> Refusal | None:
        """Return what is wrong with the parameters of an algorithm of ours, None if nothing is."""
        from mptcplab import _core

        refused = _core.check_parameters(self.field, name, json.dumps(parameters)) if parameters else None
        return None if refused is None else Refusal(*refused)


@dataclass(frozen=True)
class Refusal:
    """A parameter that an algorithm does not take, or not with that value."""

    parameter: str
    found: str
    allowed: str


#: A congestion control as in a resolved experiment: its name, or an object with its name and
#: parameters.
Control = str | Mapping[str, object]


def equilibrium(control: Control, paths: Sequence[tuple[float, float]]) -> list[float]:
    """The windows in packets at which a congestion control settles as a fluid, one for each path.

    A path is (loss rate, round-trip time in seconds). Raises ValueError if the control has no fluid
    or does not take its parameters, and for a path without loss.
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


#: A class in a file, `./mine.py:MyControl`, an eBPF object, `./mine.bpf.o`, or one of a simulator
#: of one's own, `crate:my_control`.
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


def is_class(name: str) -> bool:
    """Whether a name means a class in a Python file of a user's own."""
    found = _OF_A_USER.fullmatch(name)
    return found is not None and found["file"] is not None


def is_in_crate(name: str) -> bool:
    """Whether it is an algorithm of a simulator of a user's own."""
    return name.startswith("crate:")


def as_users(name: str) -> str | None:
    """The name of a user's own algorithm that lacks only the beginning of a path, None if it lacks
    something else.
    """
    complete = f"./{name}"
    return None if is_users(name) or not is_users(complete) else complete


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that looks most like `name`, None if none does."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return close[0] if close else None


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """The sentence about a name that is none of `known`, with the one that was probably meant."""
    names = list(known)
    meant = as_users(name) or nearest(name, names)
    hint = f", did you mean '{meant}'?" if meant else ""
    return f"no {kind} is called {name!r}{hint}; allowed: ./FILE.py:CLASS, or one of {', '.join(names)}"


def _plain(name: str) -> str:
    """Return a name without case, hyphens and underscores."""
    return name.lower().replace("-", "").replace("_", "")


CC = Family("congestion control", "cc")
SCHEDULER = Family("scheduler", "scheduler")
PATH_MANAGER = Family("path manager", "path_manager")
