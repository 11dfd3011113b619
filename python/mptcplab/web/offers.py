"""The experiments that a page offers to start: those of the catalogue, and of description files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from mptcplab.catalogue import find
from mptcplab.catalogue_index import indexed
from mptcplab.errors import MptcplabError
from mptcplab.experiment import Member, load


class Offers:
    """Experiments by their names. Those of files come first.

    Raises SpecError for a file of `required` that is no description. `others` may hold such files.
    """

    def __init__(self, required: Sequence[Path], others: Sequence[Path] = ()) -> None:
        self._required = {member.name: member for file in required for member in load(file)}
        self._others = others

    @cached_property
    def _of_files(self) -> dict[str, Member]:
        found: dict[str, Member] = {}
        for file in self._others:
            try:
                found |= {member.name: member for member in load(file)}
            except MptcplabError:
                continue
        return self._required | found

    @cached_property
    def titles(self) -> dict[str, str]:
        """The title of each experiment by its name."""
        of_catalogue = {entry["id"]: entry["title"] for entry in indexed()}
        return {name: member.title for name, member in self._of_files.items()} | of_catalogue

    def __contains__(self, name: object) -> bool:
        return name in self.titles

    def member(self, name: str) -> Member:
        """Returns an experiment. Raises KeyError if it is not offered."""
        if name in self._of_files:
            return self._of_files[name]
        if name not in self.titles:
            raise KeyError(name)
        found = next(member for member in find(name) if member.name == name)
        assert isinstance(found, Member)
        return found
