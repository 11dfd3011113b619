"""Tests that the notebooks run from top to bottom, show their figures, and are committed without
output.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from documentation import EXAMPLES

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")
NOTEBOOKS = sorted((EXAMPLES / "notebooks").glob("*.ipynb"))
LONGEST_CELL_S = 300


def code_cells(book: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [cell for cell in book.cells if cell.cell_type == "code"]


def is_to_show_a_figure(cell: nbformat.NotebookNode) -> bool:
    return ".plot." in cell.source or "plt.subplots" in cell.source


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_committed_without_output(notebook: Path) -> None:
    book = nbformat.read(notebook, as_version=4)
    assert [cell.source for cell in code_cells(book) if cell.outputs or cell.execution_count] == []


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_and_shows_its_figures(notebook: Path, tmp_path: Path) -> None:
    nbclient = pytest.importorskip("nbclient")
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    book = nbformat.read(notebook, as_version=4)
    place = {"metadata": {"path": str(tmp_path / "examples" / "notebooks")}}
    nbclient.NotebookClient(book, timeout=LONGEST_CELL_S, resources=place).execute()
    shown = {cell.source: [output.data for output in cell.outputs if "data" in output] for cell in code_cells(book)}
    drawn = [source for cell in code_cells(book) if is_to_show_a_figure(cell) for source in [cell.source]]
    assert drawn
    assert [source for source in drawn if sum("image/png" in data for data in shown[source]) != 1] == []
    assert any("<table" in data.get("text/html", "") for outputs in shown.values() for data in outputs)
