"""Tests hosts of one experiment in guests with different kernels, which needs QEMU and downloads kernels
of Debian.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from command_line import PROGRAM, environment, is_refused, mptcplab
from guest_marks import MARKS
from measured import until_measuring
from mptcplab.remote.channel import Lost
from mptcplab.remote.guest import QEMU, Guest
from mptcplab.remote.kernels import kernel_of
from mptcplab.remote.parts import wire
from mptcplab.results import Bundle, find
from traces import Traces, descendants_named, left_since

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "two-kernels.yaml"
SERIES = "6.12"
#: Attempts of a run that this machine may be too busy for.
ATTEMPTS = 4

pytestmark = MARKS


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MPTCPLAB_ALLOW_PROGRAMS", "1")
    shutil.copy(EXAMPLE, tmp_path)
    return tmp_path


def ran(desk: Path, *arguments: str) -> Bundle:
    ended = mptcplab("run", EXAMPLE.name, "--on", "kernel", "--fresh", *arguments, cwd=desk)
    bundles = list(find(desk / "results"))
    assert bundles, ended
    return bundles[-1]


def test_a_client_and_a_server_with_different_kernels_are_one_experiment(desk: Path) -> None:
    bundle = next(done for _ in range(ATTEMPTS) if (done := ran(desk)).status == "done")
    assert [kept["held"] for kept in bundle.record["expectations"]] == [True] * 3
    result = bundle.record["result"]
    machines = {machine["id"]: machine for machine in result["machines"]}
    for name, series in {"old": SERIES, "new": "7.3"}.items():
        machine = machines[name]["machine"]
        assert machine["kernel"].startswith(f"Linux {series}.")
        assert machine["machine"]["own_time"] is False
        assert machine["machine"]["load"]["least_idle"] > 0
        assert machines[name]["address"] is None
        assert 0 < machines[name]["clock"]["bound_s"] < 0.02
        tunnels = machines[name]["tunnels"]
        assert tunnels["packets"] > 1000
        assert 0 < tunnels["late_p99_s"] <= tunnels["late_max_s"]
    # Both subflows carry data.
    assert bundle.record["metrics"]["flows.download"]["load_balance"] > 0.2
    bundle.verify()


def test_what_is_beyond_an_emulated_processor_is_invalid(desk: Path) -> None:
    bundle = ran(desk, "--set", "links.*.rate=400mbit", "--set", "links.*.delay=1ms", "--set", "duration=4s")
    if not bundle.record["result"]["machines"][0]["machine"]["machine"]["emulated"]:
        pytest.skip("KVM carries it")
    assert bundle.status == "invalid", bundle.record["metrics"]
    assert "\n" not in bundle.record["why"]


def test_a_killed_guest_fails_the_run_and_leaves_nothing(desk: Path, started: list[subprocess.Popen[str]]) -> None:
    before = Traces.now()
    command = [str(PROGRAM), "run", EXAMPLE.name, "--on", "kernel", "--set", "duration=120s"]
    running = subprocess.Popen(command, cwd=desk, env=environment(), stdout=-1, stderr=-1, text=True)
    started.append(running)
    until_measuring(desk)
    guests = descendants_named(QEMU[:15])
    assert len(guests) == 2
    os.kill(guests[0], signal.SIGKILL)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 4, err
    [bundle] = find(desk / "results")
    assert bundle.status == "failed"
    assert "ended with status -9" in bundle.record["why"]
    assert left_since(before) == {}


#: What a guest tries to reach of this machine and its network, with addresses that a network of QEMU
#: would have.
ESCAPES = """
busybox ip link set eth0 up
busybox ip address add 10.0.2.15/24 dev eth0
busybox ip route add default via 10.0.2.2
for address in 10.0.2.2 10.0.2.3; do
    echo hello | busybox nc -w 2 $address PORT && echo reached $address
    busybox ping -c 1 -W 2 $address && echo reached $address
done
echo tried
"""


def printed_by(script: str, end: socket.socket) -> list[str]:
    """Returns the lines that a script of busybox prints in a guest whose device ends at a socket."""
    kernel = kernel_of(f"qemu:{SERIES}", SERIES)
    files = {"script": script.encode()}
    guest = Guest.boot(f"qemu:{SERIES}", kernel, files, "busybox sh /script 2>&1", [end])
    lines = []
    with suppress(Lost):
        while True:
            lines.append(guest.channel.line(60).decode().strip())
    guest.channel.close()
    return lines


def arrived_at(end: socket.socket) -> list[bytes]:
    end.setblocking(False)
    frames = []
    with suppress(BlockingIOError):
        while True:
            frames.append(end.recv(2000))
    return frames


def test_the_device_of_a_guest_leads_to_its_socket_only() -> None:
    here, there = wire("test")
    with here, there, socket.create_server(("0.0.0.0", 0)) as listener:
        port = listener.getsockname()[1]
        lines = printed_by(ESCAPES.replace("PORT", str(port)), there)
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()
        frames = arrived_at(here)
    assert "tried" in lines
    assert [line for line in lines if line.startswith("reached")] == []
    # What was tried left the guest, as requests for addresses (ARP).
    assert any(frame[12:14] == b"\x08\x06" for frame in frames)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("qemu:5.4", "machines.old: qemu:5.4: Debian has no Linux 5.4 now; it has"),
        ("qemu:six", "machines.old: qemu:six: unknown kernel 'six'; allowed: a series as in 6.12"),
        ("qemu:/nothing/bzImage", "machines.old: qemu:/nothing/bzImage: /nothing/bzImage: No such file"),
    ],
)
def test_what_is_no_kernel_is_refused_before_anything_is_made(desk: Path, change: str, words: str) -> None:
    file = desk / EXAMPLE.name
    file.write_text(file.read_text().replace("qemu:6.12", change))
    ended = mptcplab("run", file.name, "--on", "kernel", cwd=desk)
    assert is_refused(ended, 2 if "six" in change else 3, words)
    assert not (desk / "results").exists()
