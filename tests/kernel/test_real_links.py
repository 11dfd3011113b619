"""Tests links between devices that machines have. The machines are two namespaces of the tests, which
two pairs of virtual Ethernet devices join; the first pair also has the addresses of the machines.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from built_agent import AGENT
from command_line import PROGRAM, Ended, environment
from measured import until_measuring
from mptcplab.results import Bundle, find
from overlay_lab import run
from traces import descendants_named

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(not AGENT.exists(), reason="make agent or cargo test --workspace builds it"),
]

#: What a machine shows of itself. Children of its devices are in other namespaces.
SHOWN = (
    ("link",),
    ("address",),
    ("rule",),
    ("-6", "rule"),
    ("route", "show", "table", "all"),
    ("-6", "route", "show", "table", "all"),
    ("mptcp", "endpoint"),
    ("maddress",),
)
#: Seconds in which a child goes after the last process of its namespace was killed.
GONE_WITHIN_S = 20.0
#: The rate of the networks, which no description states. The first also carries the packets of the
#: emulated link.
RATE = ("root", "tbf", "rate", "30mbit", "burst", "32k", "latency", "50ms")
DESCRIPTION = """
name: real
machines: {lab2: {at: 'exec:ip netns exec THERE env XDG_CACHE_HOME=CACHE', address: 10.79.0.2, touch: true}}
hosts:
  client: {interfaces: {eth0: {device: lan1}, eth1: {device: lan2}}}
  server: {on: lab2, interfaces: {eth0: {device: lan1}, eth1: {device: lan2}}}
links:
  one: {between: [client.eth0, server.eth0], real: true}
  two: {between: [client.eth1, server.eth1], real: true}
flows:
  bulk: {from: client, to: server, transport: mptcp, path_manager: full_mesh, cc: cubic, app: bulk}
measure: {every: 50ms}
vary: none
duration: 3s
"""
#: The same with an emulated link in place of the second real one.
MIXED = (
    ("eth0: {device: lan1}, eth1: {device: lan2}", "eth0: {device: lan1}"),
    ("eth0: {device: lan1}, eth1: {device: lan2}", "eth0: {device: lan1}"),
    ("server.eth1], real: true", "server.eth1], rate: 10mbit, delay: 5ms, queue: 2bdp"),
)


@dataclass(frozen=True)
class Lab:
    """Two machines, and a directory for descriptions and results."""

    here: str
    there: str
    desk: Path

    def described(self, *changes: tuple[str, str]) -> Path:
        """Writes the description with changes, of which each replaces one place."""
        text = DESCRIPTION.replace("THERE", self.there).replace("CACHE", str(self.desk / "cache"))
        for old, new in changes:
            assert old in text
            text = text.replace(old, new, 1)
        file = self.desk / "real.yaml"
        file.write_text(text)
        return file

    def command(self, *arguments: str) -> list[str]:
        """Returns the command that runs mptcplab on the first machine."""
        return ["ip", "netns", "exec", self.here, str(PROGRAM), *arguments]

    def mptcplab(self, *arguments: str, **changes: str) -> Ended:
        ended = subprocess.run(
            self.command(*arguments),
            cwd=self.desk,
            env=environment(**changes),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    def measured(self, *changes: tuple[str, str]) -> Bundle:
        """Runs the description until the machine is not too busy for it."""
        file = self.described(*changes)
        for _ in range(4):
            ended = self.mptcplab("run", file.name, "--on", "kernel", "--fresh")
            bundles = list(find(self.desk / "results"))
            assert bundles, ended
            if bundles[-1].status == "done":
                return bundles[-1]
        pytest.fail(f"{bundles[-1].status}: {bundles[-1].record['why']}")

    def shown(self) -> dict[tuple[str, ...], str]:
        """Returns what both machines show of themselves."""
        return {(name, *what): run("ip", "-n", name, *what) for name in (self.here, self.there) for what in SHOWN}

    def has_child(self, machine: str, device: str) -> bool:
        """Returns whether a device has a child, because that excludes one of mode passthru."""
        return not can_have_child(machine, device, "macvlan", "mode", "passthru")

    def left(self, before: dict[tuple[str, ...], str]) -> dict[tuple[str, ...], str]:
        """Returns what machines show that they did not show before, and which have a child, after all
        that is about to go is gone.
        """
        deadline = time.monotonic() + GONE_WITHIN_S
        while True:
            found = {what: text for what, text in self.shown().items() if text != before[what]}
            found |= {(name, "child"): "lan1" for name in (self.here, self.there) if self.has_child(name, "lan1")}
            if not found or time.monotonic() > deadline:
                return found
            time.sleep(0.2)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    monkeypatch.setenv("MPTCPLAB_AGENT", str(AGENT))
    monkeypatch.setenv("MPTCPLAB_ALLOW_PROGRAMS", "1")
    names = [f"mptcplab-{os.getpid()}-{machine}" for machine in ("here", "there")]
    try:
        for name in names:
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        for device in ("lan1", "lan2"):
            run("ip", "-n", names[0], "link", "add", device, "type", "veth", "peer", "name", device, "netns", names[1])
            for name in names:
                run("ip", "-n", name, "link", "set", device, "up")
                run("ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", device, *RATE)
        for number, name in enumerate(names, 1):
            run("ip", "-n", name, "address", "add", f"10.79.0.{number}/24", "dev", "lan1")
        until_settled(names)
        yield Lab(*names, tmp_path)
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def can_have_child(machine: str, device: str, *kind: str) -> bool:
    """Returns whether a device can have a child of a kind now, by making one for a moment."""
    probe = ["ip", "-n", machine, "link", "add", "link", device, "name", "probe", "type", *kind]
    if subprocess.run(probe, capture_output=True, check=False).returncode:
        return False
    run("ip", "-n", machine, "link", "delete", "probe")
    return True


def until_settled(names: list[str]) -> None:
    """Waits until addresses of IPv6 are no longer tentative."""
    deadline = time.monotonic() + GONE_WITHIN_S
    while any("tentative" in run("ip", "-n", name, "address") for name in names):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def carried_bytes(bundle: Bundle) -> list[float]:
    """Returns the bytes that each subflow has sent."""
    metrics = bundle.record["metrics"]
    return [of["bytes_sent"] for path, of in metrics.items() if path.startswith("flows.bulk.subflows.")]


def test_one_connection_uses_a_real_and_an_emulated_link(lab: Lab) -> None:
    before = lab.shown()
    bundle = lab.measured(*MIXED)
    assert lab.left(before) == {}
    carried = carried_bytes(bundle)
    assert len(carried) == 2
    assert min(carried) > 1e6
    assert bundle.record["metrics"]["flows.bulk"]["goodput_bps"] > 18e6
    [link] = bundle.record["result"]["real_links"]
    assert link["id"] == "one"
    assert 0 < link["rtt_s"] < 0.1
    assert {link["id"] for link in bundle.record["result"]["links"]} == {"two"}
    absent = bundle.record["absent"]
    assert absent["flows.bulk"]["ceiling_bps"] == "link one is real: it has no described rate"
    assert "link one is real" in absent["links.one.forward"]["utilisation"]
    devices = {host["id"]: host["settings"]["devices"] for host in bundle.record["result"]["hosts"]}
    assert devices == dict.fromkeys(("client", "server"), "tun, eth0: macvlan of lan1")
    bundle.verify()


def test_interfaces_of_real_links_go_down_and_come_back(lab: Lab) -> None:
    before = lab.shown()
    bundle = lab.measured(
        ("vary: none", "events: [{at: 1s, down: server.eth0}, {at: 2s, up: server.eth0}]\nvary: none"),
    )
    assert lab.left(before) == {}
    assert min(carried_bytes(bundle)) > 2e5
    result = bundle.record["result"]
    assert [link["id"] for link in result["real_links"]] == ["one", "two"]
    assert result["hosts"][0]["settings"]["devices"] == "eth0: macvlan of lan1, eth1: macvlan of lan2"
    assert result["machines"][0]["tunnels"] == {
        "rtt_s": None,
        "late_p99_s": None,
        "late_max_s": None,
        "lost": 0,
        "packets": 0,
    }
    assert 0.5 < bundle.record["metrics"]["interfaces.server.eth0"]["up"] < 0.8


def test_a_report_and_a_run_show_the_measured_round_trip(lab: Lab) -> None:
    file = lab.described(*MIXED, ("duration: 3s", "duration: 500ms"))
    ended = lab.mptcplab("run", file.name, "--on", "kernel")
    assert "real link one: round trip" in ended.out, ended
    [bundle] = find(lab.desk / "results")
    lab.mptcplab("report", str(bundle.path))
    assert "measured before the run" in (bundle.path / "report.html").read_text()
    shown = lab.mptcplab("show", file.name)
    assert "created on machines" in shown.out, shown
    assert "client.eth0" in shown.out


@pytest.mark.alone
@pytest.mark.parametrize("killed", ["run", "agent"])
def test_a_killed_side_leaves_no_child(lab: Lab, killed: str, started: list[subprocess.Popen[str]]) -> None:
    before = lab.shown()
    file = lab.described(("duration: 3s", "duration: 60s"))
    command = lab.command("run", file.name, "--on", "kernel")
    running = subprocess.Popen(command, cwd=lab.desk, env=environment(), stdout=-1, stderr=-1, text=True)
    started.append(running)
    until_measuring(lab.desk)
    assert lab.has_child(lab.here, "lan1")
    assert lab.has_child(lab.there, "lan1")
    if killed == "run":
        running.kill()
        running.wait()
    else:
        # Its guardian, which has the same name, comes after it.
        agent, *_ = descendants_named(AGENT.name)
        os.kill(agent, 9)
        running.communicate(timeout=60)
        assert running.returncode == 4
    assert lab.left(before) == {}


REFUSED = {
    "found lan9, which does not exist": ("{eth0: {device: lan1}", "{eth0: {device: lan9}"),
    "found lo, which is no Ethernet device": ("{eth0: {device: lan1}", "{eth0: {device: lo}"),
    "whose MTU of 1500 bytes is less than the 9000": (
        "server.eth0], real: true",
        "server.eth0], real: true, mtu: 9000",
    ),
    "'rate' has no effect on a real link": ("server.eth0], real: true", "server.eth0], real: true, rate: 1mbit"),
    "client.eth0 at a real link has no device": ("{eth0: {device: lan1}, ", "{"),
    "'device' has no effect, because link one is emulated": ("server.eth0], real: true", "server.eth0]"),
    "hosts may not use devices of machine lab2": (", touch: true", ""),
    "link one is real, and events change only emulated links": (
        "vary: none",
        "events: [{at: 1s, outage: one, for: 1s}]\nvary: none",
    ),
    "'child' has no effect without device": ("eth1: {device: lan2}", "eth1: {child: ipvlan}"),
    "whose packets mptcplab does not carry": ("measure: {", "measure: {captures: client.eth0, "),
}


@pytest.mark.parametrize(("words", "change"), REFUSED.items())
def test_what_cannot_be_real_is_refused_in_one_line(lab: Lab, words: str, change: tuple[str, str]) -> None:
    before = lab.shown()
    file = lab.described(change)
    ended = lab.mptcplab("run", file.name, "--on", "kernel")
    assert ended.status in (2, 4), ended
    told = [line for line in (ended.out + ended.err).splitlines() if words in line]
    assert told, ended
    assert lab.left(before) == {}


def test_ipvlan_carries_a_connection_where_the_kernel_has_it(lab: Lab) -> None:
    ipvlan = ("eth1: {device: lan2}", "eth1: {device: lan2, child: ipvlan}")
    if can_have_child(lab.here, "lan2", "ipvlan"):
        bundle = lab.measured(ipvlan)
        assert min(carried_bytes(bundle)) > 2e5
        assert bundle.record["result"]["hosts"][0]["settings"]["devices"].endswith("eth1: ipvlan of lan2")
    else:
        ended = lab.mptcplab("run", lab.described(ipvlan).name, "--on", "kernel")
        assert ended.status == 4, ended
        [bundle] = find(lab.desk / "results")
        assert bundle.record["why"] == "client.eth1: device: lan2: the kernel lacks ipvlan: try `modprobe ipvlan`"


def test_a_device_that_is_down_is_refused(lab: Lab) -> None:
    run("ip", "-n", lab.there, "link", "set", "lan2", "down")
    ended = lab.mptcplab("run", lab.described().name, "--on", "kernel")
    assert ended.status == 4, ended
    [bundle] = find(lab.desk / "results")
    # The other end of a pair loses its carrier.
    assert bundle.record["why"].startswith("client.eth1: device: found lan2, which has no carrier; allowed: ")


def test_a_node_has_no_device(lab: Lab) -> None:
    change = ("server.eth0], real: true", "middle], real: true")
    node = ("links:", "nodes: {middle: {kind: switch}}\nlinks:")
    alone = (
        "interfaces: {eth0: {device: lan1}, eth1: {device: lan2}}}\nnodes",
        "interfaces: {eth1: {device: lan2}}}\nnodes",
    )
    ended = lab.mptcplab("run", lab.described(node, change, alone).name, "--on", "kernel")
    assert ended.status == 2, ended
    assert "middle at a real link is no host; allowed: hosts at both ends" in ended.err


@pytest.mark.parametrize(("backend", "words"), [("sim", "outside of the simulator"), ("userspace", "kernel's stack")])
def test_other_back_ends_refuse_a_real_link(lab: Lab, backend: str, words: str) -> None:
    ended = lab.mptcplab("run", lab.described().name, "--on", backend)
    assert ended.status == 3, ended
    assert words in ended.err
    assert not (lab.desk / "results").exists()


def test_devices_need_consent(lab: Lab) -> None:
    ended = lab.mptcplab("run", lab.described().name, "--on", "kernel", MPTCPLAB_ALLOW_PROGRAMS="0", HOME=str(lab.desk))
    assert ended.status == 3, ended
    assert "uses devices of machines" in ended.err
    assert "interfaces.client.eth0: device lan1 of this machine" in ended.err
