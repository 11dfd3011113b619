"""Tests runs on other machines: over a command, and over real sshd of which one works, one hangs
and one dies.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from built_agent import AGENT
from command_line import PROGRAM, Ended, environment, is_refused, mptcplab
from mptcplab import load
from mptcplab.backends import backend
from mptcplab.backends.remote import Remote
from mptcplab.results import find
from ssh_server import SSHD, SshServer, make_key
from traces import Traces, left_since

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(not AGENT.exists(), reason="make agent or cargo test --workspace builds it"),
]
with_sshd = pytest.mark.skipif(SSHD is None, reason="there is no sshd: scripts/prepare --system installs it")

#: The machine itself, through a shell, with another cache and another directory for runs.
HERE = "exec:env XDG_CACHE_HOME={cache} TMPDIR={scratch}"
DESCRIPTION = """
name: elsewhere
hosts: {client: {}, server: {}}
links:
  one: {between: [client.eth1, server.eth1], rate: 8mbit, delay: 5ms}
  two: {between: [client.eth2, server.eth2], rate: 4mbit, delay: 15ms}
flows:
  bulk: {from: client, to: server, transport: mptcp, path_manager: full_mesh, app: bulk}
measure: {captures: [client.eth1], probe: {rtt: 50ms}, every: 50ms}
duration: 3s
"""


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    (tmp_path / "elsewhere.yaml").write_text(DESCRIPTION)
    (tmp_path / "long.yaml").write_text(DESCRIPTION.replace("3s", "60s"))
    return tmp_path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("MPTCPLAB_AGENT", str(AGENT))
    (tmp_path / "scratch").mkdir()
    return HERE.format(cache=tmp_path / "cache", scratch=tmp_path / "scratch")


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshServer]:
    monkeypatch.setenv("MPTCPLAB_AGENT", str(AGENT))
    made = SshServer(tmp_path_factory.mktemp("server"))
    made.start()
    yield made
    made.stop()


def cached(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]


def run_over_ssh(server: SshServer, *arguments: str | Path, cwd: Path) -> Ended:
    return mptcplab("run", *arguments, "--on", server.on, cwd=cwd, HOME=str(server.client))


def until_measuring(out: Path, scratch: Path) -> None:
    """Waits until a run on another machine has begun there, with its directory in ``scratch``."""
    for _ in range(1500):
        if any(out.rglob("run.json")) and any(scratch.iterdir()):
            time.sleep(1)
            return
        time.sleep(0.02)
    raise TimeoutError("no run began")


def test_a_run_through_a_command_is_a_bundle_like_any_other(desk: Path, here: str) -> None:
    ended = mptcplab("run", "elsewhere.yaml", "--on", here, "--json", cwd=desk)
    assert ended.status in (0, 4), ended
    [bundle] = find(desk / "results")
    assert bundle.status in ("done", "invalid"), bundle.record["why"]
    release = os.uname().release
    assert re.fullmatch(rf"kernel@exec-[0-9a-f]{{8}}-{re.escape(release)}", bundle.record["backend"])
    assert release in bundle.record["kernel"]
    assert bundle.record["machine"]["on"] == here
    assert 0 < bundle.record["machine"]["load"]["used"] <= 1
    bundle.verify()
    assert {"samples.parquet", "units.parquet", "captures/client.eth1.pcapng"} <= bundle.record["sha256"].keys()
    assert bundle.record["metrics"]["flows.bulk"]["goodput_bps"] > 8e6
    assert mptcplab("report", bundle.path, cwd=desk).status == 0
    again = mptcplab("run", "elsewhere.yaml", "--on", here, cwd=desk)
    assert bundle.status != "done" or "done already: 1 of 1" in again.out
    assert [path.name for path in cached(desk / "cache")] == ["mptcplab-agent"]
    assert list((desk / "scratch").iterdir()) == []


def test_an_action_is_injected_there(desk: Path, here: str, tmp_path: Path) -> None:
    [member] = load(desk / "elsewhere.yaml")
    there = backend(here)
    assert isinstance(there, Remote)
    running = there.start(member.resolve().data, 1, tmp_path)
    event = None
    for tick in running.samples():
        if event is None and tick.time_ns > 500_000_000:
            with pytest.raises(ValueError, match="nowhere"):
                running.inject({"kind": "interface_down", "interface": "client.nowhere"})
            event = running.inject({"kind": "interface_down", "interface": "client.eth2"})
    assert event is not None
    result = running.result()
    there.close()
    assert [one["id"] for one in result["events"]] == [event["id"]]


def test_the_userspace_stack_runs_there(desk: Path, here: str) -> None:
    ended = mptcplab("run", "elsewhere.yaml", "--on", f"userspace+{here}", "--json", cwd=desk)
    assert ended.status in (0, 4), ended
    [bundle] = find(desk / "results")
    assert bundle.record["backend"].startswith("userspace@exec-")
    assert bundle.record["metrics"]["flows.bulk"]["goodput_bps"] > 8e6


def test_a_killed_caller_leaves_nothing_there(desk: Path, here: str, started: list[subprocess.Popen[str]]) -> None:
    before = Traces.now()
    command = [str(PROGRAM), "run", "long.yaml", "--on", here]
    killed = subprocess.Popen(command, cwd=desk, env=environment(), stdout=-3, stderr=-3, text=True)
    started.append(killed)
    until_measuring(desk / "results", desk / "scratch")
    killed.kill()
    killed.wait()
    assert left_since(before) == {}
    assert list((desk / "scratch").iterdir()) == []


def test_a_silent_caller_counts_as_gone(desk: Path, here: str, started: list[subprocess.Popen[str]]) -> None:
    command = [str(PROGRAM), "run", "long.yaml", "--on", here]
    silent = subprocess.Popen(command, cwd=desk, env=environment(), stdout=-1, stderr=-1, text=True)
    started.append(silent)
    until_measuring(desk / "results", desk / "scratch")
    silent.send_signal(signal.SIGSTOP)
    for _ in range(300):
        if not any((desk / "scratch").iterdir()):
            break
        time.sleep(0.1)
    assert list((desk / "scratch").iterdir()) == []
    silent.send_signal(signal.SIGCONT)
    out, _ = silent.communicate(timeout=60)
    assert silent.returncode == 4
    [bundle] = find(desk / "results")
    assert bundle.status == "failed", out


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("exec:false", "ended with status 1"),
        ("exec:/nowhere/ssh host", "/nowhere/ssh: No such file"),
        ("exec:cat", "cat: sh: No such file"),
        ("exec:", "no command"),
        ("exec:'", "No closing quotation"),
        ("ssh:host", "not a machine"),
        ("ssh://host:99999", "not a machine"),
        ("ssh://.foo", "not the name of a machine; allowed: 1 to 63 characters"),
        (f"ssh://{'a' * 70}", "not the name of a machine; allowed: 1 to 63 characters"),
        ("stack+ssh://host", "unknown stack 'stack'; allowed: kernel, userspace"),
    ],
)
def test_a_place_that_is_none_is_refused(desk: Path, here: str, command: str, words: str) -> None:  # noqa: ARG001
    ended = mptcplab("run", "elsewhere.yaml", "--on", command, cwd=desk)
    assert ended.status in (2, 3), ended
    assert is_refused(ended, ended.status, words)
    assert not (desk / "results").exists()


def test_another_architecture_is_refused_by_its_name(desk: Path, here: str) -> None:
    tools = desk / "tools"
    tools.mkdir()
    (tools / "uname").write_text("#!/bin/sh\necho riscv64\n")
    (tools / "uname").chmod(0o755)
    place = f"{here} PATH={tools}:{os.environ['PATH']}"
    ended = mptcplab("run", "elsewhere.yaml", "--on", place, cwd=desk)
    assert is_refused(ended, 3, "its architecture is riscv64", "is for x86_64")
    assert cached(desk / "cache") == []


@pytest.mark.parametrize(
    ("mounted", "words"),
    [
        ("noexec", "forbids programs (Permission denied); set XDG_CACHE_HOME there to a directory that allows"),
        ("size=64k", "No space left on device"),
    ],
)
def test_a_home_that_does_not_take_the_agent_is_named_and_keeps_nothing(
    desk: Path, here: str, mounted: str, words: str
) -> None:
    cache = desk / "cache"
    cache.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", mounted, "cache", str(cache)], check=True)
    try:
        ended = mptcplab("run", "elsewhere.yaml", "--on", here, cwd=desk)
        assert is_refused(ended, 3, words)
        assert list(cache.iterdir()) == []
    finally:
        subprocess.run(["umount", str(cache)], check=True)
    assert not (desk / "results").exists()


def test_a_full_disk_there_fails_the_run_with_the_reason(desk: Path, here: str) -> None:
    scratch = desk / "scratch"
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "full", str(scratch)], check=True)
    try:
        assert mptcplab("run", "elsewhere.yaml", "--on", here, cwd=desk).status == 4
    finally:
        subprocess.run(["umount", str(scratch)], check=True)
    [bundle] = find(desk / "results")
    assert bundle.status == "failed"
    assert "No space left on device" in bundle.record["why"]


def test_a_machine_without_a_home_keeps_no_agent_at_its_root(desk: Path, here: str) -> None:
    place = here.replace("XDG_CACHE_HOME=", "-u HOME -u XDG_CACHE_HOME UNUSED=")
    assert is_refused(mptcplab("run", "elsewhere.yaml", "--on", place, cwd=desk), 3, "HOME is not set there; set it")


@pytest.mark.parametrize("place", [None, "kernel"])
def test_doctor_reports_the_other_machine_and_this_one(desk: Path, here: str, place: str | None) -> None:
    ended = mptcplab("doctor", "--on", place or here, "--json", cwd=desk)
    assert ended.status == 0, ended
    machine, path_manager, back_end = ended.document["findings"]
    assert os.uname().release in machine["found"]
    # Each kernel that mptcplab supports takes at least these.
    found = re.match(r"at most (\d+) endpoints, (\d+) further subflows, (\d+) announcements", path_manager["found"])
    assert found is not None
    assert all(int(number) >= 8 for number in found.groups())
    assert "signal, subflow, backup, fullmesh" in path_manager["details"][0]
    assert (back_end["state"], back_end["found"]) == ("ok", "runs here")
    assert path_manager["found"] in mptcplab("doctor", "-v", cwd=desk).out


@with_sshd
def test_over_ssh_the_same_seed_gives_equivalent_results(desk: Path, server: SshServer) -> None:
    # What a login prints is not an answer.
    (server.home / ".bashrc").write_text("echo welcome; echo '{\"error\": 1}'\n")
    goodputs: dict[str, list[float]] = {}
    for _ in range(3):
        for place in ("kernel", server.on):
            ended = mptcplab("run", "elsewhere.yaml", "--on", place, cwd=desk, HOME=str(server.client))
            assert ended.status in (0, 4), ended
        for bundle in find(desk / "results"):
            if bundle.status == "done":
                stack = bundle.record["backend"].partition("@")[0]
                where = bundle.record["backend"][len(stack) :] and "ssh"
                goodputs.setdefault(where, []).append(bundle.record["metrics"]["flows.bulk"]["goodput_bps"])
        if len(goodputs) == 2:
            break
    assert set(goodputs) == {"", "ssh"}, "the machine was too busy"
    assert goodputs["ssh"][0] == pytest.approx(goodputs[""][0], rel=0.1)
    assert [path.name for path in cached(server.home / ".cache")] == ["mptcplab-agent"]


@with_sshd
def test_an_unknown_and_a_changed_host_key_are_told_apart(desk: Path, server: SshServer) -> None:
    server.trust(None)
    ended = run_over_ssh(server, "elsewhere.yaml", cwd=desk)
    key = (server.home.parent / "host_key.pub").read_text().split()[1]
    assert is_refused(ended, 3, "its host key is not known", f"[127.0.0.1]:{server.port} ssh-ed25519 {key}")
    assert "CHANGED" not in ended.err
    make_key(desk / "other")
    server.trust(desk / "other.pub")
    assert is_refused(run_over_ssh(server, "elsewhere.yaml", cwd=desk), 3, "its host key has CHANGED", key)
    assert (server.client / ".ssh" / "known_hosts").read_text().count("\n") == 1
    assert cached(server.home) == []


@with_sshd
@pytest.mark.parametrize("settings", ["", "HostKeyAlias other", "UserKnownHostsFile ~/.ssh/others"])
def test_the_line_for_known_hosts_makes_the_key_of_an_alias_known(server: SshServer, settings: str) -> None:
    ssh = server.client / ".ssh"
    server.trust(None)
    (ssh / "others").touch()
    # Of two keys, ssh(1) skips the one that does not exist.
    keys = "IdentityFile ~/.ssh/nowhere\nIdentityFile ~/.ssh/id_ed25519"
    (ssh / "config").write_text(f"Host lab\nHostName 127.0.0.1\nPort {server.port}\nUser root\n{keys}\n{settings}\n")
    ended = mptcplab("doctor", "--on", "ssh://lab", cwd=server.client, HOME=str(server.client))
    told = re.search(r"not known; .*; the line for (/\S+) is: (.*\n)", ended.err)
    assert told is not None, ended
    Path(told[1]).write_text(told[2])
    ended = mptcplab("doctor", "--on", "ssh://lab", cwd=server.client, HOME=str(server.client))
    assert ended.status == 0, ended


@with_sshd
@pytest.mark.parametrize(
    ("marker", "kind", "words"),
    [("@revoked ", None, "its host key is REVOKED in "), ("", "ecdsa", "the type that is known (ecdsa-sha2-nistp256)")],
)
def test_a_revoked_key_and_one_of_another_type_are_told_apart(
    desk: Path, server: SshServer, marker: str, kind: str | None, words: str
) -> None:
    if kind is not None:
        make_key(desk / "other", kind)
        server.trust(desk / "other.pub")
    known = server.client / ".ssh" / "known_hosts"
    known.write_text(marker + known.read_text())
    assert is_refused(run_over_ssh(server, "elsewhere.yaml", cwd=desk), 3, words)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("config", "Port abc", "config line 1: Invalid Port integer value: abc"),
        ("config", "IdentityFile ~/.ssh/nowhere", ".ssh/nowhere: No such file or directory"),
        ("id_ed25519", "none", ".ssh/id_ed25519: Invalid private key; allowed: a private key"),
    ],
)
def test_a_wrong_setting_of_ssh_is_named(desk: Path, here: str, name: str, content: str, words: str) -> None:  # noqa: ARG001
    (desk / ".ssh").mkdir()
    (desk / ".ssh" / name).write_text(content)
    ended = mptcplab("run", "elsewhere.yaml", "--on", "ssh://127.0.0.1", cwd=desk, HOME=str(desk))
    assert is_refused(ended, 3, words)


@with_sshd
def test_a_wrong_line_of_known_hosts_is_named(desk: Path, server: SshServer) -> None:
    (server.client / ".ssh" / "known_hosts").write_text("word\n")
    ended = run_over_ssh(server, "elsewhere.yaml", cwd=desk)
    assert is_refused(ended, 3, "/known_hosts: Invalid known hosts entry: word")


@with_sshd
def test_a_wrong_key_and_a_closed_port_are_named(desk: Path, server: SshServer) -> None:
    (server.home.parent / "authorized").write_text("")
    ended = run_over_ssh(server, "elsewhere.yaml", cwd=desk)
    assert is_refused(ended, 3, "Permission denied for user root", f"ssh -p {server.port} root@127.0.0.1 true")
    server.stop()
    assert is_refused(run_over_ssh(server, "elsewhere.yaml", cwd=desk), 3, "onnect")
    assert not (desk / "results").exists()


@with_sshd
@pytest.mark.parametrize(
    "happens",
    [
        pytest.param(lambda server: server.signal(signal.SIGSTOP), id="hangs"),
        pytest.param(lambda server: server.signal(signal.SIGKILL), id="dies"),
    ],
)
def test_a_server_that_is_lost_in_mid_run_leaves_nothing(
    desk: Path, server: SshServer, started: list[subprocess.Popen[str]], happens: Callable[[SshServer], None]
) -> None:
    before = Traces.now()
    command = [str(PROGRAM), "run", "long.yaml", "--on", server.on]
    env = environment(HOME=str(server.client))
    running = subprocess.Popen(command, cwd=desk, env=env, stdout=-1, stderr=-1, text=True)
    started.append(running)
    until_measuring(desk / "results", server.scratch)
    happens(server)
    out, err = running.communicate(timeout=40)
    assert running.returncode == 4, (out, err)
    [bundle] = find(desk / "results")
    assert bundle.status == "failed"
    assert re.search(r"the connection was lost \(at [\d.]+ s of the run\)", bundle.record["why"]), bundle.record["why"]
    # The agent ends although the frozen sshd keeps its input open.
    for _ in range(200):
        if not any(server.scratch.iterdir()):
            break
        time.sleep(0.1)
    assert list(server.scratch.iterdir()) == []
    server.stop()
    assert {kind: left for kind, left in left_since(before).items() if kind != "processes"} == {}
    assert not any("mptcplab-agent" in left for left in left_since(before).get("processes", ()))
