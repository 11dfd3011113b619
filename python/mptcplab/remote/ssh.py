"""Machines reached by SSH, with the user's own settings, keys and known hosts.

One thread runs asyncio for all of them. Each host has one connection, because servers limit
connections that begin at the same time (MaxStartups in sshd_config(5)).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

from mptcplab.errors import MachineError
from mptcplab.remote.bootstrap import start_agent
from mptcplab.remote.channel import BLOCK_BYTES, GRACE_S, Channel
from mptcplab.remote.host_keys import KnownHosts

T = TypeVar("T")

CONNECT_S = 10.0
#: A connection counts as lost after this many keepalives without an answer, one each second.
KEEPALIVES = 3
#: The keys of a user who names none, as in ssh_config(5).
USUAL_KEYS = ("id_ed25519_sk", "id_ecdsa_sk", "id_ed448", "id_ed25519", "id_ecdsa", "id_rsa", "id_dsa")
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
            raise self._error(self._known_hosts().why_refused(self._host_key)) from None
        except ssh.PermissionDenied as error:
            remedy = f"try `ssh {self._ssh_arguments()} true`, which uses the same keys"
            raise self._error(f"{error.reason}: {remedy}") from None
        except TimeoutError:
            raise self._error(f"no answer in {CONNECT_S:g} s") from None
        except (ssh.Error, ConnectionResetError, BrokenPipeError) as error:
            raise self._error(self._about_types() or _reason(error)) from None
        except (OSError, ValueError) as error:
            raise self._error(self._why_not_begun(error)) from None

    async def _process(self) -> Any:
        ssh = _asyncssh()
        if self._connection is None or self._connection.is_closed():
            self._connection = None
            connect = ssh.connect(
                self._host,
                **self._given(),
                **await self._keys(),
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

    async def _options(self) -> Any:
        """Returns the settings for the machine, with those of `~/.ssh/config`, but without its
        keys.
        """
        options = _asyncssh().SSHClientConnectionOptions
        return await options.construct(config=(), host=self._host, **self._given(), client_keys=None)

    async def _keys(self) -> dict[str, Any]:
        """Returns the identity files that exist, if only some do: ssh(1) uses these, and asyncssh
        none.
        """
        named = (await self._options()).config.get("IdentityFile") or []
        found = [name for name in named if Path(name).expanduser().is_file()]
        return {"client_keys": found, "ignore_encrypted": True} if 0 < len(found) < len(named) else {}

    def _known_hosts(self) -> KnownHosts:
        return KnownHosts(_run(self._options()))

    def _host_key(self, types: Sequence[str] = ()) -> Any:
        """Returns the key of the machine, of one of these types if any are given. None if there is
        none.
        """
        return _run(self._host_key_of(types))

    async def _host_key_of(self, types: Sequence[str]) -> Any:
        with suppress(Exception):
            only = {"port": self._port, "server_host_key_algs": list(types)}
            only = {name: value for name, value in only.items() if value}
            asked = _asyncssh().get_server_host_key(self._host, options=await self._options(), **only)
            return await asyncio.wait_for(asked, CONNECT_S)
        return None

    def _about_types(self) -> str | None:
        """Returns that the machine has no host key of a type that is known, if that is why a
        connection did not begin. A server tells nothing then.
        """
        if self._connection is None:
            known = self._known_hosts()
            if known.is_of_other_types(self._host_key):
                return known.why_refused(self._host_key)
        return None

    def _why_not_begun(self, error: OSError | ValueError) -> str:
        """Returns what is wrong with a setting or a file here, or with the network."""
        if isinstance(error, UnicodeError):
            return "not the name of a machine; allowed: 1 to 63 characters between dots"
        if isinstance(error, OSError):
            return f"{error.filename}: {_reason(error)}" if error.filename else _reason(error)
        if isinstance(error, _asyncssh().KeyImportError):
            return f"{self._unreadable_key()}: {error}; allowed: a private key, as ssh-keygen makes it"
        if "known hosts" in str(error):
            return f"{self._known_hosts().places}: {error}"
        return str(error)

    def _unreadable_key(self) -> str:
        """Returns the file of the first key that cannot be read."""
        ssh = _asyncssh()
        named = _run(self._options()).config.get("IdentityFile") or [f"~/.ssh/{name}" for name in USUAL_KEYS]
        for path in (Path(name).expanduser() for name in named):
            try:
                if path.is_file():
                    ssh.load_keypairs(str(path), ignore_encrypted=True)
            except (OSError, ValueError):
                return str(path)
        return "a key in ~/.ssh"

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


def _reason(error: Any) -> str:
    told = error.strerror if isinstance(error, OSError) else error.reason
    return told or str(error) or type(error).__name__


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
