"""Tests of the controller on Open vSwitch: packets follow the entries, and keep doing so whatever
fails.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from controlled import experiment, hops, recovery, reversed_hops
from fabric import Controller, Fabric, controlled, fabric_of, within

pytestmark = pytest.mark.kernel

SECOND_PAIR = {"source": "10.0.1.1", "target": "10.0.1.2"}
COUNT = 10


def sent_over(fabric: Fabric, *interfaces: str) -> dict[str, int]:
    return {interface: fabric.packets(interface) for interface in interfaces}


def grown(fabric: Fabric, before: dict[str, int]) -> dict[str, int]:
    return {interface: fabric.packets(interface) - count for interface, count in before.items()}


def test_each_path_takes_the_links_of_its_entries_both_ways(tmp_path: Path) -> None:
    described = experiment(4, attach=2, ways=((1, 2), (1, 3, 2)))
    with controlled(described, tmp_path) as (fabric, _):
        before = sent_over(fabric, "s1.s2", "s2.s1", "s1.s3", "s3.s2", "s2.s3", "s3.s1")
        assert fabric.answered(COUNT) == COUNT
        first = grown(fabric, before)
        assert fabric.answered(COUNT, **SECOND_PAIR) == COUNT
        assert fabric.answered(COUNT, source="fd00::1:1", target="fd00::1:2") == COUNT
        both = grown(fabric, before)
    # Hosts send a few packets of their own, such as reports of groups, which no entry forwards.
    assert first == {"s1.s2": COUNT, "s2.s1": COUNT, "s1.s3": 0, "s3.s2": 0, "s2.s3": 0, "s3.s1": 0}
    assert both == {"s1.s2": COUNT, "s2.s1": COUNT, **dict.fromkeys(("s1.s3", "s3.s2", "s2.s3", "s3.s1"), 2 * COUNT)}


def test_a_packet_without_an_entry_is_dropped(tmp_path: Path) -> None:
    described = experiment(3, attach=2, ways=((1, 2), (1, 3, 2)))
    with controlled(described, tmp_path) as (fabric, _):
        assert fabric.answered(COUNT, source="10.0.0.1", target="10.0.1.2") == 0


@pytest.mark.parametrize("strategy", ["ip_preinstalled", "ip_reactive"])
def test_packets_leave_a_failed_link_and_return_after_its_repair(tmp_path: Path, strategy: str) -> None:
    described = experiment(3, recovery=recovery(strategy))
    with controlled(described, tmp_path) as (fabric, controller):
        fabric.set_link("s1-s2", up=False)
        reaction = controller.wait_for("reaction")
        assert (reaction["cause"], reaction["state"], reaction["flows"]) == ("s1-s2", "down", ["f0"])
        assert reaction["installed_ns"] >= reaction["detected_ns"]
        before = sent_over(fabric, "s1.s3", "s3.s2", "s2.s3", "s3.s1")
        assert fabric.answered(COUNT) == COUNT
        assert set(grown(fabric, before).values()) == {COUNT}
        fabric.set_link("s1-s2", up=True)
        assert controller.wait_for("reaction")["state"] == "up"
        before = sent_over(fabric, "s1.s2", "s2.s1", "s1.s3")
        assert fabric.answered(COUNT) == COUNT
        assert grown(fabric, before) == {"s1.s2": COUNT, "s2.s1": COUNT, "s1.s3": 0}


def test_prepared_detours_work_without_the_controller(tmp_path: Path) -> None:
    described = experiment(4, ways=((1, 3, 2),), recovery=recovery("ip_preinstalled"))
    with controlled(described, tmp_path) as (fabric, controller):
        controller.kill()
        for link in ("s2-s3", "s1-s3"):
            fabric.set_link(link, up=False)
            assert fabric.answered(COUNT) == COUNT, link
            fabric.set_link(link, up=True)


#: Detours that begin at the sender's switch, so packets have to come back to it.
STRATEGY = """
from mptcplab.paths import shortest
from mptcplab.recovery import Detour, Strategy

class FromTheStart(Strategy):
    def prepare(self, network):
        found = {}
        for key, way in network.ways.items():
            for link in way:
                [around] = shortest(network.graph.without({link}), *network.ends[key], 1)
                found[key, link] = Detour(around, around[::-1])
        return found
"""


def test_packets_come_back_to_where_the_detour_of_a_users_strategy_begins(tmp_path: Path) -> None:
    described = experiment(
        4,
        links=[(1, 3), (3, 4), (2, 4), (1, 2)],
        ways=((1, 3, 4, 2),),
        recovery=recovery("./whole.py:FromTheStart"),
    )
    described["user_code"] = [{"file": "./whole.py", "source": STRATEGY}]
    with controlled(described, tmp_path) as (fabric, controller):
        fabric.set_link("s2-s4", up=False)
        assert controller.wait_for("reaction")["flows"] == ["f0"]
        before = sent_over(fabric, "s3.s4", "s4.s3", "s3.s1", "s1.s2")
        assert fabric.answered(COUNT) == COUNT
        # The answers come over s1-s2 as well, because the detour of their direction begins at s2.
        assert grown(fabric, before) == dict.fromkeys(before, COUNT)


def test_without_recovery_nothing_arrives_over_a_failed_link(tmp_path: Path) -> None:
    with controlled(experiment(3), tmp_path) as (fabric, controller):
        fabric.set_link("s1-s2", up=False)
        assert controller.wait_for("reaction")["flows"] == []
        assert fabric.answered(COUNT) == 0


def test_a_failure_that_ports_do_not_show_is_detected_by_order(tmp_path: Path) -> None:
    described = experiment(3, recovery=recovery("ip_preinstalled", detect_ns=10_000_000))
    with controlled(described, tmp_path) as (fabric, controller):
        controller.order(do="failed", link="s1-s2")
        assert controller.wait_for("reaction")["flows"] == ["f0"]
        before = sent_over(fabric, "s1.s2", "s1.s3")
        assert fabric.answered(COUNT) == COUNT
        assert grown(fabric, before) == {"s1.s2": 0, "s1.s3": COUNT}
        controller.order(do="repaired", link="s1-s2")
        controller.wait_for("reaction")
        before = sent_over(fabric, "s1.s2", "s1.s3")
        assert fabric.answered(COUNT) == COUNT
        assert grown(fabric, before) == {"s1.s2": COUNT, "s1.s3": 0}


def test_a_reroute_leads_both_directions_over_other_links(tmp_path: Path) -> None:
    described = experiment(4)
    first, last = described["flows"][0]["paths"][0]["hops"][0], described["flows"][0]["paths"][0]["hops"][-1]
    there, back = [first, *hops(1, 3, 2), last], reversed_hops([first, *hops(1, 4, 2), last])
    with controlled(described, tmp_path) as (fabric, controller):
        controller.order(do="reroute", id="r1", flow="f0", path=0, there=there, back=back)
        assert controller.wait_for("reaction")["cause"] == "r1"
        before = sent_over(fabric, "s1.s3", "s2.s4", "s1.s2", "s2.s1")
        assert fabric.answered(COUNT) == COUNT
        assert grown(fabric, before) == {"s1.s3": COUNT, "s2.s4": COUNT, "s1.s2": 0, "s2.s1": 0}


def stable(fabric: Fabric) -> dict[str, list[str]]:
    """Returns the entries of all switches without what changes by itself."""
    changing = re.compile(r"(duration|n_packets|n_bytes|idle_age|hard_age)=[^,]*, ?")
    return {
        switch: sorted(changing.sub("", row) for row in fabric.entries(switch)) for switch in fabric.network.switches
    }


def ages(fabric: Fabric) -> list[float]:
    rows = [row for switch in fabric.network.switches for row in fabric.entries(switch)]
    return [float(found[1]) for row in rows if (found := re.search(r"duration=([\d.]+)s", row))]


def test_traffic_outlives_the_controller_and_a_new_one_touches_nothing(tmp_path: Path) -> None:
    described = experiment(4, attach=2, ways=((1, 2), (1, 3, 2)), recovery=recovery("ip_preinstalled"))
    with controlled(described, tmp_path) as (fabric, controller):
        installed, before = stable(fabric), ages(fabric)
        controller.kill()
        assert fabric.answered(COUNT) == COUNT
        again = Controller(fabric, described)
        try:
            again.wait_for("ready")
            assert stable(fabric) == installed
            assert all(later > earlier for later, earlier in zip(ages(fabric), before, strict=True))
            assert fabric.answered(COUNT) == COUNT
        finally:
            again.close()


def test_a_new_controller_takes_over_a_detour(tmp_path: Path) -> None:
    described = experiment(3, recovery=recovery("ip_reactive"))
    with controlled(described, tmp_path) as (fabric, controller):
        fabric.set_link("s1-s2", up=False)
        controller.wait_for("reaction")
        detour = stable(fabric)
        controller.kill()
        again = Controller(fabric, described)
        try:
            again.wait_for("ready")
            assert stable(fabric) == detour
            fabric.set_link("s1-s2", up=True)
            again.wait_for("reaction")
            before = sent_over(fabric, "s1.s2", "s1.s3")
            assert fabric.answered(COUNT) == COUNT
            assert grown(fabric, before) == {"s1.s2": COUNT, "s1.s3": 0}
        finally:
            again.close()


def test_a_switch_that_connects_again_gets_what_it_lacks(tmp_path: Path) -> None:
    described = experiment(3, recovery=recovery("ip_preinstalled"))
    with controlled(described, tmp_path) as (fabric, controller):
        installed = stable(fabric)
        # A switch without any controller would lose its entries.
        fabric.vsctl("set-controller", "s1", "tcp:127.0.0.1:1")
        assert "s1: the connection is lost" in controller.wait_for("problem")["text"]
        fabric.run("ovs-ofctl", "-O", "OpenFlow13", "del-flows", "s1", "ip")
        fabric.run("ovs-ofctl", "-O", "OpenFlow13", "add-flow", "s1", "cookie=0x6d70,priority=77,arp,actions=drop")
        fabric.run("ovs-ofctl", "-O", "OpenFlow13", "add-flow", "s1", "cookie=0x1,priority=65535,arp,actions=drop")
        assert fabric.answered(COUNT) == 0
        fabric.vsctl("set-controller", "s1", "tcp:127.0.0.1:6653")
        within(lambda: len(fabric.entries("s1")) == len(installed["s1"]) + 1, "the entries of s1")
        # What belongs to others stays.
        fabric.run("ovs-ofctl", "-O", "OpenFlow13", "--strict", "del-flows", "s1", "priority=65535,arp")
        assert stable(fabric) == installed
        assert fabric.answered(COUNT) == COUNT


def test_statistics_count_what_was_sent(tmp_path: Path) -> None:
    described = experiment(3, statistics_ns=200_000_000)
    with controlled(described, tmp_path) as (fabric, controller):
        fabric.answered(COUNT)

        def counted() -> bool:
            said = controller.wait_for("statistics")
            path, switch = said["paths"]["f0/0"], said["switches"]["s1"]
            assert set(said["switches"]) == {"s1", "s2", "s3"}
            assert switch["entries"] == 4
            assert switch["barrier_rtt_s"] > 0
            return (path["there_packets"], path["back_packets"], said["ports"]["s1.s2"]["tx_packets"] >= COUNT) == (
                COUNT,
                COUNT,
                True,
            )

        within(counted, "the packets of the path")


def test_discovery_finds_the_described_links(tmp_path: Path) -> None:
    with controlled(experiment(4, discover=True), tmp_path) as (fabric, _):
        assert all("0x88cc" not in row for row in fabric.entries("s1"))
        assert fabric.answered(COUNT) == COUNT


def test_discovery_names_a_link_that_is_not_there(tmp_path: Path) -> None:
    described = experiment(3, discover=True)
    with fabric_of(experiment(3), tmp_path) as fabric:
        fabric.set_link("s2-s3", up=False)
        controller = Controller(fabric, described)
        try:
            controller.wait_for("listening")
            fabric.connect()
            assert controller.wait_for("problem")["text"].endswith("not found: s2.s3 - s3.s2")
            assert controller.process.wait() == 4
        finally:
            controller.close()


# ---- reactive ----

RECEIVE = """
import socket
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("10.0.0.2", 5001))
listener.listen()
print("here", flush=True)
connection, _ = listener.accept()
received = 0
while part := connection.recv(1 << 16):
    received += len(part)
print(received)
"""
#: Sends 2 MB in pieces, slowly enough for the second subflow to join and carry some of them.
SEND = """
import socket, time
connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
connection.bind(("10.0.0.1", 0))
connection.connect(("10.0.0.2", 5001))
for _ in range(20):
    connection.sendall(bytes(100_000))
    time.sleep(0.02)
"""


def transfer(fabric: Fabric, *endpoint: str, at: str = "h1") -> int:
    """Sends 2 MB over a connection that gets a second subflow by an endpoint. Returns the number of
    bytes received.
    """
    for host in ("h1", "h2"):
        fabric.run("ip", "mptcp", "limits", "set", "subflow", "1", "add_addr_accepted", "1", at=host)
    fabric.run("ip", "mptcp", "endpoint", "add", *endpoint, at=at)
    with fabric.popen(sys.executable, "-c", RECEIVE, at="h2", stdout=subprocess.PIPE) as receiver:
        assert receiver.stdout is not None
        assert receiver.stdout.readline() == "here\n"
        fabric.run(sys.executable, "-c", SEND, at="h1")
        return int(receiver.stdout.read())


SECOND_INTERFACE = ("10.0.1.1", "subflow")


def pins(fabric: Fabric, switch: str) -> list[str]:
    return [row for row in fabric.entries(switch) if "priority=300" in row]


def test_reactive_entries_give_each_subflow_its_path(tmp_path: Path) -> None:
    described = experiment(3, attach=2, ways=((1, 2), (1, 3, 2)), install="reactive")
    with controlled(described, tmp_path) as (fabric, controller):
        assert all("CONTROLLER" in row for row in fabric.entries("s1"))
        before = sent_over(fabric, "s1.s2", "s1.s3", "s3.s2")
        assert transfer(fabric, *SECOND_INTERFACE) == 2_000_000
        carried = grown(fabric, before)
        # The second subflow ends at eth0, where no path from eth1 ends: it takes the unused path.
        assert all(count > 100 for count in carried.values()), carried
        assert len(pins(fabric, "s1")) == 4
        assert len(pins(fabric, "s3")) == 2
        # The keys are known, so nothing is copied any more.
        assert not any("CONTROLLER" in row for row in pins(fabric, "s1"))
        within(lambda: controller.wait_for("statistics")["switches"]["s1"]["packet_ins"] >= 2, "packets-in")


def test_subflows_between_the_same_addresses_are_told_apart_when_they_open(tmp_path: Path) -> None:
    described = experiment(4, ways=((1, 2), (1, 3, 2)))
    with controlled(described, tmp_path) as (fabric, controller):
        before = sent_over(fabric, "s1.s2", "s1.s3", "s3.s2")
        assert transfer(fabric, "10.0.0.2", "port", "7000", "signal", at="h2") == 2_000_000
        carried = grown(fabric, before)
        assert all(count > 100 for count in carried.values()), carried
        installed = stable(fabric)
        controller.kill()
        again = Controller(fabric, described)
        try:
            again.wait_for("ready")
            assert stable(fabric) == installed
        finally:
            again.close()


def test_reactive_entries_forward_datagrams_from_the_first_on(tmp_path: Path) -> None:
    described = experiment(3, attach=2, ways=((1, 2), (1, 3, 2)), install="reactive")
    with controlled(described, tmp_path) as (fabric, _):
        before = sent_over(fabric, "s1.s2", "s1.s3", "s2.s3")
        assert fabric.answered(COUNT, **SECOND_PAIR) == COUNT
        assert grown(fabric, before) == {"s1.s2": 0, "s1.s3": COUNT, "s2.s3": COUNT}


#: Sends the first segments of 300 connections, one each millisecond.
OPEN_MANY = """
import socket, sys, time
sys.path.insert(0, sys.argv[2])
from frames import SYN, capable_syn, tcp
outgoing = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
outgoing.bind((sys.argv[1], 0))
for number in range(300):
    outgoing.send(tcp("10.0.0.1", "10.0.0.2", (10000 + number, 5001), SYN, capable_syn()))
    time.sleep(0.001)
"""


def test_many_subflows_have_entries_and_only_their_number_is_counted(tmp_path: Path) -> None:
    with controlled(experiment(3, install="reactive"), tmp_path) as (fabric, controller):
        folder = str(Path(__file__).parents[1])
        fabric.run(sys.executable, "-c", OPEN_MANY, fabric.device("h1.eth0"), folder, at="h1")
        within(lambda: len(pins(fabric, "s2")) == 600, "the entries of all subflows")

        def counted() -> bool:
            said = controller.wait_for("statistics")
            return said["switches"]["s1"]["entries"] == 601 and said["switches"]["s1"]["packet_ins"] >= 300

        within(counted, "the number of entries")


def test_subflows_move_with_their_path_and_outlive_the_controller(tmp_path: Path) -> None:
    described = experiment(4, attach=2, ways=((1, 2), (1, 3, 2)), install="reactive", recovery=recovery("ip_reactive"))
    with controlled(described, tmp_path) as (fabric, controller):
        transfer(fabric, *SECOND_INTERFACE)
        fabric.set_link("s2-s3", up=False)
        assert controller.wait_for("reaction")["flows"] == ["f0"]
        installed = stable(fabric)
        assert len(pins(fabric, "s3")) == 0
        controller.kill()
        again = Controller(fabric, described)
        try:
            again.wait_for("ready")
            assert stable(fabric) == installed
        finally:
            again.close()


# ---- programs ----

ASK_NAME = """
import dns.message, dns.query, sys
query = dns.message.make_query(sys.argv[1], "A")
print(dns.query.udp(query, sys.argv[2], source="10.0.0.1", timeout=5).answer[0][0])
"""


def test_programs_get_answers_to_arp_and_dns(tmp_path: Path) -> None:
    described = experiment(3, flows=({"app": {"kind": "command", "argv": []}, "transport": "tcp"},))
    with controlled(described, tmp_path) as (fabric, _):
        for address in ("10.0.0.2", "10.0.255.254"):
            fabric.run("ip", "neigh", "flush", address, at="h1")
        assert fabric.run(sys.executable, "-c", ASK_NAME, "h2", "10.0.255.254", at="h1") == "10.0.0.2\n"
        fabric.run("ip", "neigh", "del", "10.0.0.2", "dev", fabric.device("h1.eth0"), at="h1")
        assert fabric.answered(COUNT) == COUNT
        assert fabric.network.mac("h2.eth0") in fabric.run("ip", "neigh", "show", "10.0.0.2", at="h1")


def test_a_second_controller_is_refused(tmp_path: Path) -> None:
    with controlled(experiment(3), tmp_path) as (fabric, _):
        second = fabric.popen(
            sys.executable,
            "-m",
            "mptcplab.controller",
            str(tmp_path / "experiment.json"),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        _, problem = second.communicate()
        assert problem == "mptcplab.controller: cannot listen on 127.0.0.1:6653: Address already in use\n"
        assert second.returncode == 4
