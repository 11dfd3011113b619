"""Tests a user-defined simulator as a back-end, with the program that the workspace's tests build
from the example.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import is_refused, mptcplab
from mptcplab.backends import backend
from mptcplab.errors import UsageError

ROOT = Path(__file__).parent.parent
PROGRAM = ROOT / "target" / "debug" / "own-simulator"
SPEC = ROOT / "examples" / "two-paths-mptcp.yaml"
AIMD = ("--set", "flows.download.cc=crate:aimd", "--set", "duration=3s", "--set", "events=[]", "--set", "expect=[]")

built = pytest.mark.skipif(not PROGRAM.exists(), reason="cargo test --workspace builds it")


@built
def test_a_run_is_a_bundle_like_any_other(tmp_path: Path) -> None:
    ended = mptcplab("run", SPEC, "--on", PROGRAM, *AIMD, "--json", cwd=tmp_path)
    [run] = json.loads(ended.out)["runs"]
    assert run["status"] == "done"
    assert run["backend"].startswith("own-simulator-")
    assert run["user_code"] == [{"name": "crate:aimd", "file": None, "sha256": None}]
    assert run["flows"][0]["goodput_bps"] > 15e6
    again = mptcplab("run", SPEC, "--on", PROGRAM, *AIMD, cwd=tmp_path)
    assert "done already: 1 of 1" in again.out
    assert mptcplab("report", run["bundle"], cwd=tmp_path).status == 0


@built
def test_the_engines_own_algorithms_do_there_what_they_do_here(tmp_path: Path) -> None:
    hashes = []
    for place in ("sim", PROGRAM):
        ended = mptcplab("run", SPEC, "--on", place, "--set", "duration=3s", *AIMD[4:], "--json", cwd=tmp_path)
        hashes.append(json.loads(ended.out)["runs"][0]["trace_hash"])
    assert hashes[0] == hashes[1]


@built
def test_what_it_does_not_take_is_refused(tmp_path: Path) -> None:
    wrong = "flows.download.cc={crate:aimd: {gain: 2}}"
    ended = mptcplab("run", SPEC, "--on", PROGRAM, *AIMD[2:], "--set", wrong, cwd=tmp_path)
    assert is_refused(ended, 3, "crate:aimd: gain")


def test_without_it_its_names_are_refused_with_the_reason(tmp_path: Path) -> None:
    ended = mptcplab("run", SPEC, *AIMD, cwd=tmp_path)
    assert is_refused(ended, 3, "only your own simulator has it", "--on PROGRAM")


def test_a_program_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no such program"):
        backend(str(tmp_path / "nothing"))
    ended = mptcplab("run", SPEC, "--on", "/bin/true", cwd=tmp_path)
    assert is_refused(ended, 2, "not a simulator of mptcplab")


def test_a_program_that_ends_fails_the_run_and_says_why(tmp_path: Path) -> None:
    program = tmp_path / "broken"
    capabilities = json.dumps([[one.feature, True, ""] for one in backend("sim").probe()])
    program.write_text(
        "#!/bin/sh\n"
        "while read -r request; do case $request in\n"
        f"'\"capabilities\"') echo '{capabilities}';; '{{\"check\"'*) echo '[]';;\n"
        "*) echo 'it fell over' >&2; exit 101;; esac; done\n"
    )
    program.chmod(0o755)
    ended = mptcplab("run", SPEC, "--on", program, *AIMD[2:], cwd=tmp_path)
    assert ended.status == 4
    assert "broken: ended with status 101: it fell over" in ended.out
