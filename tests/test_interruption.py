"""Tests runs that are interrupted: by their user, a kill, a full disk, or the same run in another
process.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import LONG, PROGRAM, SHORT, environment, is_refused, may_mount, mptcplab, start
from mptcplab import _core
from mptcplab.results import Bundle, find

#: After this time, data that is flushed at least once per second of wall time has been flushed.
FLUSHED_S = 1.5


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    (tmp_path / "long.yaml").write_text(LONG)
    (tmp_path / "short.yaml").write_text(SHORT)
    return tmp_path


@pytest.fixture
def running(desk: Path) -> Iterator[subprocess.Popen[str]]:
    """A long run that has written samples."""
    process = start("run", "long.yaml", cwd=desk)
    wait_for_samples(desk)
    yield process
    process.kill()
    process.communicate()


def wait_for_samples(directory: Path) -> None:
    for _ in range(600):
        if any(file.stat().st_size > 100_000 for file in directory.rglob("units.csv")):
            time.sleep(FLUSHED_S)
            return
        time.sleep(0.05)
    raise TimeoutError("the run wrote nothing")


def only_bundle(directory: Path) -> Bundle:
    [bundle] = find(directory)
    return bundle


def test_an_interrupted_run_says_so_and_can_be_read(desk: Path, running: subprocess.Popen[str]) -> None:
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (130, "")
    assert err == "mptcplab: interrupted; the same command without --fresh continues with the runs that are not done\n"
    bundle = only_bundle(desk)
    assert (bundle.status, bundle.record["why"]) == ("unfinished", "interrupted")
    run = bundle.load()
    received = run.samples.last("flows.load.h1-h9", "bytes_received")
    assert received is not None
    assert received > 0
    assert 0 < run.end_s < 3600
    assert is_refused(mptcplab("compare", "results", cwd=desk), 4, "unfinished (interrupted)", "mptcplab clean")


def test_a_killed_run_leaves_what_it_wrote(desk: Path, running: subprocess.Popen[str]) -> None:
    running.kill()
    running.communicate()
    bundle = only_bundle(desk)
    assert (bundle.status, bundle.record["why"]) == ("unfinished", None)
    assert len(_core.read_table(bundle.path / "units.csv")["unit"]) > 0
    assert len(_core.read_table(bundle.path / "samples.csv")["time_ns"]) > 0
    assert is_refused(mptcplab("report", "results", cwd=desk), 4, "the run was cut off")
    assert mptcplab("check", "results", cwd=desk).status == 4


def test_only_what_is_missing_runs_again(desk: Path) -> None:
    first = mptcplab("run", "short.yaml", "--repeat", "2", cwd=desk)
    assert first.status == 0
    written = {bundle.record["seed"]: bundle.record["started"] for bundle in find(desk)}
    killed = next(bundle for bundle in find(desk) if bundle.record["seed"] == 2)
    (killed.path / "run.json").write_text(json.dumps(killed.record | {"status": "unfinished"}))
    again = mptcplab("run", "short.yaml", "--repeat", "3", cwd=desk)
    assert (again.status, again.err) == (0, "")
    assert "done already: 1 of 3" in again.out
    started = {bundle.record["seed"]: bundle.record["started"] for bundle in find(desk)}
    assert started[1] == written[1]
    assert started[2] > written[2]
    assert {bundle.status for bundle in find(desk)} == {"done"}


@pytest.mark.parametrize("trial", range(3))
def test_the_same_command_twice_at_once_makes_each_run_once(desk: Path, trial: int) -> None:  # noqa: ARG001
    several = ("run", "short.yaml", "--repeat", "12", "--json")
    ended = [process.communicate(timeout=120) for process in [start(*several, cwd=desk) for _ in range(3)]]
    documents = [json.loads(out) for out, _ in ended]
    assert [err for _, err in ended] == ["", "", ""]
    assert all(run["status"] == "done" for document in documents for run in document["runs"])
    hashes = [[run["trace_hash"] for run in document["runs"]] for document in documents]
    assert hashes[0] == hashes[1] == hashes[2]
    assert len(list(find(desk))) == 12


def test_a_run_that_waits_for_its_twin_can_be_interrupted(desk: Path, running: subprocess.Popen[str]) -> None:
    twin = start("run", "long.yaml", "--fresh", "--json", cwd=desk)
    time.sleep(FLUSHED_S)
    assert (twin.poll(), running.poll()) == (None, None)
    assert twin.stderr is not None
    assert twin.stderr.readline().endswith("another process is running this; waiting for its result\n")
    twin.send_signal(signal.SIGINT)
    assert (twin.communicate(timeout=60)[0], twin.returncode) == ("", 130)
    assert running.poll() is None
    cleaned = mptcplab("clean", cwd=desk)
    assert cleaned.status == 0
    assert cleaned.out.startswith("in progress, left alone: results/long/")
    running.kill()
    running.communicate()
    assert mptcplab("clean", cwd=desk).out.startswith("removed results/long/")


def test_a_dead_process_is_no_obstacle(desk: Path, running: subprocess.Popen[str]) -> None:
    running.kill()
    running.communicate()
    for left in desk.rglob("units.csv"):
        left.unlink()  # so that the file that is awaited is the second run's
    second = start("run", "long.yaml", cwd=desk)
    wait_for_samples(desk)
    second.send_signal(signal.SIGINT)
    assert second.wait(timeout=60) == 130
    second.communicate()
    assert only_bundle(desk).record["why"] == "interrupted"


def test_clean_removes_only_what_is_unfinished(desk: Path) -> None:
    mptcplab("run", "short.yaml", "--repeat", "2", cwd=desk)
    done, unfinished = find(desk)
    (unfinished.path / "run.json").write_text(json.dumps(unfinished.record | {"status": "unfinished"}))
    dry = mptcplab("clean", "--dry-run", cwd=desk)
    assert (dry.status, dry.out) == (0, f"would remove {unfinished.path.relative_to(desk)}\n")
    assert unfinished.path.is_dir()
    assert mptcplab("clean", cwd=desk).out == f"removed {unfinished.path.relative_to(desk)}\n"
    assert only_bundle(desk).path == done.path


@pytest.mark.skipif(not may_mount(), reason="needs the right to mount in a namespace of its own")
def test_a_full_disk_is_named_and_leaves_what_fits(desk: Path) -> None:
    (desk / "small").mkdir()
    script = f"mount -t tmpfs -o size=8m none small && {PROGRAM} run long.yaml --out small; status=$?; cp -r small kept; exit $status"
    command = ["unshare", "-m", "sh", "-c", script]
    ended = subprocess.run(command, cwd=desk, env=environment(), capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (4, "")
    assert "units.csv: No space left on device" in ended.stderr
    assert "Traceback" not in ended.stderr
    bundle = only_bundle(desk / "kept")
    assert bundle.status == "unfinished"
    assert len(_core.read_table(bundle.path / "units.csv")["unit"]) > 0
    elsewhere = mptcplab("show", bundle.path / "experiment.json", "--resolved", cwd=desk)
    assert elsewhere.document["name"] == "long"


@pytest.mark.skipif(not may_mount(), reason="needs the right to mount in a namespace of its own")
@pytest.mark.parametrize(
    "command", ["new mine --from commute", "exercise 10", "examples", "show short.yaml --svg x.svg"]
)
def test_a_full_disk_leaves_no_half_of_a_file(desk: Path, command: str) -> None:
    (desk / "small").mkdir()
    script = f"""mount -t tmpfs -o size=32k none small && cp short.yaml small && cd small
        head -c 64k /dev/zero > filler 2> ../filled; {PROGRAM} {command} > ../out; echo $? > ../status; ls > ../left"""
    ended = subprocess.run(
        ["unshare", "-m", "sh", "-c", script], cwd=desk, env=environment(), capture_output=True, text=True, check=False
    )
    assert (desk / "status").read_text() == "2\n"
    assert len(ended.stderr.splitlines()) == 1
    assert ended.stderr.endswith("No space left on device\n")
    assert (desk / "left").read_text().split() == ["filler", "short.yaml"]


INTERRUPTED_WHILE_LOADING = """
def interrupted(name):
    raise KeyboardInterrupt
cli.import_module = interrupted
"""
INTERRUPTED_AGAIN = """
cli.application = lambda commands: lambda **options: cli.INTERRUPTED
cli._has_fresh = lambda asked: os.kill(os.getpid(), signal.SIGINT) is None
"""


@pytest.mark.parametrize("what_happens", [INTERRUPTED_WHILE_LOADING, INTERRUPTED_AGAIN])
def test_no_interrupt_shows_a_traceback(what_happens: str) -> None:
    program = f"import os, signal, sys\nfrom mptcplab import cli\n{what_happens}\nsys.argv[1:] = ['list']\ncli.main()"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (130, "")
    assert ended.stderr.startswith("mptcplab: interrupted")
    assert len(ended.stderr.splitlines()) == 1
