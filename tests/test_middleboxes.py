"""Tests common middleboxes, and the middlebox matrix with the engine at both hosts."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import SHORT
from middlebox_matrix import MIDDLEBOXES, PAGE, cells, row
from mptcplab.catalogue import listing
from mptcplab.cli import application
from typer.testing import CliRunner


def test_show_says_what_stands_where(tmp_path: Path) -> None:
    description = tmp_path / "short.yaml"
    description.write_text(SHORT + "middleboxes: [{at: phone.wlan0, direction: leaving, insert_bytes: {after: 8kB}}]\n")
    shown = CliRunner().invoke(application(), ["show", str(description)]).output
    [line] = [line for line in shown.splitlines() if "insert_bytes" in line and "phone.wlan0" in line]
    assert "leaving" in line
    assert "after_bytes 8000" in line


def test_only_our_stack_can_be_strict(tmp_path: Path) -> None:
    description = tmp_path / "strict.yaml"
    description.write_text(SHORT.replace("phone: {}", "phone: {fallback: strict}"))
    [entry] = listing(str(description))
    assert "sim" in entry["on"]
    assert "kernel" not in entry["on"]


@pytest.mark.slow
@pytest.mark.parametrize("middlebox", MIDDLEBOXES)
def test_what_is_left_is_allowed_and_documented(middlebox: str, tmp_path: Path) -> None:
    own = [cell for cell in cells(["ours - ours"]) if cell.middlebox == middlebox]
    outcomes = {cell: cell.outcome(tmp_path / str(cell)) for cell in own}
    assert [f"{cell}: {outcome}" for cell, outcome in outcomes.items() if outcome not in cell.allowed()] == []
    assert row(middlebox, outcomes) in PAGE.read_text(encoding="utf-8")
