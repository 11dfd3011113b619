"""Tests what is printed of kernels that no guest can use, with a program in place of QEMU."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from command_line import SHORT, Ended, is_refused, may_mount, mptcplab
from documentation import ROOT
from mptcplab.remote.guest import BUSYBOX, QEMU

AGENT = ROOT / "python" / "mptcplab" / "mptcplab-agent"
GREETING = "printf 'mptcplab: guest 9.9.9\\n'"

#: What the kernel of an image does, as the program in place of QEMU. `$console` is the file of its
#: console under emulation.
ENDS = 'for argument; do case $argument in file:*) [ "$console" ] || console=${argument#file:};; esac; done\n'

pytestmark = pytest.mark.skipif(not BUSYBOX.exists(), reason="there is no busybox: apt-get install busybox-static")


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A directory with a description and an image, whose header is all that is read of it."""
    (tmp_path / "short.yaml").write_text(SHORT)
    image = bytearray(0x400)
    image[0x202:0x206] = b"HdrS"
    image[0x20E:0x210] = (0x100).to_bytes(2, "little")
    image[0x300:0x310] = b"9.9.9 (me@here)\0"
    (tmp_path / "bzImage").write_bytes(image)
    (tmp_path / "agent").write_bytes(b"\x7fELF" + bytes(14) + b"\x3e\0" + bytes(64))
    return tmp_path


def run_with(desk: Path, behaves: str, *, agent: Path | None = None, image: str = "./bzImage") -> Ended:
    """Runs the description in a guest whose QEMU behaves in some way."""
    programs = desk / "programs"
    programs.mkdir()
    (programs / QEMU).write_text(f"#!/bin/sh\n{ENDS}{behaves}\n")
    (programs / QEMU).chmod(0o755)
    temporary = desk / "tmp"
    temporary.mkdir(exist_ok=True)
    changes = {"MPTCPLAB_AGENT": str(agent or desk / "agent"), "TMPDIR": str(temporary)}
    path = f"{programs}:{os.environ['PATH']}"
    ended = mptcplab("run", "short.yaml", "--on", f"qemu:{image}", cwd=desk, PATH=path, **changes)
    assert len(ended.err.splitlines()) == 1
    assert list(temporary.iterdir()) == []
    assert not (desk / "results").exists()
    return ended


@pytest.mark.parametrize(
    ("behaves", "words"),
    [
        ("echo 'mptcplab: no virtio port' >>$console", "bzImage: it has no virtio-serial (CONFIG_VIRTIO_PCI"),
        ("echo 'Kernel panic - not syncing: no init' >>$console", "Linux 9.9.9 does not start: Kernel panic"),
        ("echo 'last words' >>$console", "Linux 9.9.9 does not start: last words"),
        ("echo 'qemu: no such accelerator' >&2; exit 1", "does not start: "),
    ],
)
def test_an_image_that_no_guest_can_use_is_one_line(desk: Path, behaves: str, words: str) -> None:
    assert is_refused(run_with(desk, behaves), 3, "--on qemu:./bzImage: ", words)


def test_a_kernel_without_multipath_tcp_is_one_line(desk: Path) -> None:
    if os.geteuid() or not AGENT.exists():
        pytest.skip("needs root, and an agent: make agent")
    hides = f"mount -t tmpfs none /proc/sys/net/mptcp && exec {AGENT} serve kernel"
    (desk / "short.yaml").write_text(
        SHORT.replace("transport: udp, app: {cbr: {rate: 1mbit, size: 1000}}", "app: bulk")
    )
    ended = run_with(desk, f'{GREETING}; exec unshare --mount sh -c "{hides}"', agent=AGENT)
    assert is_refused(ended, 3, "this kernel has no Multipath TCP: it needs Linux 6.1 or newer with CONFIG_MPTCP")


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "not a bzImage"), (b"\x7fELF" + bytes(4096), "not a bzImage"), (None, "No such file or directory")],
)
def test_what_is_not_an_image_is_one_line(desk: Path, content: bytes | None, words: str) -> None:
    (desk / "bzImage").unlink()
    if content is not None:
        (desk / "bzImage").write_bytes(content)
    assert is_refused(run_with(desk, "exit 1"), 3, "--on qemu:./bzImage: ", words)


def test_a_full_directory_for_temporary_files_is_one_line(desk: Path) -> None:
    if os.geteuid() or not may_mount():
        pytest.skip("needs root that may mount")
    (desk / "tmp").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "full", str(desk / "tmp")], check=True)
    try:
        ended = run_with(desk, "exit 1")
    finally:
        subprocess.run(["umount", str(desk / "tmp")], check=True)
    assert is_refused(ended, 3, f"--on qemu:./bzImage: {desk / 'tmp'}: No space left on device; TMPDIR names another")


def test_without_an_agent_nothing_is_looked_for(desk: Path) -> None:
    ended = run_with(desk, "exit 1", agent=desk / "no-agent", image="6.12")
    assert is_refused(ended, 3, "no-agent: there is no agent to run experiments elsewhere; `make agent`")
