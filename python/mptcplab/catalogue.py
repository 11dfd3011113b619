"""Finds the experiments of a SPEC: a file, or a name or prefix in the catalogue of mptcplab."""

from __future__ import annotations

import re
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mptcplab import callers, consent
from mptcplab.backends import all_on_any_machine, feature_of
from mptcplab.backends.preferences import Offer, first_choices
from mptcplab.catalogue_index import PAPERS, indexed
from mptcplab.errors import NotAllowed, SpecError, Unsupported
from mptcplab.experiment import members
from mptcplab.recorded import Recorded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mptcplab.backends import Backend
    from mptcplab.experiment import Member

#: What a description lacks if its classes were not allowed yet.
NOT_ALLOWED = "classes that were not allowed yet"
#: Names that a message about an unknown one suggests.
MOST_NEAR = 3

Entry = dict[str, Any]


def find(spec: str, changes: Mapping[str, str] | None = None) -> Sequence[Member | Recorded]:
    """Returns the experiments of `spec`: all of a file, or those of the catalogue with this name or
    prefix.

    A .json file is the resolved experiment of a bundle, which runs as it is. `changes` (description
    path or parameter -> YAML) are made to each experiment. Raises SpecError if there is none.
    """
    if spec.endswith(".json"):
        if changes:
            raise SpecError(f"{spec}: is resolved already, --set cannot change it", allowed="--set on a description")
        return [Recorded.read(Path(spec).expanduser())]
    if _is_path(spec):
        return members(Path(spec).expanduser(), changes)
    paper = spec.split("/")[0]
    found = [member for member in catalogue(paper, changes) if _is_under(member.name, spec)]
    if not found and changes and any(_is_under(member.name, spec) for member in catalogue(paper)):
        names = ", ".join(f"--set {key}" for key in changes)
        raise SpecError(f"with {names} no experiment is called {spec!r}", allowed=f"a prefix of the name, as {paper!r}")
    if not found:
        raise _unknown(spec)
    return found


def catalogue(paper: str | None = None, changes: Mapping[str, str] | None = None) -> list[Member]:
    """Returns every experiment of the catalogue, or of one paper, in natural order: A.1, A.2, A.10,
    B.1.
    """
    folders = [PAPERS / paper] if paper else [folder for folder in PAPERS.iterdir() if folder.is_dir()]
    files = [file for folder in folders for file in sorted(folder.glob("*.yaml"))]
    found = [member for file in files for member in members(file, changes)]
    return sorted(found, key=lambda member: _natural_order(member.name))


def listing(spec: str | None = None) -> list[Entry]:
    """Returns the entries of ``list --json``: id, title, the back-ends that can run an experiment,
    and missing features.
    """
    if spec is not None and _is_path(spec):
        return [entry_of(member) for member in find(spec)]
    found = [entry for entry in indexed() if spec is None or _is_under(entry["id"], spec)]
    if not found and spec is not None:
        raise _unknown(spec)
    return found


def entry_of(member: Member | Recorded) -> Entry:
    """Returns the entry of an experiment: the back-ends that run it, and what the others lack."""
    resolved = member.resolve().data
    try:
        # Whoever looks at a description loads nothing of it that was not allowed, and nothing as
        # root.
        consent.settle([resolved], in_real_time=False)
        if consent.brings_classes(resolved):
            callers.leave_root_for_classes("sim", needs_root=False)
    except NotAllowed:
        lacked = {backend.name: [NOT_ALLOWED] for backend in all_on_any_machine()}
        return {"id": member.name, "title": member.title, "on": [], "missing": [NOT_ALLOWED], "waits": lacked}
    missing: dict[str, list[str]] = {}
    for backend in all_on_any_machine():
        with suppress(Unsupported):  # real-time back-ends exist only on Linux
            missing[backend.name] = _missing(resolved, backend)
    able = [name for name, features in missing.items() if not features]
    waits = {name: features for name, features in missing.items() if features}
    known = {"id": member.name, "title": member.title, "on": able}
    return {**known, "missing": min(missing.values(), key=len), "waits": waits}


def _missing(resolved: dict[str, Any], backend: Backend) -> list[str]:
    choice = first_choices(resolved, [Offer.of(backend)])
    missing = [*choice.missing, *backend.check(choice.experiment)]
    return list(dict.fromkeys(feature_of(where) for where, _ in missing))


def _natural_order(name: str) -> list[str | int]:
    """Returns texts and numbers in turn, so that numbers are compared as numbers."""
    return [int(part) if part.isdigit() else part for part in re.split(r"([0-9]+)", name)]


def _is_path(spec: str) -> bool:
    return spec.endswith((".yaml", ".yml", ".json")) or spec.startswith((".", "/", "~")) or Path(spec).is_file()


def _is_under(name: str, prefix: str) -> bool:
    prefix = prefix.rstrip("/")
    return name == prefix or name.startswith((f"{prefix}/", f"{prefix}."))


def _unknown(spec: str) -> SpecError:
    names = _prefixes(member.name for member in catalogue())
    # The part of a name that papers use, as in fig9, is far from the whole name by its letters.
    near = [name for name in names if name.endswith(f"/{spec}")] or get_close_matches(spec, names, n=1)
    if Path(f"{spec}.yaml").is_file():
        near = [f"{spec}.yaml"]
    hint = f"; did you mean {' or '.join(near[:MOST_NEAR])}?" if near else ""
    return SpecError(
        f"no experiment and no file is called {spec!r}{hint}",
        allowed="a .yaml file, a bundle's experiment.json, or a name or prefix from `mptcplab list`",
    )


def _prefixes(names: Iterable[str]) -> list[str]:
    """Returns every name and every folder of names, each once."""
    found: dict[str, None] = {}
    for name in names:
        parts = name.split("/")
        for end in range(1, len(parts) + 1):
            found["/".join(parts[:end])] = None
    return list(found)
