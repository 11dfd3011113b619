"""mptcplab: the laboratory for Multipath TCP.

    from mptcplab import Experiment, load, members, resolve, run

The names are loaded when they are first used, so that `import mptcplab` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mptcplab.experiment.description import Experiment
    from mptcplab.experiment.load import load, members
    from mptcplab.experiment.resolve import resolve
    from mptcplab.runner import run

# Public name -> the module that has it.
_HOMES = {
    "Experiment": "mptcplab.experiment.description",
    "load": "mptcplab.experiment.load",
    "members": "mptcplab.experiment.load",
    "resolve": "mptcplab.experiment.resolve",
    "run": "mptcplab.runner",
}

__all__ = ["Experiment", "load", "members", "resolve", "run"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'mptcplab' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
