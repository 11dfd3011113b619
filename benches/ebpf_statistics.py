"""What the kernel's own statistics say that a hook of an eBPF congestion control takes."""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STATISTICS = Path("/proc/sys/kernel/bpf_stats_enabled")
#: The system call, and what it is asked for.
BPF = {"x86_64": 321, "aarch64": 280}
NEXT_PROGRAM, PROGRAM_OF_ID, INFORMATION = 11, 13, 15
#: Where `struct bpf_prog_info` has the name, and how much of it is read.
NAME, INFORMATION_BYTES = slice(64, 80), 256


@contextmanager
def statistics() -> Iterator[None]:
    """Let the kernel count and time programs."""
    before = STATISTICS.read_text()
    STATISTICS.write_text("1")
    try:
        yield
    finally:
        STATISTICS.write_text(before)


def programs() -> dict[int, tuple[str, int, int]]:
    """Every eBPF program of the machine, by id: its name, how long it ran in nanoseconds, and how
    often.
    """
    found = {}
    following = (ctypes.c_uint32 * 3)()
    while _bpf(NEXT_PROGRAM, following) == 0:
        following[0] = following[1]
        descriptor = _bpf(PROGRAM_OF_ID, (ctypes.c_uint32 * 3)(following[0]))
        if descriptor >= 0:
            found[following[0]] = (_name(descriptor), *_counted(descriptor))
            os.close(descriptor)
    return found


def _name(descriptor: int) -> str:
    information = (ctypes.c_uint8 * INFORMATION_BYTES)()
    address = ctypes.addressof(information)
    question = (ctypes.c_uint32 * 4)(descriptor, INFORMATION_BYTES, address & 0xFFFF_FFFF, address >> 32)
    _bpf(INFORMATION, question)
    return bytes(information)[NAME].split(b"\0")[0].decode()


def _counted(descriptor: int) -> tuple[int, int]:
    told = dict(line.split(":\t", 1) for line in Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines())
    return int(told["run_time_ns"]), int(told["run_cnt"])


def _bpf(command: int, attributes: ctypes.Array[ctypes.c_uint32]) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    number = BPF[platform.machine()]
    return int(libc.syscall(number, command, ctypes.byref(attributes), ctypes.sizeof(attributes)))
