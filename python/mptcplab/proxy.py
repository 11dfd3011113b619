"""Carries TCP of any program over the engine: a command's connections as MPTCP, or a gateway for
servers without.
"""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mptcplab import _core
from mptcplab.errors import Unsupported, UsageError, of_core
from mptcplab.signals import on_signals

KERNEL = "kernel"
#: Seconds within which a signal is noticed.
PATIENCE_S = 0.2


@dataclass(frozen=True)
class Settings:
    """The interfaces of connections, the first one for the initial subflow, and the engine's
    algorithms.
    """

    interfaces: Sequence[str]
    cc: str = "cubic"
    scheduler: str = "kernel_default"
    path_manager: str = "full_mesh"
    #: Seconds of silence after which a peer is considered gone.
    give_up_after_s: int = 300


def run(command: Sequence[str], settings: Settings, *, to: str | None = None) -> dict[str, Any]:
    """Runs a command to its end, with all of its connections through the gateway ``to`` (HOST:PORT)
    if there is one.

    Returns ``connections``, ``without_mptcp``, ``refused``, ``interfaces`` (each with
    ``interface``, ``sent_bytes``, ``received_bytes``, ``packets_not_sent``) and the ``exit_status``
    of the command. An interrupt at the terminal reaches only the command; SIGTERM ends both. Raises
    UsageError for wrong arguments, PrivilegeError without the rights, RunFailed if the machine
    refuses.
    """
    proxy = _started(settings, command=list(command), to=to and _address(to))
    with on_signals({signal.SIGINT: lambda: None, signal.SIGTERM: proxy.stop}):
        return _report(proxy)


def serve(port: int, settings: Settings, *, ready: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Serves as a gateway at a port until SIGINT or SIGTERM. Calls ``ready`` when it accepts
    connections.

    Returns and raises as ``run``.
    """
    proxy = _started(settings, gateway_port=port)
    with on_signals({signal.SIGINT: proxy.stop, signal.SIGTERM: proxy.stop}):
        ready()
        return _report(proxy)


def _started(settings: Settings, **work: Any) -> Any:
    if not hasattr(_core, "Proxy"):
        raise Unsupported(KERNEL, [("mptcplab proxy", "it needs Linux")])
    with of_core(KERNEL):
        return _core.Proxy(
            list(settings.interfaces),
            cc=settings.cc,
            scheduler=settings.scheduler,
            path_manager=settings.path_manager,
            give_up_after_s=settings.give_up_after_s,
            **work,
        )


def _report(proxy: Any) -> dict[str, Any]:
    with of_core(KERNEL):
        while (report := proxy.wait(PATIENCE_S)) is None:
            pass
    done: dict[str, Any] = json.loads(report)
    return done


def _address(gateway: str) -> str:
    """Resolves HOST:PORT to ADDRESS:PORT, with brackets around an IPv6 address."""
    host, colon, port = gateway.rpartition(":")
    if not (colon and host and port.isdecimal() and 0 < int(port) < 2**16):
        raise UsageError(f"no gateway is {gateway!r}; allowed: HOST:PORT, as in 192.0.2.1:5124 or [2001:db8::1]:5124")
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    except OSError as error:
        raise UsageError(f"gateway {gateway}: {error.strerror or error}") from error
    family, _, _, _, (address, *_) = found[0]
    return f"[{address}]:{port}" if family == socket.AF_INET6 else f"{address}:{port}"
