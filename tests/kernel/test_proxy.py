"""Tests `mptcplab proxy` between two network namespaces, with the kernel's servers and with
mptcplab's gateway.
"""

from __future__ import annotations

import hashlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from command_line import PROGRAM, Ended, environment, is_refused
from traces import Traces, left_since

pytestmark = pytest.mark.kernel

TESTS = Path(__file__).parents[1]
SERVER, CLIENT = TESTS / "byte_server.py", TESTS / "byte_client.py"
RATE_MBIT = 20
SIZE = 8_000_000
#: Counters of the kernel's MPTCP that indicate faults.
TROUBLE = ["MPTcpExtDataCsumErr", "MPTcpExtMPFailRx", "MPTcpExtMPRstRx", "MPTcpExtMPFallbackTokenInit"]

#: Connects to a port where nothing listens, until the answer comes back.
UNTIL_REFUSED = """
import socket, sys
while True:
    try:
        socket.create_connection((sys.argv[1], 9), timeout=0.05)
    except TimeoutError:
        pass
    except ConnectionRefusedError:
        print("refused")
        break
"""


class TwoLinks:
    """A client and a server, each in a named namespace, with two links of the same rate between
    them.
    """

    def __init__(self, scratch: Path) -> None:
        self.client, self.server = (f"proxy-{end}-{os.getpid()}" for end in ("client", "server"))
        self.scratch = scratch
        self.routers: list[str] = []
        self.running: list[subprocess.Popen[str]] = []

    def ip(self, *arguments: str) -> None:
        subprocess.run(["ip", *arguments], check=True)

    def tc(self, at: str, *arguments: str) -> None:
        subprocess.run(["tc", "-n", at, "qdisc", *arguments], check=True)

    def set_up(self) -> None:
        for name in (self.client, self.server):
            self.ip("netns", "add", name)
            self.ip("-n", name, "link", "set", "lo", "up")
        for link in ("1", "2"):
            near, far = f"eth{link}", f"eth{link}"
            self.ip(
                "link", "add", near, "netns", self.client, "type", "veth", "peer", "name", far, "netns", self.server
            )
            for end, name in enumerate((self.client, self.server), 1):
                # No link-local addresses, which would appear some time later.
                self.ip("-n", name, "link", "set", near, "addrgenmode", "none")
                self.ip("-n", name, "addr", "add", f"10.77.{link}.{end}/24", "dev", near)
                self.ip("-n", name, "addr", "add", f"fd77:{link}::{end}/64", "dev", near, "nodad")
                self.ip("-n", name, "link", "set", near, "up")
                shape = f"tbf rate {RATE_MBIT}mbit burst 16kb latency 30ms".split()
                self.tc(name, "add", "dev", near, "root", *shape)
        # As on any machine with two uplinks, each address uses its own interface.
        for family, remote, via, source in (
            ("-4", "10.77.1.2", "10.77.2.2", "10.77.2.1"),
            ("-6", "fd77:1::2", "fd77:2::2", "fd77:2::1"),
        ):
            self.ip("-n", self.client, family, "route", "add", remote, "via", via, "dev", "eth2", "table", "2")
            self.ip("-n", self.client, family, "rule", "add", "from", source, "table", "2")
        self.ip("-n", self.server, "addr", "add", "10.88.0.1/32", "dev", "lo")
        self.wait_until_packets_pass()

    def wait_until_packets_pass(self) -> None:
        """Waits until every address of the server answers, because IPv6 drops packets while a new
        interface comes up.

        Without the wait the first SYN is lost, and each transfer takes a retransmission timeout
        longer.
        """
        for address in ("10.77.1.2", "10.77.2.2", "fd77:1::2", "fd77:2::2"):
            self.start(self.client, sys.executable, "-c", UNTIL_REFUSED, address, ready="refused")

    def unshape(self) -> None:
        """Removes the rate limits."""
        for name in (self.client, self.server):
            for device in ("eth1", "eth2"):
                self.tc(name, "del", "dev", device, "root")

    def tear_down(self) -> None:
        for process in self.running:
            process.kill()
            process.wait()
        for name in (self.client, self.server, *self.routers):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)

    def hide_server_behind_router(self, address: str, mtu_bytes: int) -> None:
        """Makes the server a router whose route to ``address`` has the smaller MTU, and moves the
        server behind it.
        """
        router, self.server = self.server, f"{self.server}-beyond"
        self.routers.append(router)
        self.ip("netns", "add", self.server)
        self.ip("link", "add", "back", "netns", self.server, "type", "veth", "peer", "name", "beyond", "netns", router)
        for name, device, own in ((router, "beyond", "10.99.0.1/24"), (self.server, "back", "10.99.0.2/24")):
            self.ip("-n", name, "addr", "add", own, "dev", device)
            self.ip("-n", name, "link", "set", device, "up")
            self.ip("-n", name, "link", "set", "lo", "up")
        self.ip("-n", self.server, "addr", "add", f"{address}/32", "dev", "lo")
        self.ip("-n", self.server, "route", "add", "default", "via", "10.99.0.1")
        self.ip("-n", router, "route", "add", address, "via", "10.99.0.2", "mtu", str(mtu_bytes))
        subprocess.run(["ip", "netns", "exec", router, "sysctl", "-qw", "net.ipv4.ip_forward=1"], check=True)
        for link, table in ((1, "main"), (2, "2")):
            self.ip("-n", self.client, "route", "add", address, "via", f"10.77.{link}.2", "table", table)

    def start(self, at: str, *command: str | Path, ready: str | None = None) -> subprocess.Popen[str]:
        """Starts a program in a namespace, and waits until it has written a line with ``ready``."""
        process = subprocess.Popen(
            ["ip", "netns", "exec", at, *map(str, command)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        self.running.append(process)
        if ready:
            assert process.stdout
            assert ready in process.stdout.readline()
        return process

    def serve(self, port: int, protocol: str = "mptcp") -> None:
        self.start(self.server, sys.executable, SERVER, str(port), protocol, ready="ready")

    def proxy_command(self, *arguments: str | Path, over: str = "eth1,eth2") -> list[str]:
        """Returns `mptcplab proxy` with arguments. The summary will be in ``report``."""
        command = [PROGRAM, "proxy", "--over", over, "--report", self.scratch / "report.json", *arguments]
        return [str(word) for word in command]

    def proxy(self, *arguments: str | Path, at: str = "client", over: str = "eth1,eth2") -> Ended:
        """Runs `mptcplab proxy` to its end."""
        place = self.client if at == "client" else self.server
        ended = subprocess.run(
            ["ip", "netns", "exec", place, *self.proxy_command(*arguments, over=over)],
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
            cwd=self.scratch,
            env=environment(),
        )
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    def ask(self, *arguments: str, options: tuple[str, ...] = (), over: str = "eth1,eth2") -> dict[str, Any]:
        """Returns the result of a client of byte_client.py behind a proxy."""
        ended = self.proxy(*options, "--", sys.executable, CLIENT, *arguments, over=over)
        assert ended.status == 0, ended
        found: dict[str, Any] = ended.document
        return found

    @property
    def report(self) -> dict[str, Any]:
        done: dict[str, Any] = json.loads((self.scratch / "report.json").read_text())
        return done

    def carried(self, what: str) -> dict[str, int]:
        """Returns a count of bytes by interface."""
        return {one["interface"]: one[what] for one in self.report["interfaces"]}

    def sent_bytes(self, device: str) -> int:
        """Returns the bytes that the client has sent by an interface, headers included."""
        command = ["ip", "-n", self.client, "-json", "-s", "link", "show", device]
        shown = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        return int(shown[0]["stats64"]["tx"]["bytes"])

    def counters(self) -> dict[str, int]:
        """Returns the counters of the server's kernel."""
        command = ["ip", "netns", "exec", self.server, "nstat", "-asz", "--json"]
        counted = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        counters: dict[str, int] = json.loads(counted)["kernel"]
        return counters

    def sockets(self) -> str:
        """Returns the sockets of all kinds in the client's own namespace."""
        command = ["ip", "netns", "exec", self.client, "ss", "-HatunwO"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def routing(self) -> str:
        """Returns the links, rules and routes of the client's own namespace."""
        shown = []
        for what in (("-br", "link"), ("-br", "addr"), ("rule",), ("-6", "rule"), ("route", "show", "table", "all")):
            command = ["ip", "-n", self.client, *what]
            shown.append(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        return "".join(shown)

    @contextmanager
    def gateway(self, *options: str) -> Iterator[None]:
        command = [PROGRAM, "proxy", "--over", "eth1,eth2", "--gateway", "5124", *options]
        process = self.start(self.server, *command, ready="taking connections at port 5124")
        yield
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0


@pytest.fixture
def two_links(tmp_path: Path) -> Iterator[TwoLinks]:
    links = TwoLinks(tmp_path)
    try:
        links.set_up()
        yield links
    finally:
        links.tear_down()


@pytest.mark.parametrize(("action", "passed"), [("get", "received_bytes"), ("put", "sent_bytes")])
@pytest.mark.parametrize("host", ["10.77.1.2", "fd77:1::2"])
def test_a_transfer_arrives_byte_by_byte_over_both_links(
    two_links: TwoLinks, action: str, passed: str, host: str
) -> None:
    two_links.serve(8000)
    found = two_links.ask(action, host, "8000", str(SIZE), options=("--scheduler", "blest", "--cc", "olia"))
    assert found["is_right"]
    carried = two_links.carried(passed)
    assert min(carried.values()) > SIZE / 5, carried
    assert sum(carried.values()) >= SIZE
    counters = two_links.counters()
    assert (counters["MPTcpExtMPCapableSYNRX"], counters["MPTcpExtMPJoinSynRx"]) == (1, 1)
    assert [name for name in TROUBLE if counters.get(name)] == []


def test_a_router_says_how_long_packets_may_be(two_links: TwoLinks) -> None:
    two_links.hide_server_behind_router("10.88.0.2", 1280)
    two_links.serve(8000)
    found = two_links.ask("put", "10.88.0.2", "8000", str(SIZE))
    assert found["is_right"]
    assert min(two_links.carried("sent_bytes").values()) > SIZE / 5


def test_a_server_without_mptcp_is_reached_by_tcp(two_links: TwoLinks) -> None:
    two_links.serve(8000, "tcp")
    assert two_links.ask("get", "10.77.1.2", "8000", "1000000")["is_right"]
    assert (two_links.report["connections"], two_links.report["without_mptcp"]) == (1, 1)
    assert two_links.carried("received_bytes")["eth2"] == 0


def test_programs_that_know_nothing_of_it(two_links: TwoLinks) -> None:
    (two_links.scratch / "file").write_bytes(os.urandom(1_000_000))
    served = ["mptcpize", "run", sys.executable, "-m", "http.server", "8080", "--directory", two_links.scratch]
    two_links.start(two_links.server, *served)
    time.sleep(1)
    ended = two_links.proxy(
        "--", "curl", "-sSf", "--retry-connrefused", "--retry", "9", "-o", "copy", "http://10.77.1.2:8080/file"
    )
    assert ended.status == 0, ended
    digests = {hashlib.sha256((two_links.scratch / name).read_bytes()).digest() for name in ("file", "copy")}
    assert len(digests) == 1
    # The exit status is that of the command: curl returns 22 for a missing page.
    assert two_links.proxy("--", "curl", "-sf", "http://10.77.1.2:8080/nothing").status == 22


@pytest.mark.skipif(not shutil.which("iperf3"), reason="needs iperf3")
def test_iperf3_fills_both_links(two_links: TwoLinks) -> None:
    two_links.start(two_links.server, "mptcpize", "run", "iperf3", "-s", "--forceflush", ready="-----")
    ended = two_links.proxy("--", "iperf3", "-c", "10.77.1.2", "-t", "4", "--json")
    assert ended.status == 0, ended
    assert ended.document["end"]["sum_received"]["bits_per_second"] > 1.3e6 * RATE_MBIT


def test_a_long_session_of_small_questions(two_links: TwoLinks) -> None:
    two_links.serve(8000)
    assert two_links.ask("talk", "10.77.1.2", "8000", "2000")["is_right"]


def test_a_thousand_connections_at_once(two_links: TwoLinks) -> None:
    two_links.serve(8000)
    assert two_links.ask("crowd", "10.77.1.2", "8000", "1000")["is_right"]
    assert two_links.report["connections"] == 1000


def test_what_fails_fails_as_without_a_proxy(two_links: TwoLinks) -> None:
    two_links.serve(8000)
    assert two_links.ask("refused", "10.77.1.2", "9")["said"] == "ConnectionRefusedError"
    assert two_links.report["refused"] == 1
    assert two_links.ask("reset", "10.77.1.2", "8000")["said"] == "ConnectionResetError"


def test_names_are_asked_for_over_udp(two_links: TwoLinks) -> None:
    answer = "import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.bind(('10.77.1.2', 53)); print('ready', flush=True)\n"
    answer += "while True: d, a = s.recvfrom(999); s.sendto(d[::-1], a)"
    two_links.start(two_links.server, sys.executable, "-c", answer, ready="ready")
    ask = "import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.settimeout(5); s.connect(('10.77.1.2', 53))\n"
    ask += "for n in range(3): s.send(b'%d-abc' % n); print(s.recv(999).decode())"
    ended = two_links.proxy("--", sys.executable, "-c", ask)
    assert (ended.status, ended.out.split()) == (0, ["cba-0", "cba-1", "cba-2"])


def test_a_nameserver_at_a_loopback_address_is_reached(two_links: TwoLinks) -> None:
    answer = "import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.bind(('127.0.0.53', 53)); print('ready', flush=True)\n"
    answer += "while True: d, a = s.recvfrom(999); s.sendto(d[::-1], a)"
    two_links.start(two_links.client, sys.executable, "-c", answer, ready="ready")
    (two_links.scratch / "resolv.conf").write_text("nameserver 127.0.0.53\n")
    ask = "import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.settimeout(5); s.connect(('127.0.0.53', 53))\n"
    ask += "s.send(b'abc'); print(s.recv(999).decode())"
    (two_links.scratch / "ask.py").write_text(ask)
    proxy = f"{PROGRAM} proxy --over eth1 -- {sys.executable} ask.py"
    run = ["unshare", "-m", "sh", "-c", f"mount --bind resolv.conf /etc/resolv.conf && exec {proxy}"]
    in_client = ["ip", "netns", "exec", two_links.client, *run]
    ended = subprocess.run(in_client, cwd=two_links.scratch, capture_output=True, text=True, check=False, timeout=30)
    assert (ended.returncode, ended.stdout) == (0, "cba\n"), ended


def test_a_transfer_survives_the_loss_of_its_first_link(two_links: TwoLinks) -> None:
    two_links.serve(8000)
    client = two_links.proxy_command("--", sys.executable, CLIENT, "put", "10.77.1.2", "8000", str(SIZE))
    process = two_links.start(two_links.client, *client)
    # A time would not tell how far the transfer is, because machines start programs at different
    # speeds.
    while two_links.sent_bytes("eth1") < SIZE / 8:
        assert process.poll() is None
        time.sleep(0.01)
    two_links.tc(two_links.client, "del", "dev", "eth1", "root")
    two_links.ip("-n", two_links.client, "link", "set", "eth1", "down")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert json.loads(out)["is_right"]


def test_a_gateway_reaches_servers_without_mptcp_over_both_links(two_links: TwoLinks) -> None:
    two_links.serve(8000, "tcp")
    with two_links.gateway():
        options = ("--to", "10.77.1.2:5124")
        for action, passed in (("get", "received_bytes"), ("put", "sent_bytes")):
            # The server's address does not belong to either link.
            found = two_links.ask(action, "10.88.0.1", "8000", str(SIZE), options=options)
            assert found["is_right"]
            assert min(two_links.carried(passed).values()) > SIZE / 5
            assert two_links.report["without_mptcp"] == 0
        assert two_links.ask("talk", "10.88.0.1", "8000", "200", options=options)["is_right"]
        assert two_links.ask("refused", "10.88.0.1", "9", options=options)["said"] == "ConnectionRefusedError"
        assert two_links.ask("refused", "10.99.0.1", "9", options=options)["said"] == "ConnectionRefusedError"
        assert two_links.ask("reset", "10.88.0.1", "8000", options=options)["said"] == "ConnectionResetError"


def test_a_server_that_no_longer_listens_refuses_subflows_and_takes_the_data(two_links: TwoLinks) -> None:
    listen = "import socket; s = socket.socket(proto=socket.IPPROTO_MPTCP); s.bind(('', 8000)); s.listen(); print('ready', flush=True)\n"
    listen += "c, _ = s.accept(); s.close(); print('closed', flush=True); n = 0\n"
    listen += "while d := c.recv(1 << 16): n += len(d)\nprint(n, flush=True)"
    server = two_links.start(two_links.server, sys.executable, "-c", listen, ready="ready")
    # The SYN of the join gets through at its retransmission, because that of a fast client would
    # arrive before the server has closed its listener.
    two_links.tc(two_links.client, "replace", "dev", "eth2", "root", "blackhole")
    write = f"import socket; s = socket.create_connection(('10.77.1.2', 8000)); s.sendall(bytes({SIZE}))"
    client = two_links.start(two_links.client, *two_links.proxy_command("--", sys.executable, "-c", write))
    assert server.stdout
    assert server.stdout.readline() == "closed\n"
    resets = two_links.counters()["TcpOutRsts"]
    two_links.tc(two_links.client, "del", "dev", "eth2", "root")
    assert server.communicate(timeout=60)[0] == f"{SIZE}\n"
    assert client.wait(10) == 0
    # The kernel finds the connection of a join by the listener at its port.
    assert two_links.counters()["TcpOutRsts"] > resets
    assert two_links.carried("sent_bytes")["eth2"] == 0
    assert two_links.counters()["MPTcpExtMPJoinAckRx"] == 0


#: Asks a gateway for 10.88.0.1:8000 (RFC 8803, section 6.2.5) over the kernel's MPTCP, and sends a
#: number of bytes.
KERNEL_CLIENT = """
import socket, sys
from byte_server import digest, expected
size = int(sys.argv[1])
connection = socket.socket(proto=socket.IPPROTO_MPTCP)
connection.connect(("10.77.1.2", 5124))
destination = (8000).to_bytes(2, "big") + bytes(10) + b"\\xff\\xff" + socket.inet_aton("10.88.0.1")
connection.sendall(bytes([1, 6, 0x22, 0x63, 10, 5]) + destination + b"put\\n" + expected(size))
connection.shutdown(socket.SHUT_WR)
answer = b""
while part := connection.recv(4096):
    answer += part
print(answer[4:].decode() == f"{size} {digest(expected(size))}\\n")
"""


def test_further_subflows_of_a_kernels_client_carry_data_to_a_gateway(two_links: TwoLinks) -> None:
    two_links.serve(8000, "tcp")
    for what in (("limits", "set", "subflows", "2"), ("endpoint", "add", "10.77.2.1", "dev", "eth2", "subflow")):
        two_links.ip("-n", two_links.client, "mptcp", *what)
    with two_links.gateway():
        client = two_links.start(
            two_links.client, "env", f"PYTHONPATH={TESTS}", sys.executable, "-c", KERNEL_CLIENT, str(SIZE)
        )
        out, err = client.communicate(timeout=60)
        assert out == "True\n", err
    sent = [two_links.sent_bytes(link) for link in ("eth1", "eth2")]
    assert min(sent) > SIZE / 5, sent


def test_who_never_says_where_to_is_no_longer_kept_by_a_gateway(two_links: TwoLinks) -> None:
    two_links.serve(8000, "tcp")
    say_nothing = """
import socket, time
began = time.monotonic()
silent = [socket.create_connection(("10.77.1.2", 5124)) for _ in range(20)]
silent[0].sendall(bytes([1, 6]))
for connection in silent:
    connection.settimeout(40)
    try:
        print(connection.recv(1))
    except OSError as error:
        print(type(error).__name__)
"""
    with two_links.gateway():
        client = two_links.start(two_links.client, sys.executable, "-c", say_nothing)
        out, _ = client.communicate(timeout=60)
        assert out.split() == ["ConnectionResetError"] * 20
        options = ("--to", "10.77.1.2:5124")
        assert two_links.ask("talk", "10.88.0.1", "8000", "3", options=options)["is_right"]


#: Connects to both servers by the gateway (RFC 8803: a Connect message of 20 bytes), a given number
#: of times to each.
CONNECT_BY_GATEWAY = """
import ipaddress, socket, struct, sys
address = ipaddress.IPv6Address("::ffff:10.88.0.1").packed
held = {8000: [], 8001: []}
for port, connections in held.items():
    for _ in range(int(sys.argv[1])):
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
        connection.connect(("10.77.1.2", 5124))
        connection.sendall(struct.pack("!BBH", 1, 6, 0x2263) + struct.pack("!BBH", 0x0A, 5, port) + address + b"x")
        connections.append(connection)
for connection in held[8000] + held[8001]:
    answer = connection.recv(4)
    assert answer[:2] == bytes([1, 1]), answer
print("connected", flush=True)
for connection in held[8000]:
    assert connection.recv(1) == b""
print("ended", flush=True)
sys.stdin.read()
"""
#: Accepts connections at both ports, and closes those of a port when it reads the port's number.
CLOSE_WHEN_TOLD = """
import select, socket, sys
listeners = {socket.create_server(("", port), backlog=500): port for port in (8000, 8001)}
held = {8000: [], 8001: []}
print("ready", flush=True)
while True:
    readable, _, _ = select.select([*listeners, sys.stdin], [], [])
    for listener in listeners.keys() & set(readable):
        held[listeners[listener]].append(listener.accept()[0])
    if sys.stdin in readable:
        closing = held.pop(int(sys.stdin.readline()))
        for connection in closing:
            connection.recv(1)
            connection.close()
        print(len(closing), flush=True)
"""
#: Counts the TCP packets that leave its namespace in a number of seconds.
COUNT_SENT = """
import socket, sys, time
everything = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
everything.settimeout(0.2)
until, sent = time.monotonic() + float(sys.argv[1]), 0
while time.monotonic() < until:
    try:
        packet, about = everything.recvfrom(100)
    except TimeoutError:
        continue
    sent += about[2] == socket.PACKET_OUTGOING and about[0] != "lo" and about[1] == 0x0800 and packet[9] == 6
print(sent)
"""


class Told:
    """A program that reads lines, and answers each with one."""

    def __init__(self, links: TwoLinks, at: str, source: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            ["ip", "netns", "exec", at, sys.executable, "-c", source, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        links.running.append(self._process)

    def says(self) -> str:
        assert self._process.stdout
        return self._process.stdout.readline().strip()

    def tell(self, line: str) -> str:
        assert self._process.stdin
        print(line, file=self._process.stdin, flush=True)
        return self.says()


def test_clients_that_vanish_leave_neither_packets_nor_descriptors(two_links: TwoLinks) -> None:
    """Half of the clients vanish after they acknowledged their connection's DATA_FIN, the others
    before it is sent.
    """
    each, give_up_after_s = 50, 10

    def count_sent(seconds: float) -> int:
        command = ["ip", "netns", "exec", two_links.server, sys.executable, "-c", COUNT_SENT, str(seconds)]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    server = Told(two_links, two_links.server, CLOSE_WHEN_TOLD)
    assert server.says() == "ready"
    with two_links.gateway("--give-up-after", str(give_up_after_s)):
        descriptors = Path(f"/proc/{two_links.running[-1].pid}/fd")
        before = len(list(descriptors.iterdir()))
        clients = Told(two_links, two_links.client, CONNECT_BY_GATEWAY, str(each))
        assert clients.says() == "connected"
        assert len(list(descriptors.iterdir())) >= before + 2 * each
        assert server.tell("8000") == str(each)
        assert clients.says() == "ended"
        two_links.ip("-n", two_links.client, "rule", "add", "pref", "1", "to", "10.77.0.0/16", "type", "blackhole")
        assert server.tell("8001") == str(each)
        # Allows one keepalive probe or repeated DATA_FIN a second for each, and some for all that
        # were sent before.
        sent = count_sent(2 * give_up_after_s + 2)
        assert 2 * each <= sent < 2 * each * (2 * give_up_after_s + 10)
        assert count_sent(give_up_after_s) == 0
        assert len(list(descriptors.iterdir())) <= before


#: Sends to every client without end, at once or at intervals, and prints the reason for the end.
GIVE_WITHOUT_END = """
import socket, sys, time
server = socket.socket(proto=socket.IPPROTO_MPTCP)
server.bind(("", 8000))
server.listen()
print("ready", flush=True)
while True:
    connection, _ = server.accept()
    try:
        while True:
            connection.sendall(bytes(int(sys.argv[1])))
            time.sleep(float(sys.argv[2]))
    except OSError as error:
        print(type(error).__name__, flush=True)
"""
READ_SOME = """
import os, socket
connection = socket.create_connection(("10.77.1.2", 8000))
connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
connection.sendall(b"x" * 1000)
taken = 0
while taken < 20000:
    taken += len(connection.recv(4096))
"""


@pytest.mark.parametrize("last_words", ["", "connection.shutdown(socket.SHUT_WR)"])
@pytest.mark.parametrize("given", [(1 << 16, 0), (1000, 0.05)])
def test_a_server_that_still_sends_hears_that_the_program_has_ended(
    two_links: TwoLinks, given: tuple[int, float], last_words: str
) -> None:
    two_links.unshape()
    give = [sys.executable, "-c", GIVE_WITHOUT_END, *map(str, given)]
    server = two_links.start(two_links.server, *give, ready="ready")
    assert server.stdout
    for _ in range(3):
        before = two_links.counters().get("MPTcpExtMPFastcloseRx", 0)
        ended = two_links.proxy("--", sys.executable, "-c", f"{READ_SOME}{last_words}\nos._exit(0)")
        assert ended.status == 0, ended
        # Without a notification it would send for minutes (RFC 8684, section 3.5).
        ready, _, _ = select.select([server.stdout], [], [], 5)
        assert ready
        assert server.stdout.readline() in ("ConnectionResetError\n", "BrokenPipeError\n")
        assert two_links.counters()["MPTcpExtMPFastcloseRx"] > before


def test_of_too_many_connections_a_program_is_told_what_a_kernel_says_and_ports_are_used_again(
    two_links: TwoLinks,
) -> None:
    two_links.serve(8000)
    open_all = """
import errno, socket, time
for turn in range(3):
    held, said = [], []
    for _ in range(70):
        try:
            held.append(socket.create_connection(("10.77.1.2", 8000)))
            held[-1].sendall(b"echo\\n")
        except OSError as error:
            said.append(errno.errorcode[error.errno])
    print(len(held), *sorted(set(said)))
    # Towards another server all are free.
    socket.create_connection(("10.77.1.2", 8001)).close()
    for connection in held:
        connection.close()
    time.sleep(3)
"""
    two_links.serve(8001)
    # These descriptors are enough for only one block of ports.
    command = ["prlimit", "--nofile=200", PROGRAM, "proxy", "--over", "eth1,eth2", "--", sys.executable, "-c", open_all]
    client = two_links.start(two_links.client, *command)
    out, err = client.communicate(timeout=90)
    assert out.splitlines() == ["64 EADDRNOTAVAIL"] * 3, (out, err)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_who_is_killed_leaves_nothing(two_links: TwoLinks, number: signal.Signals) -> None:
    two_links.serve(8000)
    routing, sockets, before = two_links.routing(), two_links.sockets(), Traces.now()
    command = [
        PROGRAM,
        "proxy",
        "--over",
        "eth1,eth2",
        "--",
        "sh",
        "-c",
        f"{sys.executable} {CLIENT} put 10.77.1.2 8000 999999999 & sleep 99",
    ]
    process = two_links.start(two_links.client, *command)
    deadline = time.monotonic() + 20
    while two_links.sockets().count("LISTEN") < 64 and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(0.5)
    # In the machine's own network there are only sockets.
    assert two_links.routing() == routing
    process.send_signal(number)
    process.communicate(timeout=10)
    assert process.returncode == (143 if number == signal.SIGTERM else -number)
    assert left_since(before) == {}
    assert (two_links.routing(), two_links.sockets()) == (routing, sockets)


def test_what_the_command_has_written_arrives_though_it_has_ended(two_links: TwoLinks) -> None:
    listen = "import socket; s = socket.create_server(('', 8000)); print('ready', flush=True)\n"
    listen += "c, _ = s.accept(); n = 0\nwhile d := c.recv(1 << 16): n += len(d)\nprint(n, flush=True)"
    process = two_links.start(two_links.server, sys.executable, "-c", listen, ready="ready")
    write = "import socket; s = socket.create_connection(('10.77.1.2', 8000)); s.sendall(bytes(3_000_000))"
    assert two_links.proxy("--", sys.executable, "-c", write).status == 0
    assert process.communicate(timeout=10)[0] == "3000000\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--over", "eth9", "--", "true"], ["eth9", "no interface"]),
        (["--over", "lo", "--", "true"], ["lo", "no address"]),
        (["--over", "eth1,eth1", "--", "true"], ["each once"]),
        (["--over", "eth1"], ["COMMAND", "--gateway"]),
        (["--over", "eth1", "--gateway", "5124", "--", "true"], ["COMMAND", "--gateway"]),
        (["--over", "eth1", "--to", "nowhere", "--", "true"], ["nowhere", "HOST:PORT"]),
        (["--over", "eth1", "--cc", "vegas9", "--", "true"], ["congestion control", "vegas9", "olia"]),
        (["--over", "eth1", "--scheduler", "best", "--", "true"], ["scheduler", "best", "blest"]),
        (["--over", "eth1", "--path-manager", "binder", "--", "true"], ["path manager", "binder", "full_mesh"]),
        (["--over", "eth1", "--", "no-such-program"], ["no-such-program"]),
    ],
)
def test_what_makes_no_sense_is_refused(two_links: TwoLinks, arguments: list[str], words: list[str]) -> None:
    before = two_links.sockets()
    command = ["ip", "netns", "exec", two_links.client, str(PROGRAM), "proxy", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30, env=environment())
    assert is_refused(Ended(ended.returncode, ended.stdout, ended.stderr), 2, *words)
    assert two_links.sockets() == before


def test_without_rights_it_says_what_helps() -> None:
    command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", str(PROGRAM), "proxy", "--over", "lo", "--", "true"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30, env=environment())
    assert is_refused(Ended(ended.returncode, ended.stdout, ended.stderr), 3, "sudo mptcplab proxy")
