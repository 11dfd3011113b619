"""Machines reached by SSH, with the user's own settings, keys and known hosts.

One thread runs asyncio for all of them. Each host has one connection, because servers limit
connections that begin at the same time (MaxStartups in sshd_config(5)).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

from mptcplab.errors import MachineError
from mptcplab.remote.bootstrap import start_agent
from mptcplab.remote.channel import BLOCK_BYTES, GRACE_S, Channel

T = TypeVar("T")

CONNECT_S = 10.0
#: A connection counts as lost after this many keepalives without an answer, one each second.
KEEPALIVES = 3
USUAL_PORT = 22
FULL_S = 0.005


class Ssh:
    """A way to a machine by SSH. User and port that are not given are those of `~/.ssh/config`."""

    def __init__(self, where: str, user: str | None, host: str, port: int | None) -> None:
        """`where` begins the messages about the machine."""
        self._where = where
        self._user, self._host, self._port = user, host, port
        self._connection: Any = None
        place = re.sub(r"[^A-Za-z0-9._-]", "_", host)
        self.label = place if port is None else f"{place}-{port}"

    def open(self, task: str) -> Channel:
        channel = self.shell()
        start_agent(channel, task, self._where)
        return channel

    def about(self) -> dict[str, object]:
        return {}

    def peer(self) -> str | None:
        """Returns the address at the other end of the connection."""
        found = None if self._connection is None else self._connection.get_extra_info("peername")
        return None if found is None else str(found[0])

    def shell(self) -> SshChannel:
        """Starts a POSIX shell there. Raises MachineError."""
        ssh = _asyncssh()
        try:
            return SshChannel(_run(self._process()))
        except ssh.ChannelOpenError as error:
            raise self._error(f"it opens no further session ({error}); see MaxSessions in its sshd_config") from None
        except ssh.HostKeyNotVerifiable:
            raise self._error(self._about_host_key()) from None
        except ssh.PermissionDenied as error:
            remedy = f"try `ssh {self._ssh_arguments()} true`, which uses the same keys"
            raise self._error(f"{error.reason}: {remedy}") from None
        except TimeoutError:
            raise self._error(f"no answer in {CONNECT_S:g} s") from None
        except ssh.Error as error:
            raise self._error(error.reason or type(error).__name__) from None
        except OSError as error:
            raise self._error(error.strerror or str(error) or type(error).__name__) from None

    async def _process(self) -> Any:
        ssh = _asyncssh()
        if self._connection is None or self._connection.is_closed():
            connect = ssh.connect(
                self._host,
                **self._given(),
                connect_timeout=CONNECT_S,
                keepalive_interval=1,
                keepalive_count_max=KEEPALIVES,
            )
            self._connection = await asyncio.wait_for(connect, 2 * CONNECT_S)
        # Not a terminal, because that is not binary. A shell of the user's, whatever that is,
        # starts this one.
        return await self._connection.create_process("sh", encoding=None)

    def _given(self) -> dict[str, Any]:
        given = {"username": self._user, "port": self._port}
        return {name: value for name, value in given.items() if value is not None}

    def _about_host_key(self) -> str:
        """Returns that the host key is unknown or changed, with the line to check."""
        key = self._host_key()
        port = self._port or USUAL_PORT
        name = self._host if port == USUAL_PORT else f"[{self._host}]:{port}"
        if key is None:
            return "its host key is not known; connect once with ssh, which asks whether to accept it"
        line = f"{name} {key.export_public_key().decode().strip()}"
        told = f"{key.get_fingerprint()}; the line for {_known_hosts()} is: {line}"
        if self._is_known(name):
            return f"its host key has CHANGED: either it was installed anew, or another machine answers; now {told}"
        return f"its host key is not known; compare it with the machine's own, then add it: {told}"

    def _host_key(self) -> Any:
        given = {name: value for name, value in self._given().items() if name != "username"}
        with suppress(Exception):
            return _run(_asyncssh().get_server_host_key(self._host, **given))
        return None

    def _is_known(self, name: str) -> bool:
        with suppress(Exception):
            found = _asyncssh().match_known_hosts(
                str(_known_hosts()), self._host, "", None if name == self._host else self._port
            )
            return bool(found[0] or found[1])
        return False

    def _ssh_arguments(self) -> str:
        user = f"{self._user}@" if self._user else ""
        port = f"-p {self._port} " if self._port else ""
        return f"{port}{user}{self._host}"

    def _error(self, why: str) -> MachineError:
        return MachineError(f"{self._where}: {why}")


class SshChannel(Channel):
    """A program at the other end of a session."""

    def __init__(self, process: Any) -> None:
        super().__init__()
        self._process = process
        self._said = b""
        self._reading = asyncio.run_coroutine_threadsafe(self._read(), _loop())
        self._listening = asyncio.run_coroutine_threadsafe(self._listen(), _loop())

    async def _read(self) -> None:
        block = b" "
        while block:
            try:
                block = await self._process.stdout.read(BLOCK_BYTES)
            except (OSError, _asyncssh().Error):
                block = b""
            while not self._arrive(block):
                await asyncio.sleep(FULL_S)

    async def _listen(self) -> None:
        with suppress(OSError, _asyncssh().Error):
            while block := await self._process.stderr.read(BLOCK_BYTES):
                self._said = (self._said + block)[-BLOCK_BYTES:]

    def send(self, data: bytes) -> None:
        _loop().call_soon_threadsafe(self._write, data)

    def _write(self, data: bytes) -> None:
        with suppress(OSError):
            self._process.stdin.write(data)

    def close(self) -> None:
        with suppress(Exception):
            _run(self._close())

    async def _close(self) -> None:
        with suppress(OSError):
            self._process.stdin.write_eof()
        with suppress(TimeoutError, asyncio.TimeoutError):
            await asyncio.wait_for(self._process.wait_closed(), GRACE_S)
        self._process.close()

    def ending(self) -> str:
        with suppress(Exception):
            _run(asyncio.wait_for(self._process.wait_closed(), GRACE_S))
        status, signal = self._process.exit_status, self._process.exit_signal
        said = self._said.decode(errors="replace").strip() or "no message"
        if status is None and signal is None:
            return "the connection was lost"
        return f"its agent ended with {f'signal {signal[0]}' if signal else f'status {status}'}: {said}"


def _known_hosts() -> Path:
    return Path.home() / ".ssh" / "known_hosts"


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Returns the loop of the thread for SSH, which is started once."""
    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, daemon=True, name="ssh").start()
    return loop


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine in that thread, and waits for its result."""
    return asyncio.run_coroutine_threadsafe(work, _loop()).result()


def _asyncssh() -> Any:
    try:
        import asyncssh
    except ImportError:
        raise MachineError("ssh://: needs asyncssh: pip install 'mptcplab[remote]'") from None
    return asyncssh
