"""Tests shortened forms of figures 9, 10 and 11 of Alenazi 2019: interfaces fail and return one by
one.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from measured import Measured, S, measured_member
from mptcplab.catalogue import find

pytestmark = pytest.mark.kernel

#: The hosts on which interfaces fail.
SIDES = {"fig9": {"client"}, "fig10": {"server"}, "fig11": {"client", "server"}}
EVERY_MS, FIRST_MS, AFTER_MS = 200, 1000, 2000
#: The delay of the hosts in the description. An interface that returns earlier counts as never
#: gone.
PATH_MANAGER_DELAY_MS = 500
CASES = list(product(SIDES, range(1, 8)))
#: Each pair of values of figure, number of failures, path manager and data direction occurs in one
#: of these.
PAIRWISE = [
    ("fig9", 1, "full_mesh", "up"),
    ("fig9", 4, "kernel_endpoints", "down"),
    ("fig9", 7, "full_mesh", "up"),
    ("fig10", 1, "kernel_endpoints", "up"),
    ("fig10", 4, "full_mesh", "up"),
    ("fig10", 7, "full_mesh", "down"),
    ("fig11", 1, "full_mesh", "down"),
    ("fig11", 4, "full_mesh", "up"),
    ("fig11", 7, "kernel_endpoints", "up"),
]


def shortened(figure: str, failures: int, manager: str, direction: str, directory: Path) -> Measured:
    duration_ms = FIRST_MS + 2 * failures * EVERY_MS + AFTER_MS
    changes = {
        "duration": f"{duration_ms}ms",
        "events.failures.at": f"{FIRST_MS}ms",
        "events.failures.sequence.every": f"{EVERY_MS}ms",
        "flows.bulk.path_manager": manager,
    }
    if direction == "down":
        changes |= {"flows.bulk.from": "server", "flows.bulk.to": "client", "flows.bulk.opened_by": "to"}
    [member] = find(f"alenazi2019/{figure}/n{failures}", changes)
    return measured_member(member, directory)


def check(found: Measured, sides: set[str], failures: int, manager: str) -> None:
    events = found.record["result"]["events"]
    failed = [f"{side}.eth{number}" for number in range(1, failures + 1) for side in sides]
    for kind in ("interface_down", "interface_up"):
        described = {event["id"]: event["action"] for event in found.data.resolved["events"]}
        interfaces = [described[event["id"]]["interface"] for event in events if described[event["id"]]["kind"] == kind]
        assert sorted(interfaces) == sorted(failed)
    assert [event["actual_ns"] for event in events] == sorted(event["actual_ns"] for event in events)
    for interface in failed:
        state = found.data.samples.series(f"interfaces.{interface}", "up")
        assert state is not None
        assert (min(state.values), state.last()) == (0, 1)
    flow = found.flow("bulk")
    assert flow["error"] is None
    first, last = events[0]["actual_ns"] / S, events[-1]["actual_ns"] / S
    assert found.bytes_between("flows.bulk", 0, first) > 0
    assert found.bytes_between("flows.bulk", first, last + AFTER_MS / 1000) > 0
    links = {subflow["link"] for subflow in found.subflows("bulk")}
    assert links == {f"link{number}" for number in range(1, 9)}
    if manager == "full_mesh" and sides == {"client"}:
        for number in range(1, failures + 1):
            of_link = [subflow for subflow in found.subflows("bulk") if subflow["link"] == f"link{number}"]
            # The delay counts from the first of all failures.
            if (failures + number - 1) * EVERY_MS < PATH_MANAGER_DELAY_MS:
                assert [subflow["closed_ns"] for subflow in of_link] == [None]
            else:
                assert len(of_link) >= 2, of_link
                # Checks only the client. The server can miss one of several simultaneous removals
                # and keep its end for a while.
                assert closed_at_client(found, f"10.1.{number}.1")


def closed_at_client(found: Measured, address: str) -> bool:
    events = found.record["result"]["path_events"]
    closed = [event["local"] for event in events if (event["host"], event["what"]) == ("client", "subflow_closed")]
    return any(local.startswith(f"{address}:") for local in closed)


@pytest.mark.parametrize(("figure", "failures", "manager", "direction"), PAIRWISE)
def test_a_connection_outlives_failures_one_by_one(
    figure: str, failures: int, manager: str, direction: str, tmp_path: Path
) -> None:
    found = shortened(figure, failures, manager, direction, tmp_path)
    check(found, SIDES[figure], failures, manager)


@pytest.mark.soak
@pytest.mark.parametrize("direction", ["up", "down"])
@pytest.mark.parametrize("manager", ["full_mesh", "kernel_endpoints"])
@pytest.mark.parametrize(("figure", "failures"), CASES)
def test_all_of_the_figures(figure: str, failures: int, manager: str, direction: str, tmp_path: Path) -> None:
    found = shortened(figure, failures, manager, direction, tmp_path)
    check(found, SIDES[figure], failures, manager)
