"""Tests ``mptcplab pcap`` against a plain count of the captures' bytes."""

from __future__ import annotations

import csv
import json
import subprocess
from pathlib import Path

import pytest
from brute_force import count
from command_line import PROGRAM, is_refused, mptcplab
from mptcplab import load, run
from mptcplab.captures import explain, one_way
from mptcplab.report.capture_tables import capture_sentences, connection_title
from wireshark import needs_tshark

RECORDED = Path(__file__).parents[1] / "crates/mptcp/tests/captures"
CAPTURES = sorted(RECORDED.glob("*.pcap"))


def by_direction(document: dict) -> dict:
    """Returns what was sent, by (source, destination)."""
    found = {}
    for connection in document["connections"]:
        for subflow in connection["subflows"]:
            local, remote = subflow["local"], subflow["remote"]
            found[local, remote] = subflow["directions"]["client"]
            found[remote, local] = subflow["directions"]["server"]
    return found


def assert_equals_plain_count(capture: Path) -> None:
    document, counted = explain([capture]), count(capture)
    ours = by_direction(document)
    for ends, direction in counted.directions.items():
        assert ours[ends]["bytes"] == direction.bytes, ends
        assert ours[ends]["retransmitted_bytes"] == direction.retransmitted_bytes, ends
        assert ours[ends]["unmapped_bytes"] == 0, ends
    for connection in document["connections"]:
        ends = frozenset((connection["subflows"][0]["local"], connection["subflows"][0]["remote"]))
        theirs = counted.connections[ends]
        for subflow in connection["subflows"]:
            assert counted.connections[frozenset((subflow["local"], subflow["remote"]))] == theirs
        for side, is_client in (("client", True), ("server", False)):
            data = counted.data[theirs, is_client]
            assert connection["data"][side]["bytes"] == data.bytes
            assert connection["data"][side]["reinjected"]["bytes"] == data.reinjected_bytes


@needs_tshark
@pytest.mark.slow
@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_the_kernels_captures_equal_a_plain_count(capture: Path) -> None:
    assert_equals_plain_count(capture)


TWO_LINKS = """
name: captured
hosts: {client: {SETTINGS}, server: {SETTINGS}}
links:
  wifi: {between: [client.wlan0, server.eth0], rate: 1mbit, delay: 10ms, queue: 20p, loss: 1%}
  lte: {between: [client.wwan0, server.eth1], rate: 500kbit, delay: 40ms, queue: 20p, loss: 1%}
flows:
  upload: {from: client, to: server, transport: mptcp, app: {bulk: {bytes: 400kB}}, scheduler: SCHEDULER, cc: lia, path_manager: full_mesh}
events: EVENTS
measure: {captures: [client.wlan0, client.wwan0, server.eth0, server.eth1]}
duration: 40s
"""
CUT_AND_BACK = "[{at: 300ms, outage: wifi, for: 5s, by: cut}]"
#: Settings of both hosts, scheduler, events.
SIMULATED = {
    "redundant": ("", "redundant", "[]"),
    "cut-and-back": ("", "min_rtt", CUT_AND_BACK),
    "checksums-and-backup": ("checksum: true", "round_robin", "[{at: 300ms, backup: client.wwan0, on: true}]"),
    "version-0": ("checksum: true, behaviour: {preset: oot, mptcp_version: 0}", "min_rtt", "[]"),
    "removal": ("", "blest", "[{at: 300ms, remove_address: server.eth1}, {at: 900ms, add_address: server.eth1}]"),
}


def captured(name: str, to: Path) -> dict[str, Path]:
    """Returns the captures of a simulated run, by interface."""
    settings, scheduler, events = SIMULATED[name]
    text = TWO_LINKS.replace("SETTINGS", settings).replace("SCHEDULER", scheduler).replace("EVENTS", events)
    description = to / "captured.yaml"
    description.write_text(text)
    [bundle] = run(next(iter(load(description))), on="sim", out=to)
    return {path.stem: path for path in (bundle.path / "captures").iterdir()}


@needs_tshark
@pytest.mark.slow
@pytest.mark.parametrize("name", SIMULATED)
def test_the_engines_captures_equal_a_plain_count(name: str, tmp_path: Path) -> None:
    captures = captured(name, tmp_path)
    merged = tmp_path / "merged.pcapng"
    interfaces = [captures["client.wlan0"], captures["client.wwan0"]]
    subprocess.run(["mergecap", "-w", merged, *interfaces], check=True)
    assert_equals_plain_count(merged)
    # For frames with equal times, mergecap puts the last file first, and mptcplab the first file.
    apart, together = explain(interfaces[::-1]), explain([merged])
    assert by_direction(apart) == by_direction(together)


ONE_LINK = """
name: fallen-back
hosts: {client: {SETTINGS}, server: {SETTINGS}}
links: {wifi: {between: [client.wlan0, server.eth0], rate: 2mbit, delay: 10ms, queue: 30p, loss: 0.5%}}
middleboxes: [{at: client.wlan0, MIDDLEBOX}]
flows: {upload: {from: SENDER, opened_by: OPENER, to: PEER, transport: mptcp, app: {bulk: {bytes: 200kB}}}}
measure: {captures: [client.wlan0, server.eth0]}
duration: 20s
"""
#: Settings of both hosts, and a middlebox that makes them fall back to TCP at a certain moment.
FALLEN_BACK = {
    "acknowledgments-without-signal": ("", "direction: arriving, strip_options: {options: dss, segments: non_syn}"),
    "all-without-signal": ("", "strip_options: {options: dss, segments: non_syn}"),
}


def payload_by_tshark(capture: Path) -> tuple[int, int]:
    """Returns the distinct payload bytes from the client and from the server of the only
    connection.
    """
    fields = ("tcp.srcport", "tcp.seq_raw", "tcp.len", "tcp.flags.syn", "tcp.flags.ack")
    command = ["tshark", "-r", str(capture), "-Y", "tcp", "-T", "fields", *(w for f in fields for w in ("-e", f))]
    rows = [
        line.split("\t")
        for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    ]
    client = next(row[0] for row in rows if row[3] in ("1", "True") and row[4] in ("0", "False"))
    seen: dict[bool, set[int]] = {True: set(), False: set()}
    for port, seq, length, *_ in rows:
        seen[port == client].update((int(seq) + offset) % 2**32 for offset in range(int(length)))
    return len(seen[True]), len(seen[False])


@needs_tshark
@pytest.mark.parametrize(("sender", "peer"), [("client", "server"), ("server", "client")])
@pytest.mark.parametrize("name", FALLEN_BACK)
def test_after_a_fallback_each_direction_counts_on(name: str, sender: str, peer: str, tmp_path: Path) -> None:
    settings, middlebox = FALLEN_BACK[name]
    text = ONE_LINK.replace("SETTINGS", settings).replace("MIDDLEBOX", middlebox)
    description = tmp_path / "fallen-back.yaml"
    description.write_text(
        text.replace("SENDER", sender).replace("PEER", peer).replace("OPENER", "from" if sender == "client" else "to")
    )
    [bundle] = run(*load(description), out=tmp_path)
    for capture in sorted((bundle.path / "captures").iterdir()):
        [connection] = explain([capture])["connections"]
        counted = tuple(connection["data"][side]["bytes"] for side in ("client", "server"))
        assert counted == payload_by_tshark(capture), capture
        assert connection["fallback"] is not None
        assert ", fell back to TCP" in connection_title(connection)
        assert "1 MPTCP connection (1 fell back to TCP), no plain TCP." in capture_sentences(explain([capture]))[0]
        unmapped = [way["unmapped_bytes"] for way in connection["subflows"][0]["directions"].values()]
        assert unmapped == [0, 0]


def test_the_command_tells_what_happened(tmp_path: Path) -> None:
    ended = mptcplab("pcap", str(RECORDED / "B_addaddr.pcap"), cwd=tmp_path)
    assert (ended.status, ended.err) == (0, "")
    assert "Multipath TCP version 1, token 158ad95a" in ended.out
    for line in ("echo of address 1: 10.71.2.2", "SYN, token 158ad95a, address 1", "the data ends after 20000 bytes"):
        assert line in ended.out


def test_a_pipe_says_the_same_as_the_file_and_the_same_again(tmp_path: Path) -> None:
    capture = RECORDED / "C_rmaddr.pcap"
    once, again = (mptcplab("pcap", str(capture), "--json", cwd=tmp_path).out for _ in range(2))
    assert once == again
    command = [PROGRAM, "pcap", "-", "--json"]
    with capture.open("rb") as pipe:
        piped = subprocess.run(command, stdin=pipe, capture_output=True, text=True, check=True).stdout
    assert json.loads(piped)["connections"] == json.loads(once)["connections"]


def test_the_options_of_a_packet_are_shown_in_the_words_of_the_standard(tmp_path: Path) -> None:
    ended = mptcplab("pcap", str(RECORDED / "A_basic.pcap"), "--decode", "34", "--json", cwd=tmp_path)
    [option] = [option for option in json.loads(ended.out)["options"] if option["name"] == "MP_JOIN"]
    assert option["source"] == "RFC 8684, 3.2"
    assert {"name": "Receiver's token", "value": "0c23811d", "meaning": "names the connection"} in option["fields"]


def test_a_series_has_a_row_for_every_packet(tmp_path: Path) -> None:
    capture = str(RECORDED / "mb_loss.pcap")
    ended = mptcplab("pcap", capture, "--series", "rows.csv", cwd=tmp_path)
    assert ended.status == 0
    with (tmp_path / "rows.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 437
    resent = [int(row["payload_bytes"]) for row in rows if row["kind"] == "retransmission"]
    assert sum(resent) == 7120


def test_what_is_asked_wrongly_is_refused(tmp_path: Path) -> None:
    capture = str(RECORDED / "A_basic.pcap")
    (tmp_path / "text").write_text("no capture, but a text that is long enough to be one")
    wrong = {
        ("text",): "not a capture file",
        ("nowhere",): "No such file",
        (): "needs a FILE",
        (capture, "--decode", "999"): "no TCP packet has the number 999",
        (capture, "--series", "rows.xlsx"): ".parquet or .csv",
        (capture, str(RECORDED / "B_addaddr.pcap")): "no TCP packet in common",
        (capture, capture): "is given twice",
        (capture, "--interface", capture): "is given twice",
    }
    for arguments, message in wrong.items():
        ended = mptcplab("pcap", *arguments, cwd=tmp_path)
        assert ended.status == 2, (arguments, ended)
        assert message in ended.err
        assert ended.out == ""
    assert [path.name for path in tmp_path.iterdir()] == ["text"]


@pytest.mark.slow
def test_both_ends_together_tell_delay_and_loss(tmp_path: Path) -> None:
    captures = captured("redundant", tmp_path)
    summary = one_way([captures["client.wlan0"]], captures["server.eth0"])
    # Both ends have the same clock, and the delays of the paths differ only by the transmission
    # time.
    assert summary["clock_offset_s"] == pytest.approx(0, abs=0.005)
    [upload] = [way for way in summary["ways"] if way["source"].startswith("10.1.1.1:")]
    assert upload["delay"]["min_s"] == pytest.approx(0.010, abs=0.003)
    lost = upload["sent_bytes"] - upload["arrived_bytes"]
    assert upload["loss"] == lost / upload["sent_bytes"] > 0.01


@pytest.mark.slow
def test_the_report_of_a_run_explains_its_captures(tmp_path: Path) -> None:
    captured("cut-and-back", tmp_path)
    [bundle] = {path.parent for path in tmp_path.rglob("run.json")}
    ended = mptcplab("report", str(bundle), "--out", "report.html", cwd=tmp_path)
    assert ended.status == 0
    report = (tmp_path / "report.html").read_text()
    assert 'href="captures-client.html"' in report
    assert "sent again by the run" in report
    assert (tmp_path / "captures-client.html").stat().st_size > 10_000
    # The engine's count of a subflow's retransmissions equals that of the packets.
    record = json.loads((bundle / "run.json").read_text())
    document = explain(sorted((bundle / "captures").glob("client.*")))
    seen = {ends: way["retransmitted_bytes"] for ends, way in by_direction(document).items()}
    for subflow in record["flows"][0]["subflows"]:
        assert seen[subflow["local"], subflow["remote"]] == subflow["retransmitted_bytes"] > 0


def test_captures_of_different_traffic_are_refused(tmp_path: Path) -> None:
    ended = mptcplab("pcap", RECORDED / "A_basic.pcap", RECORDED / "B_addaddr.pcap", cwd=tmp_path)
    assert is_refused(ended, 2, "no TCP packet in common", "allowed are captures of the same traffic at two hosts")


@pytest.mark.parametrize("words", [("a.pcap",), ("--report", "a.html"), ("--series", "a.csv"), ("--decode", "1")])
def test_what_follow_does_not_do_is_refused(words: tuple[str, ...], tmp_path: Path) -> None:
    assert is_refused(mptcplab("pcap", "--follow", "lo", *words, cwd=tmp_path), 2, "allowed with it: --json")
