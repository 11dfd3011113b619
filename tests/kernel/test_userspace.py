"""Tests the userspace stack on a real network: with the kernel at either host, and with itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import is_refused, mptcplab
from measured import TWO_LINKS, Measured, measured, measured_member
from mptcplab import load, run
from mptcplab.catalogue import find
from wireshark import complaints, needs_tshark, options

pytestmark = pytest.mark.kernel

#: The hosts that have the userspace stack.
ENDS = {"client": ["client"], "server": ["server"], "both": ["client", "server"]}
SIZE = 20_000_000
#: Counters of the kernel's MPTCP that indicate faults.
TROUBLE = ["MPTcpExtDataCsumErr", "MPTcpExtMPFailRx", "MPTcpExtMPRstRx", "MPTcpExtMPFastcloseRx"]


def two_links(ours: list[str], described: str) -> str:
    """Two links of 40 and 20 Mbit/s between hosts, some of which have the userspace stack."""
    stacks = {host: "userspace" if host in ours else "kernel" for host in ("client", "server")}
    hosts = ", ".join(f"{host}: {{stack: {stack}}}" for host, stack in stacks.items())
    text = TWO_LINKS.replace("{client: {}, server: {}}", f"{{{hosts}}}")
    return text.replace("8mbit", "40mbit").replace("4mbit", "20mbit") + described


def run_well(text: str, folder: Path) -> Measured:
    """Runs a description in which no flow may fail, fall back or deliver wrong data."""
    run = measured(text, folder, on="userspace")
    assert run.record["result"]["flows"]
    for flow in run.record["result"]["flows"]:
        assert (flow["error"], flow["fallback"]) == (None, None), flow
    return run


def kernel_counters(run: Measured) -> dict[str, int]:
    """Returns the sums of the counters of the hosts with the kernel's stack."""
    counters: dict[str, int] = {}
    for host in run.record["result"]["hosts"]:
        for name, value in host["counters"].items():
            counters[name] = counters.get(name, 0) + value
    return counters


@pytest.mark.parametrize("ours", ENDS)
def test_streams_both_ways_at_once_arrive_byte_by_byte(ours: str, tmp_path: Path) -> None:
    flows = f"""
flows:
  up: {{from: client, to: server, transport: mptcp, app: {{bulk: {{bytes: {SIZE}}}}}, path_manager: full_mesh}}
  down: {{from: server, to: client, transport: mptcp, opened_by: to, app: {{bulk: {{bytes: {SIZE}}}}}, path_manager: full_mesh}}
measure: {{units: 16kB}}
duration: 20s
"""
    run = run_well(two_links(ENDS[ours], flows), tmp_path)
    for flow in ("up", "down"):
        assert run.flow(flow)["bytes"] == SIZE
        assert list(run.data.units.of(flow).unit) == list(range(SIZE // 16_000))
        subflows = run.subflows(flow)
        assert {subflow["link"] for subflow in subflows} == {"one", "two"}
        # All bytes that arrived are accounted for. Retransmitted bytes can arrive twice.
        assert SIZE <= sum(subflow["bytes"] for subflow in subflows) < 1.2 * SIZE
    counters = kernel_counters(run)
    assert [name for name in TROUBLE if counters.get(name)] == []
    if ours != "both":
        assert counters["MPTcpExtMPCapableSYNTX" if ours == "server" else "MPTcpExtMPCapableSYNRX"] == 2
        assert counters["MPTcpExtMPJoinSynTx" if ours == "server" else "MPTcpExtMPJoinSynRx"] == 2


@pytest.mark.parametrize("ours", ENDS)
def test_with_checksums_that_only_one_side_asks_for(ours: str, tmp_path: Path) -> None:
    flows = "flows: {up: {from: client, to: server, transport: mptcp, app: {bulk: {bytes: 2MB}}, path_manager: full_mesh}}\n"
    text = two_links(ENDS[ours], flows + "duration: 10s\n").replace("server: {", "server: {checksum: true, ")
    run = run_well(text, tmp_path)
    assert run.flow("up")["bytes"] == 2_000_000
    assert kernel_counters(run).get("MPTcpExtDataCsumErr", 0) == 0


@pytest.mark.parametrize("ours", ["client", "server"])
@pytest.mark.parametrize("families", [("ipv6", "ipv6"), ("both", "ipv6"), ("ipv6", "ipv4")])
def test_over_ipv6_and_over_both(ours: str, families: tuple[str, str], tmp_path: Path) -> None:
    flows = "flows: {up: {from: client, to: server, transport: mptcp, app: {bulk: {bytes: 500kB}}, path_manager: full_mesh}}\n"
    interfaces = ", ".join(f"eth{number}: {{family: {family}}}" for number, family in enumerate(families, 1))
    text = two_links(ENDS[ours], flows + "duration: 10s\n")
    run = run_well(text.replace("client: {", f"client: {{interfaces: {{{interfaces}}}, "), tmp_path)
    assert run.flow("up")["bytes"] == 500_000
    found = [subflow["local"].startswith("[fd00:") for subflow in run.subflows("up")]
    assert found == [family == "ipv6" for family in families]


@pytest.mark.parametrize("ours", ENDS)
def test_every_application_runs(ours: str, tmp_path: Path) -> None:
    flows = """
flows:
  ask: {from: client, to: server, transport: mptcp, app: {request_response: {request: 100, response: 5kB, count: 20}}}
  short: {from: client, to: server, transport: mptcp, app: {short_flows: {bytes: 20kB, every: 100ms}}}
  stream: {from: server, to: client, transport: mptcp, opened_by: to, app: {streaming: {bitrate: 1mbit, startup: 100ms}}}
  voice: {from: client, to: server, transport: mptcp, app: {cbr: {rate: 64kbit, size: 160, duration: 2s}}}
  ping: {from: client, to: server, transport: mptcp, app: {probe: {every: 50ms, size: 64, duration: 2s}}}
  old: {from: client, to: server, transport: tcp, app: {bulk: {bytes: 300kB}}}
  call: {from: client, to: server, transport: udp, app: {cbr: {rate: 100kbit, size: 500, duration: 2s}}}
measure: {units: 4kB, probe: {rtt: 100ms}}
duration: 6s
"""
    run = run_well(two_links(ENDS[ours], flows), tmp_path)
    assert run.flow("ask")["bytes"] == 100_000
    assert len(run.data.units.of("short")) >= 15
    assert run.flow("short")["bytes"] >= 300_000
    assert run.flow("stream")["bytes"] > 200_000
    assert run.flow("voice")["bytes"] == 16_000
    assert run.flow("old")["bytes"] == 300_000
    assert run.flow("call")["bytes"] == 25_000
    rtts = run.data.samples.series("probes.ping", "rtt_s")
    assert rtts is not None
    assert len(rtts.values) == 40
    assert rtts.values.min() >= 0.02


def test_a_scheduler_that_the_kernel_has_not_takes_the_subflows_in_turn(tmp_path: Path) -> None:
    text = two_links(
        ["client"],
        "flows: {up: {from: client, to: server, transport: mptcp, app: bulk, cc: lia, scheduler: round_robin, path_manager: full_mesh}}\n"
        "duration: 4s\n",
    ).replace("20mbit", "40mbit")
    run = run_well(text, tmp_path)
    one, two = (subflow["bytes"] for subflow in run.subflows("up"))
    assert 0.4 < one / (one + two) < 0.6
    cwnd = run.data.samples.series("flows.up.subflows.1", "cwnd_bytes")
    assert cwnd is not None
    assert cwnd.values.max() > 20_000


@needs_tshark
def test_loss_and_an_interface_that_goes_and_returns(tmp_path: Path) -> None:
    events = """
flows: {up: {from: client, to: server, transport: mptcp, app: {bulk: {bytes: 12MB}}, path_manager: full_mesh}}
events:
  - {id: cut, at: 500ms, down: client.eth1}
  - {id: back, at: 1500ms, up: client.eth1}
measure: {every: 50ms, captures: [client.eth1, client.eth2]}
duration: 20s
"""
    text = two_links(["client"], events).replace("queue: 50p", "queue: 50p, loss: 1%")
    run = run_well(text, tmp_path)
    assert run.flow("up")["bytes"] == 12_000_000
    assert [subflow["link"] for subflow in run.subflows("up")].count("one") == 2
    assert run.bytes_between("interfaces.client.eth1", 0.6, 1.4, "sent_packets") == 0
    assert run.bytes_between("interfaces.client.eth1", 2.0, 2.5, "sent_packets") > 0
    assert [event["time_ns"] >= 500_000_000 for event in run.path_events("address_down")] == [True, True]
    assert len(run.path_events("subflow_established")) >= 2
    captures = list(run.bundle.path.rglob("client.eth?.pcapng"))
    assert len(captures) == 2
    assert complaints(captures) == []
    # MP_CAPABLE, MP_JOIN, DSS and, for the address that went away, REMOVE_ADDR.
    assert options(captures) >= {0, 1, 2, 4}


@pytest.mark.parametrize("ours", ["client", "server"])
def test_the_kernel_hears_of_priorities_and_removed_addresses(ours: str, tmp_path: Path) -> None:
    other = "server" if ours == "client" else "client"
    events = f"""
flows:
  load: {{from: {ours}, to: {other}, transport: mptcp, app: {{bulk: {{duration: 4s}}}}, path_manager: full_mesh}}
events:
  - {{at: 1s, backup: {ours}.eth2, on: true}}
  - {{id: gone, at: 2s, remove_address: {ours}.eth1}}
measure: {{every: 50ms}}
duration: 10s
"""
    run = run_well(two_links([ours], events), tmp_path)
    counters = kernel_counters(run)
    assert counters["MPTcpExtMPPrioRx"] >= 1
    assert counters["MPTcpExtRmAddr"] >= 1
    first, second = run.subflows("load")
    assert (first["link"], second["link"]) == ("one", "two")
    assert run.bytes_between("flows.load.subflows.1", 1.3, 1.9, "bytes_sent") < 100_000
    assert run.bytes_between("flows.load.subflows.1", 2.5, 3.9, "bytes_sent") > 1_000_000
    assert first["closed_ns"] is not None


@pytest.mark.parametrize("ours", ["client", "server"])
def test_across_a_switch_and_a_router(ours: str, tmp_path: Path) -> None:
    stacks = {host: "userspace" if host == ours else "kernel" for host in ("client", "server")}
    text = f"""
name: switched
hosts: {{client: {{stack: {stacks["client"]}}}, server: {{stack: {stacks["server"]}}}}}
nodes: {{office: {{kind: switch}}, gateway: {{kind: router}}}}
links:
  desk: {{between: [client.eth0, office.p1], rate: 50mbit}}
  trunk: {{between: [office.p2, gateway.p1], rate: 50mbit, delay: 1ms}}
  uplink: {{between: [gateway.p2, server.eth0], rate: 20mbit, delay: 5ms}}
flows: {{up: {{from: client, to: server, transport: mptcp, app: {{bulk: {{bytes: 1MB}}}}}}}}
duration: 10s
"""
    assert run_well(text, tmp_path).flow("up")["bytes"] == 1_000_000


@pytest.mark.parametrize(
    ("middle", "behind", "most"),
    [
        ("router", "delay: 1ms", 2 * SIZE / 3000),
        ("switch", "delay: 1ms", 2 * SIZE / 3000),
        ("router", "rate: 50mbit", None),
    ],
)
def test_super_packets_pass_where_nothing_is_shaped(
    middle: str, behind: str, most: float | None, tmp_path: Path
) -> None:
    text = f"""
name: unshaped
hosts: {{client: {{stack: userspace}}, server: {{stack: kernel}}}}
nodes: {{middle: {{kind: {middle}}}}}
links:
  first: {{between: [client.eth0, middle.p1]}}
  second: {{between: [middle.p2, server.eth0], {behind}}}
flows:
  up: {{from: client, to: server, transport: mptcp, app: {{bulk: {{bytes: {SIZE}}}}}}}
  down: {{from: server, to: client, transport: mptcp, opened_by: to, app: {{bulk: {{bytes: {SIZE}}}}}}}
measure: {{every: 50ms, units: 16kB}}
duration: 20s
"""
    run = run_well(text, tmp_path)
    for flow in ("up", "down"):
        assert run.flow(flow)["bytes"] == SIZE
    sent = run.bytes_between("interfaces.client.eth0", 0, 20, "sent_packets")
    if most is not None:
        # Data of one stream, and acknowledgments of the other.
        assert sent < most
    else:
        # Cut behind the router, of some a part was lost: the kernel knows the mapping of all, and
        # minds another one.
        assert sent > SIZE / 1500


def test_a_host_that_has_nothing_to_do_ends_with_the_run(tmp_path: Path) -> None:
    flows = "flows: {call: {from: client, to: server, transport: udp, app: {cbr: {rate: 100kbit, size: 500}}}}\nduration: 1s\n"
    (tmp_path / "idle.yaml").write_text(two_links(ENDS["both"], flows))
    assert mptcplab("run", "idle.yaml", "--on", "userspace", cwd=tmp_path).status == 0


def test_without_a_word_the_sender_of_mptcp_has_our_stack(tmp_path: Path) -> None:
    text = TWO_LINKS + (
        "flows: {up: {from: client, to: server, transport: mptcp, app: {bulk: {bytes: 100kB}}, scheduler: redundant}}\nduration: 5s\n"
    )
    run = run_well(text, tmp_path)
    hosts = {host["id"]: host for host in run.record["result"]["hosts"]}
    assert hosts["client"]["settings"]["stack"] == "userspace"
    assert hosts["server"]["settings"]["stack"] == "kernel"
    assert hosts["server"]["counters"]["MPTcpExtMPCapableSYNRX"] == 1


@pytest.mark.parametrize(
    ("flow", "told"),
    [
        ("{from: client, to: server, transport: tcp, app: {command: [sleep, '1']}}", "stack: kernel"),
        ("{from: server, to: client, transport: mptcp, app: bulk, scheduler: min_rtt}", "only packet scheduler"),
        ("{from: server, to: client, transport: mptcp, app: bulk, handshake: race}", "starts from one address"),
    ],
)
def test_what_the_kernels_end_cannot_do_is_refused(flow: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "wrong.yaml").write_text(two_links(["client"], f"flows: {{load: {flow}}}\nduration: 1s\n"))
    ended = mptcplab("run", "wrong.yaml", "--on", "userspace", cwd=tmp_path)
    assert is_refused(ended, 3, told)


def test_a_kernel_that_sends_meets_failures_in_its_own_way(tmp_path: Path) -> None:
    flows = "flows: {load: {from: server, to: client, transport: mptcp, app: bulk}}\nduration: 1s\n"
    text = two_links(["client"], flows).replace("server: {stack", "server: {behaviour: oot, stack")
    (tmp_path / "oot.yaml").write_text(text)
    ended = mptcplab("run", "oot.yaml", "--on", "userspace", cwd=tmp_path)
    assert is_refused(ended, 3, "hosts.server.behaviour: oot", "give the host stack: userspace")


OWN = """\
from mptcplab.hooks import Assign, Change


# A window of 20 segments, come what may.
class Steady:
    owns_window = True

    def acked(self, context, acked):
        return Change(cwnd_bytes=20 * context.this.mss_bytes)

    def congestion(self, context, congestion):
        return None


# New data over the second subflow alone, once it is there.
class OnlySecond:
    def next(self, view):
        last = view.subflows[-1]
        if view.reason not in ("new_data", "reinject") or not (last.is_available and last.has_window):
            return None
        return Assign(last.id, min(last.mss_bytes, view.head.len))


class Broken:
    def next(self, view):
        return 1 / 0


class Endless:
    def next(self, view):
        while True:
            pass
"""


def with_own(folder: Path, algorithms: str, sender: str = "client") -> str:
    """Returns a flow with classes of own.py."""
    (folder / "own.py").write_text(OWN)
    ends = "from: client, to: server" if sender == "client" else "from: server, to: client"
    flow = f"{{{ends}, transport: mptcp, app: {{bulk: {{bytes: 2MB}}}}, path_manager: full_mesh, {algorithms}}}"
    return two_links(["client"], f"flows: {{up: {flow}}}\nmeasure: {{every: 50ms}}\nduration: 10s\n")


def test_classes_of_ones_own_send_real_packets(tmp_path: Path) -> None:
    run = run_well(with_own(tmp_path, "cc: ./own.py:Steady, scheduler: ./own.py:OnlySecond"), tmp_path)
    assert run.flow("up")["bytes"] == 2_000_000
    one, two = (subflow["bytes"] for subflow in run.subflows("up"))
    assert two > 5 * one
    window = run.data.samples.series("flows.up.subflows.1", "cwnd_bytes")
    assert window is not None
    assert 20 * 1300 < window.values[-1] < 20 * 1500


@pytest.mark.parametrize(
    ("scheduler", "told"),
    [
        ("Broken", ["./own.py:Broken, next:", "return 1 / 0", "ZeroDivisionError: division by zero"]),
        ("Endless", ["the stack of host client has not answered for 10 s; user code was here:", "while True:"]),
    ],
)
def test_a_class_that_fails_ends_the_run_with_the_reason(scheduler: str, told: list[str], tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(with_own(tmp_path, f"scheduler: ./own.py:{scheduler}"))
    [member] = load(tmp_path / "own.yaml")
    [bundle] = run(member, on="userspace", out=tmp_path)
    assert bundle.status == "failed"
    assert [words for words in told if words not in bundle.record["why"]] == []


def test_a_class_where_the_kernel_sends_is_refused(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(with_own(tmp_path, "cc: ./own.py:Steady", sender="server"))
    ended = mptcplab("run", "own.yaml", "--on", "userspace", cwd=tmp_path)
    assert is_refused(ended, 3, "flows.up.cc: ./own.py:Steady", "--on userspace for flows that the engine sends")


def test_of_a_list_each_stack_takes_what_it_has(tmp_path: Path) -> None:
    text = with_own(tmp_path, "cc: [./own.py:Steady, cubic], scheduler: [blest, kernel_default]", sender="server")
    run = run_well(text, tmp_path)
    used = {one["where"]: one["used"] for one in run.record["substitutions"]}
    assert used == {"flows.up.cc": "cubic", "flows.up.scheduler": "kernel_default"}


@pytest.mark.soak
@pytest.mark.parametrize("ours", ENDS)
def test_a_thousand_connections_at_once(ours: str, tmp_path: Path) -> None:
    app = "{from: client, to: server, transport: mptcp, app: {bulk: {bytes: 100kB}}, path_manager: full_mesh}"
    flows = "".join(f"  f{number}: {app}\n" for number in range(1000))
    text = two_links(ENDS[ours], f"flows:\n{flows}measure: {{every: 1s}}\nduration: 60s\n")
    run = run_well(text.replace("40mbit", "200mbit").replace("20mbit", "200mbit").replace("50p", "20000p"), tmp_path)
    assert {flow["bytes"] for flow in run.record["result"]["flows"]} == {100_000}


@pytest.mark.soak
@pytest.mark.parametrize(("stack", "behaviour"), [("userspace", "oot"), ("kernel", "mainline")])
@pytest.mark.parametrize("scheduler", ["min_rtt", "round_robin", "redundant"])
def test_half_of_eight_links_fail_and_the_simulator_says_the_same(
    scheduler: str, stack: str, behaviour: str, tmp_path: Path
) -> None:
    [member] = find(f"alenazi2019/fig7/{scheduler}", {"hosts.server.stack": stack})
    real = measured_member(member, tmp_path, on="userspace").flow("bulk")["end_ns"]
    [member] = find(f"alenazi2019/fig7/{scheduler}", {"hosts.server.behaviour": behaviour})
    [simulated] = run(member, on="sim", out=tmp_path / "simulated")
    virtual = next(iter(simulated.record["result"]["flows"]))["end_ns"]
    assert 0.9 < real / virtual < 1.1
