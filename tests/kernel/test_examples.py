"""The examples that need a real kernel, on a real kernel."""

from __future__ import annotations

from pathlib import Path

import pytest
from measured import measured
from mptcplab.catalogue import entry_of
from mptcplab.experiment import members

pytestmark = pytest.mark.kernel

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
ONLY_HERE = [file for file in EXAMPLES if "sim" not in entry_of(members(file)[0])["on"]]


def test_there_is_one() -> None:
    assert ONLY_HERE


@pytest.mark.parametrize("file", ONLY_HERE, ids=lambda file: file.stem)
def test_an_example_keeps_its_expectations(file: Path, tmp_path: Path) -> None:
    run = measured(file.read_text(encoding="utf-8"), tmp_path)
    broken = [expectation for expectation in run.record["expectations"] if not expectation["held"]]
    assert broken == []
