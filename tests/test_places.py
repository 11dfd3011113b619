"""Tests the names of other machines, the channel to a program, and the file system of a guest."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from mptcplab.errors import MachineError, UsageError
from mptcplab.remote.agent_file import agent_file
from mptcplab.remote.channel import Lost, ProgramChannel
from mptcplab.remote.guest import GuestChannel, initramfs
from mptcplab.remote.kernels import KEYRING, Kernel, kernel_of
from mptcplab.remote.place import place_of

ECHO = [sys.executable, "-c", "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"]


@pytest.mark.parametrize(
    ("text", "stack", "label"),
    [
        ("ssh://lab2", "kernel", "lab2"),
        ("ssh://root@lab2.example:2222", "kernel", "lab2.example-2222"),
        ("userspace+ssh://[2001:db8::1]:22", "userspace", "2001_db8__1-22"),
        ("qemu:6.12", "kernel", "qemu"),
        ("userspace+qemu:/boot/vmlinuz", "userspace", "qemu"),
    ],
)
def test_a_place_has_a_stack_and_a_label_for_file_names(text: str, stack: str, label: str) -> None:
    place = place_of(text)
    assert place is not None
    assert (place.stack, place.way.label) == (stack, label)


@pytest.mark.parametrize("text", ["kernel", "sim", "./my-sim", "/usr/bin/ssh", "sshd", "qemu"])
def test_other_values_of_on_are_not_places(text: str) -> None:
    assert place_of(text) is None


@pytest.mark.parametrize(
    "text",
    ["ssh://", "ssh://a:0", "ssh://a:70000", "ssh://a b@/c", "ssh:a", "qemu:", "qemu:six", "qemu:6.12.3", "exec:"],
)
def test_a_wrong_place_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(UsageError, match="allowed: "):
        place_of(text)


def test_an_image_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "vmlinux").write_bytes(b"\x7fELF" + bytes(4096))
    with pytest.raises(MachineError, match="not a bzImage"):
        kernel_of("qemu:it", str(tmp_path / "vmlinux"))
    with pytest.raises(MachineError, match="No such file"):
        kernel_of("qemu:it", str(tmp_path / "nothing"))


@pytest.mark.skipif(not Path(KEYRING).exists(), reason="kernels by series come from Debian")
@pytest.mark.parametrize(("cache", "words"), [("/proc", "No such file"), (__file__, "Not a directory")])
def test_a_cache_that_takes_no_kernels_is_named(cache: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", cache)
    with pytest.raises(MachineError, match=f"qemu:7.9: {cache}/mptcplab.*: {words}.*; XDG_CACHE_HOME names another"):
        kernel_of("qemu:7.9", "7.9")


def test_a_missing_agent_has_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPTCPLAB_AGENT", str(tmp_path / "agent"))
    with pytest.raises(MachineError, match="make agent"):
        agent_file()
    (tmp_path / "agent").write_text("#!/bin/sh\n")
    with pytest.raises(MachineError, match="not an agent"):
        agent_file()


def test_a_channel_gives_lines_and_bytes_of_any_size() -> None:
    channel = ProgramChannel(ECHO)
    long = b"x" * 1_000_000
    channel.send(b"one\n" + long + b"\ntwo\nthree\n")
    assert channel.line(10) == b"one"
    assert channel.line(10) == long
    assert b"".join(channel.exactly(6, 10)) == b"two\nth"
    assert channel.line(10) == b"ree"
    with pytest.raises(Lost, match=r"no answer in 0\.1 s"):
        channel.line(0.1)
    channel.close()


def test_a_program_that_ends_has_its_status_and_its_message() -> None:
    channel = ProgramChannel([sys.executable, "-c", "import sys; print('half', end=''); sys.exit('it fell over')"])
    with pytest.raises(Lost, match="ended with status 1: it fell over"):
        channel.line(10)
    channel.close()


def test_closing_ends_a_program_that_does_not_read() -> None:
    channel = ProgramChannel(["sh", "-c", "echo $$; exec sleep 1000"])
    pid = int(channel.line(10))
    channel.kill()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def entries(archive: bytes) -> dict[str, tuple[int, bytes]]:
    """Returns mode and content of the entries of a cpio archive, read as the kernel's documentation
    describes it.
    """
    found, at = {}, 0
    while True:
        assert archive[at : at + 6] == b"070701"
        fields = [int(archive[at + 6 + 8 * n : at + 14 + 8 * n], 16) for n in range(13)]
        mode, size, length = fields[1], fields[6], fields[11]
        name = archive[at + 110 : at + 110 + length - 1].decode()
        start = (at + 110 + length + 3) & ~3
        if name == "TRAILER!!!":
            return found
        found[name] = mode, archive[start : start + size]
        at = (start + size + 3) & ~3


@pytest.mark.parametrize("compression", [None, "xz", "gzip", "zstd"])
def test_the_file_system_of_a_guest_has_its_programs_and_modules(tmp_path: Path, compression: str | None) -> None:
    module = tmp_path / "tun.ko"
    module.write_bytes(b"module")
    if compression is not None:
        if shutil.which(compression) is None:
            pytest.skip(f"there is no {compression}")
        subprocess.run([compression, "-q", str(module)], check=True)
        [module] = tmp_path.glob("tun.ko.*")
    kernel = Kernel(tmp_path / "vmlinuz", "6.12", (module,))
    found = entries(initramfs(kernel, b"busybox", {"agent": b"agent!", "usr/lib/x.so": b""}, "/agent serve kernel"))
    assert found["agent"] == (stat.S_IFREG | 0o755, b"agent!")
    assert found["bin/busybox"] == (stat.S_IFREG | 0o755, b"busybox")
    assert found["modules/tun.ko"][1] == b"module"
    assert stat.S_ISDIR(found["usr/lib"][0])
    init = found["init"][1].decode()
    assert "for module in tun.ko; do" in init
    assert "/agent serve kernel <&3 >&3" in init
    # A directory comes before what it holds.
    assert list(found).index("usr") < list(found).index("usr/lib") < list(found).index("usr/lib/x.so")


def test_a_module_that_needs_zstd_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tun.ko.zst").write_bytes(b"")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MachineError, match=r"/tun\.ko\.zst: zstd is missing, .*: sudo apt install zstd"):
        initramfs(Kernel(tmp_path / "vmlinuz", "6.12", (tmp_path / "tun.ko.zst",)), b"", {}, "true")


@pytest.mark.skipif(os.name != "posix", reason="guests are programs of QEMU on Linux")
def test_a_guest_that_is_held_stands_still() -> None:
    """A guest must not live on while nothing is asked of it, because its time is its own."""
    counts = "import time\nfor number in range(10_000): print(number, flush=True); time.sleep(0.001)"
    channel = GuestChannel([sys.executable, "-c", counts], has_own_time=True)
    try:
        channel.line(10)
        channel.hold()
        with pytest.raises(Lost, match="no answer"):
            list(iter(lambda: channel.line(0.5), None))
        channel.go_on()
        assert int(channel.line(10)) < 10_000
    finally:
        channel.kill()
