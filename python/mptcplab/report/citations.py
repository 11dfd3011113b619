"""The BibTeX entries of the papers behind the algorithms and experiments of runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from mptcplab.results import Bundle
from mptcplab.results.entities import Json

FILE = "references.bib"
#: The fields of a flow that name algorithms. Those beyond the first are of MPTCP only.
FIELDS = ("cc", "scheduler", "path_manager")


def bibliography(bundles: Iterable[Bundle]) -> str:
    """Returns the entries for runs as BibTeX, in the order of the file of references. Empty if
    there are none.
    """
    used = {name for bundle in bundles for name in _used(bundle)}
    return "\n\n".join(entry for names, entry in _entries() if names & used)


def cited_algorithms() -> set[str]:
    """Returns everything that the references are sources of."""
    return set().union(*(names for names, _ in _entries()))


def _used(bundle: Bundle) -> Iterator[str]:
    """Yields the folder of the paper, the protocol, and the algorithms that ran, after
    substitutions.
    """
    yield f"papers/{bundle.record['experiment'].partition('/')[0]}"
    instead = {one["where"]: one["used"] for one in bundle.record["substitutions"]}
    for flow in bundle.resolved["flows"]:
        if flow["transport"] == "udp":
            continue
        is_multipath = flow["transport"] == "mptcp"
        if is_multipath:
            yield "mptcp"
        for field in FIELDS if is_multipath else FIELDS[:1]:
            yield instead.get(f"flows.{flow['id']}.{field}") or _first(flow, field)


def _first(flow: Json, field: str) -> str:
    """Returns the first algorithm of a preference list. With parameters it is an object."""
    preferred: Sequence[Any] = flow.get(field) or [""]
    first = preferred[0]
    return first if isinstance(first, str) else str(first["name"])


@cache
def _entries() -> list[tuple[frozenset[str], str]]:
    """Returns each entry without its keywords, and the keywords."""
    text = files("mptcplab.report").joinpath(FILE).read_text(encoding="utf-8")
    found = []
    for entry in re.findall(r"^@.*?^}$", text, flags=re.DOTALL | re.MULTILINE):
        stated = re.search(r",\n  keywords = \{(.*?)\}", entry)
        assert stated is not None, entry
        found.append((frozenset(re.split(r",\s*", stated[1])), entry.replace(stated[0], "")))
    return found
