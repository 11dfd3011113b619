"""The process that holds an overlay: how it is started, and what it does."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import secrets
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mptcplab import iproute
from mptcplab.errors import MptcplabError, PrivilegeError, UsageError
from mptcplab.overlay.addresses import DEVICE
from mptcplab.overlay.connections import MOST, server
from mptcplab.overlay.failure import OverlayFailed, OverlayMissing
from mptcplab.overlay.plan import Plan
from mptcplab.overlay.state import State

#: The port of the host controller, unless it is taken.
PORT = 8450
#: Files that a site keeps open, and those of all else.
_FILES_OF_SITE, _FILES_OF_REST = 6, 200 + MOST
#: Errors of the process by their exit status.
_ERRORS: dict[int, type[MptcplabError]] = {2: UsageError, 3: OverlayMissing}
_FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")


def start(plan: Plan, address: str, port: int | None) -> None:
    """Starts the process of an overlay, and returns when all of it is up. Raises what that process
    raised. The process goes on when this one ends.
    """
    _require(plan)
    state = State()
    state.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    order = json.dumps({"plan": plan.to_json(), "address": address, "port": port}) + "\n"
    # The file of another overlay that is up stays what it is.
    with state.log.open("a") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "mptcplab.overlay"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
            text=True,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(order)
        process.stdin.close()
        told = process.stdout.readline()
    except BaseException:
        process.kill()
        process.wait()
        raise
    answer: dict[str, Any] = (
        json.loads(told) if told else {"problem": f"its process ended; see {state.log}", "status": 4}
    )
    if "problem" in answer:
        process.wait()
        raise _ERRORS.get(answer["status"], OverlayFailed)(answer["problem"])


def _require(plan: Plan) -> None:
    """Raises PrivilegeError or OverlayMissing for what this machine lacks."""
    if os.geteuid() != 0:
        raise PrivilegeError(None, "an overlay needs network namespaces and devices", "run it as root, as with sudo")
    if plan.has_switches and find_spec("os_ken") is None:
        raise OverlayMissing("sites with `forwarding: openflow` need os-ken: pip install 'mptcplab[sdn]'")
    for program in ("ip", "bridge", *(["nft"] if _local_exits(plan) else [])):
        iproute.program(program)
    files = _FILES_OF_SITE * len(plan.sites) + _FILES_OF_REST
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < files:
        raise OverlayMissing(
            f"{len(plan.sites)} sites need {files} open files, and {hard} are allowed: ulimit -n {files}"
        )


def why_exits_end_here(plan: Plan) -> str | None:
    """Returns why packets of exits may not leave this machine; None if nothing is known, or without
    exits.
    """
    if not _local_exits(plan):
        return None
    if _FORWARDING.read_text().strip() != "1":
        return (
            "exits reach this machine and nothing behind it, because it does not forward: "
            "sysctl -w net.ipv4.ip_forward=1"
        )
    if (chain := _dropping_chain()) is None:
        return None
    return (
        f"exits may reach nothing behind this machine, because the chain {chain} drops what no rule of it accepts: "
        f"nft insert rule {chain} iifname {DEVICE} accept; nft insert rule {chain} oifname {DEVICE} accept"
    )


def _dropping_chain() -> str | None:
    """Returns the family, table and name of a chain that drops forwarded IPv4 packets by default."""
    with suppress(MptcplabError, ValueError):
        for one in json.loads(iproute.run("nft", "-j", "list", "chains"))["nftables"]:
            chain = one.get("chain", {})
            if (chain.get("hook"), chain.get("policy")) == ("forward", "drop") and chain["family"] in ("ip", "inet"):
                return f"{chain['family']} {chain['table']} {chain['name']}"
    return None


def _local_exits(plan: Plan) -> bool:
    return any(site.is_exit and site.at is None for site in plan.sites)


def main() -> int:
    """Holds an overlay until a signal ends it. Tells on standard output whether it is up."""
    order: dict[str, Any] = json.loads(sys.stdin.readline())
    state = State()
    try:
        state.take()
        plan = Plan.from_json(order["plan"])
        _raise_limit(plan)
        _hold(plan, order["address"], order["port"], state)
    except (MptcplabError, OSError) as error:
        # A lock that another overlay holds is not ours to clear, nor is its log ours to write.
        if state.is_taken:
            state.end_by(str(error))
        status = error.exit_status if isinstance(error, MptcplabError) else 4
        _tell({"problem": str(error), "status": status})
        return status
    state.clear()
    return 0


def _raise_limit(plan: Plan) -> None:
    wanted = _FILES_OF_SITE * len(plan.sites) + _FILES_OF_REST
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted) if hard == resource.RLIM_INFINITY else hard, hard))


def _hold(plan: Plan, address: str, port: int | None, state: State) -> None:
    from mptcplab.overlay.coordinator import Coordinator

    listening = _listening(_own(address), port)
    coordinator = Coordinator(plan)
    try:
        asyncio.run(_serve(coordinator, listening, state))
    finally:
        coordinator.close()


def _listening(address: str, port: int | None) -> socket.socket:
    """Returns a socket on a port that was given, and no other, or else on the first free one."""
    from mptcplab.web.serving import MORE_PORTS, bound

    return bound(PORT if port is None else port, address, option="--listen: port", more=0 if port else MORE_PORTS)


def _own(address: str) -> str:
    """Returns an address of this machine. Raises UsageError for another."""
    with socket.socket() as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            raise UsageError(f"--listen {address}: allowed: an IPv4 address of this machine, without 0.0.0.0") from None
    if address == "0.0.0.0":
        raise UsageError(f"--listen {address}: allowed: one IPv4 address of this machine")
    return address


async def _serve(coordinator: Any, listening: socket.socket, state: State) -> None:
    from mptcplab.overlay.addresses import PORT as SITES_PORT
    from mptcplab.overlay.host_controller import HOST, OPERATOR, HostController

    address, port = listening.getsockname()
    tokens = {role: secrets.token_urlsafe(16) for role in (HOST, OPERATOR)}
    hosts = [f"{address}:{port}", f"127.0.0.1:{port}", f"localhost:{port}"]
    app = HostController(coordinator, SITES_PORT).app(tokens, hosts)
    # The server raises the signal again that ended it.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    await coordinator.start()
    serving = asyncio.create_task(server(app).serve(sockets=[listening]))
    watching = asyncio.create_task(coordinator.watch())
    state.write(coordinator.plan.name, address, port, tokens)
    _tell({"ready": True})
    done, pending = await asyncio.wait((serving, watching), return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    for task in done:
        task.result()


def _tell(answer: dict[str, Any]) -> None:
    # Whoever waited for the start may be gone when a problem comes later.
    with suppress(OSError):
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
