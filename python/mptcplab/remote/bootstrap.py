"""Starts an agent through a shell: copies it once, checks it, and makes it root if possible."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Sequence
from string import Template

from mptcplab.errors import MachineError
from mptcplab.remote.agent_file import AgentFile, agent_file
from mptcplab.remote.channel import Channel, Lost, ProgramChannel

#: Time limits in seconds: for a line of the script, and for the copy of the agent.
ANSWER_S, COPY_S = 30.0, 300.0
#: The most that a login shell may print before the script does.
MOST_LINES_BEFORE = 1000
MARK = "mptcplab:"

#: POSIX shell. It is one compound command, so the shell reads all of it before the agent's bytes.
_SCRIPT = Template("""{
say() { printf '$mark %s\\n' "$$*"; }
fail() { say problem "$$*"; exit 1; }
say machine "$$(uname -m)"
[ "$$(uname -m)" = $architecture ] || exit 1
if [ -z "$$XDG_CACHE_HOME" ] && [ -z "$$HOME" ]; then
    fail "HOME is not set there; set it, or set XDG_CACHE_HOME there to a directory for the agent"
fi
cache="$${XDG_CACHE_HOME:-$$HOME/.cache}"
directory="$$cache/mptcplab/$sha256"
agent="$$directory/mptcplab-agent"
# Of the directories only empty ones go, so agents of other builds stay.
leave() { rm -f "$$part"; rmdir "$$directory" "$$cache/mptcplab" 2>/dev/null; }
is_whole() { [ "$$({ sha256sum <"$$agent"; } 2>/dev/null | cut -d ' ' -f 1)" = $sha256 ]; }
if ! is_whole; then
    part="$$agent.$$$$"
    trap leave EXIT
    why=$$(mkdir -p "$$directory" 2>&1) || fail "$$why"
    say absent
    why=$$({ head -c $bytes >"$$part" && chmod 755 "$$part" && mv "$$part" "$$agent"; } 2>&1) || fail "$$why"
    is_whole || { rm -f "$$agent"; fail "$$agent: its checksum is wrong"; }
fi
if ! why=$$({ "$$agent" version >/dev/null; } 2>&1); then
    rm -f "$$agent"
    leave
    fail "$$directory forbids programs ($${why##*: }); set XDG_CACHE_HOME there to a directory that allows programs"
fi
if [ "$$(id -u)" != 0 ] && sudo -n true 2>/dev/null; then
    say ready
    exec sudo -n "$$agent" $task --caller "$$(id -u)" "$$(id -g)" "$$(id -G | tr ' ' ,)" "$$HOME" "$$(id -un)"
fi
say ready
exec "$$agent" $task
}
""")


def start_agent(channel: Channel, task: str, where: str) -> None:
    """Starts an agent with this task, as in `serve kernel`, over a channel to a POSIX shell. Raises
    MachineError with what is wrong there.
    """
    agent = agent_file()
    try:
        _start(channel, task, agent)
    except (MachineError, Lost) as error:
        channel.close()
        raise MachineError(f"{where}: {error}") from None


def _start(channel: Channel, task: str, agent: AgentFile) -> None:
    given = {"mark": MARK, "architecture": agent.architecture, "sha256": agent.sha256, "bytes": len(agent.content)}
    channel.send(_SCRIPT.substitute(given, task=task).encode())
    machine = _first(channel)
    if machine != agent.architecture:
        raise MachineError(f"its architecture is {machine}, and the agent {agent.path} is for {agent.architecture}")
    word, _, text = _said(channel, ANSWER_S)
    if word == "absent":
        channel.send(agent.content)
        word, _, text = _said(channel, COPY_S)
    if word != "ready":
        raise MachineError(text or word)


def _first(channel: Channel) -> str:
    """Returns the architecture. Skips what the start of a login shell prints."""
    for _ in range(MOST_LINES_BEFORE):
        line = channel.line(ANSWER_S).decode(errors="replace")
        if line.startswith(f"{MARK} machine "):
            return line.split()[-1]
    raise MachineError(f"it prints more than {MOST_LINES_BEFORE} lines at login; allowed: a POSIX shell")


def _said(channel: Channel, timeout_s: float) -> tuple[str, str, str]:
    return channel.line(timeout_s).decode(errors="replace").removeprefix(MARK).strip().partition(" ")


#: Runs an archive that it reads from its input, from memory: memfd_create(2).
_LOADER = """
import os, runpy, sys
left, archive = int(sys.argv[1]), os.memfd_create("mptcplab")
while left:
    block = os.read(0, left)
    if not block:
        sys.exit(1)
    left -= os.write(archive, block)
runpy.run_path(f"/proc/self/fd/{archive}", run_name="__main__")
"""
_PYTHON_SCRIPT = Template("""{
say() { printf '$mark %s\\n' "$$*"; }
fail() { say problem "$$*"; exit 1; }
say machine "$$(uname -m)"
python=$$(command -v python3) || fail "there is no python3 there: apt install python3"
"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    fail "its python3 is $$("$$python" -V); allowed: 3.10 or newer"
set -- "$$python" -I -c $loader $bytes
if [ "$$(id -u)" != 0 ]; then
    sudo -n true 2>/dev/null || fail "a site needs root there; allowed: root, or sudo without a password"
    set -- sudo -n "$$@"
fi
say ready "$$SSH_CONNECTION"
exec "$$@"
}
""")


def start_python(channel: Channel, archive: bytes, where: str) -> str:
    """Starts a program in Python, an archive with `__main__.py`, as root over a channel to a POSIX
    shell. Returns SSH_CONNECTION as it is there. Raises MachineError with what is wrong there.
    """
    given = {"mark": MARK, "loader": shlex.quote(_LOADER), "bytes": len(archive)}
    try:
        channel.send(_PYTHON_SCRIPT.substitute(given).encode())
        _first(channel)
        word, _, text = _said(channel, ANSWER_S)
    except (MachineError, Lost) as error:
        channel.close()
        raise MachineError(f"{where}: {error}") from None
    if word != "ready":
        channel.close()
        raise MachineError(f"{where}: {text or word}")
    channel.send(archive)
    return text


class Command:
    """A way by a command that starts a program elsewhere, as `docker exec -i c1` and `ssh -T HOST`
    do.
    """

    def __init__(self, where: str, argv: Sequence[str]) -> None:
        """`where` begins the messages about the machine."""
        self._where = where
        self._argv = list(argv)
        # The command is part of the name by its digest, because it may have any characters.
        self.label = f"exec-{hashlib.sha256(shlex.join(argv).encode()).hexdigest()[:8]}"

    def open(self, task: str) -> Channel:
        try:
            channel = ProgramChannel([*self._argv, "sh"])
        except OSError as error:
            raise MachineError(f"{self._where}: {self._argv[0]}: {error.strerror}") from None
        start_agent(channel, task, self._where)
        return channel

    def about(self) -> dict[str, object]:
        return {}
