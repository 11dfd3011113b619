"""Tests that the tables of docs/internals/rfc8684.md name an existing test for each met
requirement.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from documentation import ROOT

PAGE = ROOT / "docs" / "internals" / "rfc8684.md"
CRATE = ROOT / "crates" / "mptcp"
SCRIPTS = CRATE / "tests" / "packet_scripts"
LAST_COLUMN = "shown by"
#: The beginnings of the engine's column in rows without a test.
UNMET = ("differs", "not yet")
CITATION = re.compile(r"`([^`]+)`")
FUNCTION = r"fn {}\("


@dataclass(frozen=True)
class Requirement:
    """A row of a table."""

    text: str
    is_met: bool
    tests: tuple[str, ...]


def rows() -> list[Requirement]:
    """Returns the rows of all tables that name tests."""
    found = []
    is_table = False
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            is_table = False
        elif cells[-1] == LAST_COLUMN:
            is_table = True
        elif is_table and set(line) - set("|-"):
            is_met = not cells[-2].startswith(UNMET)
            found.append(Requirement(cells[0], is_met, tuple(CITATION.findall(cells[-1]))))
    return found


def exists(test: str) -> bool:
    """Returns whether a test exists.

    A test is a packet script, a test `tests/FILE::NAME` or `src/PART::PART::NAME`, or a file or
    folder of them.
    """
    if test.endswith(".pkt"):
        return (SCRIPTS / test).is_file()
    *parts, name = test.replace("::", "/").split("/")
    for base in (CRATE / "tests", CRATE / "src"):
        folder = base.joinpath(*parts)
        whole = folder / name
        if whole.is_dir() or whole.with_suffix(".rs").is_file():
            return True
        files = [folder.with_suffix(".rs"), folder / "mod.rs", folder / "tests.rs"]
        if any(re.search(FUNCTION.format(name), file.read_text(encoding="utf-8")) for file in files if file.is_file()):
            return True
    return False


ROWS = rows()


def test_what_is_done_names_a_test() -> None:
    assert len(ROWS) > 100
    assert [row.text for row in ROWS if row.is_met and not row.tests] == []


def test_the_named_tests_exist() -> None:
    assert [test for row in ROWS for test in row.tests if not exists(test)] == []


def test_every_packet_script_shows_something() -> None:
    cited = {test for row in ROWS for test in row.tests}
    assert [script.name for script in sorted(SCRIPTS.glob("*.pkt")) if script.name not in cited] == []
