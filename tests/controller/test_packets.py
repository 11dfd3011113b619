"""Tests of reading frames, and of answers to ARP and DNS."""

from __future__ import annotations

import hashlib

import dns.flags
import dns.message
import dns.rcode
import pytest
from controlled import experiment
from frames import ACK, SYN, arp_request, capable_keys, capable_syn, ethernet, join_syn, join_syn_ack, tcp, udp
from hypothesis import given
from hypothesis import strategies as st
from mptcplab.controller.arp import MAC_OF_NAME_SERVER, Neighbours, name_servers
from mptcplab.controller.discovery import Discovery, frame, sender_of
from mptcplab.controller.names import Names, checksum, reply_frame
from mptcplab.controller.network import Network
from mptcplab.controller.packets import read, token_of

ENDS = {4: ("10.0.0.1", "10.0.0.2"), 6: ("fd00::1", "fd00::2")}


@pytest.mark.parametrize("version", [4, 6])
def test_addresses_ports_and_options_are_read_in_both_families(version: int) -> None:
    opening = read(tcp(*ENDS[version], (40000, 5001), SYN, capable_syn()))
    assert opening is not None
    assert (opening.source, opening.destination, opening.source_port, opening.destination_port) == (
        *ENDS[version],
        40000,
        5001,
    )
    assert (opening.is_opening, opening.is_capable, opening.keys, opening.token) == (True, True, None, None)
    third = read(tcp(*ENDS[version], (40000, 5001), ACK, capable_keys(b"A" * 8, b"B" * 8)))
    assert third is not None
    assert (third.is_opening, third.keys) == (False, (b"A" * 8, b"B" * 8))
    join = read(tcp(*ENDS[version], (40001, 5001), SYN, join_syn(0x01020304)))
    assert join is not None
    assert (join.is_opening, join.is_capable, join.token) == (True, False, 0x01020304)


def test_the_answer_to_a_join_has_no_token() -> None:
    answer = read(tcp(*ENDS[4], (5001, 40001), SYN | ACK, join_syn_ack()))
    assert answer is not None
    assert (answer.is_opening, answer.token) == (False, None)


def test_the_token_is_the_first_four_bytes_of_the_hash_of_the_key() -> None:
    key = bytes(range(8))
    assert token_of(key).to_bytes(4, "big") == hashlib.sha256(key).digest()[:4]


@given(st.binary(max_size=120))
def test_what_is_cut_off_or_garbled_is_read_as_nothing_or_without_options(content: bytes) -> None:
    for kind in (0x0800, 0x86DD, 0x0806):
        read(ethernet(kind, content))


@given(st.binary(max_size=40))
def test_garbled_options_do_not_matter(options: bytes) -> None:
    packet = read(tcp(*ENDS[4], (1, 2), SYN, options[:32]))
    assert packet is not None


def test_arp_is_answered_for_described_addresses_alone() -> None:
    network = Network(experiment())
    answer = Neighbours(network).answer(arp_request("10.0.0.1", "10.0.0.2"))
    assert answer is not None
    assert answer[:6] == bytes.fromhex("020000000000")
    assert answer[22:28] == bytes.fromhex(network.mac("h2.eth0").replace(":", ""))
    assert Neighbours(network).answer(arp_request("10.0.0.1", "10.0.0.9")) is None
    assert Neighbours(network).answer(arp_request("10.0.0.1", "10.0.0.1")) is None
    assert Neighbours(network).answer(answer) is None


def test_the_name_server_has_the_last_address_of_a_subnet() -> None:
    network = Network(experiment())
    assert name_servers(network) == {"h1.eth0": "10.0.255.254", "h2.eth0": "10.0.255.254"}
    answer = Neighbours(network).answer(arp_request("10.0.0.1", "10.0.255.254"))
    assert answer is not None
    assert answer[22:28].hex(":") == MAC_OF_NAME_SERVER


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("h2", "A", ["10.0.0.2", "10.0.1.2"]),
        ("H2.", "AAAA", ["fd00::2", "fd00::1:2"]),
        ("h2.eth1", "A", ["10.0.1.2"]),
        ("h2", "MX", []),
    ],
)
def test_dns_knows_hosts_and_their_interfaces(name: str, kind: str, expected: list[str]) -> None:
    names = Names(Network(experiment(attach=2, ways=((1, 2), (1, 3, 2)))))
    answer = names.answer(dns.message.make_query(name, kind).to_wire())
    assert answer is not None
    read_back = dns.message.from_wire(answer)
    assert read_back.flags & dns.flags.QR
    assert read_back.rcode() == dns.rcode.NOERROR
    assert sorted(str(row) for rows in read_back.answer for row in rows) == sorted(expected)


def test_dns_knows_no_other_names_and_ignores_what_is_no_question() -> None:
    names = Names(Network(experiment()))
    unknown = names.answer(dns.message.make_query("example.org", "A").to_wire())
    assert unknown is not None
    assert dns.message.from_wire(unknown).rcode() == dns.rcode.NXDOMAIN
    assert names.answer(unknown) is None
    assert names.answer(b"nonsense") is None


@pytest.mark.parametrize("version", [4, 6])
def test_answers_go_back_with_a_right_checksum(version: int) -> None:
    question = udp(*ENDS[version], (40000, 53), b"q")
    packet = read(question)
    assert packet is not None
    reply = reply_frame(question, packet, b"an answer")
    back = read(reply)
    assert back is not None
    assert (back.source, back.destination, back.source_port, back.destination_port) == (
        *reversed(ENDS[version]),
        53,
        40000,
    )
    assert back.payload == b"an answer"
    assert reply[:6] == question[6:12]
    head = 14 + (20 if version == 4 else 40)
    addresses = reply[26:34] if version == 4 else reply[22:54]
    assert checksum(addresses + len(reply[head:]).to_bytes(4, "big") + bytes((0, 0, 0, 17)) + reply[head:]) == 0
    assert version == 6 or checksum(reply[14:34]) == 0


def test_discovery_tells_what_is_missing_and_what_is_not_described() -> None:
    network = Network(experiment(3))
    sent = frame((2, 5), "02:00:00:00:00:05")
    assert sender_of(sent) == (2, 5)
    discovery = Discovery(network)
    assert discovery.difference() == "not found: s1.s2 - s2.s1, s1.s3 - s3.s1, s2.s3 - s3.s2"
    ports = {interface: (network.switches[port.switch], port.number) for interface, port in network.ports.items()}
    for a, b in (("s1.s2", "s2.s1"), ("s1.s3", "s3.s1"), ("s2.s3", "s3.s2")):
        discovery.on_frame(network.node(b), ports[b][1], frame(ports[a], "02:00:00:00:00:00"))
    assert discovery.difference() is None
    discovery.on_frame("s3", ports["s3.s1"][1], frame(ports["s2.s1"], "02:00:00:00:00:00"))
    assert discovery.difference() == "not described: s2.s1 - s3.s1"
