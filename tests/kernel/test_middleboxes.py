"""The middlebox matrix with the kernel at one end: some cells in `make test`, all of them in `make soak`."""

from __future__ import annotations

from pathlib import Path

import pytest
from middlebox_matrix import Cell, Ends, cells, pairwise

pytestmark = pytest.mark.kernel

ENDS: tuple[Ends, Ends] = ("ours - kernel", "kernel - ours")
CHOSEN = pairwise(ENDS)
OTHERS = [cell for cell in cells(ENDS) if cell not in CHOSEN]


@pytest.mark.parametrize("cell", [*CHOSEN, *(pytest.param(cell, marks=pytest.mark.soak) for cell in OTHERS)], ids=str)
def test_what_is_left_is_allowed(cell: Cell, tmp_path: Path) -> None:
    assert cell.outcome(tmp_path) in cell.allowed()
