"""Tests of the controller against switches that answer at once: what it asks, says and keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from controlled import experiment, hops, recovery, reversed_hops
from forwarding import over
from frames import ACK, SYN, arp_request, capable_keys, capable_syn, join_syn, tcp, udp
from mptcplab.controller.control import Control
from mptcplab.controller.messages import Barrier, Counters, Message, PacketOut, ReadCounters, ReadTable
from mptcplab.controller.network import Network
from mptcplab.controller.packets import read, token_of
from mptcplab.controller.streams import pair_match
from mptcplab.controller.tables import Entry, Match, Output, Table
from mptcplab.controller.updates import PutEntry, PutGroup, RemoveEntry, RemoveGroup
from mptcplab.errors import RunFailed

FIRST = pair_match("10.0.0.1", "10.0.0.2")


class Switches:
    """Switches that carry out what they are told, and an outlet that keeps what is said."""

    def __init__(self, described: dict[str, Any], tables: Mapping[str, Table] | None = None) -> None:
        self.network = Network(described)
        self.tables = {switch: Table() for switch in self.network.switches} if tables is None else dict(tables)
        self.control = Control(described, self)
        self.said: list[Mapping[str, Any]] = []
        #: Changes, and frames sent out, by switch.
        self.changes: list[tuple[str, Message]] = []
        self.sent: list[tuple[str, PacketOut]] = []
        self.time_ns = 0
        self._waiting: list[tuple[str, Message]] = []

    def connect(self, down: Sequence[str] = ()) -> None:
        for switch in self.network.switches:
            self.connect_one(switch, down)

    def connect_one(self, switch: str, down: Sequence[str] = ()) -> None:
        ports = {port.number: port.link not in down for port in self.network.ports.values() if port.switch == switch}
        self.control.on_connected(switch, ports)
        self.answer()

    def send(self, switch: str, messages: Sequence[Message]) -> None:
        self._waiting += [(switch, message) for message in messages]

    def say(self, said: Mapping[str, Any]) -> None:
        self.said.append(said)

    def now_ns(self) -> int:
        self.time_ns += 1000
        return self.time_ns

    def answer(self) -> None:
        """Carries out everything that was sent."""
        while self._waiting:
            switch, message = self._waiting.pop(0)
            table = self.tables[switch]
            match message:
                case PutEntry(entry):
                    table.add(entry)
                case RemoveEntry(entry):
                    del table.entries[entry.key]
                case PutGroup(group):
                    table.groups[group.id] = group
                case RemoveGroup(group):
                    del table.groups[group.id]
                case Barrier(number):
                    self.control.on_barrier(switch, number)
                case ReadTable():
                    self.control.on_table(switch, Table(dict(table.entries), dict(table.groups)))
                case ReadCounters(of_entries):
                    assert of_entries == (len(table.entries) <= 500)
                    self.control.on_counters(switch, Counters(1, 2, len(table.entries)))
                case PacketOut():
                    self.sent.append((switch, message))
            if isinstance(message, PutEntry | RemoveEntry | PutGroup | RemoveGroup):
                self.changes.append((switch, message))

    def port(self, link: str, *, up: bool) -> None:
        """Lets both ends of a link report their state."""
        for interface in (self.network.links[link]["a"], self.network.links[link]["b"]):
            port = self.network.ports[interface]
            self.control.on_port(port.switch, port.number, is_up=up)
            self.answer()

    def order(self, **order: Any) -> None:
        self.control.on_order(order)
        self.answer()

    def packet(self, interface: str, frame: bytes, *, is_miss: bool = True) -> None:
        """Lets the switch behind an interface of a host hand over a frame."""
        port = self.network.ports[self.network.far_end(interface)]
        self.control.on_packet(port.switch, port.number, frame, is_miss=is_miss)
        self.answer()

    def links(self, packet: Match, interface: str = "h1.eth0") -> list[str]:
        return over(self.network, self.tables, packet, interface)

    def told(self, said: str) -> list[Mapping[str, Any]]:
        return [message for message in self.said if message["said"] == said]


def ready(described: dict[str, Any]) -> Switches:
    switches = Switches(described)
    switches.connect()
    assert switches.said == [
        {"said": "ready", "switches": len(switches.network.switches), "entries": sum_of_entries(switches.tables)}
    ]
    return switches


def sum_of_entries(tables: Mapping[str, Table]) -> int:
    return sum(len(table.entries) for table in tables.values())


def test_it_is_ready_once_all_switches_hold_all_entries() -> None:
    described = experiment(4, attach=2, ways=((1, 2), (1, 3, 2)))
    switches = Switches(described)
    for switch in ("s1", "s2", "s3"):
        switches.connect_one(switch)
    assert switches.said == []
    switches.connect_one("s4")
    assert switches.said == [{"said": "ready", "switches": 4, "entries": 20}]
    assert switches.links(FIRST) == ["h1-0", "s1-s2", "h2-0"]


class Full(Table):
    """A table without room for entries."""

    def add(self, entry: Entry) -> None:
        pass


def test_a_switch_that_keeps_other_entries_than_it_was_given_is_a_problem() -> None:
    switches = Switches(experiment(3))
    switches.tables["s1"] = Full()
    switches.connect()
    assert switches.said == [
        {"said": "problem", "text": "switch s1: after 3 attempts found 0 entries, expected 4; 4 differ"}
    ]


@pytest.mark.parametrize("strategy", ["ip_preinstalled", "ip_reactive"])
def test_paths_leave_a_failed_link_once_and_return(strategy: str) -> None:
    switches = ready(experiment(4, recovery=recovery(strategy)))
    switches.port("s1-s2", up=False)
    switches.port("s1-s2", up=True)
    down, up = switches.told("reaction")
    assert (down["cause"], down["state"], down["flows"]) == ("s1-s2", "down", ["f0"])
    assert (up["cause"], up["state"]) == ("s1-s2", "up")
    assert down["installed_ns"] >= down["detected_ns"]
    assert switches.links(FIRST) == ["h1-0", "s1-s2", "h2-0"]


def test_the_controller_moves_paths_where_switches_have_no_detour() -> None:
    switches = ready(experiment(4, recovery=recovery("ip_reactive")))
    switches.port("s1-s2", up=False)
    assert switches.links(FIRST) == ["h1-0", "s1-s3", "s2-s3", "h2-0"]


def test_ports_do_not_matter_where_detection_is_by_order() -> None:
    switches = ready(experiment(4, recovery=recovery("ip_preinstalled", detect_ns=1)))
    switches.port("s1-s2", up=False)
    assert switches.told("reaction") == []
    switches.port("s1-s2", up=True)
    switches.order(do="failed", link="s1-s2")
    switches.order(do="failed", link="s1-s2")
    assert len(switches.told("reaction")) == 1
    assert switches.links(FIRST) == ["h1-0", "s1-s3", "s2-s3", "h2-0"]
    switches.order(do="repaired", link="s1-s2")
    assert switches.links(FIRST) == ["h1-0", "s1-s2", "h2-0"]


def test_a_link_of_a_host_is_not_a_matter_of_strategies() -> None:
    switches = ready(experiment(3, recovery=recovery("ip_reactive")))
    port = switches.network.ports["s1.h1-0"]
    switches.control.on_port("s1", port.number, is_up=False)
    assert switches.told("reaction") == []


def test_the_first_message_after_a_failure_that_still_says_up_does_no_harm() -> None:
    switches = ready(experiment(3, recovery=recovery("ip_reactive")))
    port = switches.network.ports["s1.s2"]
    for is_up in (True, False, False):
        switches.control.on_port("s1", port.number, is_up=is_up)
    switches.answer()
    assert [message["state"] for message in switches.told("reaction")] == ["down"]


def path_with(described: dict[str, Any], *way: int) -> list[dict[str, str]]:
    given = described["flows"][0]["paths"][0]["hops"]
    return [given[0], *hops(*way), given[-1]]


def test_an_order_reroutes_a_path_and_is_answered() -> None:
    described = experiment(4)
    switches = ready(described)
    there = path_with(described, 1, 3, 2)
    back = reversed_hops(path_with(described, 1, 4, 2))
    switches.order(do="reroute", id="r", flow="f0", path=0, there=there, back=back)
    assert switches.links(FIRST) == ["h1-0", "s1-s3", "s2-s3", "h2-0"]
    assert switches.links(pair_match("10.0.0.2", "10.0.0.1"), "h2.eth0") == ["h2-0", "s2-s4", "s1-s4", "h1-0"]
    [answer] = switches.told("reaction")
    assert (answer["cause"], answer["state"], answer["flows"]) == ("r", "rerouted", ["f0"])
    assert answer["installed_ns"] > answer["detected_ns"]


def without_recovery() -> dict[str, Any]:
    return experiment(3, attach=2, ways=((1, 2), (1, 3, 2)), recovery=recovery("none"))


@pytest.mark.parametrize("strategy", ["ip_reactive", "ip_preinstalled"])
def test_another_strategy_moves_paths_at_once_and_reacts_from_then_on(strategy: str) -> None:
    switches = ready(without_recovery())
    switches.port("s1-s2", up=False)
    assert switches.links(FIRST) == ["h1-0", "s1-s2", "h2-0"]
    # Groups of switches look at their ports, which a table of the test does not.
    moved = ["h1-0", "s1-s3", "s2-s3", "h2-0"] if strategy == "ip_reactive" else ["h1-0", "s1-s2", "h2-0"]
    switches.order(do="set_recovery", id="change", strategy=strategy)
    assert switches.links(FIRST) == moved
    assert any(table.groups for table in switches.tables.values()) == (strategy == "ip_preinstalled")
    of_failure, of_change = switches.told("reaction")
    assert (of_failure["cause"], of_failure["flows"]) == ("s1-s2", [])
    assert (of_change["cause"], of_change["state"]) == ("change", "rerouted")
    assert of_change["flows"] == (["f0"] if strategy == "ip_reactive" else [])
    switches.port("s1-s2", up=True)
    assert switches.links(FIRST) == ["h1-0", "s1-s2", "h2-0"]
    assert switches.told("problem") == []


def test_a_strategy_that_comes_before_a_failure_recovers_from_it_and_the_first_one_returns() -> None:
    described = experiment(4, recovery=recovery("ip_reactive"))
    switches = ready(described)
    for strategy, moved in (("none", ["s1-s2"]), ("ip_reactive", ["s1-s3", "s2-s3"])):
        switches.changes.clear()
        switches.order(do="set_recovery", id=f"to {strategy}", strategy=strategy)
        assert switches.changes == [], "without a failure, all paths are where they were"
        switches.port("s1-s2", up=False)
        assert switches.links(FIRST) == ["h1-0", *moved, "h2-0"]
        switches.port("s1-s2", up=True)
    assert switches.links(FIRST) == ["h1-0", "s1-s2", "h2-0"]


def test_paths_return_if_the_new_strategy_would_not_have_moved_them() -> None:
    switches = ready(experiment(4, recovery=recovery("ip_reactive")))
    switches.port("s1-s2", up=False)
    assert switches.links(FIRST) == ["h1-0", "s1-s3", "s2-s3", "h2-0"]
    switches.order(do="set_recovery", id="change", strategy="none")
    assert switches.links(FIRST) == ["h1-0", "s1-s2", "h2-0"]


@pytest.mark.parametrize(
    ("order", "problem"),
    [
        ({"do": "dance"}, "order 'dance' is unknown; allowed: reroute, set_recovery, failed, repaired"),
        ({}, "order {}: 'do' is missing or unknown"),
        ({"do": "failed", "link": []}, "order {'do': 'failed', 'link': []}: a value has the wrong type"),
        ([], "order []: a value has the wrong type"),
        (
            {"do": "reroute", "id": "r", "flow": "f0", "path": 0, "there": [], "back": []},
            "reroute of f0, path 0: the route does not join the hosts of the path; allowed: a route that begins with h1-0 "
            "and ends with h2-0",
        ),
        (
            {"do": "set_recovery", "id": "r", "strategy": "frr"},
            "control.recovery: unknown name 'frr'; allowed: none, optical, ip_preinstalled, ip_reactive, transport, "
            "./FILE.py:CLASS",
        ),
        (
            {"do": "set_recovery", "id": "r"},
            "order {'do': 'set_recovery', 'id': 'r'}: 'strategy' is missing or unknown",
        ),
        ({"do": "failed", "link": "x"}, "order {'do': 'failed', 'link': 'x'}: 'x' is missing or unknown"),
        (
            {"do": "reroute", "id": "r", "flow": "f9", "path": 0, "there": [], "back": []},
            "reroute of f9, path 0: there is no such path; allowed: f0 path 0",
        ),
    ],
)
def test_a_wrong_order_changes_nothing_and_is_told(order: dict[str, Any], problem: str) -> None:
    switches = ready(experiment(3))
    switches.changes.clear()
    switches.control.on_order(order)
    assert switches.said[1:] == [{"said": "problem", "text": problem}]
    assert switches.changes == []


def test_a_reroute_that_circles_is_refused() -> None:
    described = experiment(3)
    switches = ready(described)
    there = path_with(described, 1, 3, 1, 2)
    switches.order(do="reroute", id="r", flow="f0", path=0, there=there, back=reversed_hops(there))
    assert switches.said[1:] == [
        {"said": "problem", "text": "reroute of f0, path 0: the route passes s1 twice; allowed: each switch once"}
    ]
    assert switches.links(FIRST) == ["h1-0", "s1-s2", "h2-0"]


def test_a_new_controller_over_right_tables_changes_nothing() -> None:
    described = experiment(4, recovery=recovery("ip_preinstalled"))
    again = Switches(described, ready(described).tables)
    again.connect()
    assert again.changes == []
    assert len(again.told("ready")) == 1


def test_a_new_controller_finds_failures_and_reroutes_of_the_one_before() -> None:
    described = experiment(4, recovery=recovery("ip_reactive"))
    there = path_with(described, 1, 3, 2)
    action = {"kind": "reroute", "flow": "f0", "path": 0, "there": there, "back": reversed_hops(there)}
    described["events"] = [{"id": "r", "at_ns": 0, "parent": None, "action": {**action, "by": "description"}}]
    first = ready(described)
    first.order(do="reroute", id="r", flow="f0", path=0, there=there, back=reversed_hops(there))
    rerouted = Switches(described, first.tables)
    rerouted.connect()
    assert rerouted.changes == []
    rerouted.port("s1-s3", up=False)
    assert rerouted.links(FIRST) == ["h1-0", "s1-s2", "h2-0"]

    plain = experiment(4, recovery=recovery("ip_reactive"))
    failed = ready(plain)
    failed.port("s1-s2", up=False)
    later = Switches(plain, failed.tables)
    later.connect(down=("s1-s2",))
    assert later.changes == []
    later.port("s1-s2", up=True)
    assert later.links(FIRST) == ["h1-0", "s1-s2", "h2-0"]


def test_a_switch_that_returns_gets_what_it_lacks_and_no_more() -> None:
    switches = ready(experiment(4))
    switches.control.on_lost("s1")
    assert switches.told("problem") == [
        {"said": "problem", "text": "switch s1: the connection is lost; its entries stay"}
    ]
    lost = switches.tables["s1"].entries.pop(next(iter(switches.tables["s1"].entries)))
    switches.changes.clear()
    switches.connect_one("s1")
    assert switches.changes == [("s1", PutEntry(lost))]
    assert len(switches.told("ready")) == 1


def test_the_loss_of_a_switch_does_not_hold_up_the_others() -> None:
    switches = ready(experiment(4, recovery=recovery("ip_reactive")))
    port = switches.network.ports["s1.s2"]
    switches.control.on_port("s1", port.number, is_up=False)
    switches.control.on_lost("s3")
    switches._waiting = [sent for sent in switches._waiting if sent[0] != "s3"]
    switches.answer()
    assert len(switches.told("reaction")) == 1


# ---- packets ----


def test_a_first_segment_waits_for_the_entries_and_then_leaves() -> None:
    described = experiment(4, attach=2, ways=((1, 2), (1, 3, 2)), install="reactive")
    switches = ready(described)
    frame = tcp("10.0.1.1", "10.0.1.2", (40000, 5001), SYN, capable_syn())
    switches.packet("h1.eth1", frame)
    [(switch, sent)] = switches.sent
    assert (switch, sent.frame) == ("s1", frame)
    assert sent.actions == (Output(switches.network.ports["s1.s3"].number),)
    packet = read(frame)
    assert packet is not None
    later = Match(packet.ethernet_type, "10.0.1.1", "10.0.1.2", 6, 40000, 5001)
    # The first switch copies the opener's segments until the keys are known.
    copying = [entry for entry in switches.tables["s1"].entries.values() if len(entry.actions) == 2]
    assert [entry.match for entry in copying] == [later]
    third = tcp("10.0.1.1", "10.0.1.2", (40000, 5001), ACK, capable_keys(b"A" * 8, b"B" * 8))
    switches.packet("h1.eth1", third, is_miss=False)
    assert switches.links(later, "h1.eth1") == ["h1-1", "s1-s3", "s2-s3", "h2-1"]
    assert not [entry for entry in switches.tables["s1"].entries.values() if len(entry.actions) == 2]
    assert len(switches.sent) == 1


def test_keys_are_learned_from_a_segment_that_misses_its_entry_too() -> None:
    switches = ready(experiment(4, ways=((1, 2), (1, 3, 2)), install="reactive"))
    ends = ("10.0.0.1", "10.0.0.2")
    switches.packet("h1.eth0", tcp(*ends, (40000, 5001), SYN, capable_syn()))
    third = tcp(*ends, (40000, 5001), ACK, capable_keys(b"A" * 8, b"B" * 8))
    switches.packet("h1.eth0", third, is_miss=True)
    assert [sent.frame for _, sent in switches.sent][1:] == [third]
    switches.packet("h1.eth0", tcp(*ends, (40001, 5001), SYN, join_syn(token_of(b"B" * 8))))
    assert switches.links(Match(0x0800, *ends, 6, 40001, 5001)) == ["h1-0", "s1-s3", "s2-s3", "h2-0"]


def test_datagrams_get_entries_for_their_protocol_alone() -> None:
    switches = ready(experiment(4, install="reactive"))
    frame = udp("10.0.0.1", "10.0.0.2", (40000, 5001))
    switches.packet("h1.eth0", frame)
    switches.packet("h1.eth0", udp("10.0.0.9", "10.0.0.2", (40000, 5001)))
    assert [(switch, sent.frame) for switch, sent in switches.sent] == [("s1", frame)]
    assert switches.links(Match(0x0800, "10.0.0.1", "10.0.0.2", 17, 1, 2)) == ["h1-0", "s1-s2", "h2-0"]
    segment = Match(0x0800, "10.0.0.1", "10.0.0.2", 6, 1, 2)
    entry = switches.tables["s1"].look_up(segment)
    assert entry is not None
    assert entry.priority == 0


def test_questions_of_programs_are_answered_and_others_are_not() -> None:
    program = {"app": {"kind": "iperf3", "args": []}, "transport": "tcp"}
    for flows, count in (((program,), 1), (({},), 0)):
        switches = ready(experiment(3, flows=flows))
        switches.packet("h1.eth0", arp_request("10.0.0.1", "10.0.0.2"))
        assert len(switches.sent) == count


# ---- statistics and discovery ----


def test_statistics_tell_of_all_switches_at_once() -> None:
    switches = ready(experiment(3))
    switches.control.on_statistics_due()
    switches.control.on_statistics_due()
    switches.answer()
    [said] = switches.told("statistics")
    assert set(said["switches"]) == {"s1", "s2", "s3"}
    assert said["switches"]["s1"] == {
        "entries": 4,
        "packet_ins": 0,
        "packet_outs": 0,
        "lookups": 1,
        "matched": 2,
        "barrier_rtt_s": pytest.approx(0, abs=1e-3),
    }
    assert said["paths"] == {"f0/0": dict.fromkeys(("there_packets", "there_bytes", "back_packets", "back_bytes"), 0)}


def test_statistics_go_on_without_a_switch_that_is_lost() -> None:
    switches = ready(experiment(3))
    switches.control.on_statistics_due()
    switches.control.on_lost("s3")
    switches._waiting = [sent for sent in switches._waiting if sent[0] != "s3"]
    switches.answer()
    assert set(switches.told("statistics")[0]["switches"]) == {"s1", "s2"}


def test_statistics_go_on_without_a_switch_that_is_lost_after_its_barrier() -> None:
    switches = ready(experiment(3))
    switches.control.on_statistics_due()
    number = next(
        message.number for switch, message in switches._waiting if switch == "s3" and isinstance(message, Barrier)
    )
    switches.control.on_barrier("s3", number)
    switches._waiting = [sent for sent in switches._waiting if sent[0] != "s3"]
    switches.answer()
    switches.control.on_lost("s3")
    assert set(switches.told("statistics")[0]["switches"]) == {"s1", "s2"}


def deliver(switches: Switches) -> None:
    """Carries the frames of a discovery over their links."""
    for switch, sent in switches.sent:
        [action] = sent.actions
        assert isinstance(action, Output)
        port = switches.network.port_by_number[switch, action.port]
        arrival = switches.network.ports[switches.network.far_end(port.interface)]
        switches.control.on_packet(arrival.switch, arrival.number, sent.frame, is_miss=False)
    switches.answer()


def test_discovery_ends_before_it_is_ready_and_leaves_no_entry() -> None:
    switches = Switches(experiment(3, discover=True))
    switches.connect()
    assert switches.said == []
    deliver(switches)
    assert [message["said"] for message in switches.said] == ["ready"]
    assert all(
        entry.match.ethernet_type != 0x88CC for table in switches.tables.values() for entry in table.entries.values()
    )


def test_a_discovery_that_differs_ends_the_controller() -> None:
    switches = Switches(experiment(3, discover=True))
    switches.connect()
    lost = {switches.network.ports[interface].number for interface in ("s2.s3", "s3.s2")}
    switches.sent = [(switch, sent) for switch, sent in switches.sent if sent.actions[0].port not in lost]  # type: ignore[union-attr]
    deliver(switches)
    switches.control.on_time()
    switches.time_ns += 6_000_000_000
    with pytest.raises(RunFailed, match=r"not the described ones: not found: s2.s3 - s3.s2$"):
        switches.control.on_time()
