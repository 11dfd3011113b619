"""Tests coupled congestion controls in the kernel: their rates, their cleanup, and the rights to
use them.
"""

from __future__ import annotations

import ctypes
import json
import platform
import resource
import shutil
import subprocess
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import PROGRAM, Ended, environment, is_refused, mptcplab, start
from measured import Measured, measured, measured_member
from mptcplab import congestion
from mptcplab.catalogue import find
from mptcplab.runner import Nobody, execute, plan

pytestmark = pytest.mark.kernel

ROOT = Path(__file__).parents[2]
COUPLED = ["lia", "olia", "balia", "wvegas", "ewtcp", "semicoupled"]
#: Two subflows and TCP at a shared bottleneck.
SHARED = Path(__file__).parent / "controls-shared.yaml"
#: Every second control with IPv6. The soak tests run the other half of the matrix.
FAMILIES = list(zip(COUPLED, [False, True] * 3, strict=True))
#: The number of runs in real time that a machine with two cores can run at once.
AT_ONCE = 2
#: A window larger than this is a fault of any control.
MOST_BDPS = 10
#: The number of samples, of one round trip with a full queue, in which the window can be larger if
#: a kernel skips hooks. The next acknowledgment corrects the window
#: (docs/internals/kernel-congestion-control.md).
STRAY_SAMPLES = 5
SEGMENT_BYTES = 1500
#: Two disjoint paths: the rates, the round-trip times without and with a full queue, and the
#: addresses.
RATES_BPS = {"wifi": 10e6, "lte": 5e6}
FULL_RTT_S = {"wifi": 0.04, "lte": 0.12}
TWO_PATHS = """
name: two-paths
hosts: {client: CLIENT, server: SERVER}
links:
  wifi: {between: [client.wlan0, server.eth0], rate: 10mbit, rtt: 20ms, queue: 1bdp}
  lte: {between: [client.wwan0, server.eth1], rate: 5mbit, rtt: 60ms, queue: 1bdp}
flows:
  bulk: {from: client, to: server, app: bulk, FLOW}
duration: 4s
measure: {every: 20ms}
"""
IPV6 = {
    "CLIENT": "{interfaces: {wlan0: {family: ipv6}, wwan0: {family: ipv6}}}",
    "SERVER": "{}",
}
MULTIPATH = "path_manager: full_mesh, cc: "


def two_paths(flow: str, *, ipv6: bool = False) -> str:
    hosts = IPV6 if ipv6 else dict.fromkeys(IPV6, "{}")
    text = TWO_PATHS.replace("FLOW", flow)
    for placeholder, host in hosts.items():
        text = text.replace(placeholder, host)
    return text


def windows(found: Measured, flow: str = "bulk") -> Iterator[tuple[str, np.ndarray]]:
    """Yields the congestion windows of the sender's subflows in bytes, by link."""
    for number, subflow in enumerate(found.subflows(flow)):
        series = found.data.samples.series(f"flows.{flow}.subflows.{number}", "cwnd_bytes")
        if series is not None and len(series.values):
            yield subflow["link"], np.asarray(series.values)


def check_windows(found: Measured) -> None:
    """Fails if a window is too large."""
    for link, cwnd in windows(found):
        bdp = RATES_BPS[link] / 8 * FULL_RTT_S[link]
        assert cwnd.max() < MOST_BDPS * bdp, (link, cwnd.max())
        assert cwnd.min() >= 536, (link, cwnd.min())


def at_once(cases: list[Any], chosen: list[Any]) -> list[Any]:
    """Marks cases as soak tests, except the chosen ones."""
    return [
        pytest.param(*([case] if isinstance(case, str) else case), marks=() if case in chosen else pytest.mark.soak)
        for case in cases
    ]


@pytest.mark.parametrize(("control", "ipv6"), at_once(list(product(COUPLED, [False, True])), FAMILIES))
def test_both_paths_carry(control: str, ipv6: bool, tmp_path: Path) -> None:
    found = measured(two_paths(MULTIPATH + control, ipv6=ipv6), tmp_path)
    [record] = found.record["result"]["congestion_controls"]
    assert record["name"] == control
    assert len(record["kernel_name"]) <= 15
    assert len(record["object_sha256"]) == 64
    carried = {subflow["link"]: subflow["bytes"] for subflow in found.subflows("bulk")}
    assert set(carried) == set(RATES_BPS)
    assert {subflow["local"].startswith("[") for subflow in found.subflows("bulk")} == {ipv6}
    assert min(carried.values()) > 50_000, carried
    assert found.record["metrics"]["flows.bulk"]["ceiling_ratio"] > 0.6
    check_windows(found)


def mean_cwnd_and_bytes(control: str, directory: Path) -> tuple[float, int]:
    """Returns the values of plain TCP, without the first quarter of the window's samples."""
    found = measured(two_paths(f"transport: tcp, primary: wifi, cc: {control}"), directory)
    [(_, cwnd)] = windows(found)
    check_windows(found)
    return float(cwnd[len(cwnd) // 4 :].mean()), found.flow("bulk")["bytes"]


@pytest.fixture(scope="module")
def of_reno(tmp_path_factory: pytest.TempPathFactory) -> tuple[float, int]:
    return mean_cwnd_and_bytes("reno", tmp_path_factory.mktemp("reno"))


@pytest.mark.parametrize("control", at_once(COUPLED, ["lia", "wvegas"]))
def test_plain_tcp_is_reno(control: str, of_reno: tuple[float, int], tmp_path: Path) -> None:
    mean_cwnd, received_bytes = mean_cwnd_and_bytes(control, tmp_path)
    assert mean_cwnd == pytest.approx(of_reno[0], rel=0.15)
    assert received_bytes == pytest.approx(of_reno[1], rel=0.05)


@pytest.mark.alone
@pytest.mark.parametrize(("control", "seconds"), at_once(list(product(COUPLED, [6, 60])), [("olia", 6)]))
def test_subflows_may_come_and_go(control: str, seconds: int, tmp_path: Path) -> None:
    before = kernel_objects()
    changes = [f"{{at: {500 + 100 * i}ms, {'up' if i % 2 else 'down'}: client.wwan0}}" for i in range(10 * seconds)]
    text = two_paths(MULTIPATH + control).replace("duration: 4s", f"duration: {seconds + 1}s")
    found = measured(f"{text}events: [{', '.join(changes)}]\n", tmp_path)
    assert len(found.subflows("bulk")) > 2 * seconds
    assert found.flow("bulk")["bytes"] > 150_000 * seconds
    check_windows(found)
    assert_none_is_left(before)


@pytest.mark.parametrize("control", at_once(["lia", "olia", "balia", "wvegas"], ["olia"]))
def test_figure_6_of_alenazi_runs(control: str, tmp_path: Path) -> None:
    shortened = {"duration": "6s", "events.cut.at": "2s", "events.back.at": "4s"}
    [member] = find(f"alenazi2019/fig6/{control}", shortened)
    found = measured_member(member, tmp_path)
    # The kernel does not have the integer arithmetic of the old kernel, but the same control.
    used = {one["asked"]: one["used"] for one in found.record["substitutions"] if one["where"].endswith(".cc")}
    assert used == {f"{control}-oot": control}
    assert {subflow["link"] for subflow in found.subflows("bulk")} == {f"link{number}" for number in range(1, 9)}
    assert found.record["metrics"]["flows.bulk"]["goodput_bps"] > 1e6


def test_two_runs_at_once_share_nothing(tmp_path: Path) -> None:
    text = two_paths(MULTIPATH + "olia")
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(text.replace("name: two-paths", f"name: {name}"))
    running = [start("run", f"{name}.yaml", "--on", "kernel", "--out", name, cwd=tmp_path) for name in ("one", "two")]
    for process in running:
        process.communicate(timeout=120)
    found = [json.loads(next((tmp_path / name).rglob("run.json")).read_text()) for name in ("one", "two")]
    names = {record["result"]["congestion_controls"][0]["kernel_name"] for record in found}
    assert len(names) == 2


# ---- eBPF objects of users ----


def test_an_object_of_ones_own_is_in_the_bundle(tmp_path: Path) -> None:
    example = ROOT / "examples" / "own-kernel-control.bpf.o"
    (tmp_path / "mine.bpf.o").write_bytes(example.read_bytes())
    found = measured(two_paths(MULTIPATH + "./mine.bpf.o"), tmp_path)
    assert found.record["user_code"][0]["name"] == "./mine.bpf.o"
    assert (found.bundle.path / "code" / "mine.bpf.o").read_bytes() == example.read_bytes()
    assert found.record["result"]["congestion_controls"][0]["object_sha256"] == found.record["user_code"][0]["sha256"]
    check_windows(found)


def test_a_file_that_is_no_control_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.bpf.o").write_bytes(b"no object")
    (tmp_path / "mine.yaml").write_text(two_paths(MULTIPATH + "./mine.bpf.o"))
    assert is_refused(mptcplab("run", "mine.yaml", "--on", "kernel", cwd=tmp_path), 3, "./mine.bpf.o", "no eBPF object")
    assert not (tmp_path / "results").exists()


@pytest.mark.skipif(shutil.which("clang") is None, reason="needs clang")
def test_a_stray_answer_does_not_stay(tmp_path: Path) -> None:
    compiler = ["clang", "-target", "bpf", "-mcpu=v3", "-O2", "-g", "-I", ROOT / "bpf"]
    source = Path(__file__).parent / "stray_answers.bpf.c"
    subprocess.run([*compiler, "-c", source, "-o", tmp_path / "stray.bpf.o"], check=True)
    lossy = two_paths(MULTIPATH + "./stray.bpf.o").replace("queue: 1bdp", "queue: 1bdp, loss: 1%")
    for link, cwnd in windows(measured(lossy, tmp_path)):
        # The answer holds only until the next acknowledgment.
        assert np.quantile(cwnd, 0.95) < MOST_BDPS * RATES_BPS[link] / 8 * FULL_RTT_S[link]


# ---- installation for all programs ----


@pytest.fixture
def installed() -> Iterator[str]:
    congestion.install(["balia"])
    yield "balia"
    if {"name": "balia", "state": "installed"} in congestion.controls():
        congestion.remove(["balia"])


def without_root(*arguments: str, cwd: Path) -> Ended:
    """Runs as a user who is root only in a user namespace of its own."""
    command = ["unshare", "--user", "--map-root-user", "--net", "--mount", str(PROGRAM), *arguments]
    ended = subprocess.run(command, cwd=cwd, env=environment(), capture_output=True, text=True, check=False, timeout=60)
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def test_who_may_register_nothing_is_told_to_install(tmp_path: Path) -> None:
    (tmp_path / "lia.yaml").write_text(two_paths(MULTIPATH + "lia"))
    ended = without_root("run", "lia.yaml", "--on", "kernel", cwd=tmp_path)
    assert is_refused(ended, 3, "cc: lia", "sudo mptcplab cc install")
    assert is_refused(without_root("cc", "install", "lia", cwd=tmp_path), 3, "sudo mptcplab cc install")


def test_an_installed_control_serves_who_may_register_nothing(installed: str, tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(two_paths(MULTIPATH + installed))
    ended = without_root("run", "own.yaml", "--on", "kernel", cwd=tmp_path)
    assert ended.status in (0, 4), ended
    [record] = [json.loads(file.read_text()) for file in tmp_path.rglob("run.json")]
    told = {"name": installed, "kernel_name": installed, "object_sha256": None}
    assert record["result"]["congestion_controls"] == [told]


def test_the_command_line_installs_and_removes(tmp_path: Path) -> None:
    ended = mptcplab("cc", "install", "olia", "--json", cwd=tmp_path)
    assert ended.document["congestion_controls"] == [{"name": "olia", "state": "installed"}]
    assert "olia" in Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    assert mptcplab("cc", "install", "olia", cwd=tmp_path).status == 0
    ended = mptcplab("cc", "remove", "olia", "--json", cwd=tmp_path)
    assert ended.document["congestion_controls"] == [{"name": "olia", "state": "not_installed"}]
    assert is_refused(mptcplab("cc", "remove", "olia", cwd=tmp_path), 2, "olia is not installed")
    assert is_refused(mptcplab("cc", "install", "reno", cwd=tmp_path), 2, "reno", "lia, olia")
    assert is_refused(mptcplab("cc", "list", "lie", cwd=tmp_path), 2, "lie", "olia")


# ---- soak tests ----


def kernel_objects() -> set[tuple[str, int]]:
    """Returns the eBPF objects of the kernel by kind and number. Numbers are never reused."""
    bpf = {"x86_64": 321, "aarch64": 280}[platform.machine()]
    libc = ctypes.CDLL(None, use_errno=True)
    found = set()
    for kind, next_id in {"program": 11, "map": 12, "type": 23, "link": 31}.items():
        attributes = (ctypes.c_uint32 * 3)(0, 0, 0)
        while libc.syscall(bpf, next_id, ctypes.byref(attributes), 12) == 0:
            attributes[0] = attributes[1]
            found.add((kind, attributes[0]))
    return found


def assert_none_is_left(before: set[tuple[str, int]]) -> None:
    """Fails if an object that was added since ``before`` stays.

    The kernel removes objects some time after their last user has ended. Objects that others add
    from now on do not count.
    """
    since = kernel_objects() - before
    give_up = time.monotonic() + 20
    while (left := since & kernel_objects()) and time.monotonic() < give_up:
        time.sleep(0.5)
    assert left == set()


def resident_bytes() -> int:
    """Returns the resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.alone
@pytest.mark.parametrize("cycles", [25, pytest.param(1000, marks=pytest.mark.soak)])
def test_cycles_of_registration_leave_nothing(cycles: int) -> None:
    congestion.install(["wvegas"])
    congestion.remove(["wvegas"])
    before, resident = kernel_objects(), resident_bytes()
    for _ in range(cycles):
        congestion.install(["wvegas"])
        congestion.remove(["wvegas"])
    assert_none_is_left(before)
    assert resident_bytes() - resident < 5_000_000


@pytest.mark.parametrize(("runs", "seconds"), [(10, 2), pytest.param(100, 10, marks=pytest.mark.soak)])
def test_windows_of_olia_beside_tcp_do_not_explode(runs: int, seconds: int, tmp_path: Path) -> None:
    changes = {"cell": "reno-50ms-1bdp", "control": "olia", "duration": f"{seconds}s"}
    [member] = find(str(SHARED), changes)
    # The queue and the link hold two BDP.
    bdp_bytes = 20e6 / 8 * 0.05
    jobs = plan([member.resolve().data], "kernel", seed=1, repeat=runs, out=tmp_path)
    bundles = execute(jobs, Nobody(), workers=AT_ONCE)
    assert {bundle.status for bundle in bundles} <= {"done", "invalid"}
    for bundle in bundles:
        lasting = [np.sort(cwnd)[-1 - STRAY_SAMPLES] for _, cwnd in windows(Measured(bundle), "tested")]
        assert lasting
        assert max(lasting) < MOST_BDPS * bdp_bytes, (bundle.record["seed"], lasting)
