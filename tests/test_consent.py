"""Tests that code of a description runs only if the user allowed it, and under sudo with the
caller's rights.
"""

from __future__ import annotations

import os
import pty
import pwd
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from command_line import PROGRAM, environment, is_refused, mptcplab
from mptcplab import callers, catalogue, consent, interactive, runner
from mptcplab.backends import backend
from mptcplab.errors import NotAllowed, PrivilegeError
from mptcplab.experiment import Experiment, resolve
from mptcplab.results.bundle import BundleError, BundleWriter

#: A class that leaves a file wherever it is loaded.
CLASS = """
from pathlib import Path
from mptcplab.hooks import Assign
Path("loaded").touch()

class First:
    def next(self, view):
        free = [one for one in view.subflows if one.is_available and one.has_window]
        if view.reason != "new_data" or not free:
            return None
        return Assign(free[0].id, min(free[0].mss_bytes, view.head.len))
"""
DESCRIPTION = """
name: brought
hosts: {client: {}, server: {}}
links: {wifi: {between: [client.wlan0, server.eth0], rate: 1mbit, rtt: 20ms, queue: 1bdp}}
flows: {bulk: {from: client, to: server, scheduler: "./own.py:First"}}
duration: 1s
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the description, of a user who has allowed nothing."""
    monkeypatch.delenv(consent.ALLOW, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(consent, "_settled", set())
    monkeypatch.setattr(consent, "_granted", set())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(CLASS)
    (tmp_path / "own.yaml").write_text(DESCRIPTION)
    return tmp_path


def was_loaded(place: Path) -> bool:
    """Returns whether the class was loaded since the last call."""
    trace = place / "loaded"
    found = trace.exists()
    trace.unlink(missing_ok=True)
    return found


@pytest.mark.parametrize(
    "command",
    [
        ["run", "own.yaml"],
        ["sweep", "own.yaml", "--set", "links.wifi.delay=1ms,2ms"],
        ["compare", "own.yaml"],
    ],
)
def test_without_a_terminal_classes_are_refused_in_one_line_and_not_loaded(place: Path, command: list[str]) -> None:
    ended = mptcplab(*command, cwd=place)
    assert is_refused(ended, 3, "./own.py", "--allow-programs")
    assert ended.err.count("\n") == 1
    assert not was_loaded(place)


def test_a_closed_standard_input_is_no_terminal(place: Path) -> None:
    closed = ["sh", "-c", f"exec {PROGRAM} run own.yaml <&-"]
    ended = subprocess.run(closed, cwd=place, env=environment(), capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (3, "")
    assert "--allow-programs" in ended.stderr


def test_only_1_allows_all(place: Path) -> None:
    assert mptcplab("run", "own.yaml", cwd=place, **{consent.ALLOW: "0"}).status == 3
    assert mptcplab("run", "own.yaml", cwd=place, **{consent.ALLOW: "1"}).status == 0


def test_who_looks_at_a_description_runs_nothing_of_it(place: Path) -> None:
    assert "not allowed yet" in mptcplab("list", "own.yaml", cwd=place).out
    assert mptcplab("show", "own.yaml", cwd=place).status == 0
    assert not was_loaded(place)


def test_what_was_allowed_is_remembered_until_it_changes(place: Path) -> None:
    assert mptcplab("run", "own.yaml", "--allow-programs", cwd=place).status == 0
    assert was_loaded(place)
    assert mptcplab("run", "own.yaml", "--seed", "2", cwd=place).status == 0
    # The same code in another experiment, and in the processes of a sweep.
    swept = ["sweep", "own.yaml", "--set", "links.wifi.delay=1ms,2ms", "--jobs", "2"]
    assert mptcplab(*swept, cwd=place).status == 0
    was_loaded(place)
    (place / "own.py").write_text(CLASS + "# another version\n")
    assert is_refused(mptcplab("run", "own.yaml", "--seed", "2", cwd=place), 3, "not allowed yet")
    assert not was_loaded(place)


def everything(terminal: int) -> str:
    """Reads what was written to a terminal whose other end is closed, and closes it."""
    parts = []
    # Linux reports an error at the end, and a read may return a part.
    with suppress(OSError):
        while part := os.read(terminal, 1 << 16):
            parts.append(part)
    os.close(terminal)
    return b"".join(parts).decode()


@pytest.mark.parametrize(("answer", "status"), [("y\n", 0), ("n\n", 3), ("\n", 3)])
def test_at_a_terminal_somebody_is_asked(place: Path, answer: str, status: int) -> None:
    ours, theirs = pty.openpty()
    os.write(ours, answer.encode())
    ended = subprocess.run(
        [PROGRAM, "run", "own.yaml"],
        stdin=theirs,
        stderr=theirs,
        stdout=subprocess.PIPE,
        env=environment(),
        check=False,
        timeout=60,
    )
    os.close(theirs)
    said = everything(ours)
    assert ended.returncode == status, said
    assert "./own.py: classes in Python" in said
    assert was_loaded(place) == (status == 0)


def test_the_library_runs_what_its_user_allows(place: Path) -> None:
    experiment = Experiment.from_yaml(place / "own.yaml")
    with pytest.raises(NotAllowed):
        interactive.run(experiment, out=place / "results")
    assert not was_loaded(place)
    (bundle,) = interactive.run(experiment, out=place / "results", allow_programs=True)
    assert bundle.status == "done"


def test_programs_are_another_version_when_a_file_of_theirs_is(place: Path) -> None:
    (place / "serve.sh").write_text("exit 0")
    experiment = {
        "user_code": [],
        "control": {"command": ["sh", "control.sh"]},
        "hosts": [],
        "flows": [{"id": "a", "app": {"kind": "command", "argv": ["sh", "serve.sh"]}}],
        "events": [{"id": "e", "action": {"kind": "exec", "host": "h", "argv": ["true"]}}],
    }
    before = consent.brought_by(experiment, in_real_time=True)
    assert [one.what for one in before] == ["sh serve.sh", "true", "sh control.sh"]
    (place / "serve.sh").write_text("exit 1")
    after = consent.brought_by(experiment, in_real_time=True)
    assert before[0].version != after[0].version
    assert before[1] == after[1]
    # Only the back-ends in real time start programs.
    assert consent.brought_by(experiment, in_real_time=False) == []


def test_a_file_within_the_words_of_a_shell_or_an_option_makes_the_version(place: Path) -> None:
    argvs = [["sh", "-c", "cd . && ./serve.sh --all"], ["serve", "--config=serve.sh"]]
    experiment = {
        "user_code": [],
        "hosts": [],
        "flows": [],
        "events": [{"id": argv[0], "action": {"kind": "exec", "host": "h", "argv": argv}} for argv in argvs],
    }
    versions = set()
    for content in ("exit 0", "exit 1"):
        (place / "serve.sh").write_text(content)
        versions |= {one.version for one in consent.brought_by(experiment, in_real_time=True)}
    assert len(versions) == 4


def test_what_is_told_of_a_program_is_one_line_that_steers_no_terminal(place: Path) -> None:
    argv = ["sh", "-c", "echo\n\x1b[2Jharmless \u202e"]
    events = [{"id": "e", "action": {"kind": "exec", "host": "h", "argv": argv}}]
    with pytest.raises(NotAllowed) as refused:
        consent.settle([{"hosts": [], "flows": [], "user_code": [], "events": events}], in_real_time=True)
    assert str(refused.value).isprintable()
    with consent.policy("allow"):
        consent.settle([{"hosts": [], "flows": [], "user_code": [], "events": events}], in_real_time=True)
    [remembered] = (place / "state" / "mptcplab" / "allowed").read_text().splitlines()
    assert remembered.isprintable()


def test_one_no_is_for_all_combinations_of_a_sweep(place: Path) -> None:
    ours, theirs = pty.openpty()
    os.write(ours, b"n\n")
    command = [PROGRAM, "sweep", "own.yaml", "--set", "links.wifi.delay=1ms,2ms,3ms"]
    ended = subprocess.run(
        command, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE, env=environment(), check=False, timeout=60
    )
    said = os.read(ours, 1 << 16).decode()
    os.close(theirs)
    os.close(ours)
    assert (ended.returncode, said.count("[y/N]")) == (3, 1), said
    assert not was_loaded(place)


def test_a_program_may_write_the_file_that_it_names_between_two_runs(place: Path) -> None:
    events = [
        {"id": "e", "action": {"kind": "exec", "host": "h", "argv": ["sh", "-c", "date >out.log; cat /proc/stat"]}}
    ]
    experiment = {"hosts": [], "flows": [], "user_code": [], "events": events}
    with consent.policy("allow"):
        consent.settle([experiment], in_real_time=True)
    (place / "out.log").write_text("now")
    consent.require(experiment, in_real_time=True)
    # The next start of mptcplab asks, because the program could read the file.
    with pytest.raises(NotAllowed):
        consent.settle([experiment], in_real_time=True)


@pytest.fixture
def under_sudo(monkeypatch: pytest.MonkeyPatch) -> callers.Caller:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv(callers.USER, "65534")
    monkeypatch.setenv(callers.GROUP, "65534")
    monkeypatch.delenv(callers.ROOT_PROGRAMS, raising=False)
    found = callers.caller()
    assert found is not None
    return found


def test_under_sudo_the_process_that_loads_classes_becomes_its_callers(
    under_sudo: callers.Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    became: list[callers.Caller] = []

    def take_over(self: callers.Caller) -> None:
        became.append(self)

    monkeypatch.setattr(callers.Caller, "take_over", take_over)
    callers.leave_root_for_classes("sim", needs_root=False)
    assert became == [under_sudo]
    with pytest.raises(PrivilegeError, match="--root-programs"):
        callers.leave_root_for_classes("userspace", needs_root=True)
    monkeypatch.setenv(callers.ROOT_PROGRAMS, "1")
    callers.leave_root_for_classes("userspace", needs_root=True)
    assert became == [under_sudo]


@pytest.mark.usefixtures("under_sudo")
def test_classes_beside_a_back_end_of_root_are_refused_before_root_is_left(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callers.Caller, "take_over", lambda _: pytest.fail("root was left"))
    resolved = resolve(Experiment.from_yaml(place / "own.yaml")).data
    # Does not depend on the abilities of this machine.
    monkeypatch.setattr(type(backend("userspace")), "ready", lambda _: None)
    with consent.policy("allow"), pytest.raises(PrivilegeError, match=r"userspace.*--root-programs"):
        runner.plan([resolved], "sim", seed=1, repeat=1, out=place, among=["sim", "userspace"])
    assert not was_loaded(place)


def test_a_list_loads_no_class_as_root(
    place: Path, under_sudo: callers.Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded_before: list[bool] = []
    became: list[callers.Caller] = []

    def take_over(self: callers.Caller) -> None:
        loaded_before.append(was_loaded(place))
        became.append(self)

    monkeypatch.setattr(callers.Caller, "take_over", take_over)
    with consent.policy("allow"):
        [entry] = catalogue.listing(str(place / "own.yaml"))
    assert (became, loaded_before) == ([under_sudo], [False])
    assert "sim" in entry["on"]


def test_who_may_not_write_after_root_was_left_reads_why(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    resolved = resolve(Experiment.from_yaml(place / "own.yaml")).data
    with tempfile.TemporaryDirectory() as mine:
        Path(mine).chmod(0o755)
        monkeypatch.setenv(callers.USER, "65534")
        monkeypatch.setenv("USER", "nobody")
        os.seteuid(65534)
        try:
            with pytest.raises(BundleError, match=r"Permission denied; .*nobody.*--out.*--root-programs"):
                BundleWriter.create(Path(mine), resolved, backend="sim", seed=1, repeat=0)
        finally:
            os.seteuid(0)


def test_who_calls_sudo_as_root_stays_root(under_sudo: callers.Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    assert under_sudo.uid == 65534
    monkeypatch.setenv(callers.USER, "0")
    assert callers.caller() is None


def test_under_sudo_what_was_allowed_is_remembered_with_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    experiment = {
        "hosts": [],
        "flows": [],
        "user_code": [],
        "events": [{"id": "e", "action": {"kind": "exec", "host": "h", "argv": ["true"]}}],
    }
    monkeypatch.delenv(consent.ALLOW, raising=False)
    monkeypatch.setenv(callers.USER, "65534")
    monkeypatch.setenv(callers.GROUP, "65534")
    with tempfile.TemporaryDirectory() as home:
        os.chown(home, 65534, 65534)
        known = SimpleNamespace(pw_name="nobody", pw_dir=home)
        monkeypatch.setattr(pwd, "getpwuid", lambda _: known)
        for policy in ("allow", "refuse"):
            # Simulates another process.
            monkeypatch.setattr(consent, "_settled", set())
            with consent.policy(policy):
                consent.settle([experiment], in_real_time=True)
        [remembered] = [file for file in Path(home).rglob("*") if file.is_file()]
        assert (remembered.name, remembered.stat().st_uid) == ("allowed", 65534)
    assert os.geteuid() == 0


def test_there_is_no_way_back_to_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            callers.Caller("nobody", 65534, 65533, (65533, 65532), "/").take_over()
            is_theirs = os.getresuid() == (65534,) * 3 and os.getresgid() == (65533,) * 3
            is_theirs &= sorted(os.getgroups()) == [65532, 65533]
            try:
                os.setuid(0)
            except PermissionError:
                status = 0 if is_theirs else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
