"""The table of a family: a row for each member, with its parameters and the metrics that the family
has of members.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mptcplab.report.grid import Grid
from mptcplab.report.quantities import MISSING, head, quantity
from mptcplab.results import Bundle, check_metric
from mptcplab.results.entities import Json

#: Kinds of family metrics with a value for each member.
OF_MEMBERS = ("ratio", "difference", "value")


def members_grids(entries: Mapping[str, Sequence[Json]], bundles: Sequence[Bundle]) -> list[tuple[str, Grid]]:
    """Returns a table for each family with metrics of its members, by its name.

    `entries` are those of ``families.evaluate`` by the back-end of the runs.
    """
    of_members = {
        backend: [entry for entry in found if entry["kind"] in OF_MEMBERS] for backend, found in entries.items()
    }
    names = dict.fromkeys(entry["family"] for found in of_members.values() for entry in found)
    resolved = {bundle.record["experiment"]: bundle.resolved for bundle in bundles}
    return [(name, _grid(_of_family(of_members, name), resolved)) for name in names]


def _of_family(entries: Mapping[str, Sequence[Json]], family: str) -> dict[str, list[Json]]:
    return {backend: [entry for entry in found if entry["family"] == family] for backend, found in entries.items()}


def _grid(entries: Mapping[str, Sequence[Json]], resolved: Mapping[str, Json]) -> Grid:
    every = [entry for found in entries.values() for entry in found]
    ids = list(dict.fromkeys(entry["id"] for entry in every))
    members = [name for name in dict.fromkeys(entry["experiment"] for entry in every) if name in resolved]
    parameters = _differing([resolved[name]["parameters"] for name in members])
    several = len(entries) > 1
    rows = []
    for member in members:
        for backend, found in entries.items():
            of_member = {entry["id"]: entry for entry in found if entry["experiment"] == member}
            if of_member:
                chosen = [str(resolved[member]["parameters"][name]) for name in parameters]
                told = [_told(of_member.get(one), resolved[member]) for one in ids]
                rows.append([*(chosen or [member]), *([backend] if several else []), *told])
    first = [*(parameters or ["experiment"]), *(["back-end"] if several else [])]
    heads = [*first, *(head(one) for one in ids)]
    return Grid(heads, rows, frozenset(range(len(first), len(heads))))


def _differing(parameters: Sequence[Json]) -> list[str]:
    """Returns the parameters in which members differ."""
    return [name for name in (parameters[0] if parameters else {}) if len({str(one[name]) for one in parameters}) > 1]


def _told(entry: Json | None, resolved: Json) -> str:
    """Returns the median, with its interval where runs differ."""
    if entry is None or entry["median"] is None:
        return MISSING
    unit = "" if entry["kind"] == "ratio" else check_metric(entry["metric"], resolved, "").unit
    low, high = entry["ci95"]
    text = quantity(entry["median"], unit)
    return text if low == high else f"{text} ({quantity(low, unit)} to {quantity(high, unit)})"
