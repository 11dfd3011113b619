"""Tests runs in guests with another kernel, which needs QEMU and downloads a kernel of Debian."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import is_refused, mptcplab
from guest_marks import MARKS
from mptcplab.errors import MachineError
from mptcplab.remote.channel import Lost
from mptcplab.remote.guest import Guest
from mptcplab.remote.kernels import cache_directory, kernel_of
from mptcplab.results import find

ROOT = Path(__file__).parents[2]
SERIES = "6.12"

pytestmark = MARKS

DESCRIPTION = """
name: guest
hosts: {client: {}, server: {}}
links:
  one: {between: [client.eth1, server.eth1], rate: 20mbit, delay: 5ms}
  two: {between: [client.eth2, server.eth2], rate: 10mbit, delay: 15ms}
flows:
  bulk: {from: client, to: server, transport: mptcp, path_manager: full_mesh, app: bulk}
measure: {every: 50ms}
duration: 4s
"""


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    (tmp_path / "guest.yaml").write_text(DESCRIPTION)
    return tmp_path


def printed_by(command: str) -> list[str]:
    """Returns the lines that a command of busybox prints in a guest."""
    guest = Guest.boot(f"qemu:{SERIES}", kernel_of(f"qemu:{SERIES}", SERIES), {}, command)
    lines = []
    try:
        while True:
            lines.append(guest.channel.line(60).decode().strip())
    except Lost:
        guest.channel.close()
    return lines


def test_a_run_in_a_guest_is_a_bundle_with_its_kernel(desk: Path) -> None:
    ended = mptcplab("run", "guest.yaml", "--on", f"qemu:{SERIES}", "--repeat", "2", "--json", cwd=desk)
    assert ended.status in (0, 4), ended
    bundles = list(find(desk / "results"))
    assert len(bundles) == 2
    for bundle in bundles:
        assert bundle.status in ("done", "invalid"), bundle.record["why"]
        assert bundle.record["kernel"].startswith(f"Linux {SERIES}.")
        assert bundle.record["backend"].startswith(f"kernel@qemu-{SERIES}.")
        machine = bundle.record["machine"]
        assert machine["on"] == f"qemu:{SERIES}"
        assert machine["own_time"] == machine["emulated"] == (machine["accelerator"] == "tcg")
        assert 0 <= machine["load"]["least_idle"] <= 1
        bundle.verify()
        if machine["own_time"]:
            # What else this machine does is not seen in the guest.
            assert bundle.status == "done", bundle.record["why"]
            assert bundle.record["metrics"]["flows.bulk"]["goodput_bps"] > 20e6


def test_an_experiment_beyond_an_emulated_processor_is_invalid(desk: Path) -> None:
    fast = ("--set", "links.*.rate=400mbit", "--set", "links.*.delay=1ms")
    ended = mptcplab("run", "guest.yaml", "--on", f"qemu:{SERIES}", *fast, cwd=desk)
    [bundle] = find(desk / "results")
    if not bundle.record["machine"]["emulated"]:
        pytest.skip("KVM carries it")
    assert ended.status == 4
    assert bundle.status == "invalid"


def test_what_a_kernel_takes_and_drops_is_refused(desk: Path) -> None:
    laminar = "flows.bulk.path_manager={kernel_endpoints: {endpoints: [{interface: client.eth2, flags: [laminar]}]}}"
    ended = mptcplab("run", "guest.yaml", "--on", f"qemu:{SERIES}", "--set", laminar, cwd=desk)
    assert is_refused(ended, 3, "host client would have a laminar endpoint, and this kernel has endpoints with")
    assert not (desk / "results").exists()


def test_a_guest_has_no_network_but_its_own() -> None:
    assert printed_by("busybox ls /sys/class/net") == ["lo"]


def test_doctor_reports_a_guest(desk: Path) -> None:
    ended = mptcplab("doctor", "--on", f"qemu:{SERIES}", cwd=desk)
    assert ended.status == 0, ended
    assert f"Linux {SERIES}." in ended.out
    assert "runs here" in ended.out


def test_a_kernel_that_does_not_start_is_named(desk: Path) -> None:
    kernel = kernel_of(f"qemu:{SERIES}", SERIES)
    assert kernel.image.is_relative_to(cache_directory())
    broken = desk / "bzImage"
    broken.write_bytes(kernel.image.read_bytes()[: 1 << 20])
    with pytest.raises(MachineError, match="does not start"):
        Guest.boot("qemu:broken", kernel_of("qemu:broken", str(broken)), {}, "busybox true")


def test_a_series_that_debian_does_not_have_is_refused(desk: Path) -> None:
    ended = mptcplab("run", "guest.yaml", "--on", "qemu:5.4", cwd=desk)
    assert is_refused(ended, 3, "Debian has no Linux 5.4 now; it has")
    assert not (desk / "results").exists()
