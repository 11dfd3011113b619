"""Tests failures and repairs of links and interfaces that carry connections."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pytest
from measured import TWO_LINKS, Inject, Json, Measured, driven, measured
from mptcplab.backends import Run, Tick
from mptcplab.errors import MptcplabError

pytestmark = pytest.mark.kernel

S = 1_000_000_000
#: Both links fail in turn at the client, and each time the connection continues over the other.
INTERFACES = (
    TWO_LINKS
    + """
flows: {bulk: {from: client, to: server, app: bulk, path_manager: MANAGER}}
events:
  - {id: down, at: 1s, down: client.eth2}
  - {id: up, at: 2s, up: client.eth2}
duration: 4s
"""
)


@pytest.fixture(scope="module", params=["full_mesh", "kernel_endpoints"])
def interface_down(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Measured:
    return measured(INTERFACES.replace("MANAGER", request.param), tmp_path_factory.mktemp(request.param))


def path_manager(found: Measured) -> str:
    [choice] = found.data.resolved["flows"][0]["path_manager"]
    return str(choice["name"] if isinstance(choice, dict) else choice)


def test_an_interface_that_is_down_carries_nothing(interface_down: Measured) -> None:
    down, up = (interface_down.event(name)["actual_ns"] / S for name in ("down", "up"))
    # Packets on the link when it goes down still arrive.
    assert interface_down.bytes_between("interfaces.client.eth2", down + 0.1, up, "sent_packets") == 0
    state = interface_down.data.samples.series("interfaces.client.eth2", "up")
    assert state is not None
    assert set(state.values[(state.times_s > down) & (state.times_s < up)]) == {0.0}
    assert state.last() == 1


def test_a_connection_goes_on_over_what_is_left(interface_down: Measured) -> None:
    down, up = (interface_down.event(name)["actual_ns"] / S for name in ("down", "up"))
    assert interface_down.bytes_between("links.one.forward", down, up, "wire_bytes") > 100_000
    assert interface_down.bytes_between("flows.bulk", up, 4) > 100_000
    units = interface_down.data.units.of("bulk")
    assert list(units.unit) == list(range(len(units)))


def test_a_link_that_is_back_carries_again(interface_down: Measured) -> None:
    up = interface_down.event("up")["actual_ns"] / S
    assert interface_down.bytes_between("links.two.forward", up, 4, "wire_bytes") > 50_000
    over_two = [subflow for subflow in interface_down.subflows("bulk") if subflow["link"] == "two"]
    if path_manager(interface_down) == "full_mesh":
        first, second = over_two
        assert first["closed_ns"] is not None
        assert second["opened_ns"] >= interface_down.event("up")["actual_ns"]
        assert second["id"] != first["id"]
    else:
        [resumed] = over_two
        assert resumed["closed_ns"] is None
        assert resumed["opened_ns"] < interface_down.event("down")["actual_ns"]


def test_full_mesh_follows_interfaces_and_says_so(interface_down: Measured) -> None:
    if path_manager(interface_down) != "full_mesh":
        pytest.skip("the kernel's own path manager has nothing to follow")
    closed, established = (interface_down.path_events(f"subflow_{what}") for what in ("closed", "established"))
    assert any(event["host"] == "client" and event["local"].startswith("10.1.2.1") for event in closed)
    assert len([event for event in established if event["host"] == "client"]) >= 2


def test_a_cut_is_told_to_nobody(tmp_path: Path) -> None:
    found = measured(
        TWO_LINKS
        + """
flows:
  bulk: {from: client, to: server, app: bulk}
  call: {from: client, to: server, transport: udp, app: {cbr: {rate: 400kbit, size: 500}}, primary: two}
events: [{id: cut, at: 1s, outage: two, for: 1s}]
duration: 4s
""",
        tmp_path,
    )
    cut, back = (event["actual_ns"] / S for event in found.record["result"]["events"])
    assert back - cut >= 0.9
    assert found.data.samples.last("interfaces.client.eth2", "up") == 1
    assert found.link("two", "forward")["dropped_link_down"] > 10
    assert found.bytes_between("links.two.forward", cut + 0.1, back, "delivered_packets") == 0
    received = found.data.units.of("call").received_s
    assert not ((received > cut) & (received < back)).any()
    assert (received > back).any()
    assert found.bytes_between("flows.bulk", cut, back) > 0
    assert found.record["metrics"]["flows.call"]["loss_ratio"] > 0.1


def test_backup_subflows_rest_and_regular_ones_work(tmp_path: Path) -> None:
    found = measured(
        TWO_LINKS
        + """
flows: {bulk: {from: client, to: server, app: bulk, path_manager: full_mesh, primary: one}}
events:
  - {id: rest, at: 1s, backup: client.eth2, on: true}
  - {id: work, at: 3s, backup: client.eth2, on: false}
duration: 5s
""",
        tmp_path,
    )
    rest, work = (found.event(name)["actual_ns"] / S for name in ("rest", "work"))
    [second] = [subflow["id"] for subflow in found.subflows("bulk") if subflow["link"] == "two"]
    backup = found.data.samples.series(f"flows.bulk.subflows.{second}", "backup")
    assert backup is not None
    assert set(backup.values[backup.times_s < rest]) == {0.0}
    assert set(backup.values[(backup.times_s > rest + 0.3) & (backup.times_s < work)]) == {1.0}
    assert backup.last() == 0
    # Data in the send queue of the subflow is still sent, so only the second of two seconds counts.
    resting = found.bytes_between("links.two.forward", rest + 1, work, "wire_bytes")
    working = found.bytes_between("links.two.forward", work + 1, 5, "wire_bytes")
    assert resting < working / 2
    assert found.bytes_between("links.one.forward", rest + 1, work, "wire_bytes") > 100_000


def test_a_link_changes_while_it_carries(tmp_path: Path) -> None:
    found = measured(
        TWO_LINKS
        + """
flows: {ping: {from: client, to: server, transport: udp, app: {probe: {every: 20ms}}, primary: one}}
events: [{id: worse, at: 1s, set: one, delay: 50ms}]
duration: 2s
""",
        tmp_path,
    )
    worse = found.event("worse")["actual_ns"] / S
    rtts = found.data.samples.series("flows.ping", "rtt_s") or found.data.samples.series("probes.ping", "rtt_s")
    if rtts is None:
        names = [name for name in found.data.samples.entities() if "rtt_s" in found.data.samples.metrics(name)]
        rtts = found.data.samples.series(names[0], "rtt_s")
    assert rtts is not None
    assert rtts.values.min() >= 0.02
    assert rtts.values[rtts.times_s - rtts.values > worse].min() >= 0.1


def test_an_address_that_is_taken_away_comes_back(tmp_path: Path) -> None:
    found = measured(
        TWO_LINKS
        + """
flows: {bulk: {from: client, to: server, app: bulk, path_manager: full_mesh, primary: one}}
events:
  - {id: gone, at: 1s, remove_address: client.eth2}
  - {id: back, at: 2s, add_address: client.eth2}
duration: 4s
""",
        tmp_path,
    )
    gone, back = found.event("gone"), found.event("back")
    # The kernel's event gives the time of closing, which is after the last sample with the subflow
    # open.
    closed = [subflow["closed_ns"] for subflow in found.subflows("bulk") if subflow["closed_ns"]]
    assert closed, found.subflows("bulk")
    assert gone["actual_ns"] <= closed[0] < gone["actual_ns"] + S / 2
    assert any(subflow["opened_ns"] >= back["actual_ns"] for subflow in found.subflows("bulk")), found.subflows("bulk")
    assert found.bytes_between("links.two.forward", back["actual_ns"] / S, 4, "wire_bytes") > 50_000


def test_what_is_injected_happens_then(tmp_path: Path) -> None:
    text = TWO_LINKS + "flows: {bulk: {from: client, to: server, app: bulk}}\nduration: 3s\n"
    injected: list[Json] = []

    def at_tick(_run: Run, tick: Tick, inject: Inject) -> None:
        if tick.time_ns > S and not injected:
            assert tick.values["interfaces.client.eth2"]["up"] == 1
            injected.append(inject("down: client.eth2"))
            with pytest.raises((MptcplabError, ValueError)):
                inject("exec: client, argv: []")
            with pytest.raises(ValueError, match=r"client\.eth2 is already down"):
                inject("down: client.eth2")
        elif tick.time_ns > 2 * S and len(injected) == 1:
            assert tick.values["interfaces.client.eth2"]["up"] == 0
            injected.append(inject("up: client.eth2"))
            injected.append(inject("set: one, rate: 2mbit"))

    _, result = driven(text, tmp_path, at_tick)
    assert result["events"] == injected
    assert [event["injected"] for event in injected] == [True] * 3
    assert [event["action"]["kind"] for event in injected] == ["interface_down", "interface_up", "set_link"]
    assert all(event["actual_ns"] >= event["asked_ns"] >= S for event in injected)


def test_a_run_ends_although_something_was_injected_late(tmp_path: Path) -> None:
    text = TWO_LINKS + "flows: {bulk: {from: client, to: server, app: bulk}}\nduration: 1s\n"
    after_the_end: list[int] = []

    def at_tick(run: Run, tick: Tick, inject: Inject) -> None:
        if tick.time_ns < S and not after_the_end:
            time.sleep(1.2)
            with contextlib.suppress(MptcplabError, ValueError):
                inject("down: client.eth2")
        after_the_end.append(tick.time_ns)
        if len(after_the_end) > 100:
            run.stop("it does not end by itself")

    _, result = driven(text, tmp_path, at_tick)
    assert len(after_the_end) < 100
    assert result["end_ns"] == S
