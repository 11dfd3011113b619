"""Runs the MPTCP examples in real time, on the kernel or, where it cannot, with the userspace
stack.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from built_agent import AGENT
from command_line import PROGRAM
from measured import measured_member
from mptcplab.catalogue import listing
from mptcplab.experiment import members
from mptcplab.remote.guest import Guests
from mptcplab.remote.parts import machines_of, way_to

pytestmark = [pytest.mark.kernel, pytest.mark.spread]

ROOT = Path(__file__).parents[2] / "examples"
EXAMPLES = [*sorted(ROOT.glob("*.yaml")), *sorted((ROOT / "regression").glob("*.yaml"))]


def in_real_time(file: Path) -> str | None:
    """Returns the back-end for an example; None if it has no MPTCP flow, needs the simulator, or needs
    guests, which test_guest_hosts.py starts.
    """
    described = members(file)[0].resolve().data
    if any(isinstance(way_to(machine), Guests) for machine in machines_of(described).values()):
        return None
    flows = described["flows"]
    able = listing(str(file))[0]["on"]
    has_mptcp = any(flow["transport"] == "mptcp" for flow in flows)
    return next((name for name in ("kernel", "userspace") if has_mptcp and name in able), None)


OF_MPTCP = [(file, on) for file in EXAMPLES if (on := in_real_time(file))]
#: Longer examples are left to the soak, because a run in real time takes as long as it says.
LONGEST_S = 30


def test_there_are_some_for_either_stack() -> None:
    assert {on for _, on in OF_MPTCP} == {"kernel", "userspace"}


def marked(file: Path, on: str) -> Any:
    described = members(file)[0].resolve().data
    marks = [pytest.mark.soak] if described["duration_ns"] > LONGEST_S * 1e9 else []
    if machines_of(described) and not AGENT.exists():
        marks.append(pytest.mark.skip(reason="make agent or cargo test --workspace builds the agent"))
    return pytest.param(file, on, id=file.stem, marks=marks)


@pytest.mark.parametrize(("file", "on"), [marked(file, on) for file, on in OF_MPTCP])
def test_an_example_keeps_its_expectations(
    file: Path, on: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MPTCPLAB_AGENT", str(AGENT))
    # One of the examples runs mptcplab as a program.
    monkeypatch.setenv("PATH", os.pathsep.join([str(PROGRAM.parent), os.environ["PATH"]]))
    run = measured_member(members(file)[0], tmp_path, on=on)
    broken = [expectation for expectation in run.record["expectations"] if expectation["held"] is False]
    assert broken == []
