"""Host keys that are not accepted: why, and the line that makes one known."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

USUAL_PORT = 22


class KnownHosts:
    """What the user's files of known hosts say about one machine, by the names that asyncssh looks
    for there.
    """

    def __init__(self, options: Any) -> None:
        """`options` are those of asyncssh for the machine, with the settings of `~/.ssh/config`."""
        port = None if options.port == USUAL_PORT else options.port
        # ssh(1) looks for an alias without a port, and asyncssh does so, too.
        self._name = options.host_key_alias or _name(options.host, port)
        self._files = [Path(name).expanduser() for name in options.known_hosts or ()]
        self._files = self._files or [Path.home() / ".ssh" / "known_hosts"]
        hosts = [options.host_key_alias or options.host, *_addresses(options.host)]
        exact, plain = self._match(_name(host, port) for host in hosts), self._match(hosts)
        self._known, self._authorities = (exact if exact[0] or exact[1] else plain)[:2]
        self._revoked = exact[2] + plain[2]

    def _match(self, names: Iterable[str]) -> tuple[list[Any], list[Any], list[Any]]:
        """Returns the keys of these names: those of machines, those of authorities, and those
        revoked.
        """
        import asyncssh

        files = list(map(str, self._files))
        with suppress(OSError, ValueError):
            found = [asyncssh.match_known_hosts(files, name, "", None) for name in names]
            known, authorities, revoked = ([key for match in found for key in match[kind]] for kind in range(3))
            return known, authorities, revoked
        return [], [], []

    def is_of_other_types(self, ask: Callable[..., Any]) -> bool:
        """Returns whether all keys that are known are of types that the machine does not have.
        `ask` returns the key of the machine of these types, or of any, or None.
        """
        return bool(self._known) and ask(self._types()) is None and ask() is not None

    def _types(self) -> list[str]:
        return [algorithm.decode() for key in self._known for algorithm in key.sig_algorithms]

    def why_refused(self, ask: Callable[..., Any]) -> str:
        """Returns that the host key is unknown, changed or revoked, with the line to check."""
        # The key of a type that is known tells whether it has changed.
        same_type = ask(self._types()) if self._known else None
        key = same_type or ask()
        if key is None:
            return "its host key is not known; connect once with ssh, which asks whether to accept it"
        if key in self._revoked:
            return (
                f"its host key is REVOKED in {self.places}: {key.get_fingerprint()}; a machine needs another key then"
            )
        line = f"{self._name} {key.export_public_key().decode().strip()}"
        told = f"{key.get_fingerprint()}; the line for {self._files[0]} is: {line}"
        if same_type or self._authorities:
            return f"its host key has CHANGED: either it was installed anew, or another machine answers; now {told}"
        advice = f"compare it with the machine's own, then add it: {told}"
        if self._known:
            types = ", ".join(sorted({one.get_algorithm() for one in self._known}))
            return f"it has no host key of the type that is known ({types}), but {key.get_algorithm()}; {advice}"
        return f"its host key is not known; {advice}"

    @property
    def places(self) -> str:
        """The files, for messages."""
        return " or ".join(map(str, self._files))


def _name(host: str, port: int | None) -> str:
    return host if port is None else f"[{host}]:{port}"


def _addresses(host: str) -> Sequence[str]:
    """Returns the addresses of a host, because files of known hosts have addresses, too."""
    with suppress(OSError, UnicodeError):
        return list(dict.fromkeys(str(found[4][0]) for found in socket.getaddrinfo(host, None)))
    return []
