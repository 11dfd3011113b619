"""Tests `mptcplab check --known`, and what `make test-kernels` refuses before it starts a guest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from command_line import environment, is_refused, mptcplab
from documentation import REGRESSION, ROOT
from mptcplab.cli.known_failures import KnownFailure, read, set_aside
from mptcplab.errors import UsageError
from mptcplab.experiment import members
from mptcplab.report.linux_versions import ranges
from mptcplab.results import Bundle

KNOWN = ROOT / "examples" / "regression" / "known.toml"
KNOWN_ROW = "[[known]]\nexperiment = 'a'\nexpectation = ''\nwhy = ''\n"


def row(before: object, expectation: str = "run.goodput_bps > 2") -> KnownFailure:
    found = ranges(before)
    assert found is not None
    return KnownFailure("slow", expectation, found, "it is slow")


ROW = row("6.18")


def bundle(kernel: str, *, held: bool = False, backend: str = "kernel@qemu-x") -> Bundle:
    verdict = {"text": ROW.expectation, "held": held, "value": 1.0, "why": "run.goodput_bps is 1"}
    record = {"experiment": "slow", "backend": backend, "kernel": kernel, "expectations": [verdict]}
    return Bundle(Path("slow"), record)


@pytest.mark.parametrize(
    ("tested", "held"),
    [
        (bundle("Linux 6.12.117+deb13 #1"), None),
        (bundle("Linux 6.18.15 #1"), False),
        (bundle("Linux 7.2.1 #1"), False),
        (bundle("Linux 6.12.117 #1", held=True), True),
        # The kernel of a simulated run is only that of its machine.
        (bundle("Linux 6.12.117 #1", backend="sim"), False),
        (bundle("Linux 6.12.117 #1", backend="userspace"), False),
    ],
)
def test_only_a_failure_of_an_older_kernel_is_known(tested: Bundle, held: bool | None) -> None:
    [verdict] = set_aside([tested], [ROW])[0].record["expectations"]
    assert verdict["held"] is held
    assert held is not None or verdict["why"] == "known before Linux 6.18: it is slow (run.goodput_bps is 1)"


@pytest.mark.parametrize(
    ("before", "older", "newer"),
    [
        ("6.18.36", ["6.18.15", "6.17.1"], ["6.18.36", "6.18.44", "6.19.1"]),
        (["6.12..6.12.94", "6.18..6.18.36"], ["6.12.93", "6.18.15"], ["6.12.94", "6.17.1", "6.18.36", "6.1.0-50"]),
        # Debian's release is not its version.
        ("6.1.170", ["6.1.0-40-amd64 #1 SMP Debian 6.1.153-1"], ["6.1.0-50-amd64 #1 SMP Debian 6.1.170-3"]),
    ],
)
def test_all_numbers_of_versions_are_compared(before: object, older: list[str], newer: list[str]) -> None:
    for kernel in older + newer:
        [verdict] = set_aside([bundle(f"Linux {kernel}")], [row(before)])[0].record["expectations"]
        assert (verdict["held"] is None) == (kernel in older), kernel


def test_the_regression_of_remove_addr_is_known_of_the_kernels_that_were_measured() -> None:
    [known] = [one for one in read(KNOWN) if "RmAddr" in one.expectation]
    of_kernel = {"6.12.117": False, "6.16.12": True, "6.17.13": True, "6.18.15": True, "6.18.44": False, "7.2": False}
    for kernel, is_known in of_kernel.items():
        record = bundle(f"Linux {kernel}").record | {"experiment": known.experiment}
        assert known.concerns(record) is is_known, kernel


def test_a_row_of_an_expectation_that_is_not_stated_is_refused() -> None:
    with pytest.raises(UsageError, match="slow does not expect"):
        set_aside([bundle("Linux 7.3.4 #1")], [row("6.18", "run.goodput_bps > 3")])


def test_known_failures_are_those_of_the_regression_descriptions() -> None:
    described = [member.resolve().data for path in REGRESSION for member in members(path, None)]
    stated = {experiment["name"]: experiment["expect"] for experiment in described}
    for row in read(KNOWN):
        assert row.expectation in stated[row.experiment]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("known = [", ["not TOML"]),
        ("[[other]]", ["found other; allowed: [[known]]"]),
        ("[[known]]\nexperiment = 'a'", ["known.0: found experiment; allowed: experiment, expectation, before, why"]),
        (f"{KNOWN_ROW}before = 'six'", ["known.0.before: found 'six'"]),
        (f"{KNOWN_ROW}before = ['6.18..6.12']", ["known.0.before: found ['6.18..6.12']; allowed: a version as in"]),
    ],
)
def test_a_wrong_table_is_one_message(tmp_path: Path, text: str, words: list[str]) -> None:
    (tmp_path / "known.toml").write_text(text)
    assert is_refused(mptcplab("check", "--known", "known.toml", cwd=tmp_path), 2, "known.toml", *words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--only", "stail"], "unknown test 'stail'; allowed: congestion, blackhole, fallback"),
        (["--only", "stale", "six"], "unknown kernel 'six'; allowed: a series as in 6.12"),
    ],
)
def test_make_test_kernels_refuses_before_it_starts_a_guest(arguments: list[str], words: str) -> None:
    command = [sys.executable, ROOT / "scripts" / "test-kernels", *arguments]
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, len(ended.stderr.splitlines())) == (2, "", 1)
    assert words in ended.stderr


def test_make_test_kernels_needs_an_agent_for_descriptions(tmp_path: Path) -> None:
    command = [sys.executable, ROOT / "scripts" / "test-kernels", "--only", "stale", "6.12", "7.3"]
    changes = environment(MPTCPLAB_AGENT=str(tmp_path / "agent"))
    ended = subprocess.run(command, env=changes, capture_output=True, text=True, check=False)
    assert (ended.returncode, len(ended.stderr.splitlines())) == (3, 1)
    assert "there is no agent" in ended.stderr
