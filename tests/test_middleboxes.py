"""The middlebox matrix with our stack at both ends: every cell is allowed, and as the documentation says."""

from __future__ import annotations

from pathlib import Path

import pytest
from middlebox_matrix import MIDDLEBOXES, PAGE, cells, row

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("middlebox", MIDDLEBOXES)
def test_what_is_left_is_allowed_and_documented(middlebox: str, tmp_path: Path) -> None:
    own = [cell for cell in cells(["ours - ours"]) if cell.middlebox == middlebox]
    outcomes = {cell: cell.outcome(tmp_path / str(cell)) for cell in own}
    assert [f"{cell}: {outcome}" for cell, outcome in outcomes.items() if outcome not in cell.allowed()] == []
    assert row(middlebox, outcomes) in PAGE.read_text(encoding="utf-8")
