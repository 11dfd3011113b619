"""Tests hosts of one experiment on different machines: through a command on this machine, and in two
namespaces with an sshd each.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median

import pytest
from built_agent import AGENT
from command_line import PROGRAM, Ended, environment, mptcplab
from measured import until_measuring
from mptcplab.results import Bundle, find
from overlay_lab import run
from ssh_server import SSHD, SshServer
from traces import Traces, descendants_named, left_since

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(not AGENT.exists(), reason="make agent or cargo test --workspace builds it"),
]

#: The machine itself, through a shell.
HERE = "{at: 'exec:env XDG_CACHE_HOME=CACHE', address: 127.0.0.1}"
DESCRIPTION = """
name: split
machines: {MACHINES}
hosts: {client: CLIENT, server: SERVER}
links:
  one: {between: [client.eth1, server.eth1], rate: 20mbit, delay: 5ms, queue: 2bdp}
  two: {between: [client.eth2, server.eth2], rate: 10mbit, delay: 15ms, queue: 2bdp}
flows:
  bulk: {from: client, to: server, transport: mptcp, path_manager: full_mesh, cc: cubic, app: bulk}
measure: {every: 50ms, probe: {rtt: 50ms}}
vary: none
duration: 3s
"""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MPTCPLAB_AGENT", str(AGENT))
    monkeypatch.setenv("MPTCPLAB_ALLOW_PROGRAMS", "1")
    return tmp_path


def described(
    desk: Path, client: str = "{}", server: str = "{on: lab2}", *, name: str = "split", **machines: str
) -> Path:
    """Writes a description. `machines` are those of its hosts, by default this one as `lab2`."""
    given = machines or {"lab2": HERE.replace("CACHE", str(desk / "cache"))}
    listed = ", ".join(f"{machine}: {text}" for machine, text in given.items())
    text = DESCRIPTION.replace("{MACHINES}", f"{{{listed}}}").replace("CLIENT", client).replace("SERVER", server)
    file = desk / f"{name}.yaml"
    file.write_text(text.replace("name: split", f"name: {name}"))
    return file


def ran(desk: Path, file: Path, *arguments: str, **changes: str) -> tuple[Ended, Bundle]:
    """Runs a description to its end on the kernel."""
    ended = mptcplab("run", file.name, "--on", "kernel", "--fresh", *arguments, cwd=desk, **changes)
    bundles = [one for one in find(desk / "results") if one.path.parent.name == file.stem]
    assert bundles, ended
    return ended, bundles[-1]


def measured(desk: Path, file: Path, **changes: str) -> Bundle:
    """Runs a description until the machine is not too busy for it."""
    for _ in range(4):
        _, bundle = ran(desk, file, **changes)
        if bundle.status == "done":
            return bundle
    pytest.fail(f"{bundle.status}: {bundle.record['why']}")


def edit(file: Path, *changes: tuple[str, str]) -> Path:
    text = file.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    file.write_text(text)
    return file


def test_a_host_on_another_machine_takes_part_like_any_other(desk: Path) -> None:
    file = described(desk)
    edit(file, ("vary: none", "events: [{at: 1s, down: server.eth2}, {at: 2s, up: server.eth2}]\nvary: none"))
    bundle = measured(desk, file)
    metrics, result = bundle.record["metrics"], bundle.record["result"]
    assert metrics["flows.bulk"]["goodput_bps"] > 15e6
    assert metrics["flows.bulk"]["subflows_opened"] >= 2
    # Both ends are sampled, the address is removed there, and each host has its record.
    last = {name: metrics["flows.bulk"][name] for name in ("bytes_sent", "bytes_in_order")}
    assert last["bytes_sent"] >= last["bytes_in_order"] > 5e6
    assert {event["what"] for event in result["path_events"] if event["host"] == "server"} >= {"connection_created"}
    assert [host["id"] for host in result["hosts"]] == ["client", "server"]
    assert result["hosts"][1]["settings"]["net.mptcp.enabled"] == "1"
    [probe] = [path for path in metrics if path.startswith("probes.client.eth1")]
    assert metrics[probe]["answered"] > 20
    [machine] = result["machines"]
    assert (machine["id"], machine["address"]) == ("lab2", "127.0.0.1")
    assert os.uname().release in machine["machine"]["kernel"]
    assert 0 < machine["clock"]["bound_s"] < 0.01
    assert machine["tunnels"]["packets"] > 1000
    assert 0 < machine["tunnels"]["late_max_s"] < 0.2
    assert 0.005 < metrics["flows.bulk"]["delay_p50_s"] < 1
    bundle.verify()


def described_whole(desk: Path) -> Path:
    """Writes the same description without machines."""
    file = described(desk, server="{}", name="whole", unused="{at: 'exec:true'}")
    return edit(file, ("machines: {unused: {at: 'exec:true'}}\n", ""))


def goodput_bps(runs: Iterable[Bundle]) -> float:
    """Returns the median over runs."""
    return median(bundle.record["metrics"]["flows.bulk"]["goodput_bps"] for bundle in runs)


def test_the_goodput_of_a_split_description_is_that_of_the_whole(desk: Path) -> None:
    split, whole = (
        goodput_bps(measured(desk, file) for _ in range(3)) for file in (described(desk), described_whole(desk))
    )
    assert split > 0.97 * whole


@pytest.mark.parametrize(
    "app",
    [
        "{bulk: {bytes: 1MB}}",
        "{request_response: {request: 1kB, response: 10kB, count: 20}}",
        "{probe: {every: 20ms, duration: 1s}}",
    ],
)
def test_applications_end_there_as_here(desk: Path, app: str) -> None:
    bundle = measured(desk, edit(described(desk), ("app: bulk", f"app: {app}")))
    [flow] = bundle.record["result"]["flows"]
    assert flow["error"] is None
    assert flow["end_ns"] is not None
    assert bundle.record["result"]["end_ns"] < 2_900_000_000


@pytest.mark.parametrize("app", ["{short_flows: {bytes: 20kB, every: 100ms}}", "{streaming: {bitrate: 2mbit}}"])
def test_applications_without_an_end_deliver_data_as_here(desk: Path, app: str) -> None:
    bundle = measured(desk, edit(described(desk), ("app: bulk", f"app: {app}")))
    [flow] = bundle.record["result"]["flows"]
    assert (flow["error"], flow["end_ns"]) == (None, None)
    assert flow["bytes"] > 400_000


def test_both_hosts_may_be_elsewhere_and_the_receiver_may_open(desk: Path) -> None:
    at = HERE.replace("CACHE", str(desk / "cache"))
    file = described(desk, client="{on: lab1}", lab1=at, lab2=at)
    edit(file, ("transport: mptcp", "opened_by: to, transport: mptcp"))
    bundle = measured(desk, file)
    assert bundle.record["metrics"]["flows.bulk"]["goodput_bps"] > 15e6
    assert [machine["id"] for machine in bundle.record["result"]["machines"]] == ["lab1", "lab2"]


REFUSED = {
    "unknown machine 'lab3'": ("{on: lab2}", "{on: lab3}"),
    "no host is on it": ("{on: lab2}", "{}"),
    "the machine has no address": (", address: 127.0.0.1", ""),
    "invalid address 'nowhere'": ("127.0.0.1", "nowhere"),
    "a guest has no address": ("exec:env XDG", "qemu:6.12 XDG"),
    "machines.lab2: is given twice": ("{lab2:", "{lab2: {at: 'ssh://a'}, lab2:"),
    "stack of that machine's kernel": ("{on: lab2}", "{on: lab2, stack: userspace}"),
    "programs are started only": ("app: bulk", "app: iperf3"),
    "cannot tell when all datagrams were sent": (
        "transport: mptcp, path_manager: full_mesh, cc: cubic, app: bulk",
        "transport: udp, app: {cbr: {rate: 1mbit, size: 1000, duration: 1s}}",
    ),
}


@pytest.mark.parametrize(("words", "change"), REFUSED.items())
def test_what_cannot_be_split_is_refused_in_one_line(desk: Path, words: str, change: tuple[str, str]) -> None:
    file = edit(described(desk), change)
    ended = mptcplab("run", file.name, "--on", "userspace" if "userspace" in change[1] else "kernel", cwd=desk)
    assert ended.status in (2, 3), ended
    assert words in ended.err or "other machines have hosts with their kernel's stack only" in ended.err, ended
    assert len(ended.err.strip().splitlines()) == 1
    assert not (desk / "results").exists()


def failed(desk: Path, file: Path, **changes: str) -> str:
    """Runs a description that fails. Returns the reason, which is one line."""
    ended, bundle = ran(desk, file, **changes)
    assert (ended.status, bundle.status) == (4, "failed"), ended
    why: str = bundle.record["why"]
    assert "\n" not in why
    return why


@pytest.mark.parametrize(
    ("at", "words"),
    [
        ("exec:false", "machines.lab2: exec:false: ended with status 1"),
        ("ssh://127.0.0.1:1", "machines.lab2: ssh://127.0.0.1:1: "),
    ],
)
def test_a_machine_that_cannot_be_reached_fails_the_run(desk: Path, at: str, words: str) -> None:
    before = Traces.now()
    file = described(desk, lab2=f"{{at: '{at}', address: 127.0.0.1}}")
    assert words in failed(desk, file)
    assert left_since(before) == {}


def test_an_address_at_which_nothing_answers_is_named(desk: Path) -> None:
    file = described(desk, lab2=HERE.replace("CACHE", str(desk / "cache")).replace("127.0.0.1", "127.0.0.1"))
    edit(file, ("address: 127.0.0.1", "address: 192.0.2.77"))
    with namespace("route") as name:
        run("ip", "-n", name, "link", "set", "lo", "up")
        run("ip", "-n", name, "route", "add", "192.0.2.77", "dev", "lo")
        inside = ["ip", "netns", "exec", name]
        why = failed_inside(desk, file, inside)
    assert re.search(r"machines\.lab2: no UDP datagram comes back from 192\.0\.2\.77:\d+", why), why


class namespace:  # noqa: N801  (used as a function)
    """A named network namespace for a while."""

    def __init__(self, what: str) -> None:
        self._name = f"mptcplab-{os.getpid()}-{what}"

    def __enter__(self) -> str:
        run("ip", "netns", "add", self._name)
        return self._name

    def __exit__(self, *_: object) -> None:
        run("ip", "netns", "delete", self._name)


def failed_inside(desk: Path, file: Path, inside: list[str]) -> str:
    command = [*inside, str(PROGRAM), "run", file.name, "--on", "kernel"]
    subprocess.run(command, cwd=desk, env=environment(), capture_output=True, check=False, timeout=120)
    [bundle] = find(desk / "results")
    return str(bundle.record["why"])


#: A command that passes on what an agent says, and from the tenth report on adds 10 s to its clock.
LIAR = r"""
import re, subprocess, sys
from threading import Thread
agent = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
def ask():
    while block := sys.stdin.buffer.raw.read(65536):
        agent.stdin.write(block)
    agent.stdin.close()
Thread(target=ask, daemon=True).start()
reports = 0
for line in agent.stdout:
    reports += line.startswith(b'{"ok":{"flows"')
    if reports >= 10:
        line = re.sub(rb'^\{"ok":(\d+)\}', lambda found: b'{"ok":%d}' % (int(found[1]) + 10**10), line)
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
"""


def test_a_clock_that_jumps_makes_the_run_invalid(desk: Path) -> None:
    (desk / "liar.py").write_text(LIAR)
    at = f"exec:env XDG_CACHE_HOME={desk / 'cache'} {sys.executable} {desk / 'liar.py'}"
    file = described(desk, lab2=f"{{at: '{at}', address: 127.0.0.1}}")
    ended, bundle = ran(desk, file)
    assert (ended.status, bundle.status) == (4, "invalid"), ended
    assert re.fullmatch(
        r"machine lab2: its clock jumped by (9999|10000)\.\d+ ms during the run, and at most \d+\.\d+ ms are drift",
        bundle.record["why"],
    )
    absent = bundle.record["absent"]["flows.bulk"]
    assert "clocks of two machines, which may differ by 1e+04 ms" in absent["delay_p50_s"]


@pytest.mark.alone
@pytest.mark.parametrize("side", ["here", "there"])
def test_a_killed_side_leaves_nothing_on_either(desk: Path, side: str, started: list[subprocess.Popen[str]]) -> None:
    before = Traces.now()
    file = edit(described(desk), ("duration: 3s", "duration: 60s"))
    command = [str(PROGRAM), "run", file.name, "--on", "kernel"]
    running = subprocess.Popen(command, cwd=desk, env=environment(), stdout=-1, stderr=-1, text=True)
    started.append(running)
    until_measuring(desk)
    [agent] = descendants_named(AGENT.name)
    if side == "here":
        running.kill()
        running.wait()
    else:
        os.kill(agent, 9)
        _, err = running.communicate(timeout=60)
        assert running.returncode == 4, err
        [bundle] = find(desk / "results")
        assert bundle.status == "failed"
        assert "machines.lab2: ended with status" in bundle.record["why"]
    assert left_since(before) == {}


@pytest.mark.alone
def test_a_machine_that_stands_still_makes_the_run_invalid(desk: Path, started: list[subprocess.Popen[str]]) -> None:
    file = described(desk)
    command = [str(PROGRAM), "run", file.name, "--on", "kernel"]
    running = subprocess.Popen(command, cwd=desk, env=environment(), stdout=-1, stderr=-1, text=True)
    started.append(running)
    until_measuring(desk)
    [agent] = descendants_named(AGENT.name)
    os.kill(agent, signal.SIGSTOP)
    time.sleep(0.4)
    os.kill(agent, signal.SIGCONT)
    running.communicate(timeout=60)
    [bundle] = find(desk / "results")
    assert bundle.status == "invalid"
    words = r"machine lab2: a packet to it and back was \d{3} ms late, and more than 200 ms set off timeouts: .*"
    assert re.fullmatch(words, bundle.record["why"])


@pytest.fixture(scope="module")
def two_machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, SshServer]]:
    """Two machines: namespaces with an sshd each, and a link from each to this machine's namespace of
    the test.
    """
    directory = tmp_path_factory.mktemp("machines")
    desk = f"mptcplab-{os.getpid()}-desk"
    names = {machine: f"mptcplab-{os.getpid()}-{machine}" for machine in ("paris", "vienna")}
    servers: dict[str, SshServer] = {}
    try:
        for name in (desk, *names.values()):
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        for number, (machine, name) in enumerate(names.items()):
            network = f"10.78.{number}"
            run("ip", "-n", desk, "link", "add", machine, "type", "veth", "peer", "name", "eth0", "netns", name)
            for end, device, address in ((desk, machine, f"{network}.1"), (name, "eth0", f"{network}.2")):
                run("ip", "-n", end, "address", "add", f"{address}/24", "dev", device)
                run("ip", "-n", end, "link", "set", device, "up")
            servers[machine] = SshServer(directory / machine, f"{network}.2", ["ip", "netns", "exec", name])
        first = next(iter(servers.values()))
        known = "".join((one.client / ".ssh" / "known_hosts").read_text() for one in servers.values())
        (first.client / ".ssh" / "known_hosts").write_text(known)
        for machine, server in servers.items():
            key = first.client / ".ssh" / "id_ed25519.pub"
            (directory / machine / "authorized").write_bytes(key.read_bytes())
            server.start()
        yield servers
    finally:
        for server in servers.values():
            server.stop()
        for name in (desk, *names.values()):
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def ran_inside_desk(desk: Path, servers: dict[str, SshServer], file: Path) -> Bundle:
    """Runs a description on the machine that reaches both others. Returns the bundle."""
    home = next(iter(servers.values())).client
    command = ["ip", "netns", "exec", f"mptcplab-{os.getpid()}-desk", str(PROGRAM), "run", file.name, "--on", "kernel"]
    env = environment(HOME=str(home))
    ended = subprocess.run(
        [*command, "--fresh"], cwd=desk, env=env, capture_output=True, text=True, check=False, timeout=120
    )
    bundles = [one for one in find(desk / "results") if one.path.parent.name == file.stem]
    assert bundles, ended
    return bundles[-1]


def measured_inside_desk(desk: Path, servers: dict[str, SshServer], file: Path) -> Bundle:
    """Runs a description there until the machine is not too busy for it."""
    for _ in range(4):
        bundle = ran_inside_desk(desk, servers, file)
        if bundle.status == "done":
            return bundle
    pytest.fail(f"{bundle.status}: {bundle.record['why']}")


@pytest.mark.skipif(SSHD is None, reason="there is no sshd: scripts/prepare --system installs it")
def test_two_machines_by_ssh_are_one_experiment(desk: Path, two_machines: dict[str, SshServer]) -> None:
    pytest.importorskip("asyncssh")
    before = Traces.now()
    at = {machine: f"{{at: '{server.on}'}}" for machine, server in two_machines.items()}
    file = described(desk, client="{on: paris}", server="{on: vienna}", **at)
    split, whole = (
        [measured_inside_desk(desk, two_machines, one) for _ in range(3)] for one in (file, described_whole(desk))
    )
    assert goodput_bps(split) > 0.97 * goodput_bps(whole) > 15e6
    addresses = [machine["address"] for machine in split[0].record["result"]["machines"]]
    assert addresses == ["10.78.0.2", "10.78.1.2"]
    assert left_since(before) == {}


@pytest.mark.skipif(SSHD is None, reason="there is no sshd: scripts/prepare --system installs it")
def test_a_tunnel_that_loses_large_datagrams_is_refused(desk: Path, two_machines: dict[str, SshServer]) -> None:
    pytest.importorskip("asyncssh")
    vienna = f"mptcplab-{os.getpid()}-vienna"
    drop = "add table inet t; add chain inet t c { type filter hook input priority 0; }; add rule inet t c meta length > 1400 udp dport > 1024 drop"
    at = {machine: f"{{at: '{server.on}'}}" for machine, server in two_machines.items()}
    file = described(desk, server="{on: vienna}", vienna=at["vienna"])
    run("ip", "netns", "exec", vienna, "nft", drop)
    try:
        bundle = ran_inside_desk(desk, two_machines, file)
    finally:
        run("ip", "netns", "exec", vienna, "nft", "delete table inet t")
    assert bundle.status == "failed"
    assert re.search(
        r"machines\.vienna: smaller datagrams arrive, but not those of 1530 bytes, which carry packets of 1500 bytes",
        bundle.record["why"],
    ), json.dumps(bundle.record["why"])
