"""Tests the generated files: current in the repository, consistent with resolved experiments, and
readable.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from documentation import DESCRIPTIONS, DOCUMENTED, ROOT, Block, write_with_page
from jsonschema import Draft202012Validator
from mptcplab import _core, algorithms
from mptcplab.catalogue import catalogue
from mptcplab.experiment import members
from mptcplab.experiment.profiles import shipped
from mptcplab.reference import documents

RESOLVED = Draft202012Validator(json.loads(_core.resolved_schema()))


def misfits(resolved: dict[str, Any]) -> list[str]:
    """Returns the places where a resolved experiment does not match the schema."""
    return [f"{error.json_path}: {error.message[:80]}" for error in RESOLVED.iter_errors(resolved)]


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """The generated files by name, which take seconds to generate."""
    return documents(ROOT)


def test_what_is_checked_in_is_what_the_code_says(pages: dict[str, str]) -> None:
    is_current = {name: (ROOT / name).exists() and (ROOT / name).read_text("utf-8") == pages[name] for name in pages}
    assert [name for name, current in is_current.items() if not current] == [], "make schema"


@pytest.mark.parametrize("paper", sorted({member.name.split("/")[0] for member in catalogue()}))
def test_the_catalogue_resolves_to_the_schema(paper: str) -> None:
    for member in catalogue(paper):
        assert misfits(json.loads(member.resolve().json())) == [], member.name


@pytest.mark.parametrize("description", DESCRIPTIONS, ids=lambda path: path.stem)
def test_examples_resolve_to_the_schema(description: Path) -> None:
    for member in members(description):
        assert misfits(json.loads(member.resolve().json())) == [], member.name


@pytest.mark.parametrize("block", DOCUMENTED, ids=lambda block: block.place)
def test_documented_descriptions_resolve_to_the_schema(block: Block, tmp_path: Path) -> None:
    for member in members(write_with_page(block, tmp_path)):
        assert misfits(json.loads(member.resolve().json())) == [], member.name


def test_the_schema_of_the_resolved_form_is_strict() -> None:
    resolved = json.loads(catalogue("alenazi2019")[0].resolve().json())
    resolved["links"][0]["forward"]["delay_ms"] = 3
    del resolved["measure"]["every_ns"]
    assert len(misfits(resolved)) == 2


def test_the_reference_names_everything(pages: dict[str, str]) -> None:
    for family in (algorithms.CC, algorithms.SCHEDULER, algorithms.PATH_MANAGER):
        assert [name for name in family.names if f"| `{name}` |" not in pages["docs/reference/algorithms.md"]] == []
    assert [name for name in shipped() if f"\n## {name}\n" not in pages["docs/reference/profiles.md"]] == []
    rows = [row.split(" | ") for row in pages["docs/reference/description.md"].splitlines() if row.startswith("| `")]
    assert len(rows) > 100
    assert [row[0] for row in rows if len(row[3]) < 5] == []
