"""A real sshd with its own settings, keys and port, for tests. Its users have a home directory of
the test's.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
#: In a mount namespace of its own: sshd wants /run/sshd, and what agents leave in /root is the
#: test's.
START = """
mount -t tmpfs run /run
mkdir -m 755 /run/sshd
mount --bind "$1" /root
shift
exec "$@"
"""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


class SshServer:
    """An sshd, usually on a port of loopback, and the home of a client that knows it. `inside` begins
    commands on its machine.
    """

    def __init__(self, directory: Path, address: str = "127.0.0.1", inside: Sequence[str] = ()) -> None:
        self._directory = directory
        self.address, self._inside = address, inside
        self.port = free_port()
        self.home, self.client, self.scratch = directory / "home", directory / "client", directory / "scratch"
        (self.client / ".ssh").mkdir(parents=True, mode=0o700)
        self.home.mkdir(mode=0o700)
        self.scratch.mkdir()
        self._process: subprocess.Popen[bytes] | None = None
        for path in (directory / "host_key", self.client / ".ssh" / "id_ed25519"):
            make_key(path)
        (directory / "authorized").write_bytes((self.client / ".ssh" / "id_ed25519.pub").read_bytes())
        self.trust(directory / "host_key.pub")
        (directory / "sshd_config").write_text(
            f"ListenAddress {address}\nPort {self.port}\nHostKey {directory / 'host_key'}\n"
            f"AuthorizedKeysFile {directory / 'authorized'}\nPidFile none\nUsePAM no\nStrictModes no\n"
            "PermitRootLogin prohibit-password\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
            f"SetEnv TMPDIR={self.scratch}\n"
        )

    @property
    def on(self) -> str:
        """The value of --on."""
        return f"ssh://root@{self.address}:{self.port}"

    def trust(self, public: Path | None) -> None:
        """Makes this the only key that the client knows of the server; None for no key."""
        line = f"[{self.address}]:{self.port} {public.read_text()}" if public else ""
        (self.client / ".ssh" / "known_hosts").write_text(line)

    def start(self) -> None:
        command = [str(SSHD), "-D", "-e", "-f", str(self._directory / "sshd_config")]
        path = self._directory / "log"
        before = path.stat().st_size if path.exists() else 0
        with path.open("ab") as log:
            # A session of its own, so that all that belongs to it is found.
            self._process = subprocess.Popen(
                [*self._inside, "unshare", "--mount", "sh", "-c", START, "sh", str(self.home), *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + 30
        while b"Server listening" not in path.read_bytes()[before:]:
            if time.monotonic() > deadline:
                raise TimeoutError(path.read_text())
            time.sleep(0.01)

    def processes(self) -> list[int]:
        """Returns the sshd and those of its sessions."""
        if self._process is None:
            return []
        found, wanted = [], [self._process.pid]
        while wanted:
            pid = wanted.pop()
            found.append(pid)
            wanted += [one for one in children(pid) if name_of(one).startswith("sshd")]
        return found

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the sshd and to those of its sessions, and to no program that they
        started.
        """
        for pid in self.processes():
            # A session may end meanwhile.
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def stop(self) -> None:
        if self._process is not None:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGKILL)
            self._process.wait()
            self._process = None


def make_key(path: Path, kind: str = "ed25519") -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", str(path)], check=True)


def children(pid: int) -> list[int]:
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
