"""Tests the goals of RFC 6356, section 3, on the kernel, each in a network where a few runs decide
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import pytest
from mptcplab import run
from mptcplab.catalogue import find
from mptcplab.results import Bundle

pytestmark = [pytest.mark.kernel, pytest.mark.soak]

COUPLED = ["lia", "olia", "balia", "wvegas"]
LOSS_BASED = ["lia", "olia", "balia"]
HERE = Path(__file__).parent
REPEAT = 10
TCP = "{from: client, to: server, transport: tcp, cc: reno, primary: %s}"
MOST_ATTEMPTS = 3


def runs(file: str, cell: str, control: str, out: Path, **changes: str) -> list[Bundle]:
    """Runs a cell of the matrix until the machine was not too busy."""
    [member] = find(str(HERE / file), {"cell": cell, "control": control, **changes})
    for _ in range(MOST_ATTEMPTS):
        bundles = run(member, on="kernel", repeat=REPEAT, out=out)
        if all(bundle.status == "done" for bundle in bundles):
            break
    return [bundle for bundle in bundles if bundle.status == "done"]


def goodput_bps(bundles: Sequence[Bundle], flow: str) -> float:
    return fmean(bundle.record["metrics"][f"flows.{flow}"]["goodput_bps"] for bundle in bundles)


def share_of(bundles: Sequence[Bundle], link: str) -> float:
    """Returns the share of the connection that a link carried."""
    shares = []
    for bundle in bundles:
        subflows = bundle.record["flows"][0]["subflows"]
        here = sum(subflow["bytes"] for subflow in subflows if subflow["link"] == link)
        shares.append(here / sum(subflow["bytes"] for subflow in subflows))
    return fmean(shares)


@pytest.mark.parametrize("control", LOSS_BASED)
def test_as_much_as_tcp_on_the_best_path(control: str, tmp_path: Path) -> None:
    where = ("controls-disjoint.yaml", "50ms-1bdp")
    together = runs(*where, control, tmp_path, duration="10s")
    alone = runs(*where, "reno", tmp_path, duration="10s", **{"flows.tested": TCP % "one"})
    assert goodput_bps(together, "tested") >= 0.95 * goodput_bps(alone, "tested")


#: OLIA's second subflow is at its smallest window most of the time, and takes the place of a
#: subflow that would carry data.
LEAST_BESIDE_TCP = {"lia": 0.6, "balia": 0.6, "olia": 0.4, "wvegas": 0.1}


@pytest.mark.parametrize("control", COUPLED)
def test_no_more_than_tcp_on_a_shared_path(control: str, tmp_path: Path) -> None:
    found = runs("controls-shared.yaml", "reno-10ms-4bdp", control, tmp_path)
    of_tcp = goodput_bps(found, "tested") / goodput_bps(found, "rival")
    assert LEAST_BESIDE_TCP[control] <= of_tcp <= 1.1


@pytest.mark.parametrize("control", LOSS_BASED)
def test_the_share_moves_to_the_path_with_fewer_losses(control: str, tmp_path: Path) -> None:
    shares = {
        name: share_of(runs("controls-disjoint.yaml", "lossy", name, tmp_path), "one") for name in (control, "reno")
    }
    assert shares[control] > shares["reno"]
