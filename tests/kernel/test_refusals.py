"""Tests the checks before a run: missing requirements are reported with a remedy before anything is
created.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest
from command_line import PROGRAM, Ended, environment, is_refused, mptcplab
from measured import TWO_LINKS

pytestmark = pytest.mark.kernel

BULK = TWO_LINKS + "flows: {bulk: {from: client, to: server, app: bulk}}\nduration: 1s\n"
#: A run with many hosts, for tests in which the limits of a process are too small.
STAR = """
name: star
topology: {star: {n: 20, rate: 10mbit, delay: 1ms}}
flows: {load: {pattern: incast, hosts: ["h[1-19]"], to: h20, transport: tcp, app: bulk}}
duration: 1s
"""


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    (tmp_path / "bulk.yaml").write_text(BULK)
    return tmp_path


def under(*prefix: str, cwd: Path, description: str = "bulk.yaml", **changes: str) -> Ended:
    """Runs a description on the kernel under a program that changes limits or rights."""
    command = [*prefix, str(PROGRAM), "run", description, "--on", "kernel"]
    env = environment(**changes)
    ended = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=60)
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def in_changed_mounts(change: str, *, cwd: Path) -> Ended:
    """Runs it with a file system changed for this process only."""
    return under("unshare", "--mount", "sh", "-c", f'{change} && exec "$@"', "sh", cwd=cwd)


@pytest.mark.parametrize("restriction", ["--bounding-set=-sys_admin", "--bounding-set=-net_admin"])
def test_a_user_namespace_has_the_right_that_is_missing(desk: Path, restriction: str) -> None:
    assert under("setpriv", restriction, cwd=desk).status == 0


def test_without_rights_to_a_user_namespace_nothing_is_created(desk: Path) -> None:
    # The kernel maps root into a new namespace only for who has CAP_SETFCAP.
    ended = under("setpriv", "--bounding-set=-all", cwd=desk)
    assert is_refused(ended, 3, "need rights that this process lacks", "use sudo", "--on sim", "user namespaces")
    assert not (desk / "results").exists()


def test_another_user_needs_no_root() -> None:
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    if subprocess.run([*nobody, str(PROGRAM), "--version"], capture_output=True, check=False).returncode != 0:
        pytest.skip("another user cannot reach the program where it is installed")
    # Other users cannot read the directories of tests.
    with tempfile.TemporaryDirectory() as name:
        open_to_all = Path(name)
        open_to_all.chmod(0o777)
        (open_to_all / "bulk.yaml").write_text(BULK)
        ended = under(*nobody, cwd=open_to_all, HOME=name)
        assert ended.status == 0, ended.err
        assert (open_to_all / "results").stat().st_uid == 65534


def test_a_congestion_control_that_the_kernel_lacks_is_named(desk: Path) -> None:
    (desk / "bulk.yaml").write_text(BULK.replace("app: bulk", "app: bulk, cc: coupled"))
    assert is_refused(mptcplab("run", "bulk.yaml", "--on", "kernel", cwd=desk), 3, "cc: coupled", "mainline kernel")
    assert not (desk / "results").exists()


def test_a_kernel_without_mptcp_is_told_what_it_needs(desk: Path) -> None:
    ended = in_changed_mounts("mount -t tmpfs none /proc/sys/net/mptcp", cwd=desk)
    assert is_refused(ended, 3, "transport: mptcp", "CONFIG_MPTCP")
    assert not (desk / "results").exists()


def test_tcp_needs_no_mptcp(desk: Path) -> None:
    (desk / "bulk.yaml").write_text(BULK.replace("app: bulk", "app: bulk, transport: tcp"))
    ended = in_changed_mounts("mount -t tmpfs none /proc/sys/net/mptcp", cwd=desk)
    assert ended.status == 0 or "too busy" in ended.out, ended


def test_hosts_have_mptcp_also_where_the_machine_has_it_disabled(desk: Path) -> None:
    without = "sysctl --quiet --write net.mptcp.enabled=0"
    ended = under("unshare", "--net", "sh", "-c", f'{without} && exec "$@"', "sh", cwd=desk)
    assert ended.status == 0 or "too busy" in ended.out, ended
    assert "fell back" not in ended.out


def test_without_tun_devices_the_remedy_is_told(desk: Path) -> None:
    ended = in_changed_mounts("mount -t tmpfs none /dev/net", cwd=desk)
    assert ended.status in (0, 3, 4), ended
    assert "Traceback" not in ended.err
    if ended.status != 0:
        assert "/dev/net/tun" in ended.out + ended.err
        assert "modprobe tun" in ended.out + ended.err


@pytest.mark.parametrize("most", [40, 70, 110])
def test_more_than_the_machine_carries_fails_with_the_reason(desk: Path, most: int) -> None:
    (desk / "star.yaml").write_text(STAR)
    ended = under("prlimit", f"--nofile={most}:{most}", cwd=desk, description="star.yaml")
    assert ended.status == 4, ended
    assert "Traceback" not in ended.err
    assert "panicked" not in ended.err
    assert "Too many open files" in ended.out + ended.err


def test_a_program_over_both_families(desk: Path) -> None:
    mixed = BULK.replace("client: {}", "client: {interfaces: {eth2: {family: ipv6}}}").replace(
        "bulk}}", "{iperf3: {}}}}"
    )
    (desk / "mixed.yaml").write_text(mixed)
    ended = mptcplab("run", "mixed.yaml", "--on", "kernel", cwd=desk)
    assert is_refused(ended, 3)
    assert "flows.bulk.app: iperf3 (its paths are of IPv4 and of IPv6" in ended.err
