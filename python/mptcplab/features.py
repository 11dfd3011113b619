"""The features that descriptions can use, and which back-end lacks each, as the engine has them in
its table.
"""

from __future__ import annotations

from functools import cache


@cache
def features() -> dict[str, dict[str, str | None]]:
    """Returns every feature, as in `transport udp`, with the reason for which each back-end lacks
    it; None if the back-end has it.

    Algorithms of a user's own are left out. The table has what the back-ends' compiled part makes
    of them, and Python classes run on more of them.
    """
    from mptcplab import _core  # loads only when a feature is looked up

    return {name: dict(reasons) for name, reasons in _core.features() if not name.startswith("own ")}


def names(kind: str) -> list[str]:
    """Returns the names of the features of a kind: `udp`, `tcp` and `mptcp` for `transport`."""
    return [name.removeprefix(f"{kind} ") for name in features() if name.startswith(f"{kind} ")]


def lacking(feature: str) -> set[str]:
    """Returns the back-ends that lack a feature. Raises KeyError if the table does not have it."""
    return {backend for backend, why in features()[feature].items() if why is not None}
