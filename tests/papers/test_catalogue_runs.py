"""Runs the whole catalogue in the simulator."""

from __future__ import annotations

from pathlib import Path

import pytest
from mptcplab import run
from mptcplab.catalogue import catalogue
from mptcplab.experiment import Member

#: Experiments in which the primary path carries little or nothing.
LOSSY = ("sonkoly2014/fig7/", "sonkoly2014/syn/")
#: Connections that cannot be set up, which is what the paper found, and the error that they end
#: with.
ERRORS = {"sonkoly2014/syn/primary_down": "the other side did not answer any more"}


@pytest.mark.soak
@pytest.mark.parametrize("member", catalogue(), ids=lambda member: member.name)
def test_every_experiment_runs(member: Member, tmp_path: Path) -> None:
    (bundle,) = run(member, out=tmp_path)
    assert bundle.record["status"] == "done"
    flows = bundle.record["result"]["flows"]
    assert {flow["error"] for flow in flows} == {ERRORS.get(member.name)}
    assert all(flow["bytes"] > 0 for flow in flows) or member.name.startswith(LOSSY)
