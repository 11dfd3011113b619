"""mptcplab: the laboratory for Multipath TCP.

    import mptcplab

    runs = mptcplab.run(mptcplab.load("alenazi2019/fig9", set={"links.*.rate": "5mbit"}))
    runs.metrics(kind="flow")

The names are loaded when they are first used, so that `import mptcplab` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mptcplab.experiment.description import Experiment
    from mptcplab.experiment.load import members
    from mptcplab.experiment.resolve import resolve
    from mptcplab.interactive import Comparison, Experiments, Run, Runs, compare, load, run

# Public name -> the module that has it.
_HOMES = {
    "Experiment": "mptcplab.experiment.description",
    "members": "mptcplab.experiment.load",
    "resolve": "mptcplab.experiment.resolve",
    **dict.fromkeys(("Comparison", "Experiments", "Run", "Runs", "compare", "load", "run"), "mptcplab.interactive"),
}

__all__ = [
    "Comparison",
    "Experiment",
    "Experiments",
    "Run",
    "Runs",
    "compare",
    "load",
    "members",
    "resolve",
    "run",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'mptcplab' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
