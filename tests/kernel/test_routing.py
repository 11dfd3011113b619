"""Tests the routing of a machine in a network namespace in which interfaces come, change and go."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from command_line import PROGRAM, Ended, environment

pytestmark = pytest.mark.kernel

PATIENCE_S = 20.0
#: What is there before, and has to be there afterwards.
OF_OTHERS = (
    "rule add from 10.99.0.1 lookup 99 priority 99",
    "route add 10.99.1.0/24 dev lo table 99",
    "mptcp endpoint add 10.99.0.1 id 1 subflow",
)


@dataclass(frozen=True)
class Namespace:
    """A network namespace, held by a process."""

    holder: int

    def command(self, *words: str) -> list[str]:
        return ["nsenter", "--target", str(self.holder), "--net", *words]

    def ip(self, words: str) -> str:
        done = subprocess.run(self.command("ip", *words.split()), capture_output=True, text=True, check=True)
        return done.stdout

    def routing(self, *words: str | Path) -> Ended:
        command = self.command(str(PROGRAM), "routing", *map(str, words))
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
        return Ended(done.returncode, done.stdout, done.stderr)

    def add_uplink(self, number: int, *, last: int = 2) -> None:
        """Adds an interface `w<number>` with an address and a default route."""
        name = f"w{number}"
        self.ip(f"link add {name} type veth peer name p{number}")
        for end in (f"p{number}", name):
            self.ip(f"link set {end} up")
        self.ip(f"address add 10.7.{number}.{last}/24 dev {name}")
        self.ip(f"route add default via 10.7.{number}.1 dev {name} metric {number}")

    def table_of(self, name: str) -> list[str]:
        """Returns the routes of an interface's table."""
        [link] = json.loads(self.ip(f"-json link show {name}"))
        return [line.strip() for line in self.ip(f"route show table {770_000 + link['ifindex']}").splitlines()]

    def state(self) -> tuple[str, ...]:
        """Returns all rules, routes outside of the usual tables, and endpoints."""
        routes = self.ip("route show table all").splitlines()
        ours = sorted(line for line in routes if " table " in line and " table local " not in line)
        return (*self.ip("rule").splitlines(), *ours, *self.ip("mptcp endpoint").splitlines())

    def device_from(self, address: str) -> str:
        """Returns the interface that a packet from an address takes to the rest of the world."""
        [route] = json.loads(self.ip(f"-json route get 203.0.113.1 from {address}"))
        return str(route["dev"])

    def waits_for(self, addresses: set[str]) -> None:
        """Waits until exactly these addresses have a rule and an endpoint."""
        end = time.monotonic() + PATIENCE_S
        found: set[str] = set()
        while time.monotonic() < end:
            rules = {line.split()[2] for line in self.ip("rule").splitlines() if "proto 119" in line}
            endpoints = {line.split()[0] for line in self.ip("mptcp endpoint").splitlines()} - {"10.99.0.1"}
            if (found := rules & endpoints) == rules == endpoints == addresses:
                return
            time.sleep(0.05)
        raise AssertionError((found, addresses, self.state()))


@pytest.fixture
def machine() -> Iterator[Namespace]:
    holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "ip link set lo up && echo up && exec sleep 300"],
                              stdout=subprocess.PIPE, text=True)  # fmt: skip
    assert holder.stdout is not None
    holder.stdout.readline()
    namespace = Namespace(holder.pid)
    for line in OF_OTHERS:
        namespace.ip(line)
    yield namespace
    holder.kill()
    holder.communicate()


def daemon(machine: Namespace, started: list[subprocess.Popen[str]]) -> subprocess.Popen[str]:
    command = machine.command(str(PROGRAM), "routing", "run", "--backup", "w2")
    process = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    started.append(process)
    return process


def test_rules_tables_and_endpoints_follow_interfaces(machine: Namespace, started: list[subprocess.Popen[str]]) -> None:
    before = machine.state()
    machine.add_uplink(1)
    running = daemon(machine, started)
    machine.waits_for({"10.7.1.2"})
    machine.add_uplink(2)
    machine.waits_for({"10.7.1.2", "10.7.2.2"})
    assert (machine.device_from("10.7.1.2"), machine.device_from("10.7.2.2")) == ("w1", "w2")
    shown = json.loads(machine.routing("show", "--json").out)
    assert shown["daemon"]
    assert [(one["interface"], one["routes"], one["endpoint"]) for one in shown["addresses"]] == [
        ("w1", "yes", "yes"),
        ("w2", "yes", "backup"),
    ]
    for command in (("run",), ("remove",), ("apply",)):
        refused = machine.routing(*command)
        assert refused.status == 3
        assert "already running here" in refused.err
    # The address changes, the carrier is lost and comes back, and the interface goes.
    machine.ip("address delete 10.7.1.2/24 dev w1")
    machine.ip("address add 10.7.1.3/24 dev w1")
    machine.ip("address add 10.7.1.4/24 dev w1")
    machine.ip("route replace default via 10.7.1.1 dev w1 metric 1")
    machine.waits_for({"10.7.1.3", "10.7.1.4", "10.7.2.2"})
    machine.ip("link set p2 down")
    machine.waits_for({"10.7.1.3", "10.7.1.4"})
    machine.ip("link set p2 up")
    machine.waits_for({"10.7.1.3", "10.7.1.4", "10.7.2.2"})
    machine.ip("link delete w1")
    machine.waits_for({"10.7.2.2"})
    running.send_signal(signal.SIGTERM)
    out, err = running.communicate(timeout=PATIENCE_S)
    assert (running.returncode, err) == (0, "")
    assert "-4 rule add from 10.7.2.2 " in out
    assert machine.state() == before


@pytest.mark.parametrize("cleaner", ["remove", "next daemon"])
def test_what_a_killed_daemon_leaves_is_removed(
    machine: Namespace, started: list[subprocess.Popen[str]], cleaner: str
) -> None:
    before = machine.state()
    machine.add_uplink(1)
    killed = daemon(machine, started)
    machine.waits_for({"10.7.1.2"})
    killed.kill()
    killed.communicate()
    machine.waits_for({"10.7.1.2"})
    machine.ip("link delete w1")
    assert machine.state() != before
    if cleaner == "remove":
        assert machine.routing("remove").status == 0
    else:
        following = daemon(machine, started)
        machine.waits_for(set())
        following.terminate()
        following.communicate(timeout=PATIENCE_S)
    assert machine.state() == before


@pytest.mark.parametrize(
    ("route", "copied"),
    [
        (
            "default via 10.7.2.1 dev w2 mtu lock 1300 advmss 1200 initcwnd 20 features ecn rto_min 1500ms",
            "default via 10.7.2.1 dev w2 proto 119 mtu lock 1300 advmss 1200 initcwnd 20 features ecn rto_min lock 1.5s",
        ),
        ("default via inet6 fe80::1 dev w2", "default via inet6 fe80::1 dev w2 proto 119"),
        (
            "default mtu 1300 nexthop via 10.7.1.9 dev w1 nexthop via 10.7.2.9 dev w2",
            "default via 10.7.2.9 dev w2 proto 119 mtu 1300",
        ),
        ("10.60.0.0/16 tos 0x10 via 10.7.2.9", "10.60.0.0/16 tos 0x10 via 10.7.2.9 dev w2 proto 119"),
        *[
            (f"{kind} 10.66.0.0/16", f"{kind} 10.66.0.0/16 proto 119")
            for kind in ("blackhole", "unreachable", "prohibit", "throw")
        ],
    ],
)
def test_a_table_copies_all_of_a_route(machine: Namespace, route: str, copied: str) -> None:
    before = machine.state()
    machine.add_uplink(1)
    machine.add_uplink(2)
    machine.ip(f"-4 route add {route}")
    assert machine.routing("apply").status == 0
    assert copied in machine.table_of("w2")
    assert machine.routing("apply") == Ended(0, "", "")
    assert machine.routing("remove").status == 0
    for name in ("w1", "w2"):
        machine.ip(f"link delete {name}")
    assert machine.state() == before


def test_the_limit_of_endpoints_is_told_once(machine: Namespace, started: list[subprocess.Popen[str]]) -> None:
    machine.add_uplink(1)
    machine.add_uplink(2)
    others = "".join(f"mptcp endpoint add 10.99.0.{last} subflow\n" for last in range(2, 255))
    subprocess.run(
        machine.command("ip", "-force", "-batch", "-"), input=others, capture_output=True, text=True, check=False
    )
    limit = len(machine.ip("mptcp endpoint").splitlines())
    machine.ip("mptcp endpoint delete id 2")
    ended = machine.routing("apply")
    told = f"routing: no endpoint for 10.7.2.2, because this kernel allows {limit} endpoints;"
    assert (ended.status, ended.err) == (0, "")
    assert told in ended.out
    assert (machine.device_from("10.7.1.2"), machine.device_from("10.7.2.2")) == ("w1", "w2")
    running = daemon(machine, started)
    assert running.stdout is not None
    lines = iter(running.stdout.readline, "")
    assert any(told in line for line in lines)
    machine.ip("route add 10.60.0.0/16 dev w1")
    assert any("10.60.0.0/16" in line for line in lines)
    running.terminate()
    assert not [line for line in lines if told in line]


def test_endpoints_of_others_stay(machine: Namespace) -> None:
    machine.add_uplink(1)
    machine.ip("mptcp endpoint add 10.7.1.2 id 7 signal")
    before = machine.state()
    assert machine.routing("apply").status == 0
    assert "of another program" in machine.routing("show").out
    assert machine.routing("remove").status == 0
    assert machine.state() == before


@pytest.mark.parametrize(
    ("way", "directory", "file", "words"),
    [
        ("daemon", "etc/systemd/system", "mptcplab-routing.service", "-m mptcplab routing run --interface=wlan0"),
        (
            "networkmanager",
            "etc/NetworkManager/dispatcher.d",
            "90-mptcplab-routing",
            "-m mptcplab routing apply --interface=wlan0",
        ),
        ("networkd", "etc/networkd-dispatcher", "routable.d/90-mptcplab-routing", "routing apply --interface=wlan0"),
    ],
)
def test_installed_files_are_ours_and_are_removed(
    machine: Namespace, tmp_path: Path, way: str, directory: str, file: str, words: str
) -> None:
    place = tmp_path / directory
    place.mkdir(parents=True)
    install = ("install", "--by", way, "--interface", "wlan0", "--root", tmp_path)
    (place / file).parent.mkdir(exist_ok=True)
    (place / file).write_text("of someone else\n")
    refused = machine.routing(*install)
    assert refused.status == 2
    assert "exists, and mptcplab did not write it" in refused.err
    (place / file).unlink()
    assert machine.routing(*install).err == ""
    assert words in (place / file).read_text()
    assert machine.routing(*install).status == 0
    is_script = way != "daemon"
    assert bool((place / file).stat().st_mode & 0o111) is is_script
    shown = json.loads(machine.routing("show", "--json", "--root", tmp_path).out)
    assert shown["installed"] == [way]
    assert machine.routing("remove", "--root", tmp_path).status == 0
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
