"""Tests of overlays whose sites are machines reached by SSH: namespaces with an sshd each."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from command_line import Ended, is_refused
from mptcplab.overlay.addresses import mac
from mptcplab.overlay.entries import PORT_OF_TUNNELS
from overlay_lab import CAPTURED_UPLOAD, HOST, UPLOADED, Lab, run, serving, subflow_bytes, within
from ssh_server import SSHD, SshServer, name_of

pytest.importorskip("asyncssh")
pytestmark = [pytest.mark.kernel, pytest.mark.skipif(SSHD is None, reason="needs openssh-server")]

#: Two sites at which hosts join, of which one hangs later; one that dies; and the exit.
SITES = ("paris", "london", "madrid", "vienna")
MESH = "[[paris, vienna], [london, vienna], [london, madrid], [madrid, vienna]]"
EXIT = ", exit: true, touch: true"
#: Fields of a site whose switch forwards packets of hosts.
SWITCH = ", forwarding: openflow"
VSWITCHD = shutil.which("ovs-vswitchd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
needs_switch = pytest.mark.skipif(
    VSWITCHD is None or find_spec("os_ken") is None, reason="needs openvswitch-switch and os-ken"
)
#: What a machine must show as before, whoever is logged in.
SHOWN = (
    ("ip", "-4", "rule"),
    ("ip", "-4", "route", "show", "table", "all"),
    ("ip", "-4", "-brief", "address"),
    ("ip", "-brief", "link"),
    ("nft", "list", "ruleset"),
    ("ss", "-lun"),
    ("sysctl", "-ar", r"net.ipv4.conf.*\.forwarding"),
)


class Machines(Lab):
    """A lab with a further machine for each site, beside the machine of the overlay."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.names |= {site: f"mptcplab-{os.getpid()}-{site}" for site in SITES}
        self.servers: dict[str, SshServer] = {}

    def build(self) -> None:
        machine = self.names["machine"]
        sites = {site: self.names.pop(site) for site in SITES}
        super().build()
        self.names |= sites
        for number, (site, name) in enumerate(sites.items()):
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
            device, network = f"to-{site}", f"10.77.{11 + number}"
            run("ip", "-n", machine, "link", "add", device, "type", "veth", "peer", "name", "eth0", "netns", name)
            for end, at, address in ((machine, device, f"{network}.1"), (name, "eth0", f"{network}.2")):
                run("ip", "-n", end, "address", "add", f"{address}/24", "dev", at)
                run("ip", "-n", end, "link", "set", at, "up")
            run("ip", "-n", name, "route", "add", "default", "via", f"{network}.1")
            self.servers[site] = SshServer(self.directory / site, f"{network}.2", self.inside(site))
        home = self.directory / "home" / ".ssh"
        home.mkdir(parents=True, mode=0o700)
        known = [(server.client / ".ssh" / "known_hosts").read_text() for server in self.servers.values()]
        (home / "known_hosts").write_text("".join(known))
        first = next(iter(self.servers.values())).client / ".ssh"
        shutil.copy(first / "id_ed25519", home)
        for site, server in self.servers.items():
            (self.directory / site / "authorized").write_bytes((first / "id_ed25519.pub").read_bytes())
            server.start()

    def close(self) -> None:
        for server in self.servers.values():
            server.stop()
        super().close()

    @property
    def environment(self) -> dict[str, str]:
        return super().environment | {"HOME": str(self.directory / "home")}

    def describe(self, **more: str) -> Path:
        """Writes a description with all sites. `more` are further fields of a site."""
        more = {"vienna": EXIT} | more
        lines = [f"  {site}: {{at: '{self.servers[site].on}'{more.get(site, '')}}}\n" for site in SITES]
        file = self.directory / "overlay.yaml"
        file.write_text(f"name: four\nsites:\n{''.join(lines)}mesh: {MESH}\n")
        return file

    def of_site(self, site: str) -> dict[str, Any]:
        [found] = [one for one in self.status()["sites"] if one["node"] == site]
        return dict(found)

    def machine_state(self, site: str) -> list[str]:
        return [self.run(site, *command) for command in SHOWN]

    def programs(self, site: str) -> list[int]:
        """Returns the programs of Python in the namespace of a machine."""
        pids = map(int, run("ip", "netns", "pids", self.names[site]).split())
        return [pid for pid in pids if "python" in Path(f"/proc/{pid}/comm").read_text()]

    def daemons(self, site: str) -> dict[str, int]:
        """Returns the daemons of a site's switch by their names."""
        scratch = str(self.servers[site].scratch).encode()
        found = {name_of(pid): pid for pid in processes() if scratch in command_line(pid)}
        return {name: pid for name, pid in found.items() if name.startswith("ovs")}

    def files(self, site: str) -> list[str]:
        """Returns what the site has in the directory for temporary files of its machine."""
        return sorted(path.name for path in self.servers[site].scratch.iterdir())

    def entries(self) -> list[int | None]:
        """Returns how many entries the switch of each site has."""
        return [one["entries"] for one in self.status()["sites"]]

    def to_exit(self, site: str) -> dict[tuple[str, str], int]:
        """Returns the bytes of hosts towards the exit that entries of a site's switch have counted,
        by the host's address and by the link-layer address or the port from which they came.
        """
        [socket] = self.servers[site].scratch.glob("*/switch.mgmt")
        shown = run(
            "ovs-ofctl", "-O", "OpenFlow13", "--no-names", "dump-flows", f"unix:{socket}", "nw_src=198.19.128.0/17,ip"
        )
        rows = (
            dict(one.partition("=")[::2] for one in re.split("[, ]+", row))
            for row in shown.splitlines()
            if "nw_src" in row
        )
        return {(row["nw_src"], row.get("dl_src", row["in_port"])): int(row["n_bytes"]) for row in rows}


def processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    with serving(Machines(tmp_path_factory.mktemp("machines"))) as made:
        yield made


@pytest.fixture
def down(lab: Machines) -> Iterator[None]:
    yield
    lab.mptcplab("machine", "overlay", "down")


@pytest.mark.usefixtures("down")
def test_four_machines_are_an_overlay_and_are_as_before_afterwards(lab: Machines) -> None:
    before = {site: lab.machine_state(site) for site in SITES}
    file = lab.describe()
    # What is touched is listed before, and nothing is touched then.
    [*others, vienna] = lab.mptcplab("machine", "overlay", "check", file, "--json").document["sites"]
    assert [one["changes"] for one in others] == [["opens the UDP ports 57478 and 4789"]] * 3
    assert "sets net.ipv4.conf.eth0.forwarding, which is 0, to 1" in vienna["changes"]
    assert {site: lab.machine_state(site) for site in SITES} == before

    url = lab.up(file)
    assert [one["node"] for one in lab.status()["sites"] if one["operates"]] == list(SITES)
    # A site that is no exit has two ports on its machine, and nothing else.
    now = lab.machine_state("paris")
    assert now[:5] + now[6:] == before["paris"][:5] + before["paris"][6:]
    ended = join_and_upload(lab, url)
    assert (ended.status, ended.out) == (0, f"{UPLOADED}\n"), ended
    sent = subflow_bytes([lab.directory / f"{device}.pcap" for device in ("mptcplab0", "mptcplab1", "eth0")])
    assert sum(size > 100_000 for address, size in sent.items() if address.startswith("198.19.")) == 2, sent
    assert lab.mptcplab("machine", "overlay", "down").status == 0
    for site in SITES:
        within(lambda site=site: lab.machine_state(site) == before[site], f"{site} to be as before")


def join_and_upload(lab: Machines, url: str) -> Ended:
    """Joins the two nearest sites of three that do not exit, by their tunnels to the exit."""
    return lab.mptcplab("host", "join", url, "--nearest", "2", "--", "sh", "-c", CAPTURED_UPLOAD)


@pytest.mark.usefixtures("down")
def test_a_machine_that_hangs_and_one_that_dies_are_dropped_and_come_back(lab: Machines) -> None:
    before = {site: lab.machine_state(site) for site in SITES}
    url = lab.up(lab.describe())
    connection = lab.call(url, "overlay.connect", nodes=["paris", "london"])
    routes = [tunnel["route"] for tunnel in connection["tunnels"]]
    assert routes == [["paris", "vienna"], ["london", "vienna"]]

    [program, *_] = lab.programs("madrid")
    os.kill(program, signal.SIGKILL)
    lab.servers["london"].signal(signal.SIGSTOP)
    within(lambda: not lab.of_site("madrid")["operates"], "the site that died to be dropped")
    within(lambda: not lab.of_site("london")["operates"], "the site that hangs to be dropped")
    assert {one["node"] for one in lab.call(url, "overlay.nodes")["nodes"]} >= {"paris", "vienna"}
    # The program that died is started again. That of the site that hangs ends by itself.
    within(lambda: lab.of_site("madrid")["operates"], "the site that died to come back")
    within(lambda: lab.programs("london") == [], "the program of the site that hangs to end")
    within(lambda: lab.machine_state("london") == before["london"], "its machine to be as before")
    lab.servers["london"].signal(signal.SIGCONT)
    within(lambda: lab.of_site("london")["operates"], "the site that hung to come back")
    assert lab.of_site("london")["problem"] is None
    # It got its entries again.
    [tunnel] = [one for one in lab.status()["hosts"][0]["tunnels"] if one["node"] == "london"]
    assert tunnel["route"] == ["london", "vienna"]
    within(lambda: has_rule(lab, "london", tunnel["address"]), "the entries of the host")


def has_rule(lab: Machines, site: str, address: str) -> bool:
    for pid in lab.programs(site):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            if link.is_symlink() and str(link.readlink()).startswith("net:"):
                shown = subprocess.run(
                    ["nsenter", f"--net={link}", "ip", "rule"], capture_output=True, text=True, check=False
                )
                if f"from {address} " in shown.stdout:
                    return True
    return False


@contextmanager
def joined(lab: Machines, url: str) -> Iterator[dict[str, str]]:
    """Joins the host at paris and london, because the others do not answer its echoes. Yields its
    addresses by these sites.
    """
    for site in ("madrid", "vienna"):
        lab.run(site, "nft", "add table ip test; add chain ip test in { type filter hook input priority 0; }")
        lab.run(site, "nft", "add", "rule", "ip", "test", "in", *("ip", "saddr", HOST, "udp", "dport", "57478", "drop"))
    process = lab.start("host", "join", url, "--nearest", "2")
    try:
        within(lambda: lab.run("host", "ip", "mptcp", "endpoint").count("198.19.") == 2, "two endpoints")
        [host] = lab.status()["hosts"]
        yield {tunnel["node"]: tunnel["address"] for tunnel in host["tunnels"]}
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()
        for site in ("madrid", "vienna"):
            lab.run(site, "nft", "delete", "table", "ip", "test")


def upload(lab: Machines) -> dict[str, int]:
    """Sends bytes from the host to the server by MPTCP. Returns those of each of its addresses."""
    sending = lab.popen("host", "sh", "-c", CAPTURED_UPLOAD)
    assert sending.communicate()[0] == f"{UPLOADED}\n"
    return subflow_bytes([lab.directory / f"{device}.pcap" for device in ("mptcplab0", "mptcplab1", "eth0")])


def routes(lab: Machines) -> dict[str, list[str]]:
    """Returns the routes of the one host by the sites at which they begin."""
    [host] = lab.status()["hosts"]
    return {tunnel["node"]: tunnel["route"] for tunnel in host["tunnels"]}


def has_entries_of_routes(lab: Machines) -> bool:
    """Returns whether each switch has two entries for each tunnel between its site and another one,
    and two for each route of the host that passes the site.
    """
    passing = [site for route in routes(lab).values() for site in route]
    return lab.entries() == [2 * (MESH.count(site) + passing.count(site)) for site in SITES]


def upload_by_both_paths(lab: Machines, addresses: dict[str, str]) -> None:
    """Sends bytes from the host, and proves by the counters of entries that each of its two subflows
    took its route, and that these share no tunnel.
    """
    sent = upload(lab)
    assert min(sent[address] for address in addresses.values()) > 100_000, sent
    arrivals: dict[str, set[tuple[str, str]]] = {site: set() for site in SITES}
    tunnels = []
    for start, route in routes(lab).items():
        arrivals[start].add((addresses[start], str(PORT_OF_TUNNELS)))
        for near, far in pairwise(route):
            arrivals[far].add((addresses[start], mac(SITES.index(near))))
            tunnels.append(frozenset((near, far)))
    for site in SITES:
        within(lambda site=site: min(lab.to_exit(site).values(), default=UPLOADED) > 100_000, f"packets at {site}")
        assert lab.to_exit(site).keys() == arrivals[site]
    assert len(set(tunnels)) == len(tunnels)


@needs_switch
@pytest.mark.usefixtures("down")
def test_switches_lead_a_connection_over_paths_that_share_no_tunnel(lab: Machines) -> None:
    before = {site: lab.machine_state(site) for site in SITES}
    url = lab.up(lab.describe(**dict.fromkeys(SITES, SWITCH) | {"vienna": SWITCH + EXIT}))
    within(lambda: lab.entries() == [2, 4, 4, 6], "the entries of the tunnels between sites")
    with joined(lab, url) as addresses:
        within(lambda: has_entries_of_routes(lab), "the entries of the host")
        upload_by_both_paths(lab, addresses)
        # A tunnel of one of the paths fails, and entries lead around it.
        route = routes(lab)["london"]
        blocked = ("ip", "saddr", lab.servers["london"].address, "udp", "dport", "4789", "drop")
        lab.run(route[1], "nft", "add", "rule", "ip", "test", "in", *blocked)
        within(lambda: routes(lab)["london"] not in (route, []), "the route around the tunnel")
        within(lambda: has_entries_of_routes(lab), "the entries of the route around the tunnel")
        upload_by_both_paths(lab, addresses)
    within(lambda: lab.entries() == [2, 4, 4, 6], "the entries of the host to be gone")
    assert lab.mptcplab("machine", "overlay", "down").status == 0
    for site in SITES:
        within(lambda site=site: lab.machine_state(site) == before[site], f"{site} to be as before")
        assert (lab.daemons(site), lab.files(site)) == ({}, [])


@needs_switch
@pytest.mark.usefixtures("down")
def test_a_switch_that_was_killed_comes_back_with_its_entries(lab: Machines) -> None:
    before = {site: lab.machine_state(site) for site in SITES}
    # The other two sites forward by the kernel's routing.
    url = lab.up(lab.describe(london=SWITCH, vienna=SWITCH + EXIT))
    with joined(lab, url) as addresses:
        within(lambda: lab.entries() == [None, 6, None, 10], "the entries of the host")
        sent = upload(lab)
        assert min(sent[address] for address in addresses.values()) > 100_000, sent
        for site, killed in (("london", lab.daemons("london")["ovs-vswitchd"]), ("vienna", lab.programs("vienna")[0])):
            daemons, files = lab.daemons(site), lab.files(site)
            os.kill(killed, signal.SIGKILL)
            within(lambda site=site, old=files: not set(old) & set(lab.files(site)), f"the files of {site} to be gone")
            within(
                lambda site=site, old=daemons: not old.items() & lab.daemons(site).items(), f"daemons of {site} to end"
            )
            within(lambda: lab.entries() == [None, 6, None, 10], f"the entries of {site} to be made again")
            assert lab.of_site(site)["problem"] is None
        sent = upload(lab)
        assert min(sent[address] for address in addresses.values()) > 100_000, sent
    os.kill(lab.process, signal.SIGKILL)
    for site in SITES:
        within(lambda site=site: lab.machine_state(site) == before[site], f"{site} to be as before")
        within(lambda site=site: (lab.daemons(site), lab.files(site)) == ({}, []), f"nothing to be left at {site}")


def test_killed_on_either_side_nothing_is_left(lab: Machines) -> None:
    before = {site: lab.machine_state(site) for site in SITES}
    lab.up(lab.describe())
    assert "mptcplab_overlay" in lab.run("vienna", "nft", "list", "ruleset")
    os.kill(lab.process, signal.SIGKILL)
    for site in SITES:
        within(lambda site=site: lab.machine_state(site) == before[site], f"{site} to be as before")
        assert lab.programs(site) == []
    lab.up(lab.describe())
    os.kill(lab.programs("vienna")[0], signal.SIGKILL)
    os.kill(lab.process, signal.SIGKILL)
    within(lambda: lab.machine_state("vienna") == before["vienna"], "the exit to be as before")
    assert lab.mptcplab("machine", "overlay", "down").status == 0


def test_what_a_machine_does_not_allow_is_one_line_and_leaves_nothing(lab: Machines) -> None:
    before = {site: lab.machine_state(site) for site in SITES}
    up = ("machine", "overlay", "up")
    assert is_refused(lab.mptcplab(*up, lab.describe(vienna=", exit: true")), 2, "an exit changes its machine")
    # The machine of the overlay reaches that of the exit by the address that the exit would take.
    lab.run("machine", "ip", "address", "add", "198.18.0.1/32", "dev", "to-vienna")
    lab.run("machine", "ip", "route", "replace", "10.77.14.0/24", "dev", "to-vienna", "src", "198.18.0.1")
    try:
        assert is_refused(lab.mptcplab(*up, lab.describe()), 4, "site vienna", "would cut the connection")
    finally:
        lab.run("machine", "ip", "route", "replace", "10.77.14.0/24", "dev", "to-vienna", "src", "10.77.14.1")
        lab.run("machine", "ip", "address", "delete", "198.18.0.1/32", "dev", "to-vienna")
    blocked = ("udp", "dport", "4789", "drop")
    lab.run("paris", "nft", "add table ip test; add chain ip test in { type filter hook input priority 0; }")
    lab.run("paris", "nft", "add", "rule", "ip", "test", "in", *blocked)
    try:
        assert is_refused(lab.mptcplab(*up, lab.describe()), 4, "the tunnel between paris", "UDP port 4789")
    finally:
        lab.run("paris", "nft", "delete", "table", "ip", "test")
    if VSWITCHD is not None:
        hidden = ["nsenter", f"--mount=/proc/{lab.servers['paris'].processes()[0]}/ns/mnt"]
        run(*hidden, "mount", "--bind", "/dev/null", VSWITCHD)
        try:
            refused = lab.mptcplab(*up, lab.describe(paris=SWITCH))
        finally:
            run(*hidden, "umount", VSWITCHD)
        assert is_refused(refused, 4, "site paris", "no program ovs-vswitchd", "apt install openvswitch-switch")
    lab.servers["madrid"].signal(signal.SIGSTOP)
    try:
        assert is_refused(lab.mptcplab(*up, lab.describe()), 3, "site madrid", "no answer in 10 s")
    finally:
        lab.servers["madrid"].signal(signal.SIGCONT)
    for site in SITES:
        within(lambda site=site: lab.machine_state(site) == before[site], f"{site} to be as before")
