"""Guests in QEMU: another kernel on this machine, with an agent as its only program.

A guest has no network. Its standard input and output are a port of virtio-serial, so it is a
program like any other.

An emulated guest has a time of its own: its clock counts the instructions that it executes, and
leaps to the next timer when it has none to execute. What else the machine does makes the guest take
longer and changes nothing in it.

A guest with hosts of an experiment that this machine runs has the time of this machine instead. It
has a network device for each interface of these hosts, connected with a socket of this process and
with nothing else.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any

from mptcplab.errors import MachineError
from mptcplab.remote.agent_file import agent_file
from mptcplab.remote.channel import Channel, Lost, ProgramChannel
from mptcplab.remote.kernels import Kernel, check_form, files_of, is_path, kernel_of, plain, plain_name

QEMU = "qemu-system-x86_64"
BUSYBOX = Path("/bin/busybox")
MEMORY_MB = 512
#: The first line of a guest.
GREETING = b"mptcplab: guest"
#: Time limits in seconds for that line: on trial with KVM, which may start no guest although it can
#: be opened, and under emulation, which takes about 5 s on a free machine.
TRIAL_S, BOOT_S = 5.0, 300.0
#: Time limit in seconds for each of the lines that the agent of an emulated guest sends each second
#: of the guest.
GUEST_SECOND_S = 120.0
#: QEMU 7.2 sometimes gets the flags of CMPXCHG16B wrong, with which 6.12 keeps its memory.
EMULATION = "tcg"
EMULATED = ("-accel", EMULATION, "-cpu", "max,-cx16")
#: An instruction takes 2^0 ns of the guest's time.
OWN_TIME = ("-icount", "shift=0,sleep=off")
#: The idle fraction of a second below which an emulated guest counts as short of processor.
IDLE_BOUND = 0.02
KVM = Path("/dev/kvm")
WITH_KVM = ("-accel", "kvm", "-cpu", "host")
CONSOLE_LINES = 20

_INIT = """#!/bin/busybox sh
export PATH=/bin HOME=/tmp
busybox mount -t proc proc /proc
busybox mount -t sysfs sys /sys
busybox mount -t devtmpfs dev /dev
busybox mount -t tmpfs tmp /tmp
for module in {modules}; do
    busybox insmod /modules/$module || echo "mptcplab: $module was not loaded"
done
for port in /sys/class/virtio-ports/*; do
    [ "$(busybox cat $port/name)" != data ] || data=/dev/${{port##*/}}
    [ "$(busybox cat $port/name)" != said ] || said=/dev/${{port##*/}}
done
if [ ! -c "$data" ]; then
    echo 'mptcplab: no virtio port'
    busybox poweroff -f
fi
exec 3<>$data 2>$said
echo "{greeting} $(busybox uname -r)" >&3
{command} <&3 >&3
echo "status $?" >&2
busybox poweroff -f
"""


class Guests:
    """A way to guests with the kernel that `qemu:WANTED` names. The kernel is looked for when the
    first one starts.
    """

    label = "qemu"

    def __init__(self, where: str, wanted: str) -> None:
        check_form(where, wanted)
        self._where = where
        self._wanted = wanted
        self._latest: Guest | None = None

    @cached_property
    def _kernel(self) -> Kernel:
        return kernel_of(self._where, self._wanted)

    def prepare(self, *, image: bool = True) -> None:
        """Looks for all that a guest needs, and downloads its kernel. Raises MachineError. Without
        `image`, an image that is named by its path may be missing.
        """
        _tools(self._where)
        agent_file()
        if image or not is_path(self._wanted):
            _ = self._kernel

    def open(self, task: str) -> Channel:
        return self.open_with_devices(task, [])

    def open_with_devices(self, task: str, ends: Sequence[socket.socket]) -> Channel:
        """Starts an agent in a guest with a network device for each of these sockets, which carry its
        frames. With any, its time is that of this machine. Raises MachineError.
        """
        programs = {"agent": agent_file().content}
        self._latest = Guest.boot(self._where, self._kernel, programs, f"/agent {task} --in-guest", ends)
        return self._latest.channel

    def about(self) -> dict[str, object]:
        if self._latest is None:
            return {}
        return {
            "accelerator": self._latest.accelerator,
            "emulated": self._latest.accelerator == EMULATION,
            "own_time": self._latest.channel.can_hold,
        }


def why_short(machine: Mapping[str, Any]) -> str | None:
    """Returns why the processor of an emulated guest was too slow, or None. On real processors, the
    lateness of packets tells it.
    """
    least = machine["load"]["least_idle"]
    if not machine.get("emulated") or least is None or least >= IDLE_BOUND:
        return None
    idle = f"in one second its processor was idle for {100 * least:.1f} % (bound {100 * IDLE_BOUND:.0f} %)"
    return f"the emulated guest is too slow for this experiment: {idle}; use lower rates"


class GuestChannel(ProgramChannel):
    """QEMU. While an emulated guest is held, its time stands still."""

    def __init__(self, argv: Sequence[str], *, has_own_time: bool, descriptors: Sequence[int] = ()) -> None:
        self.can_hold = has_own_time
        super().__init__(argv, descriptors=descriptors)

    def hold(self) -> None:
        if self.can_hold:
            self.signal(signal.SIGSTOP)

    def go_on(self) -> None:
        if self.can_hold:
            self.signal(signal.SIGCONT)


@dataclass(frozen=True)
class Guest:
    """A guest that has sent its first line."""

    channel: Channel
    #: `kvm` or `tcg`.
    accelerator: str
    release: str

    @classmethod
    def boot(
        cls,
        where: str,
        kernel: Kernel,
        programs: Mapping[str, bytes],
        command: str,
        ends: Sequence[socket.socket] = (),
    ) -> Guest:
        """Starts a guest that runs a command on its port. `programs` are files in its root
        directory, and `ends` carry the frames of its network devices.

        Uses KVM if a guest sends its first line with it, else emulation. Raises MachineError.
        """
        qemu, busybox = _tools(where)
        with files_of(where, _temporary(), "TMPDIR"):
            parts = _Parts(qemu, kernel, initramfs(kernel, busybox, programs, command), ends)
            for accelerator, options, limit_s in _ways():
                with suppress(Lost):
                    channel, release = parts.start(options, limit_s)
                    return cls(channel, accelerator, release)
            channel, release = _emulated(where, parts)
            return cls(channel, EMULATION, release)


def _temporary() -> str:
    with suppress(OSError):
        return tempfile.gettempdir()
    return "temporary files"


def _ways() -> Iterator[tuple[str, Sequence[str], float]]:
    """Yields the ways to start a guest that may fail."""
    if KVM.exists() and os.access(KVM, os.R_OK | os.W_OK):
        yield "kvm", WITH_KVM, TRIAL_S


def _tools(where: str) -> tuple[str, bytes]:
    qemu = shutil.which(QEMU)
    packages = [] if qemu else ["qemu-system-x86"]
    content = BUSYBOX.read_bytes() if BUSYBOX.exists() else b""
    # A program with an interpreter in its header needs libraries that a guest does not have.
    if not content or b"ld-linux" in content[:4096]:
        packages.append("busybox-static")
    if packages or qemu is None:
        raise MachineError(f"{where}: guests need packages that are missing: sudo apt install {' '.join(packages)}")
    return qemu, content


def _emulated(where: str, parts: _Parts) -> tuple[Channel, str]:
    with tempfile.TemporaryDirectory(prefix="mptcplab-guest-") as directory:
        console = Path(directory, "console")
        options = EMULATED if parts.ends else (*EMULATED, *OWN_TIME)
        try:
            return parts.start(options, BOOT_S, console)
        except Lost as lost:
            printed = console.read_text(errors="replace") if console.exists() else ""
            raise MachineError(f"{where}: {_why_not_started(parts.kernel, printed, str(lost))}") from None


def _why_not_started(kernel: Kernel, printed: str, lost: str) -> str:
    """Returns why a guest did not start, from what its console printed."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    if any("mptcplab: no virtio port" in line for line in lines):
        return f"{kernel.image}: it has no virtio-serial (CONFIG_VIRTIO_PCI, CONFIG_VIRTIO_CONSOLE)"
    panic = next((line for line in lines if "Kernel panic" in line), None)
    return f"Linux {kernel.release} does not start: {panic or (lines[-1] if lines else lost)}"


@dataclass(frozen=True)
class _Parts:
    """What a guest is made of."""

    qemu: str
    kernel: Kernel
    #: Its file system.
    archive: bytes
    #: Sockets that carry the frames of its network devices.
    ends: Sequence[socket.socket]

    def start(self, options: Sequence[str], limit_s: float, console: Path | None = None) -> tuple[Channel, str]:
        """Starts QEMU, and returns the channel and the release from the guest's first line. Raises
        Lost.
        """
        with tempfile.TemporaryDirectory(prefix="mptcplab-guest-") as directory:
            disk = Path(directory, "initramfs")
            disk.write_bytes(self.archive)
            argv = [
                # The kernel ends QEMU with the thread that reads from it.
                *_ends_with_us(),
                *(self.qemu, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-nic", "none"),
                *options,
                *("-smp", "1", "-m", str(MEMORY_MB), "-kernel", str(self.kernel.image), "-initrd", str(disk)),
                *("-append", "console=ttyS0 quiet panic=-1 no_timer_check"),
                *("-serial", f"file:{console}" if console else "none"),
                *("-device", "virtio-serial-pci"),
                *("-chardev", "stdio,id=data,signal=off", "-device", "virtserialport,chardev=data,name=data"),
                # Standard error of the guest is that of QEMU.
                *("-chardev", "file,id=said,path=/dev/stderr", "-device", "virtserialport,chardev=said,name=said"),
                *self._devices(),
            ]
            descriptors = [end.fileno() for end in self.ends]
            channel = GuestChannel(argv, has_own_time=OWN_TIME[0] in options, descriptors=descriptors)
            try:
                line = channel.line(limit_s)
                while not line.startswith(GREETING):
                    line = channel.line(limit_s)
            except Lost:
                channel.kill()
                raise
        return channel, line.removeprefix(GREETING).decode(errors="replace").strip()

    def _devices(self) -> Iterator[str]:
        """Yields the options for the network devices. The guest's kernel numbers them in this order."""
        for number, end in enumerate(self.ends):
            yield from ("-netdev", f"dgram,id=net{number},local.type=fd,local.str={end.fileno()}")
            # No guest starts from the network.
            yield from ("-device", f"virtio-net-pci,netdev=net{number},romfile=")


def _ends_with_us() -> list[str]:
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL"] if setpriv else []


def initramfs(kernel: Kernel, busybox: bytes, programs: Mapping[str, bytes], command: str) -> bytes:
    """Returns the file system of a guest as a cpio archive."""
    names = [plain_name(module) for module in kernel.modules]
    init = _INIT.format(modules=" ".join(names), greeting=GREETING.decode(), command=command)
    archive = Archive()
    for directory in ("bin", "dev", "modules", "proc", "sys", "tmp"):
        archive.add(directory, stat.S_IFDIR | 0o755)
    # The kernel opens it for the first program, before devtmpfs is mounted.
    archive.add("dev/console", stat.S_IFCHR | 0o600, device=(5, 1))
    archive.add("bin/busybox", stat.S_IFREG | 0o755, busybox)
    archive.add("init", stat.S_IFREG | 0o755, init.encode())
    for name, module in zip(names, kernel.modules, strict=True):
        archive.add(f"modules/{name}", stat.S_IFREG | 0o644, plain(module))
    above = {str(path) for name in programs for path in Path(name).parents if path.name}
    for directory in sorted(above - {"bin"}):
        archive.add(directory, stat.S_IFDIR | 0o755)
    for name, content in programs.items():
        archive.add(name, stat.S_IFREG | 0o755, content)
    return archive.content()


class Archive:
    """A cpio archive as the kernel unpacks it
    (Documentation/driver-api/early-userspace/buffer-format.rst).
    """

    def __init__(self) -> None:
        self._file = BytesIO()
        self._number = 0

    def add(self, name: str, mode: int, content: bytes = b"", device: tuple[int, int] = (0, 0)) -> None:
        self._number += 1
        path = name.encode() + b"\0"
        fields = (self._number, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(path), 0)
        self._file.write(b"070701" + b"".join(b"%08X" % field for field in fields) + path)
        self._pad()
        self._file.write(content)
        self._pad()

    def _pad(self) -> None:
        self._file.write(b"\0" * (-self._file.tell() % 4))

    def content(self) -> bytes:
        """Ends the archive, and returns it."""
        self.add("TRAILER!!!", 0)
        return self._file.getvalue()
