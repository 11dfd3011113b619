"""Network namespaces without names, and TUN devices. Both end with the processes that hold them."""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mptcplab.overlay.failure import OverlayFailed

#: linux/sched.h
_CLONE_NEWNET = 0x4000_0000
#: linux/if_tun.h
_TUNSETIFF = 0x4004_54CA
_IFF_TUN, _IFF_TAP, _IFF_NO_PI = 0x0001, 0x0002, 0x1000
_OF_THIS_THREAD = "/proc/thread-self/ns/net"
_libc = ctypes.CDLL(None, use_errno=True)


class NetworkNamespace:
    """A network namespace of its own. Raises OSError without the right to make one."""

    def __init__(self) -> None:
        with _return_home():
            _checked(_libc.unshare(_CLONE_NEWNET))
            self._fd = os.open(_OF_THIS_THREAD, os.O_RDONLY | os.O_CLOEXEC)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Inside, this thread and the processes that it starts are in the namespace."""
        with _return_home():
            _checked(_libc.setns(self._fd, _CLONE_NEWNET))
            yield

    def set(self, settings: Iterable[tuple[str, str]]) -> None:
        """Writes settings below `net` of sysctl(8), by their names with slashes."""
        with self.entered():
            for name, value in settings:
                Path("/proc/sys/net", name).write_text(value)

    @property
    def path(self) -> str:
        """The path by which other programs find the namespace, as long as this process lives."""
        return f"/proc/{os.getpid()}/fd/{self._fd}"


@contextmanager
def _return_home() -> Iterator[None]:
    home = os.open(_OF_THIS_THREAD, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield
    finally:
        _checked(_libc.setns(home, _CLONE_NEWNET))
        os.close(home)


def _checked(answer: int) -> None:
    if answer:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def tun(name: str, *, in_frames: bool = False) -> int:
    """Makes a TUN device in the namespace of this thread, or a TAP device if its packets are in
    Ethernet frames. Returns its descriptor, which does not block. `name` may contain %d, for the
    next free number.
    """
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.ioctl(fd, _TUNSETIFF, _request(name, _IFF_TAP if in_frames else _IFF_TUN))
    except OSError as error:
        os.close(fd)
        raise OverlayFailed(f"the device {name} cannot be made: {error.strerror}") from error
    return fd


def device_name(fd: int) -> str:
    """Returns the name of a TUN device."""
    #: linux/if_tun.h: TUNGETIFF
    found: bytes = fcntl.ioctl(fd, 0x8004_54D2, _request("", _IFF_TUN))
    return found[:16].rstrip(b"\0").decode()


def _request(name: str, kind: int) -> bytes:
    return struct.pack("16sH22x", name.encode(), kind | _IFF_NO_PI)
