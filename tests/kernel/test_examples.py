"""The examples of Multipath TCP, on a real kernel."""

from __future__ import annotations

from pathlib import Path

import pytest
from measured import measured_member
from mptcplab.catalogue import listing
from mptcplab.experiment import members

pytestmark = pytest.mark.kernel

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))


def is_for_kernel(file: Path) -> bool:
    """Whether it has a flow of Multipath TCP, and nothing that only the simulator can do."""
    flows = members(file)[0].resolve().data["flows"]
    return any(flow["transport"] == "mptcp" for flow in flows) and "kernel" in listing(str(file))[0]["on"]


OF_MPTCP = [file for file in EXAMPLES if is_for_kernel(file)]


def test_there_is_one() -> None:
    assert OF_MPTCP


@pytest.mark.parametrize("file", OF_MPTCP, ids=lambda file: file.stem)
def test_an_example_keeps_its_expectations(file: Path, tmp_path: Path) -> None:
    run = measured_member(members(file)[0], tmp_path)
    broken = [expectation for expectation in run.record["expectations"] if not expectation["held"]]
    assert broken == []
