"""`python -m mptcplab.controller EXPERIMENT.json`: the controller of a run, over OpenFlow 1.3.

Writes JSON lines to its output and takes orders as JSON lines from its input, with which it ends.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

from mptcplab.errors import MptcplabError, RunFailed, SpecError, UsageError, Where

#: Where the controller listens unless MPTCPLAB_OPENFLOW says otherwise.
LISTEN = "127.0.0.1:6653"

#: Seconds until os-ken must listen.
PATIENCE_S = 10


def main() -> int:
    """Runs the controller. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m mptcplab.controller", description="The controller of a run.")
    parser.add_argument("experiment", type=Path, nargs="?", help="the resolved experiment, else MPTCPLAB_EXPERIMENT")
    given = parser.parse_args()
    # An interrupt at the terminal reaches the whole run, which ends this process by its input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        serve(_read(given.experiment or _from_environment()), _address())
    except MptcplabError as error:
        print(f"mptcplab.controller: {error}", file=sys.stderr)
        return error.exit_status
    return 0


def _from_environment() -> Path:
    if "MPTCPLAB_EXPERIMENT" not in os.environ:
        raise UsageError("no experiment is given; allowed: a file as the argument or in MPTCPLAB_EXPERIMENT")
    return Path(os.environ["MPTCPLAB_EXPERIMENT"])


def _read(path: Path) -> dict[str, object]:
    try:
        experiment = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise SpecError(f"is no resolved experiment: {error}", Where(str(path))) from error
    if not isinstance(experiment, dict) or not experiment.get("control"):
        raise SpecError("has no switches under control", Where(str(path), field="control"), allowed="an object")
    return experiment


def _address() -> tuple[str, int]:
    text = os.environ.get("MPTCPLAB_OPENFLOW", LISTEN)
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        raise UsageError(f"MPTCPLAB_OPENFLOW: found '{text}'; allowed: ADDRESS:PORT, such as {LISTEN}")
    return host, int(port)


def serve(experiment: dict[str, object], address: tuple[str, int]) -> None:
    """Listens for switches and controls them. Returns only if os-ken ends."""
    try:
        from os_ken import cfg
        from os_ken.base import app_manager
    except ImportError as error:
        raise NotInstalled("the controller needs os-ken: pip install 'mptcplab[sdn]'") from error
    from mptcplab.controller.application import Application

    _check_free(address)
    # os-ken would read the arguments of this process, and listen on all addresses and an old port.
    cfg.CONF(args=[], project="os_ken", default_config_files=[])
    cfg.CONF.set_override("ofp_listen_host", address[0])
    cfg.CONF.set_override("ofp_tcp_listen_port", address[1])
    manager = app_manager.AppManager.get_instance()
    manager.load_apps(["os_ken.controller.ofp_handler"])
    manager.create_contexts()
    application = manager.instantiate(Application, experiment)
    threads = manager.instantiate_apps()
    _wait_until_listening(address)
    application.post(lambda: application.say({"said": "listening"}))
    app_manager.hub.joinall(threads)


def _wait_until_listening(address: tuple[str, int]) -> None:
    """Waits for os-ken's thread: a switch that is refused tries again only after a second."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(address):
            return
        time.sleep(0.001)
    raise RunFailed(f"os-ken does not listen on {address[0]}:{address[1]} after {PATIENCE_S} s")


class NotInstalled(MptcplabError):
    """A package is missing that an extra of mptcplab brings."""

    exit_status = 3


def _check_free(address: tuple[str, int]) -> None:
    """Raises RunFailed if the address is in use, which os-ken would report only in its log."""
    try:
        socket.create_server(address).close()
    except OSError as error:
        raise RunFailed(f"cannot listen on {address[0]}:{address[1]}: {os.strerror(error.errno or 0)}") from error


if __name__ == "__main__":
    sys.exit(main())
