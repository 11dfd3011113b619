"""Tests the steps of a bisection: the verdict from pairs with its error rate, and what git gets."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from command_line import PROGRAM, environment, mptcplab
from mptcplab.bisection import judged
from mptcplab.remote.guest import BUSYBOX, QEMU
from mptcplab.results import find

SPEC = """
name: step
vary: none
hosts: {client: {}, server: {}}
links: {wifi: {between: [client.wlan0, server.eth0], rate: 8mbit, delay: 10ms, loss: 0.1%}}
flows: {bulk: {from: client, to: server, transport: mptcp, app: {bulk: {}}}}
duration: 2s
"""
OTHER = Path(__file__).with_name("changed_simulator.py")
METRIC = "flows.bulk.goodput_bps"


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a description, three good runs, and a back-end whose interpreter has
    mptcplab.
    """
    desk = tmp_path_factory.mktemp("bisection")
    (desk / "step.yaml").write_text(SPEC)
    (desk / "other").write_text(OTHER.read_text().replace("/usr/bin/env python3", sys.executable, 1))
    (desk / "other").chmod(0o755)
    assert mptcplab("run", "step.yaml", "--repeat", "3", "--out", "good", cwd=desk).status == 0
    return desk


def step(desk: Path, *further: str, **changes: str) -> tuple[int, str, str]:
    """Returns the exit status, the output and the errors of a step."""
    arguments = ("step.yaml", "--metric", METRIC, "--good", "good", "--on", "./other", *further)
    ended = mptcplab("bisect-step", *arguments, cwd=desk, **changes)
    return ended.status, ended.out, ended.err


@pytest.mark.parametrize(
    ("values", "good", "verdict", "method"),
    [
        ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], "good", "ratio"),
        ([1.01, 1.98, 3.02], [1.0, 2.0, 3.0], "good", "ratio"),
        ([0.6, 1.2, 1.9], [1.0, 2.0, 3.0], "bad", "ratio"),
        ([1.4, 2.9, 4.1], [1.0, 2.0, 3.0], "bad", "ratio"),
        ([0.5, 2.0, 3.6], [1.0, 2.0, 3.0], "undecided", "ratio"),
        ([0.0, 0.0, 0.0], [0.0, 0.0, 0.0], "good", "difference"),
        ([2.0, 3.0, 2.0], [0.0, 0.0, 0.0], "bad", "difference"),
        ([0.0, 4.0, 0.0], [0.0, 0.0, 0.0], "undecided", "difference"),
    ],
)
def test_verdict_of_pairs(values: list[float], good: list[float], verdict: str, method: str) -> None:
    judgement = judged(values, good, 0.1, 0.05)
    assert (judgement.verdict, judgement.method) == (verdict, method)


@pytest.mark.parametrize("edge", [0.9, 1.1])
def test_wrong_verdicts_are_as_rare_as_stated(edge: float) -> None:
    # At the edge either verdict is wrong, so each may come with the error rate at most. Over 2000
    # trials its share has a standard error of 0.7 %.
    noise = np.random.default_rng(1)
    pairs = np.exp(noise.normal(np.log(edge), 0.03, (2000, 4)))
    verdicts = [judged(list(ratios), [1.0] * 4, 0.1, 0.1).verdict for ratios in pairs]
    for verdict in ("good", "bad"):
        assert 0.05 < verdicts.count(verdict) / len(verdicts) < 0.1 + 3 * 0.007


def test_git_gets_0_for_good_and_1_for_bad(desk: Path) -> None:
    status, out, err = step(desk)
    assert (status, err) == (0, "")
    assert out.startswith(f"good: {METRIC} on other-")
    again = mptcplab("bisect-step", "step.yaml", "--metric", METRIC, "--good", "good", cwd=desk)
    assert again.out.startswith(f"good: {METRIC} on sim is 1 times that of the good runs (")
    # The same program, as a kernel of another commit with the same release: its runs are repeated.
    status, out, err = step(desk, "--json", FACTOR="0.5")
    assert (status, err) == (1, "")
    document = json.loads(out)
    assert document["schema"] == "mptcplab/bisection/1"
    assert (document["verdict"], document["pairs"]) == ("bad", 3)
    low, high = document["interval"]
    assert 0.4 < low <= document["estimate"] <= high < 0.6
    assert len(list(find(desk / "bisect"))) == 9


def test_git_skips_what_cannot_be_judged(desk: Path) -> None:
    status, out, _ = step(desk, "--repeat", "2", STATUS="invalid")
    assert status == 125
    assert out == "not judged: seed 1 is invalid after 3 attempts: told so\n"


@pytest.mark.skipif(not BUSYBOX.exists(), reason="there is no busybox: apt-get install busybox-static")
def test_git_skips_a_kernel_that_was_not_built(desk: Path) -> None:
    (desk / QEMU).symlink_to(PROGRAM)
    path = f"{desk}:{os.environ['PATH']}"
    status, out, err = step(desk, "--on", "qemu:./bzImage", MPTCPLAB_AGENT=sys.executable, PATH=path)
    assert (status, err) == (125, "")
    assert out == "not judged: --on qemu:./bzImage: bzImage: No such file or directory\n"


@pytest.mark.parametrize(
    ("on", "words"),
    [
        ("exec:/nope", "/nope: No such file or directory"),
        (f"exec:{shutil.which('false')}", "ended with status 1"),
        ("qemu:./bzImage", "guests need packages that are missing"),
    ],
)
def test_a_place_where_no_commit_can_be_judged_ends_a_bisection(desk: Path, on: str, words: str) -> None:
    status, out, err = step(desk, "--on", on, MPTCPLAB_AGENT=sys.executable, PATH="/nowhere")
    assert (status, out) == (128, "")
    assert words in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["--good", "nowhere"], "there is no such directory"),
        (["--set", "duration=3s"], "has 0 done runs of step as it is described now; allowed: at least 2"),
        (["--repeat", "1"], "invalid value for '--repeat'"),
        (
            ["--metric", "hosts.client.MPTcpExtMPJoinSynTx"],
            "no counters of a kernel; allowed: a metric that every good",
        ),
        (["--on", "nothing"], "unknown back-end 'nothing'"),
    ],
)
def test_wrong_usage_ends_a_bisection_instead_of_blaming_a_commit(desk: Path, changes: list[str], words: str) -> None:
    status, out, err = step(desk, *changes)
    assert (status, out) == (128, "")
    assert words in err
    assert err.count("\n") == 1


def test_git_bisect_run_finds_the_commit(desk: Path, tmp_path: Path) -> None:
    def git(*words: str) -> str:
        done = subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *words], cwd=tmp_path,
                              env=environment(), capture_output=True, text=True, check=True)  # fmt: skip
        return done.stdout

    for name in ("good", "step.yaml", "other"):
        (tmp_path / name).symlink_to(desk / name)
    git("init", "--quiet")
    for number, factor in enumerate(("1", "0.99", "0.7", "0.71"), 1):
        (tmp_path / "factor").write_text(factor)
        git("add", "factor")
        git("commit", "--quiet", "--message", f"commit {number}")
    command = f"{PROGRAM} bisect-step step.yaml --metric {METRIC} --good good --on ./other"
    git("bisect", "start", "HEAD", "HEAD~3")
    found = git("bisect", "run", "sh", "-c", f"FACTOR=$(cat factor) {command}")
    assert "is the first bad commit" in found
    assert "commit 3" in found
