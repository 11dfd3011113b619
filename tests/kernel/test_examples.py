"""The examples of Multipath TCP, on a real kernel."""

from __future__ import annotations

from pathlib import Path

import pytest
from measured import measured
from mptcplab.experiment import members

pytestmark = pytest.mark.kernel

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))


def has_mptcp(file: Path) -> bool:
    return any(flow["transport"] == "mptcp" for flow in members(file)[0].resolve().data["flows"])


OF_MPTCP = [file for file in EXAMPLES if has_mptcp(file)]


def test_there_is_one() -> None:
    assert OF_MPTCP


@pytest.mark.parametrize("file", OF_MPTCP, ids=lambda file: file.stem)
def test_an_example_keeps_its_expectations(file: Path, tmp_path: Path) -> None:
    run = measured(file.read_text(encoding="utf-8"), tmp_path)
    broken = [expectation for expectation in run.record["expectations"] if not expectation["held"]]
    assert broken == []
