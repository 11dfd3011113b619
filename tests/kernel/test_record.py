"""Tests the parts of a bundle: captures, substitutions, checksums."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from command_line import mptcplab
from measured import TWO_LINKS, measured
from mptcplab.results import Bundle
from mptcplab.runner import plan_like

pytestmark = pytest.mark.kernel

SECTION_HEADER, INTERFACE, ENHANCED_PACKET = 0x0A0D0D0A, 1, 6
RAW_IP = 101
TCP, UDP = 6, 17
MPTCP_OPTION = 30


@dataclass(frozen=True)
class Packet:
    """A captured IPv4 packet."""

    time_ns: int
    ip: bytes

    @property
    def transport(self) -> int:
        return self.ip[9]

    @property
    def segment(self) -> bytes:
        """The packet without its IP header."""
        return self.ip[(self.ip[0] & 15) * 4 :]

    @property
    def is_sound(self) -> bool:
        """Whether both checksums are correct."""
        pseudo_header = self.ip[12:20] + struct.pack("!BBH", 0, self.transport, len(self.segment))
        header = self.ip[: (self.ip[0] & 15) * 4]
        return ones_sum(header) == 0xFFFF and ones_sum(pseudo_header + self.segment) == 0xFFFF

    @property
    def tcp_options(self) -> set[int]:
        options, kinds = self.segment[20 : (self.segment[12] >> 4) * 4], set()
        while options and options[0] != 0:
            kinds.add(options[0])
            options = options[1:] if options[0] == 1 else options[options[1] :]
        return kinds


def ones_sum(data: bytes) -> int:
    total = sum(struct.unpack(f"!{(len(data) + 1) // 2}H", data + b"\0" * (len(data) % 2)))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def packets(capture: Path) -> Iterator[Packet]:
    """Yields the packets of a pcapng file with one interface and times in nanoseconds."""
    data = capture.read_bytes()
    while data:
        kind, length = struct.unpack_from("<II", data)
        assert struct.unpack_from("<I", data, length - 4) == (length,)
        body, data = data[8 : length - 4], data[length:]
        if kind == INTERFACE:
            assert struct.unpack_from("<H", body) == (RAW_IP,)
        elif kind == ENHANCED_PACKET:
            _, high, low, captured, original = struct.unpack_from("<IIIII", body)
            assert captured == original
            yield Packet(high << 32 | low, body[20 : 20 + captured])
        else:
            assert kind in (SECTION_HEADER, 5), kind


def test_captures_hold_what_went_over_the_link(tmp_path: Path) -> None:
    found = measured(
        TWO_LINKS
        + """
flows:
  bulk: {from: client, to: server, app: bulk}
  call: {from: client, to: server, transport: udp, app: {cbr: {rate: 400kbit, size: 500}}, primary: two}
measure: {captures: [client.eth2, server.eth2]}
duration: 1s
""",
        tmp_path,
    )
    near, far = (list(packets(found.bundle.path / "captures" / f"{end}.eth2.pcapng")) for end in ("client", "server"))
    link = found.link("two", "forward")
    sent = [packet for packet in near if packet.ip[12:16] == bytes([10, 1, 2, 1])]
    arrived = [packet for packet in far if packet.ip[12:16] == bytes([10, 1, 2, 1])]
    assert len(sent) >= link["offered_packets"] > 10
    assert len(arrived) >= link["delivered_packets"] > 10
    assert {packet.transport for packet in sent} >= {TCP, UDP}
    for packet in [*near, *far]:
        assert packet.ip[0] >> 4 == 4
        # At the end of the run a datagram can find its receiver gone, which ICMP reports.
        assert packet.is_sound or packet.transport not in (TCP, UDP)
        assert len(packet.ip) <= 1500
    assert any(MPTCP_OPTION in packet.tcp_options for packet in near if packet.transport == TCP)
    begun = {packet.ip: packet.time_ns for packet in reversed(sent)}
    for packet in arrived:
        assert packet.time_ns - begun[packet.ip] >= 20_000_000


def test_every_file_of_a_bundle_has_its_checksum(tmp_path: Path) -> None:
    text = TWO_LINKS + "flows: {bulk: {from: client, to: server, app: bulk}}\n"
    found = measured(text + "measure: {captures: [client.eth1]}\nduration: 1s\n", tmp_path)
    sums = found.record["sha256"]
    assert {"captures/client.eth1.pcapng", "samples.parquet", "units.parquet", "experiment.json"} <= set(sums)
    for name, digest in sums.items():
        assert hashlib.sha256((found.bundle.path / name).read_bytes()).hexdigest() == digest, name


def test_what_was_not_the_first_choice_is_recorded_and_told(tmp_path: Path) -> None:
    text = TWO_LINKS.replace("client: {}", "client: {behaviour: [oot, {preset: mainline, path_manager_delay: 500ms}]}")
    flow = "flows: {bulk: {from: client, to: server, app: bulk, cc: [lia-oot, reno], scheduler: [min_rtt, kernel_default]}}"
    (tmp_path / "asked.yaml").write_text(f"{text}{flow}\nduration: 1s\n")
    ended = mptcplab("run", "asked.yaml", "--on", "kernel", cwd=tmp_path)
    assert ended.status in (0, 4), ended
    [record] = (tmp_path / "results" / "two-links").glob("*/run.json")
    text = record.read_text()
    for asked, used in (("lia-oot", "reno"), ("min_rtt", "kernel_default"), ("oot", "mainline")):
        assert f'"asked": "{asked}"' in text
        assert f'"used": "{used}' in text
        assert asked in ended.out
    assert ended.out.count("substituted") == 3
    twin = plan_like(Bundle.open(record.parent), "sim", out=tmp_path / "twin").choice.experiment
    assert [(flow["cc"], flow["scheduler"]) for flow in twin["flows"]] == [(["reno"], ["kernel_default"])]
    assert [host["behaviour"][0]["path_manager_delay_ns"] for host in twin["hosts"]] == [500_000_000, 0]
