"""Tests that sweeps lose no done run if processes, workers or callers die, are stopped, or have
other versions.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command_line import SHORT, environment, is_refused, may_mount, mptcplab, start
from mptcplab.results import Bundle, find

pytestmark = pytest.mark.slow

#: Each run takes about a second.
RUNS = """
name: runs
topology: {star: {n: 5, rate: 100mbit, delay: 50us, queue: 100p}}
flows:
  load: {pattern: incast, hosts: ["h[1-4]"], to: h5, transport: udp, app: {cbr: {rate: 50mbit, size: 1400}}}
duration: 4s
"""
SWEEP = ("sweep", "runs.yaml", "--set", "duration=4s,4.1s", "--repeat", "3")
COUNT = 6
DASK = Path(sys.executable).with_name("dask")


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a description, and its own directory for scratch files."""
    (tmp_path / "desk").mkdir()
    (tmp_path / "scratch").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch"))
    (tmp_path / "desk" / "runs.yaml").write_text(RUNS)
    (tmp_path / "desk" / "short.yaml").write_text(SHORT)
    return tmp_path / "desk"


def done(desk: Path) -> list[Bundle]:
    return [bundle for bundle in find(desk) if bundle.status == "done"]


def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(1200):
        if condition():
            return
        time.sleep(0.05)
    raise TimeoutError


def children_of(process: subprocess.Popen[str]) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def is_completed_by_a_second_call(desk: Path, *options: str) -> None:
    """Checks that a second call makes only the missing runs, and that all bundles are complete."""
    before = {bundle.path: bundle.record["started"] for bundle in done(desk)}
    again = mptcplab(*SWEEP, *options, cwd=desk)
    assert (again.status, again.err) == (0, "")
    assert f"done already: {len(before)} of {COUNT}" in again.out
    after = {bundle.path: bundle.record["started"] for bundle in done(desk)}
    assert len(after) == COUNT
    assert before.items() <= after.items()
    for bundle in find(desk):
        bundle.verify()


# ---- processes of this machine ----


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_killed_sweep_loses_nothing_and_leaves_nothing(desk: Path) -> None:
    sweep = start(*SWEEP, cwd=desk)
    wait_until(lambda: len(done(desk)) >= 3)
    children = children_of(sweep)
    assert children
    sweep.kill()
    sweep.communicate()
    wait_until(lambda: not any(map(is_alive, children)))
    assert list((desk.parent / "scratch").iterdir()) == []
    assert 3 <= len(done(desk)) < COUNT
    is_completed_by_a_second_call(desk)


def test_an_interrupted_sweep_says_how_to_go_on(desk: Path) -> None:
    sweep = start(*SWEEP, cwd=desk)
    wait_until(lambda: len(done(desk)) >= 2)
    sweep.send_signal(signal.SIGINT)
    out, err = sweep.communicate(timeout=60)
    assert (sweep.returncode, out) == (130, "")
    assert err == "mptcplab: interrupted; the same command without --fresh continues with the runs that are not done\n"
    assert list((desk.parent / "scratch").iterdir()) == []
    assert [bundle.status for bundle in find(desk)] == ["done"] * len(done(desk))
    is_completed_by_a_second_call(desk)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_killed_worker_process_is_told(desk: Path) -> None:
    sweep = start(*SWEEP, cwd=desk)
    wait_until(lambda: len(done(desk)) >= 2)
    for child in children_of(sweep):
        if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
            os.kill(child, signal.SIGKILL)
    out, err = sweep.communicate(timeout=60)
    assert (sweep.returncode, out) == (4, "")
    assert "a worker process was killed" in err
    assert "Traceback" not in err
    is_completed_by_a_second_call(desk)


def test_two_processes_do_not_share_a_sweep(desk: Path) -> None:
    many = (*SWEEP[:-1], "60")
    sweep = start(*many, cwd=desk)
    wait_until(lambda: len(done(desk)) >= 1)
    assert is_refused(mptcplab(*many, cwd=desk), 4, "another process is running this")
    sweep.send_signal(signal.SIGINT)
    sweep.communicate(timeout=60)


# ---- a Dask cluster ----


class Cluster:
    """A scheduler and workers in separate processes that cannot see the caller's directory."""

    def __init__(self, directory: Path, hidden: Path) -> None:
        self._directory = directory
        self._hidden = hidden
        self._started: list[subprocess.Popen[str]] = []
        file = directory / "scheduler.json"
        options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)]
        self.scheduler = self._start(["scheduler", *options], {})
        wait_until(lambda: file.exists() and file.read_text().endswith("}"))
        self.address: str = json.loads(file.read_text())["address"]

    def worker(self, **changes: str) -> subprocess.Popen[str]:
        """Starts a worker that carries out one run at a time. Keywords change its environment."""
        options = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(self._directory)]
        return self._start(["worker", self.address, *options], changes, hidden=may_mount())

    def _start(self, arguments: list[str], changes: dict[str, str], *, hidden: bool = False) -> subprocess.Popen[str]:
        command = [str(DASK), *arguments]
        if hidden:
            script = f"mount -t tmpfs none '{self._hidden}' && exec \"$@\""
            command = ["unshare", "-m", "sh", "-c", script, "sh", *command]
        log = (self._directory / f"{len(self._started)}.log").open("w")
        env = environment(**changes)
        process = subprocess.Popen(command, cwd=self._directory, env=env, stdout=log, stderr=log, text=True)
        self._started.append(process)
        return process

    def close(self) -> None:
        for process in self._started:
            process.kill()
            process.wait()


@pytest.fixture
def cluster(desk: Path) -> Iterator[Cluster]:
    pytest.importorskip("distributed")
    directory = desk.parent / "cluster"
    directory.mkdir()
    made = Cluster(directory, hidden=desk)
    yield made
    made.close()


def test_bundles_come_back_from_a_cluster_without_a_shared_disk(desk: Path, cluster: Cluster) -> None:
    cluster.worker()
    options = (
        "sweep",
        "short.yaml",
        "--set",
        "links.wifi.queue=10p,20p",
        "--repeat",
        "2",
        "--find",
        "max:run.goodput_bps",
    )
    there = mptcplab(*options, "--cluster", cluster.address, "--json", cwd=desk)
    assert (there.status, there.err) == (0, "")
    here = mptcplab(*options, "--out", "here", "--json", cwd=desk)
    assert there.document["find"] == here.document["find"]
    hashes = [[bundle.record["trace_hash"] for bundle in find(desk / out)] for out in ("results", "here")]
    assert len(hashes[0]) == 4
    assert hashes[0] == hashes[1]
    for bundle in find(desk / "results"):
        bundle.verify()


def test_a_worker_killed_in_the_middle_loses_nothing(desk: Path, cluster: Cluster) -> None:
    doomed = cluster.worker()
    sweep = start(*SWEEP, "--cluster", cluster.address, "--json", cwd=desk)
    wait_until(lambda: len(done(desk)) >= 2)
    doomed.kill()
    cluster.worker()
    out, _ = sweep.communicate(timeout=120)
    assert sweep.returncode == 0
    assert [one["n"] for one in json.loads(out)["combinations"]] == [3, 3]
    assert len(done(desk)) == COUNT


def test_a_caller_killed_in_the_middle_goes_on_elsewhere(desk: Path, cluster: Cluster) -> None:
    cluster.worker()
    sweep = start(*SWEEP, "--cluster", cluster.address, cwd=desk)
    wait_until(lambda: len(done(desk)) >= 2)
    sweep.kill()
    sweep.communicate()
    is_completed_by_a_second_call(desk)


def test_an_interrupted_caller_ends_tidily(desk: Path, cluster: Cluster) -> None:
    cluster.worker()
    sweep = start(*SWEEP, "--cluster", cluster.address, cwd=desk)
    wait_until(lambda: len(done(desk)) >= 2)
    sweep.send_signal(signal.SIGINT)
    out, err = sweep.communicate(timeout=60)
    assert (sweep.returncode, out) == (130, "")
    assert err == "mptcplab: interrupted; the same command without --fresh continues with the runs that are not done\n"
    is_completed_by_a_second_call(desk, "--cluster", cluster.address)


def test_a_scheduler_that_goes_away_is_told(desk: Path, cluster: Cluster) -> None:
    cluster.worker()
    sweep = start(*SWEEP, "--cluster", cluster.address, cwd=desk)
    wait_until(lambda: len(done(desk)) >= 2)
    cluster.scheduler.kill()
    out, err = sweep.communicate(timeout=60)
    assert (sweep.returncode, out) == (3, "")
    assert err == f"mptcplab: {cluster.address}: connection lost; the same command without --fresh continues\n"
    is_completed_by_a_second_call(desk)


def test_a_cluster_with_another_version_is_refused(desk: Path, cluster: Cluster) -> None:
    other = desk.parent / "other" / "mptcplab-9.9.9.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: mptcplab\nVersion: 9.9.9\n")
    cluster.worker(PYTHONPATH=str(other.parent))
    wait_until(lambda: "Registered to" in (desk.parent / "cluster" / "1.log").read_text())
    ended = mptcplab(*SWEEP, "--cluster", cluster.address, cwd=desk)
    here = mptcplab("--version", cwd=desk).out.strip()
    assert is_refused(ended, 3, f"this is {here}, but tcp://127.0.0.1:", "has mptcplab 9.9.9")
    assert not (desk / "results").exists()


def test_runs_in_real_time_do_not_go_to_a_cluster(desk: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("without root the kernel back-end is refused before")
    ended = mptcplab(*SWEEP, "--on", "kernel", "--cluster", "tcp://127.0.0.1:1", cwd=desk)
    assert is_refused(ended, 2, "--cluster: runs in real time go one at a time")
