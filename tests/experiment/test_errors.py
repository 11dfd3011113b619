"""Tests wrong descriptions: one message each, with the place, the field, the value found and the
values allowed.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from mptcplab import algorithms
from mptcplab.errors import SpecError
from mptcplab.experiment import members

GOOD = """\
name: x
hosts: {client: {}, server: {}}
links:
  wifi: {between: [client.wlan0, server.eth0], rate: 10mbit, delay: 5ms}
  lte: {between: [client.wwan0, server.eth1], rate: 5mbit}
flows:
  bulk: {from: client, to: server}
"""
RATE = "a rate with unit, as in 800kbit, 12mbit, 1.5gbit (bits per second)"
QUEUE = "packets as in 100p, bytes as in 3000B, 64kB, or rate x round-trip time as in 1bdp, 2.5bdp"
CCS = ", ".join(algorithms.CC.names)
INTERFACES = "client.wlan0, server.eth0, client.wwan0, server.eth1"
WHOLE = "KEY: VALUE lines, as in name: two-paths"
INDENTED = "broken YAML: this line is indented unlike its neighbours; allowed: as many spaces as they have"
LOSS = "a probability from 0 to 1, as in 0.1% or 0.001"

# The text to replace in GOOD, its replacement, and the message. "" is replaced at the end: the text
# is added.
REPLACED = [
    (
        "delay:",
        "delai:",
        "4:62: links.wifi.delai: unknown field 'delai', did you mean 'delay'?; allowed: profile, rate, delay, rtt, "
        "jitter, reorder, loss, loss_at, queue, bdp_rtt, overhead, trace, medium, wifi, mtu, between, real, cellular, leo, cable",
    ),
    (
        "10mbit",
        "10mb",
        f"4:54: links.wifi.rate: '10mb' has the unknown unit 'mb', did you mean 10mbit?; allowed: {RATE}",
    ),
    (
        "10mbit",
        "10MB/s",
        "4:54: links.wifi.rate: '10MB/s' has the unknown unit 'MB/s', which counts bytes; did you mean 80mbit?; "
        f"allowed: {RATE}",
    ),
    (
        "delay: 5ms",
        "delay: 10,5ms",
        "4:72: links.wifi.5ms: 'delay: 10,5ms' has a comma in its number, did you mean delay: 10.5ms?; "
        "allowed: numbers with a decimal point",
    ),
    (
        "delay: 5ms",
        "delay: '10,5ms'",
        "4:69: links.wifi.delay: '10,5ms' is not a duration, did you mean 10.5ms, with a decimal point?; "
        "allowed: a duration with unit, as in 10us, 30ms, 1.5s, 2min",
    ),
    (
        "delay: 5ms",
        "delay: {forwards: 5ms}",
        "4:70: links.wifi.delay.forwards: unknown field 'forwards', did you mean 'forward'?; "
        "allowed: forward, backward",
    ),
    (
        "delay: 5ms",
        "delay: [5ms]",
        "4:69: links.wifi.delay: a list is not a duration; allowed: a duration with unit, as in 10us, 30ms, 1.5s, 2min",
    ),
    (
        "delay: 5ms",
        "queue: 50",
        f"4:69: links.wifi.queue: '50' has no unit, did you mean 50p, packets, or 50B, bytes?; allowed: {QUEUE}",
    ),
    (
        "delay: 5ms",
        "queue: 1500B",
        "4:69: links.wifi.queue: queue 1500B holds less than one packet, which has up to 1514 bytes with the link's "
        "overhead; allowed: at least 1514B, or packets as in 100p",
    ),
    ("", "duration: 0s\n", "8:11: duration: the run takes no time; allowed: more than 0s"),
    (
        "",
        "events: [{id: cut, at: 1s, down: client.wlan0}, {id: back, at: 1s, up: client.wlan0}]\n",
        "8:72: events.1.up: client.wlan0 changes twice at 1s, which has no effect: it was changed then by event cut "
        "(x.yaml:8); allowed: an event that changes something",
    ),
    ("10mbit", "10", f"4:54: links.wifi.rate: 10 has no unit; allowed: {RATE}"),
    ("10mbit", "-10mbit", f"4:54: links.wifi.rate: '-10mbit' is negative; allowed: {RATE}"),
    (
        "10mbit",
        "{forward: 1mbit, backward: -3mbit}",
        f"4:81: links.wifi.rate.backward: '-3mbit' is negative; allowed: {RATE}",
    ),
    (
        "client: {}",
        "client: {behaviour: {preset: oot, recreation_first: 1s}}",
        "2:61: hosts.client.behaviour.recreation_first: 'recreation_first' has no effect on recreation never; "
        "allowed: recreation: backoff",
    ),
    (
        "client: {}",
        "client: {behaviour: {recreation_first: 1min}}",
        "2:48: hosts.client.behaviour.recreation_first: the first wait is 60s; "
        "allowed: more than 0, and at most recreation_longest, which is 30s",
    ),
    (
        "client: {}",
        "client: {host_jitter: {p50: 20us, p90: 10us, p99: 30us, max: 40us}}",
        "2:31: hosts.client.host_jitter: the quantiles are 20us, 10us, 30us, 40us; "
        "allowed: 0 <= p50 <= p90 <= p99 <= max <= 1s",
    ),
    (
        "client: {}",
        "client: {host_jitter: 20us}",
        "2:31: hosts.client.host_jitter: found '20us'; allowed: linux, none",
    ),
    (
        "server: {}}",
        "server: {}",
        "3:1: broken YAML: the '{' of line 2 is neither continued nor closed here; allowed: ',' or '}'",
    ),
    (
        "server.eth0",
        "servr.eth0",
        "4:34: links.wifi.between.1: unknown host or node 'servr', did you mean 'server'?; allowed: client, server",
    ),
    (
        "server.eth1",
        "server.eth0",
        "5:33: links.lte.between.1: server.eth0 is already on link wifi; allowed: an interface on one link",
    ),
    (
        "to: server",
        "to: server, cc: [lia, cubix]",
        f"7:46: flows.bulk.cc.1: unknown congestion control 'cubix', did you mean 'cubic'?; allowed: {CCS}",
    ),
    (
        "to: server",
        "to: server, path_manager: full_mash",
        "7:50: flows.bulk.path_manager: unknown path manager 'full_mash', did you mean 'full_mesh'?; "
        "allowed: passive, full_mesh, n_diff_ports, binder, kernel_endpoints",
    ),
    (
        "to: server",
        "to: server, transport: udp, cc: lia, app: {cbr: {rate: 1mbit}}",
        "7:56: flows.bulk.cc: 'cc' has no effect on transport udp; allowed: with tcp or mptcp",
    ),
    (
        "to: server",
        "to: server, transport: tcp, cc: reno, app: {command: [ls]}",
        "7:56: flows.bulk.cc: 'cc' has no effect on a command: a program asks for its own, or has its host's default; "
        "allowed: none with this app",
    ),
    (
        "to: server",
        "to: server, scheduler: {round_robin: {num_segment: 4}}",
        "7:75: flows.bulk.scheduler.round_robin.num_segment: found an unknown parameter of round_robin; "
        "allowed: num_segments, cwnd_limited",
    ),
    (
        "to: server",
        "to: server, cc: [{fixed_cwnd: {packets: 0}}, reno]",
        "7:64: flows.bulk.cc.0.fixed_cwnd.packets: found 0; allowed: a number from 1 to 100000",
    ),
    (
        "to: server",
        "to: server, cc: []",
        "7:40: flows.bulk.cc: has 0 items; allowed: at least 1",
    ),
    (
        "[client.wlan0, server.eth0]",
        "[client.wlan0]",
        "4:19: links.wifi.between: has 1 item; allowed: at least 2",
    ),
    (
        "to: server",
        "to: server, cc: ./mine:Own",
        "7:40: flows.bulk.cc: found './mine:Own'; allowed: ./FILE.py:CLASS for one of your own, ./FILE.bpf.o for an "
        "eBPF congestion control, crate:NAME for one of your own simulator",
    ),
    (
        "to: server",
        "to: server, transport: tcp, handshake: race",
        "7:63: flows.bulk.handshake: 'handshake' has no effect on transport tcp; allowed: with mptcp; "
        "'mptcp: false' of host client turns MPTCP off as well",
    ),
    (
        "client: {}",
        "client: {interfaces: {wlan0: {family: ipv6, address: 10.9.0.1/24}}}",
        "2:62: hosts.client.interfaces.wlan0.address: '10.9.0.1/24' is an ipv4 address, and the interface has family: ipv6; "
        "allowed: an ipv6 address, or family: both",
    ),
    (
        "client: {}, server: {}",
        "client: {interfaces: {wlan0: {family: ipv4}, wwan0: {family: ipv4}}}, "
        "server: {interfaces: {eth0: {family: ipv6}, eth1: {family: ipv6}}}",
        "7:9: flows.bulk: no path from client to server has addresses of one family at both ends; "
        "allowed: an interface at each end with family: both, or with the same family",
    ),
    (
        "client: {}, server: {}}\nlinks:\n  wifi: {",
        "client: {interfaces: {wlan0: {family: ipv6}}}, server: {}}\nlinks:\n  wifi: {mtu: 1000, ",
        "7:9: flows.bulk: the path from client.wlan0 to server.eth0 goes over IPv6, and has an MTU of 1000 bytes; "
        "allowed: at least 1280 bytes (RFC 8200, section 5)",
    ),
    (
        "to: server",
        "to: server, primary: wfi",
        "7:45: flows.bulk.primary: unknown link or interface 'wfi', did you mean 'wifi'?; "
        f"allowed: wifi, lte, {INTERFACES}",
    ),
    (
        "rate: 10mbit",
        "trace: no.trace",
        "4:55: links.wifi.trace: trace no.trace cannot be read: No such file or directory; "
        "allowed: a file with a trace",
    ),
    (
        "5mbit",
        "$rate",
        "5:53: links.lte.rate: unknown parameter 'rate'; allowed: no parameters are declared ($$ is a plain $)",
    ),
    ("5mbit", "5mbit, loss: .nan", f"5:66: links.lte.loss: nan is not between 0 and 1; allowed: {LOSS}"),
    ("5mbit", ".inf", f"5:53: links.lte.rate: inf has no unit; allowed: {RATE}"),
    (
        "5mbit",
        "999999999999999999gbit",
        f"5:53: links.lte.rate: '999999999999999999gbit' is more than 10000gbit; allowed: {RATE}",
    ),
    ("5mbit", f"5mbit, mtu: {'9' * 47}", "5:65: links.lte.mtu: a number of 47 digits; allowed: at most 40"),
    (
        "{client: {}, server: {}}",
        "{client: {interfaces: {wlan0: {address: 10.9.0.1/24}, wwan0: {address: 10.9.0.2/16}}}, server: {}}",
        "2:79: hosts.client.interfaces.wwan0.address: 10.9.0.2/16 overlaps 10.9.0.0/24, the subnet of client.wlan0; "
        "allowed: addresses that do not overlap",
    ),
    ("{client: {}, server: {}}", "[client, server]", "2:8: hosts: found a list; allowed: a mapping"),
    ("server: {}", "server: {mptcp: yes}", "2:37: hosts.server.mptcp: found 'yes'; allowed: true or false"),
    ("name: x", "title: x", "1:1: name: is missing; allowed: a text, as in two-paths"),
    ("", "name: y\n", "8:1: name: is given twice, first in line 1; allowed: one of them"),
    (
        "",
        "profile: alenazi\n",
        "8:10: profile: unknown profile 'alenazi', did you mean 'alenazi2019'?; "
        "allowed: adsl2+, alenazi2019, barreira2014, cable, campus, cited, ethernet_100m, farm, ftth, geo, ghosh, home, lte, "
        "sonkoly2014, train, vdsl2, wifi_n",
    ),
    ("", "parameters: {n: [1, 2]}\nreference: {n: 3}\n", "9:16: reference.n: n is never '3'; allowed: 1, 2"),
    ("", "parameters: {n: [1, 2]}\nexclude: [{m: 1}]\n", "9:15: exclude.0.m: unknown parameter 'm'; allowed: n"),
    ("", "notes: &a [*a]\n", "8:8: notes.0: an alias refers to what it is part of"),
    ("", "notes: !!python/name:os x\n", "8:8: notes: unknown tag tag:yaml.org,2002:python/name:os; allowed: no tags"),
    (
        "",
        "---\nname: y\n",
        "8:1: broken YAML: a second document begins here; allowed: one per file; several experiments under experiments",
    ),
    (
        "",
        "events: [{at: 99s, down: client.wlan0}]\n",
        "8:15: events.0.at: interface_down at 99s is after the end; allowed: at most 60s, the duration",
    ),
    (
        "",
        "events: [{at: 9s, down: client.wlan9}]\n",
        f"8:25: events.0.down: unknown interface 'client.wlan9', did you mean 'client.wlan0'?; allowed: {INTERFACES}",
    ),
    (
        "",
        "events: [{id: cut, at: 5s, down: client.wlan0}, {at: 9s, down: client.wlan0}]\n",
        "8:64: events.1.down: client.wlan0 is already down since event cut (x.yaml:8); "
        "allowed: an event that changes something",
    ),
    (
        "",
        "events: [{at: 9s, set: wify, delay: 3ms}]\n",
        "8:24: events.0.set: unknown link 'wify', did you mean 'wifi'?; allowed: wifi, lte",
    ),
    (
        "",
        "events: [{at: 9s, outage: wifi}]\n",
        "8:10: events.0: outage needs 'for'",
    ),
    (
        "to: server",
        'to: "ser\\nver"',
        "7:28: flows.bulk.to: unknown host 'ser\\nver', did you mean 'server'?; allowed: client, server",
    ),
    (
        "",
        "events: [{at: 9s, down: client}]\n",
        "8:25: events.0.down: unknown link or interface 'client', did you mean 'client.wwan0'?; "
        f"allowed: wifi, lte, {INTERFACES}",
    ),
    (
        "5mbit",
        "5mbit, queue: {limit: 10p, target: 5ms}",
        "5:67: links.lte.queue: 'target' has no effect on discipline drop_tail; "
        "allowed: discipline codel or fq_codel or pie",
    ),
    (
        "to: server",
        "to: server, path_manager: ndifports",
        "7:50: flows.bulk.path_manager: unknown path manager 'ndifports', did you mean 'n_diff_ports'?; "
        "allowed: passive, full_mesh, n_diff_ports, binder, kernel_endpoints",
    ),
    (
        "to: server",
        "to: server, transport: udp",
        "7:9: flows.bulk: app bulk (the default) needs a stream, transport is udp; "
        "allowed: tcp or mptcp; over udp cbr, probe, iperf3, command",
    ),
    ("to: server", "to: client", "7:9: flows.bulk: from and to are both client; allowed: two hosts"),
]


@pytest.mark.parametrize(("old", "new", "message"), REPLACED)
def test_the_message_says_where_what_and_what_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    text = GOOD.replace(old, new, 1) if old else GOOD + new
    Path("x.yaml").write_text(text)
    with pytest.raises(SpecError) as error:
        [member.resolve() for member in members("x.yaml")]
    assert str(error.value) == f"x.yaml:{message}"


def test_a_flow_needs_a_path(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(GOOD.replace("server: {}}", "server: {}, third: {}}").replace("to: server", "to: third"))
    with pytest.raises(
        SpecError, match=r"7:9: flows\.bulk: there is no path from client to third; allowed: hosts joined"
    ):
        members(path)[0].resolve()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", f"1:1: is empty; allowed: {WHOLE}"),
        (b"# nothing but a remark\n", f"1:1: is empty; allowed: {WHOLE}"),
        (b"- a\n", f"1:1: found a list; allowed: {WHOLE}"),
        (
            b"name: x\n",
            "1:1: hosts: there are no hosts; allowed: at least two, as in hosts: {client: {}, server: {}}",
        ),
        (b"text\n", f"1:1: found 'text'; allowed: {WHOLE}"),
        (b"name: \xff\n", "1:7: byte 0xff is not UTF-8; allowed: UTF-8 text"),
        (b"a: " + b"[" * 100_000, "1:104: brackets are nested more than 100 deep; allowed: at most 100"),
        (b"a: 1\nb: \x00", "2:4: broken YAML: control characters are not allowed; allowed: text"),
        (b"a:\n\tb: 1\n", "2:1: broken YAML: a tab where spaces belong; allowed: spaces for indentation"),
        (b"a:\n  b: 1\n c: 2\n", f"3:2: {INDENTED}"),
        (b"a:\n  - b\n   - c\n - d\n", f"4:2: {INDENTED}"),
        (b"a: @b\n", "1:4: broken YAML: a text cannot begin with this character; allowed: quotes around it"),
        (b"a:\n  b: 1\n  c 2\n", "4:1: broken YAML: a ':' is missing on line 3; allowed: KEY: VALUE"),
        (
            b"a:\n  b {}\n  c: {}\n",
            "3:4: broken YAML: a ':' in the middle of a value, or none on the line above; "
            "allowed: KEY: VALUE, with quotes around a value that holds ': '",
        ),
        (
            b"a: 'b\nc: d\n",
            "3:1: broken YAML: the quote that opens on line 1 is never closed; allowed: a quote at both ends",
        ),
        (
            b"a: [b, c\nd: e\n",
            "2:2: broken YAML: the '[' of line 1 is neither continued nor closed here; allowed: ',' or ']'",
        ),
        (
            b"a: *b\n",
            "1:4: broken YAML: '*' refers to a name that no '&' has given; "
            "allowed: *NAME after &NAME; quotes around a text",
        ),
    ],
)
def test_what_is_no_description(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.yaml").write_bytes(content)
    with pytest.raises(SpecError) as error:
        [member.resolve() for member in members("x.yaml")]
    assert str(error.value) == f"x.yaml:{message}"


def test_aliases_cannot_explode(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    path = tmp_path / "x.yaml"
    path.write_text("\n".join(lines))
    with pytest.raises(SpecError, match="holds more than 200000 values"):
        members(path)


def test_a_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"none\.yaml: there is no such file"):
        members(tmp_path / "none.yaml")
    with pytest.raises(SpecError, match="is a directory; allowed: a description file"):
        members(tmp_path)


def test_line_ends_and_a_mark_of_byte_order_move_no_place(tmp_path: Path) -> None:
    wrong = GOOD.replace("5ms", "5")
    path = tmp_path / "x.yaml"
    for text in (wrong.replace("\n", "\r\n"), f"\ufeff{wrong}"):
        path.write_text(text, encoding="utf-8", newline="")
        with pytest.raises(SpecError, match=r"x\.yaml:4:69: links\.wifi\.delay: 5 has no unit"):
            members(path)[0].resolve()


def test_a_large_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(GOOD + "description: |\n" + "  a line of five megabytes\n" * 200_000)
    assert members(path)[0].resolve().data["name"] == "x"
