"""Tests runs that are stopped, killed or suspended, and the runs beside and after them."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
from command_line import PROGRAM, environment, mptcplab
from mptcplab import _core, load, run
from mptcplab.results import Bundle, find
from traces import Traces, descriptors, left_since, threads

pytestmark = pytest.mark.kernel

#: Creates everything that a run can create, and is long enough to be stopped.
EVERYTHING = """
name: everything
hosts: {client: {}, server: {}, guest: {}}
nodes: {core: {kind: router}, desk: {kind: switch}}
media: {air: {rate: 20mbit}}
links:
  one: {between: [client.eth1, server.eth1], rate: 8mbit, delay: 5ms}
  two: {between: [client.eth2, server.eth2], medium: air, delay: 5ms}
  near: {between: [guest.eth0, desk], rate: 10mbit}
  far: {between: [desk, core], rate: 10mbit, delay: 1ms}
  uplink: {between: [core, server.eth0], rate: 10mbit, delay: 1ms}
flows:
  bulk: {from: client, to: server, transport: mptcp, path_manager: full_mesh, cc: olia, app: bulk}
  back: {from: server, to: client, transport: tcp, app: bulk}
  call: {from: guest, to: server, transport: udp, app: {cbr: {rate: 1mbit, size: 500}}}
events:
  - {id: off, at: 500ms, down: client.eth2}
  - {id: on, at: 1s, up: client.eth2}
measure: {captures: [client.eth1], probe: {rtt: 50ms}, every: 20ms, units: 8kB}
duration: 2500ms
"""
MOMENTS = 10
LONG_S = 600
#: Long enough for two sets of samples.
QUICK = """
name: quick
hosts: {a: {}, b: {}}
links: {wire: {between: [a.eth0, b.eth0], rate: 10mbit, delay: 1ms}}
flows:
  bulk: {from: a, to: b, transport: mptcp, app: bulk}
  call: {from: b, to: a, transport: udp, app: {cbr: {rate: 1mbit, size: 500}}}
measure: {captures: [a.eth0]}
duration: 200ms
"""


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    (tmp_path / "everything.yaml").write_text(EVERYTHING)
    (tmp_path / "long.yaml").write_text(EVERYTHING.replace("2500ms", f"{LONG_S}s"))
    (tmp_path / "quick.yaml").write_text(QUICK)
    (tmp_path / "temporary").mkdir()
    return tmp_path


def start(description: str, desk: Path, out: str = "results") -> subprocess.Popen[str]:
    command = [str(PROGRAM), "run", description, "--on", "kernel", "--out", out]
    env = environment(TMPDIR=str(desk / "temporary"))
    return subprocess.Popen(command, cwd=desk, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_until_begun(directory: Path, since_ns: int = 0) -> None:
    """Waits for a bundle that was begun after ``since_ns``. From then on the run builds the
    network.
    """
    _wait_for(directory, "run.json", 1, since_ns)


def wait_until_measuring(directory: Path) -> None:
    _wait_for(directory, "samples.csv", 20_000)


def _wait_for(directory: Path, name: str, size: int, since_ns: int = 0) -> None:
    for _ in range(3000):
        found = [file.stat() for file in directory.rglob(name)]
        if any(file.st_size >= size and file.st_mtime_ns >= since_ns for file in found):
            return
        time.sleep(0.01)
    raise TimeoutError(f"no {name}")


def only_bundle(directory: Path) -> Bundle:
    [bundle] = find(directory)
    return bundle


def is_readable(bundle: Bundle) -> bool:
    """Returns whether the existing tables can be read up to the last write."""
    for table in bundle.path.glob("*.csv"):
        if table.stat().st_size:
            _core.read_table(table)
    return bool(json.loads((bundle.path / "experiment.json").read_text())["name"])


def test_a_kill_at_any_moment_leaves_nothing(desk: Path, started: list[subprocess.Popen[str]]) -> None:
    moments = random.Random(3)
    before = Traces.now()
    for number in range(MOMENTS):
        # Every other run is stopped while it builds the network.
        delay_s = moments.uniform(0, 0.3) if number % 2 else moments.uniform(0, 2.5)
        begin_ns = time.time_ns()
        killed = start("everything.yaml", desk)
        started.append(killed)
        wait_until_begun(desk / "results", begin_ns)
        time.sleep(delay_s)
        killed.kill()
        killed.communicate()
        assert left_since(before) == {}, delay_s
        bundle = only_bundle(desk / "results")
        if killed.returncode == -signal.SIGKILL:
            assert bundle.status == "unfinished", delay_s
        assert is_readable(bundle), delay_s
    cleaned = mptcplab("clean", cwd=desk)
    assert cleaned.status == 0, cleaned
    assert list((desk / "temporary").iterdir()) == []
    assert {path.name for path in desk.iterdir()} <= {
        "everything.yaml",
        "long.yaml",
        "quick.yaml",
        "temporary",
        "results",
    }
    assert mptcplab("run", "everything.yaml", "--on", "kernel", cwd=desk).status in (0, 4)
    assert only_bundle(desk / "results").status in ("done", "invalid")


@pytest.mark.parametrize("phase", ["building", "measuring"])
def test_ctrl_c_ends_a_run_at_once_and_leaves_nothing(
    desk: Path, started: list[subprocess.Popen[str]], phase: str
) -> None:
    before = Traces.now()
    interrupted = start("long.yaml", desk)
    started.append(interrupted)
    wait_until_begun(desk / "results")
    if phase == "measuring":
        wait_until_measuring(desk / "results")
    interrupted.send_signal(signal.SIGINT)
    # The run does not wait for the rest of its ten minutes.
    out, err = interrupted.communicate(timeout=60)
    assert (interrupted.returncode, out) == (130, "")
    assert err == "mptcplab: interrupted; the same command without --fresh continues with the runs that are not done\n"
    assert left_since(before) == {}
    bundle = only_bundle(desk / "results")
    assert (bundle.status, bundle.record["why"]) == ("unfinished", "interrupted")
    assert bundle.record["result"]["end_ns"] < LONG_S * 1_000_000_000
    assert bundle.load().end_s < LONG_S


def test_two_runs_at_once_do_not_see_each_other(desk: Path, started: list[subprocess.Popen[str]]) -> None:
    for _ in range(3):
        pair = [start("everything.yaml", desk, out) for out in ("first", "second")]
        started += pair
        for process in pair:
            _, err = process.communicate(timeout=60)
            assert process.returncode in (0, 4), err
        bundles = [only_bundle(desk / out) for out in ("first", "second")]
        if all(bundle.status == "done" for bundle in bundles):
            break
        assert {bundle.status for bundle in bundles} <= {"done", "invalid"}, [
            bundle.record["why"] for bundle in bundles
        ]
    for bundle in bundles:
        assert (bundle.status, bundle.record["why"]) == ("done", None)
        flows = {flow["id"]: flow for flow in bundle.record["result"]["flows"]}
        assert all(flow["error"] is None for flow in flows.values())
        assert all(flow["bytes"] > 50_000 for flow in flows.values())
        # Addresses are the same in both runs, and each run has only its own connections.
        joins = [host["counters"].get("MPTcpExtMPJoinAckRx", 0) for host in bundle.record["result"]["hosts"]]
        assert sum(joins) == 2
        assert bundle.record["metrics"]["flows.call"]["loss_ratio"] < 0.05


def runs_in_a_row(desk: Path, count: int) -> list[tuple[int, int]]:
    """Returns the numbers of descriptors and threads of this process after each
    of ``count`` runs.
    """
    [member] = load(desk / "quick.yaml")
    held = []
    for number in range(count):
        [bundle] = run(member, on="kernel", seed=number + 1, out=desk / "results")
        assert bundle.status in ("done", "invalid"), bundle.record["why"]
        held.append((descriptors(), threads()))
    return held


def grows(held: list[tuple[int, int]]) -> bool:
    """Returns whether the minimum of the last runs is above the maximum of the first, which load
    libraries.
    """
    return any(min(of_one[-5:]) > max(of_one[:5]) for of_one in zip(*held, strict=True))


def test_many_runs_in_a_row_hold_nothing(desk: Path) -> None:
    held = runs_in_a_row(desk, 20)
    assert not grows(held), held


@pytest.mark.soak
def test_very_many_runs_in_a_row_hold_nothing(desk: Path) -> None:
    held = runs_in_a_row(desk, 200)
    assert not grows(held), held


def test_a_machine_that_stands_still_makes_the_run_invalid(desk: Path, started: list[subprocess.Popen[str]]) -> None:
    held_up = start("everything.yaml", desk)
    started.append(held_up)
    wait_until_measuring(desk / "results")
    held_up.send_signal(signal.SIGSTOP)
    time.sleep(0.5)
    held_up.send_signal(signal.SIGCONT)
    out, err = held_up.communicate(timeout=60)
    assert held_up.returncode == 4, (out, err)
    assert "Traceback" not in err
    bundle = only_bundle(desk / "results")
    assert bundle.status == "invalid"
    assert "too busy" in bundle.record["why"]
    assert "too busy" in out
    again = mptcplab("run", "everything.yaml", "--on", "kernel", cwd=desk)
    assert "done already" not in again.out
    assert again.status == 0 or "too busy" in again.out
