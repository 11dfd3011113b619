"""Tests the verdict on connections, each over a capture and over a changed copy of it that turns
the verdict.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from command_line import mptcplab
from mptcplab import load, run
from mptcplab.captures import explain
from mptcplab.report.capture import capture_page
from mptcplab.report.capture_tables import capture_sentences
from mptcplab.report.capture_verdict import verdict

RECORDED = Path(__file__).parents[1] / "crates/mptcp/tests/captures"
#: Bytes of a packet header of a pcap file, of an IPv4 header and of a TCP header.
RECORD, IPV4, TCP = 16, 20, 20
MP_JOIN_ACK = bytes([30, 24, 0x10])
#: MP_TCPRST with the reason "MPTCP-specific error".
MP_TCPRST = bytes([30, 4, 0x80, 1])

EXPERIMENT = """
name: judged
hosts: {client: {SETTINGS}, server: {SETTINGS}}
links:
  wifi: {between: [client.wlan0, server.eth0], rate: 5mbit, delay: 10ms, queue: 100p}
  lte: {between: [client.wwan0, server.eth1], rate: 3mbit, delay: 20ms, queue: 100p}
middleboxes: [BOXES]
flows: {upload: {from: client, to: server, app: {bulk: {bytes: 300kB}}, PROTOCOL}}
events: [EVENTS]
measure: {captures: [client.wlan0, client.wwan0, server.eth0, server.eth1]}
duration: 20s
"""
Judged = dict[str, list[Any]]


def simulated(
    to: Path, *, boxes: str = "", settings: str = "", manager: str | None = "full_mesh", events: str = ""
) -> Judged:
    """Returns the verdict at each host. Without a path manager, the upload is plain TCP."""
    protocol = f"transport: mptcp, path_manager: {manager}" if manager else "transport: tcp"
    text = EXPERIMENT.replace("BOXES", boxes).replace("SETTINGS", settings)
    description = to / "judged.yaml"
    description.write_text(text.replace("PROTOCOL", protocol).replace("EVENTS", events))
    [bundle] = run(*load(description), on="sim", out=to)
    return {host: judged(*sorted((bundle.path / "captures").glob(f"{host}.*"))) for host in ("client", "server")}


def judged(*files: Path) -> list[Any]:
    """Returns the verdict on the only connection."""
    [connection] = explain(list(files))["connections"]
    findings = verdict(connection)
    assert 1 <= len(findings) <= 3
    return findings


def kinds(findings: list[Any]) -> list[str]:
    return [finding.kind for finding in findings]


def records(capture: Path) -> tuple[bytes, list[bytes]]:
    """Returns the header of a pcap file, and its packets with their headers."""
    content = capture.read_bytes()
    header, at, packets = content[:24], 24, []
    while at < len(content):
        [length] = struct.unpack_from("<I", content, at + 8)
        packets.append(content[at : at + RECORD + length])
        at += RECORD + length
    return header, packets


def changed(to: Path, name: str, change: Callable[[list[bytes]], list[bytes]]) -> Path:
    """Returns a recorded capture with its packets changed."""
    header, packets = records(RECORDED / name)
    made = to / "changed.pcap"
    made.write_bytes(header + b"".join(change(packets)))
    return made


def with_wrong_hmac(packets: list[bytes]) -> list[bytes]:
    found = [packet for packet in packets if MP_JOIN_ACK in packet]
    assert found
    return [
        packet.replace(packet[at : at + 24], packet[at : at + 23] + bytes([packet[at + 23] ^ 1]))
        if (at := packet.find(MP_JOIN_ACK)) >= 0
        else packet
        for packet in packets
    ]


def reset_after_join(packets: list[bytes]) -> list[bytes]:
    """Returns the packets up to the third of the first join, and a RST of the other host with a
    reason.
    """
    index = next(index for index, packet in enumerate(packets) if MP_JOIN_ACK in packet)
    proof = packets[index]
    link = len(proof) - RECORD - int.from_bytes(proof[proof.index(b"\x45", RECORD) + 2 :][:2], "big")
    ip = proof[RECORD + link :]
    swapped = ip[:2] + struct.pack(">H", IPV4 + TCP + 4) + ip[4:12] + ip[16:20] + ip[12:16]
    tcp = ip[IPV4:]
    reset = tcp[2:4] + tcp[:2] + tcp[8:12] + tcp[4:8] + bytes([6 << 4, 0x14]) + bytes(6) + MP_TCPRST
    frame = proof[RECORD : RECORD + link] + swapped + reset
    record = proof[:8] + struct.pack("<II", len(frame), len(frame))
    return [*packets[: index + 1], record + frame]


def test_a_healthy_connection_gets_a_sentence(tmp_path: Path) -> None:
    [worked] = simulated(tmp_path)["client"]
    assert worked.kind == "worked"
    assert worked.text.startswith("MPTCP worked: 2 subflows carried ")
    assert worked.text.endswith("of the 300 kB of the client; nothing was refused in this capture.")


def test_a_connection_with_a_single_subflow_is_not_said_to_use_several() -> None:
    [alone] = verdict(explain([RECORDED / "mb_loss.pcap"])["connections"][0])
    assert alone.kind == "one_subflow"
    assert "no second subflow: subflow 0 carried all 400 kB of the client" in alone.text


@pytest.mark.parametrize("name", ["A_basic.pcap", "F_csum.pcap", "H_gso.pcap"])
def test_the_kernels_connections_work_and_their_checksums_are_right(name: str) -> None:
    [connection] = explain([RECORDED / name])["connections"]
    assert kinds(verdict(connection))[0] in ("worked", "announced_not_joined")
    counts = [way["checksums"] for one in connection["subflows"] for way in one["directions"].values()]
    assert [count["wrong"] for count in counts] == [0] * len(counts)
    assert (sum(count["right"] for count in counts) > 0) == connection["checksums"]
    proofs = [proof for one in connection["subflows"] for proof in one["proofs"].values() if proof]
    assert all(proof["is_right"] for proof in proofs)


def test_a_server_without_mptcp_is_named(tmp_path: Path) -> None:
    stripped = "{at: client.wlan0, strip_options: {options: mp_capable, segments: syn_ack}, direction: arriving}"
    judgement = simulated(tmp_path, boxes=stripped)
    assert kinds(judgement["client"])[0] == "no_mptcp_at_server"
    assert "carries no MP_CAPABLE" in judgement["client"][0].text


def test_the_packet_without_a_signal_is_the_cause_of_a_fallback(tmp_path: Path) -> None:
    stripped = "{at: client.wlan0, strip_options: {options: dss, segments: non_syn}, direction: arriving}"
    findings = simulated(tmp_path, boxes=stripped, manager="passive")["client"]
    assert kinds(findings)[0] == "no_signal"
    assert "of the server carries no DSS option" in findings[0].text


def test_the_place_of_capture_tells_where_payload_was_changed(tmp_path: Path) -> None:
    box = "{at: client.wlan0, direction: leaving, change_bytes: {after: 50000}}"
    judgement = simulated(tmp_path, boxes=box, settings="checksum: true")
    before, behind = judgement["client"][0], judgement["server"][0]
    assert (before.kind, behind.kind) == ("payload_refused", "payload_changed")
    assert "changed after the capture point" in before.text
    assert "is not that of the payload; the server answered with MP_FAIL" in behind.text


def test_the_end_of_mptcp_after_changed_payload_is_told_where_the_change_is_seen(tmp_path: Path) -> None:
    box = "{at: client.wlan0, direction: leaving, change_bytes: {after: 8000}}"
    behind = simulated(tmp_path, boxes=box, settings="checksum: true", manager="passive")["server"][0]
    assert behind.kind == "payload_changed"
    begin, end = re.search(r"between byte (\d+) and byte (\d+)", behind.text).groups()
    assert int(begin) <= 8000 < int(end)


def test_a_wrong_hmac_is_found_with_the_keys_of_the_capture(tmp_path: Path) -> None:
    assert "join_hmac_wrong" not in kinds(judged(RECORDED / "A_basic.pcap"))
    [finding] = [one for one in judged(changed(tmp_path, "A_basic.pcap", with_wrong_hmac)) if "hmac" in one.kind]
    assert finding.kind == "join_hmac_wrong"
    assert "changed before the capture point" in finding.text


def test_a_right_hmac_before_a_reset_puts_the_cause_after_the_capture_point(tmp_path: Path) -> None:
    finding = judged(changed(tmp_path, "A_basic.pcap", reset_after_join))[0]
    assert finding.kind == "join_reset"
    assert "'MPTCP-specific error'" in finding.text
    assert "is right in this capture, so something after the capture point changed it" in finding.text


def test_without_keys_nothing_is_said_about_an_hmac(tmp_path: Path) -> None:
    def of_the_join(packets: list[bytes]) -> list[bytes]:
        packets = reset_after_join(packets)
        first = next(index for index, packet in enumerate(packets) if bytes([30, 12, 0x10]) in packet)
        return packets[first:]

    text = " ".join(finding.text for finding in judged(changed(tmp_path, "A_basic.pcap", of_the_join)))
    assert "is unknown, because the capture lacks the keys" in text
    assert "right in this capture" not in text


def test_a_capture_from_the_middle_and_one_of_one_direction_name_what_is_unknown(tmp_path: Path) -> None:
    def is_from_client(packet: bytes, client: bytes) -> bool:
        return client in packet[RECORD:]

    middle = judged(changed(tmp_path, "A_basic.pcap", lambda packets: packets[8:]))
    assert "beginning_missing" in kinds(middle)
    header, packets = records(RECORDED / "mb_loss.pcap")
    at = packets[0].index(b"\x45", RECORD) + 12
    source = packets[0][at : at + 4]
    one_way = tmp_path / "one.pcap"
    one_way.write_bytes(header + b"".join(packet for packet in packets if packet[at : at + 4] == source))
    [connection] = explain([one_way])["connections"]
    found = kinds(verdict(connection))
    assert "one_direction" in found
    assert not {"no_answer", "join_unanswered", "join_incomplete"} & set(found)


def cut_at(size: int) -> Callable[[list[bytes]], list[bytes]]:
    """Returns a change that keeps the first bytes of each packet, as a capture with a snap length."""

    def cut(packet: bytes) -> bytes:
        kept = packet[RECORD : RECORD + size]
        return packet[:8] + struct.pack("<I", len(kept)) + packet[12:RECORD] + kept

    return lambda packets: [cut(packet) for packet in packets]


@pytest.mark.parametrize("size", range(60, 128, 4))
def test_what_a_snap_length_cut_off_is_not_said_to_be_absent(tmp_path: Path, size: int) -> None:
    connections = explain([changed(tmp_path, "A_basic.pcap", cut_at(size))])["connections"]
    plain = [kinds(verdict(one)) for one in connections if one["version"] is None]
    assert plain == [["plain_options_cut"]] * len(plain)
    multipath = [one for one in connections if one["version"] is not None]
    assert all(one["fallback"] is None for one in multipath)
    found = [kind for one in multipath for kind in kinds(verdict(one))]
    assert not {"no_signal", "no_mptcp_at_server", "join_refused"} & set(found)
    # After cooked headers of 20 bytes, this capture has up to 40 bytes of options.
    is_cut = size < 20 + IPV4 + TCP + 40
    assert is_cut == bool({"options_cut", "plain_options_cut"} & {*found, *chain(*plain)})


def test_times_that_run_backwards_are_told(tmp_path: Path) -> None:
    def last_first(packets: list[bytes]) -> list[bytes]:
        return [packets[-1], *packets[:-1]]

    in_order = explain([RECORDED / "A_basic.pcap"])
    assert in_order["frames"]["out_of_order"] == in_order["longest_step_back_s"] == 0
    moved = explain([changed(tmp_path, "A_basic.pcap", last_first)])
    assert moved["frames"]["out_of_order"] == 1
    assert moved["longest_step_back_s"] == pytest.approx(in_order["duration_s"])
    sentence = capture_sentences(moved)[-1]
    assert sentence.startswith("1 packet has a time before that of the preceding packet, by up to ")
    assert all(connection["end_s"] >= connection["start_s"] for connection in moved["connections"])


def test_dropped_joins_and_a_cut_path_are_told(tmp_path: Path) -> None:
    dropped = simulated(tmp_path, boxes="{at: client.wwan0, drop_options: {options: mp_join}}")
    assert kinds(dropped["client"])[0] == "join_unanswered"
    cut = simulated(tmp_path, events="{at: 200ms, outage: wifi, for: 3s, by: cut}")
    assert "stalled" in kinds(cut["client"])


#: For 3 s, the Wi-Fi link loses the data, but not the acknowledgments.
LOST_WIFI = "{at: 249ms, set: wifi, loss: {forward: 100%}}, {at: 3249ms, set: wifi, loss: {forward: 0%}}"
CUT_WIFI, CUT_LTE = (f"{{at: 200ms, outage: {link}, for: 3s, by: cut}}" for link in ("wifi", "lte"))


@pytest.mark.parametrize(
    ("events", "manager", "host", "told", "words"),
    [
        (
            f"{CUT_WIFI}, {CUT_LTE}",
            "full_mesh",
            "server",
            ["connection_stalled", "carried"],
            "no data of the client was acknowledged",
        ),
        (CUT_WIFI, None, "client", ["connection_stalled", "plain"], "no data of the client was acknowledged"),
        (CUT_WIFI, None, "server", ["connection_stalled", "plain"], " retransmits acknowledged data, so the"),
        (CUT_WIFI, "passive", "server", ["connection_stalled", "carried"], " retransmits acknowledged data, so the"),
        (LOST_WIFI, None, "server", ["connection_stalled", "plain"], ", although more was queued, because packet "),
        (f"{CUT_WIFI}, {CUT_LTE}", "full_mesh", "client", ["connection_stalled", "stalled", "carried"], "; subflow "),
    ],
)
def test_stalls_are_told_at_both_hosts_and_of_plain_tcp(
    tmp_path: Path, events: str, manager: str | None, host: str, told: list[str], words: str
) -> None:
    findings = simulated(tmp_path, events=events, manager=manager)[host]
    assert kinds(findings) == told
    assert any(words in finding.text for finding in findings)


def test_a_closed_receive_window_is_told(tmp_path: Path) -> None:
    def closed_for_6_s(packets: list[bytes]) -> list[bytes]:
        server = packets[1][packets[1].index(b"\x45", RECORD) + 12 :][:4]
        last = [index for index, packet in enumerate(packets[:200]) if packet.find(server) == packet.find(b"\x45") + 12]
        window = packets[last[-1]].index(b"\x45", RECORD) + IPV4 + 14
        packets[last[-1]] = packets[last[-1]][:window] + bytes(2) + packets[last[-1]][window + 2 :]
        return [*packets[: last[-1] + 1], *(later(packet) for packet in packets[last[-1] + 1 :])]

    def later(packet: bytes) -> bytes:
        return struct.pack("<I", int.from_bytes(packet[:4], "little") + 6) + packet[4:]

    findings = judged(changed(tmp_path, "mb_loss.pcap", closed_for_6_s))
    told = next(finding for finding in findings if finding.kind == "window_closed")
    assert told.text.startswith("The receive window of the server held the client back for 6.0")


def replaced(option: bytes, change: Callable[[bytes], bytes]) -> Callable[[list[bytes]], list[bytes]]:
    """Returns a change of the first option that begins with some bytes."""

    def replace(packets: list[bytes]) -> list[bytes]:
        number = next(number for number, packet in enumerate(packets) if option in packet)
        at, packet = packets[number].index(option), packets[number]
        end = at + option[1]
        packets[number] = packet[:at] + change(packet[at:end]) + packet[end:]
        return packets

    return replace


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            replaced(bytes([30, 12, 1]), lambda option: option[:-1] + bytes([option[-1] ^ 1])),
            ["join_token_wrong", "violation", "carried"],
        ),
        (replaced(bytes([30, 16, 0x10]), lambda option: bytes([1] * len(option))), ["join_without_option", "carried"]),
        (with_wrong_hmac, ["join_hmac_wrong", "carried"]),
    ],
)
def test_the_verdict_on_a_damaged_capture_does_not_contradict_itself(
    tmp_path: Path, change: Callable[[list[bytes]], list[bytes]], told: list[str]
) -> None:
    findings = judged(changed(tmp_path, "A_basic.pcap", change))
    assert kinds(findings) == told
    could = "could have carried data" in findings[-1].text
    assert could == (told[0] == "join_token_wrong")


def test_terminal_json_and_page_begin_with_the_verdict(tmp_path: Path) -> None:
    capture = RECORDED / "A_basic.pcap"
    [connection] = explain([capture])["connections"]
    text = verdict(connection)[0].text
    printed = mptcplab("pcap", str(capture), cwd=tmp_path).out.splitlines()
    title = next(index for index, line in enumerate(printed) if line.startswith("Connection "))
    assert printed[title + 1].strip() == text
    document = json.loads(mptcplab("pcap", str(capture), "--json", cwd=tmp_path).out)
    assert document["connections"][0]["verdict"][0] == {"kind": verdict(connection)[0].kind, "text": text}
    series = tmp_path / "series.parquet"
    page = capture_page(explain([capture], series=series), series)
    assert page.index(text.split(";")[0]) < page.index("Subflows of connection")
