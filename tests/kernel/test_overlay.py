"""Tests of overlays in namespaces: sites, tunnels, and hosts that join and leave."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import pairwise
from pathlib import Path

import pytest
from command_line import PROGRAM, environment, is_refused, mptcplab
from overlay_lab import CAPTURED_UPLOAD, HOST, PORT, SERVER, UPLOADED, Lab, serving, subflow_bytes, within

pytestmark = pytest.mark.kernel

TESTS = Path(__file__).parents[1]
SITES = 300
SMALL = """
name: small
sites:
  london: {delay: 3ms}
  paris: {delay: 2ms}
  berlin: {delay: 4ms}
  vienna: {delay: 1ms, exit: true}
mesh: [[london, paris], [paris, vienna], [london, berlin], [berlin, vienna]]
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with serving(Lab(tmp_path_factory.mktemp("lab"))) as made:
        yield made


@pytest.fixture(scope="module")
def url(lab: Lab) -> Iterator[str]:
    """The overlay of the tests, which is up all the time."""
    yield lab.up("--sites", str(SITES), "--exit", "s1")
    lab.mptcplab("machine", "overlay", "down")


@pytest.fixture
def other(lab: Lab, tmp_path: Path) -> Iterator[Lab]:
    """A lab of the same network with an overlay of its own, in a namespace of its own."""
    small = Lab(tmp_path)
    small.names = lab.names | {"machine": f"mptcplab-{os.getpid()}-other"}
    lab_ip = ["ip", "netns"]
    subprocess.run([*lab_ip, "add", small.names["machine"]], check=True)
    subprocess.run(["ip", "-n", small.names["machine"], "link", "set", "lo", "up"], check=True)
    subprocess.run(["ip", "-n", small.names["machine"], "address", "add", "10.77.1.1/32", "dev", "lo"], check=True)
    yield small
    if (tmp_path / "overlay" / "lock").exists():
        small.mptcplab("machine", "overlay", "down")
    subprocess.run([*lab_ip, "delete", small.names["machine"]], check=True)


def operates(lab: Lab, name: str) -> bool:
    [found] = [site["operates"] for site in lab.status()["sites"] if site["node"] == name]
    return bool(found)


def test_a_connection_of_a_host_with_one_link_uses_two_sites(lab: Lab, url: str) -> None:
    assert all(site["operates"] for site in lab.status()["sites"])
    before = lab.shown()
    ended = lab.mptcplab("host", "join", url, "--nearest", "2", "--", "sh", "-c", CAPTURED_UPLOAD)
    assert (ended.status, ended.out) == (0, f"{UPLOADED}\n"), ended
    sent = subflow_bytes([lab.directory / f"{device}.pcap" for device in ("mptcplab0", "mptcplab1", "eth0")])
    inside = {address: size for address, size in sent.items() if address.startswith("198.19.")}
    assert len(inside) == 2
    assert min(inside.values()) > 100_000, sent
    within(lambda: lab.shown() == before, "the host to be as before")
    assert lab.status()["hosts"] == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_host_leaves_nothing_however_it_ends(lab: Lab, url: str, number: signal.Signals) -> None:
    before = lab.shown()
    joined = lab.start("host", "join", url, "--nearest", "3")
    within(lambda: lab.run("host", "ip", "mptcp", "endpoint").count("198.19.") == 3, "three endpoints")
    assert "subflows 3" in lab.run("host", "ip", "mptcp", "limits")
    joined.send_signal(number)
    joined.communicate()
    assert joined.returncode == (0 if number == signal.SIGINT else -number)
    within(lambda: lab.shown() == before, "the host to be as before")
    within(lambda: lab.status()["hosts"] == [], "the overlay to know the host no longer")


def test_a_host_sees_nothing_of_the_network_between_sites(lab: Lab, url: str) -> None:
    probe = f"""
import errno, json, socket, subprocess
address = next(word for word in subprocess.run(["ip", "mptcp", "endpoint"], capture_output=True, text=True).stdout.split() if word.startswith("198.19."))
found = []
for target in ("198.18.0.1", "198.18.1.7", "{SERVER}"):
    with socket.socket() as tried:
        tried.settimeout(3)
        tried.bind((address, 0))
        found.append(errno.errorcode.get(tried.connect_ex((target, {PORT})), "done"))
print(json.dumps(found))
"""
    ended = lab.mptcplab("host", "join", url, "--", sys.executable, "-c", probe)
    assert json.loads(ended.out) == ["ENETUNREACH", "ENETUNREACH", "done"], ended


def test_hosts_at_one_site_reach_each_other_there(tmp_path: Path) -> None:
    with serving(Lab(tmp_path, "one")) as lab:
        text = "name: one\nsites: {near: {delay: 1ms}, far: {delay: 20ms, exit: true}}\nmesh: [[near, far]]\n"
        (tmp_path / "one.yaml").write_text(text)
        url = lab.up("one.yaml")
        joined = [lab.start(place, "join", url) for place in ("host", "server")]
        within(
            lambda: all("198.19." in lab.run(place, "ip", "mptcp", "endpoint") for place in ("host", "server")), "joins"
        )
        tunnels = {host["client"]: host["tunnels"] for host in lab.status()["hosts"]}
        [[source], [target]] = [[one["address"] for one in tunnels[client]] for client in (HOST, SERVER)]
        # Their site is the only router between them.
        connect = f"""
import socket
with socket.socket() as tried:
    tried.settimeout(5)
    tried.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 2)
    tried.bind(("{source}", 0))
    tried.connect(("{target}", {PORT}))
"""
        lab.run("host", sys.executable, "-c", connect)
        for process in joined:
            process.send_signal(signal.SIGINT)
            process.communicate()
        lab.mptcplab("machine", "overlay", "down")


def test_a_site_that_falls_silent_is_dropped_and_comes_back(lab: Lab, url: str) -> None:
    joined = lab.start("host", "join", url, "--nearest", "2")
    try:
        [host] = within(lambda: lab.status()["hosts"], "the host")
        # A site that a route of the host passes, or else that at its beginning.
        routes = [tunnel["route"] for tunnel in host["tunnels"]]
        lost = next((site for route in routes for site in route[1:-1]), routes[0][0])
        assert lab.mptcplab("machine", "overlay", "cut", lost).status == 0
        within(lambda: not operates(lab, lost), "the site to be dropped")
        nodes = [node["node"] for node in lab.call(url, "overlay.nodes")["nodes"]]
        assert len(nodes) == SITES - 1
        assert lost not in nodes
        with pytest.raises(AssertionError, match=f"site {lost} does not operate"):
            lab.call(url, "overlay.connect", nodes=[lost])
        [host] = lab.status()["hosts"]
        assert all(lost not in tunnel["route"] for tunnel in host["tunnels"] if tunnel["node"] != lost)
        assert lab.mptcplab("machine", "overlay", "restore", lost).status == 0
        within(lambda: operates(lab, lost), "the site to come back")
        [host] = lab.status()["hosts"]
        assert all(tunnel["route"][-1] == "s1" for tunnel in host["tunnels"])
    finally:
        joined.send_signal(signal.SIGTERM)
        joined.communicate()


def test_figure_2_of_sonkoly_step_by_step(other: Lab) -> None:
    """Steps 1 to 8 of 002, section III-B. The names of the sites are a slice of our own."""
    file = other.directory / "small.yaml"
    file.write_text(SMALL)
    rpc_url = other.up(file)
    status = other.status()
    # 1, 2: the main module knows the slice, and which of its sites operate.
    assert [site["node"] for site in status["sites"] if site["operates"]] == ["london", "paris", "berlin", "vienna"]
    # 3: switches are up and joined by tunnels as the topology says; echoes pass each of them.
    ends = [frozenset(tunnel["ends"]) for tunnel in status["tunnels"]]
    assert set(ends) == {
        frozenset(pair)
        for pair in (("london", "paris"), ("paris", "vienna"), ("london", "berlin"), ("berlin", "vienna"))
    }
    within(lambda: all(one["answered"] for one in other.status()["tunnels"]), "echoes through every tunnel")
    measured = [one["rtt_s"] for one in other.status()["tunnels"]]
    assert min(measured) >= 2 * (2 + 1) * 1e-3
    # 4 to 7: the host asks for the nodes, and gets those that operate.
    listed = other.call(rpc_url, "overlay.nodes")
    assert {node["node"] for node in listed["nodes"]} == {"london", "paris", "berlin", "vienna"}
    # It measures, asks for the nearest ones, and gets the parameters of its tunnels (4 to 7 again).
    connection = other.call(rpc_url, "overlay.connect", nodes=["paris", "berlin"])
    assert [tunnel["node"] for tunnel in connection["tunnels"]] == ["paris", "berlin"]
    # 8: entries are in the tables of the sites of each route, and the routes share no tunnel.
    routes = [tunnel["route"] for tunnel in connection["tunnels"]]
    assert routes == [["paris", "vienna"], ["berlin", "vienna"]]
    used = [frozenset(pair) for route in routes for pair in pairwise(route)]
    assert len(used) == len(set(used))
    for tunnel in connection["tunnels"]:
        for site in ("london", "paris", "berlin", "vienna"):
            has_entry = f"from {tunnel['address']} " in rules_of(other, site)
            assert has_entry == (site in tunnel["route"]), site
    assert other.call(rpc_url, "overlay.disconnect", connection=connection["connection"]) == {"removed": True}
    assert "from 198.19." not in rules_of(other, "vienna")


def rules_of(lab: Lab, site: str) -> str:
    """Returns the rules of a site, whose namespace is found by its address."""
    number = [one["node"] for one in lab.status()["sites"]].index(site)
    for link in sorted(Path(f"/proc/{lab.process}/fd").iterdir(), key=lambda path: int(path.name)):
        if str(link.readlink()).startswith("net:"):
            inside = ["nsenter", f"--net={link}"]
            shown = subprocess.run([*inside, "ip", "-brief", "address"], capture_output=True, text=True, check=True)
            if f"198.18.1.{number}/32" in shown.stdout:
                return subprocess.run([*inside, "ip", "rule"], capture_output=True, text=True, check=True).stdout
    raise LookupError(site)


def test_a_host_goes_around_a_tunnel_that_is_cut(other: Lab) -> None:
    description = other.directory / "small.yaml"
    description.write_text(SMALL)
    url = other.up(description)
    host = other.call(url, "overlay.connect", nodes=["london"])
    [before] = [tunnel["route"] for tunnel in host["tunnels"]]
    assert len(before) == 3
    assert is_refused(other.mptcplab("machine", "overlay", "cut", "london", "vienna"), 4, "there is no tunnel between")
    assert other.mptcplab("machine", "overlay", "cut", *before[:2]).status == 0

    def route() -> list[str]:
        [[tunnel]] = [joined["tunnels"] for joined in other.status()["hosts"]]
        found: list[str] = tunnel["route"]
        return found

    within(lambda: route()[-1:] == ["vienna"] and route() != before, "the route around the tunnel")
    states = {frozenset(tunnel["ends"]): (tunnel["operates"], tunnel["cut"]) for tunnel in other.status()["tunnels"]}
    assert states.pop(frozenset(before[:2])) == (False, True)
    assert set(states.values()) == {(True, False)}
    assert all(site["operates"] for site in other.status()["sites"]), "sites reach the coordinator"
    assert other.mptcplab("machine", "overlay", "restore", *before[:2]).status == 0
    ends = set(before[:2])
    within(lambda: all(one["operates"] for one in other.status()["tunnels"] if set(one["ends"]) == ends), "the tunnel")


def test_an_overlay_that_was_killed_leaves_nothing_and_can_be_started_again(other: Lab) -> None:
    before = other.shown("machine")
    other.up("--sites", "3")
    process = other.process
    again = other.mptcplab("machine", "overlay", "up", "--sites", "3")
    assert is_refused(again, 4, f"an overlay is up already, process {process}")
    assert other.process == process
    for command in ("down", "up"):
        os.kill(process, signal.SIGKILL)
        within(lambda: other.shown("machine") == before, "the machine to be as before")
        assert is_refused(other.mptcplab("machine", "overlay", "status"), 3, "no overlay is up here")
        if command == "down":
            assert "had been killed" in other.mptcplab("machine", "overlay", "down").out
        other.up("--sites", "3")
        process = other.process
    assert other.mptcplab("machine", "overlay", "down").out == "the overlay is down\n"
    within(lambda: other.shown("machine") == before, "the machine to be as before")
    assert not (other.directory / "overlay" / "overlay.json").exists()


def test_an_overlay_that_ended_tells_why(other: Lab) -> None:
    other.up("--sites", "2")
    children = Path(f"/proc/{other.process}/task/{other.process}/children").read_text().split()
    os.kill(int(children[0]), signal.SIGKILL)
    within(lambda: not (other.directory / "overlay" / "lock").exists(), "the overlay to end")
    words = "the last one ended: the process of the network between sites has ended"
    assert is_refused(other.mptcplab("machine", "overlay", "status"), 3, "no overlay is up here", words)
    other.up("--sites", "2")


def test_without_an_exit_hosts_are_refused(other: Lab) -> None:
    given = other.up("--sites", "3")
    before = other.shown("machine")
    refused = other.mptcplab("machine", "join", given)
    assert is_refused(refused, 4, "no site that operates is an exit")
    assert other.shown("machine") == before
    refused = other.mptcplab("machine", "join", given.replace("token=", "token=no"))
    assert is_refused(refused, 4, "the token is missing or wrong")


def test_what_is_in_the_way_of_an_overlay_is_told(other: Lab) -> None:
    other.run("machine", "ip", "route", "add", "blackhole", "198.18.0.0/16")
    refused = other.mptcplab("machine", "overlay", "up", "--sites", "2")
    assert is_refused(refused, 4, "this machine has a route to 198.18.0.0/16, blackhole")
    other.run("machine", "ip", "route", "del", "blackhole", "198.18.0.0/16")
    listen = "import socket; s = socket.create_server(('127.0.0.1', 9000)); print('ready', flush=True); s.accept()"
    taken = other.popen("machine", sys.executable, "-c", listen)
    assert taken.stdout is not None
    assert taken.stdout.readline() == "ready\n"
    try:
        refused = other.mptcplab("machine", "overlay", "up", "--sites", "2", "--listen", "127.0.0.1:9000")
        assert is_refused(refused, 2, "--listen: port 9000: in use; allowed: a free port")
    finally:
        taken.kill()
        taken.communicate()
    other.run("machine", "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
    other.run(
        "machine",
        "nft",
        "add table ip filter; add chain ip filter FORWARD { type filter hook forward priority 0; policy drop; }",
    )
    ended = other.mptcplab("machine", "overlay", "up", "--sites", "2", "--exit", "s1")
    assert "because the chain ip filter FORWARD drops" in ended.err
    other.mptcplab("machine", "overlay", "down")
    ended = other.mptcplab("machine", "overlay", "up", "--sites", "2")
    assert "no host can join it" in ended.err
    assert "join it:" not in ended.out


@pytest.fixture(scope="module")
def near(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab with an overlay of one site, in which hosts may change what they have."""
    with serving(Lab(tmp_path_factory.mktemp("near"), "near")) as made:
        yield made
        made.mptcplab("machine", "overlay", "down")


@pytest.fixture(scope="module")
def near_url(near: Lab) -> str:
    return near.up("--sites", "1", "--exit", "s1")


def test_tables_and_endpoints_of_a_host_stay_its_own(near: Lab, near_url: str) -> None:
    near.run("host", "ip", "rule", "add", "pref", "101", "fwmark", "5", "lookup", "7000")
    near.run("host", "ip", "route", "add", "default", "dev", "lo", "table", "7001")
    for number in (1, 2, 3):
        near.run("host", "ip", "address", "add", f"10.99.0.{number}/32", "dev", "lo")
        near.run("host", "ip", "mptcp", "endpoint", "add", f"10.99.0.{number}", "subflow")
    before = near.shown()
    script = "ip route show table 7000; ip route show table 7001; ip route show table 7002; ip mptcp limits"
    ended = near.mptcplab("host", "join", near_url, "--", "sh", "-c", script)
    assert ended.status == 0, ended
    shown = ended.out.splitlines()
    assert [line.split()[2] for line in shown[:2]] == ["lo", "mptcplab0"]
    assert "subflows 4" in shown[2]
    within(lambda: near.shown() == before, "the host to be as before")
    for number in range(4, 9):
        near.run("host", "ip", "mptcp", "endpoint", "add", f"10.99.1.{number}", "subflow")
    assert is_refused(near.mptcplab("host", "join", near_url), 4, "this host has 8 MPTCP endpoints")
    near.run("host", "ip", "mptcp", "endpoint", "flush")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_command_that_ignores_signals_ends_with_join(near: Lab, near_url: str, number: signal.Signals) -> None:
    script = "trap '' INT TERM; echo $$; while :; do sleep 0.1; done"
    joined = near.start("host", "join", near_url, "--", "sh", "-c", script)
    assert joined.stdout is not None
    state = ["ps", "-o", "stat=", "-p", joined.stdout.readline().strip()]
    joined.send_signal(number)
    joined.wait(60)
    assert joined.returncode == (128 + signal.SIGKILL if number == signal.SIGINT else -number)
    # Where nobody asks for its status, a process that has ended stays.
    within(
        lambda: subprocess.run(state, capture_output=True, text=True, check=False).stdout.strip()[:1] in ("", "Z"),
        "the command to end",
    )
    joined.communicate()


@pytest.mark.parametrize(
    "answer",
    [
        "{}",
        "[]",
        "null",
        '{"result": null}',
        '{"error": "x"}',
        '{"result": {"nodes": "x"}}',
        '{"result": {"nodes": [1]}}',
    ],
)
def test_a_server_that_is_no_host_controller_is_refused(answer: str, tmp_path: Path) -> None:
    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer.encode())

    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.handle_request).start()
        ended = mptcplab("join", f"http://127.0.0.1:{server.server_port}/?token=a", cwd=tmp_path)
    assert is_refused(ended, 3, "is no host controller")


def test_a_tunnel_that_carries_only_small_packets_is_refused(lab: Lab, url: str) -> None:
    before = lab.shown()
    lab.run("host", "ip", "link", "set", "eth0", "mtu", "1400")
    try:
        refused = lab.mptcplab("host", "join", url)
    finally:
        lab.run("host", "ip", "link", "set", "eth0", "mtu", "1500")
    assert is_refused(refused, 4, "carries only small packets", "packets of 1400 bytes")
    within(lambda: lab.shown() == before, "the host to be as before")


#: Runs a script in a machine of its own, with names of network namespaces of its own.
OWN_MACHINE = ["unshare", "--net", "--mount", "sh", "-euc", "mount -t tmpfs run /run; ip link set lo up; . ./commands"]


def test_the_ten_commands_of_the_page_run(tmp_path: Path) -> None:
    page = (TESTS.parent / "docs" / "guide" / "overlay.md").read_text()
    section = page.partition("## From one machine to two in ten commands\n")[2]
    commands = section.partition("```\n")[2].partition("```")[0].replace("sudo ", "").splitlines()
    assert len(commands) == 10
    [up] = [number for number, command in enumerate(commands) if "overlay up" in command]
    # What is printed is what the next command is given.
    commands[up] = f"url=$({commands[up]} | sed -n \"s/.*join '\\(.*\\)'/\\1/p\")"
    commands[up + 1] = commands[up + 1].replace("'http://192.0.2.1:8450/?token=..'", '"$url"')
    assert "$url" in commands[up + 1]
    (tmp_path / "commands").write_text("\n".join(commands).replace("mptcplab ", f"{PROGRAM} "))
    env = environment(MPTCPLAB_OVERLAY=str(tmp_path / "overlay"))
    ended = subprocess.run(OWN_MACHINE, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended
    assert "20 of 20 sites operate" in ended.stdout
    assert len(re.findall(r"^198\.19\.\S+ id \d+ subflow dev mptcplab[01]", ended.stdout, re.MULTILINE)) == 2
    assert ended.stdout.endswith("the overlay is down\n")


WRONG: list[tuple[list[str], int, str]] = [
    (["overlay", "up"], 2, "either SPEC or --sites N"),
    (["overlay", "up", "--sites", "3", "--exit", "s4"], 2, "--exit s4: unknown site"),
    (["overlay", "up", "--sites", "3", "--listen", "192.0.2.1"], 2, "address of this machine"),
    (["overlay", "up", "--sites", "3", "--listen", "127.0.0.1:x"], 2, "found port 'x'"),
    (["overlay", "up", "nothing.yaml"], 2, "there is no such file"),
    (["overlay", "cut"], 2, "allowed: a site"),
    (["overlay", "down", "s1"], 2, "allowed: no name"),
    (["overlay", "down"], 3, "no overlay is up here"),
    (["overlay", "status"], 3, "no overlay is up here"),
    (["join", "s1"], 2, "as `mptcplab overlay up` prints it"),
    (["join", "http://127.0.0.1:1/"], 2, "found no token"),
    (["join", "http://127.0.0.1:1/?token=a"], 3, "no host controller answers at 127.0.0.1:1"),
]


def test_wrong_input_gets_a_line_and_leaves_nothing(other: Lab) -> None:
    before = other.shown("machine")
    for arguments, status, words in WRONG:
        assert is_refused(other.mptcplab("machine", *arguments), status, words)
    assert other.shown("machine") == before
    assert not (other.directory / "overlay" / "lock").exists()


@pytest.mark.soak
def test_a_thousand_hosts_join_and_leave(lab: Lab, url: str) -> None:
    before = lab.shown()
    program = """
import sys
from mptcplab.overlay.client import HostControllerAddress
from mptcplab.overlay.join import Membership
server = HostControllerAddress.parse(sys.argv[1])
for _ in range(1000):
    Membership(server, 2).leave()
"""
    lab.run("host", sys.executable, "-c", program, url)
    within(lambda: lab.shown() == before, "the host to be as before")
    assert lab.status()["hosts"] == []
    assert "from 198.19." not in rules_of(lab, "s1")
