"""What a SPEC on the command line means: a file, or a name or prefix in the catalogue that comes with mptcplab."""

from __future__ import annotations

import re
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from mptcplab.errors import SpecError
from mptcplab.experiment import members

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mptcplab.experiment import Member

PAPERS = Path(__file__).parent / "papers"


def find(spec: str, changes: Mapping[str, str] | None = None) -> list[Member]:
    """The experiments that ``spec`` means: all of a file, or those of the catalogue with that name or prefix.

    ``changes`` (description path or parameter -> YAML) are made to each. Raises SpecError if there is none.
    """
    if _is_path(spec):
        return members(Path(spec), changes)
    paper = spec.split("/")[0]
    found = [member for member in catalogue(paper, changes) if _is_under(member.name, spec)]
    if not found and changes and any(_is_under(member.name, spec) for member in catalogue(paper)):
        names = ", ".join(f"--set {key}" for key in changes)
        raise SpecError(f"with {names} no experiment is called {spec!r}", allowed=f"a prefix of the name, as {paper!r}")
    if not found:
        raise _unknown(spec)
    return found


def catalogue(paper: str | None = None, changes: Mapping[str, str] | None = None) -> list[Member]:
    """Every experiment of the catalogue, or of one paper, in natural order: A.1, A.2, A.10, B.1."""
    folders = [PAPERS / paper] if paper else [folder for folder in PAPERS.iterdir() if folder.is_dir()]
    files = [file for folder in folders for file in sorted(folder.glob("*.yaml"))]
    found = [member for file in files for member in members(file, changes)]
    return sorted(found, key=lambda member: _natural_order(member.name))


def _natural_order(name: str) -> list[str | int]:
    """Texts and numbers in turn, so that numbers are compared as numbers."""
    return [int(part) if part.isdigit() else part for part in re.split(r"([0-9]+)", name)]


def _is_path(spec: str) -> bool:
    return spec.endswith((".yaml", ".yml")) or spec.startswith((".", "/", "~")) or Path(spec).is_file()


def _is_under(name: str, prefix: str) -> bool:
    prefix = prefix.rstrip("/")
    return name == prefix or name.startswith((f"{prefix}/", f"{prefix}."))


def _unknown(spec: str) -> SpecError:
    names = _prefixes(member.name for member in catalogue())
    near = get_close_matches(spec, names, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    return SpecError(
        f"no experiment and no file is called {spec!r}",
        allowed=f"{hint}a .yaml file, or a name or prefix from `mptcplab list`",
    )


def _prefixes(names: Iterable[str]) -> list[str]:
    """Every name and every folder of names, each once."""
    found: dict[str, None] = {}
    for name in names:
        parts = name.split("/")
        for end in range(1, len(parts) + 1):
            found["/".join(parts[:end])] = None
    return list(found)
