"""Channels: the standard input and output of a program, here or elsewhere."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import Empty, Full, Queue
from threading import Event, Thread
from time import monotonic

from mptcplab.errors import RunFailed

BLOCK_BYTES = 1 << 16
#: Blocks that wait to be read. A program that writes more waits, too.
MOST_BLOCKS = 256
#: Time in which a program ends by itself when its input has ended.
GRACE_S = 5.0


class Lost(RunFailed):
    """A channel ended although an answer was due, or nothing arrived in time."""


class Channel:
    """Bytes to and from a program. A thread fills the queue that `line` and `exactly` read.

    Subclasses implement `send`, `close` and `ending`, and call `_arrive` from their thread.
    """

    #: Whether the program stands still between `hold` and `go_on`.
    can_hold = False

    def __init__(self) -> None:
        self._arrived: Queue[bytes] = Queue(MOST_BLOCKS)
        self._rest = b""
        self._has_ended = False

    def send(self, data: bytes) -> None:
        """Sends bytes without waiting until they are read."""
        raise NotImplementedError

    def close(self) -> None:
        """Ends the input of the program, and waits until the program has ended or the connection is
        closed.
        """
        raise NotImplementedError

    def ending(self) -> str:
        """Returns how the program ended, and what it wrote to standard error."""
        raise NotImplementedError

    def hold(self) -> None:
        """Lets a program whose time is its own stand still, because nothing is asked of it."""

    def go_on(self) -> None:
        """Lets it go on."""

    def line(self, timeout_s: float | None) -> bytes:
        """Returns the next line without its end. Raises Lost."""
        parts = [self._rest]
        self._rest = b""
        while b"\n" not in parts[-1]:
            parts.append(self._next(timeout_s))
        line, _, self._rest = b"".join(parts).partition(b"\n")
        return line

    def block(self, timeout_s: float) -> bytes | None:
        """Returns the next bytes, or None if none arrive in time. Raises Lost at the end."""
        if self._rest:
            block, self._rest = self._rest, b""
            return block
        try:
            return self._next(timeout_s)
        except Lost:
            if self._has_ended:
                raise
            return None

    def exactly(self, count: int, timeout_s: float | None) -> Iterator[bytes]:
        """Yields the next `count` bytes, block by block. Raises Lost."""
        while count:
            block = self._rest or self._next(timeout_s)
            taken, self._rest = block[:count], block[count:]
            yield taken
            count -= len(taken)

    def _next(self, timeout_s: float | None) -> bytes:
        if self._has_ended:
            raise Lost(self.ending())
        try:
            block = self._arrived.get(timeout=timeout_s)
        except Empty:
            raise Lost(f"no answer in {timeout_s:g} s") from None
        if not block:
            self._has_ended = True
            raise Lost(self.ending())
        return block

    def _arrive(self, block: bytes) -> bool:
        """Adds a block that arrived, or the end as an empty block, if there is room."""
        with suppress(Full):
            self._arrived.put_nowait(block)
            return True
        return False


class ProgramChannel(Channel):
    """A program that this process starts, in a session of its own, so that Ctrl-C reaches only this
    process.

    The program inherits the `descriptors`. Raises OSError if it cannot be started.
    """

    def __init__(
        self, argv: Sequence[str | Path], *, directory: Path | None = None, descriptors: Sequence[int] = ()
    ) -> None:
        super().__init__()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  (open as long as the channel)
        self._outgoing: Queue[bytes] = Queue()
        self._process: subprocess.Popen[bytes] | None = None
        self._error: OSError | None = None
        self._is_closed = False
        begun = Event()
        # The thread that starts the program outlives it: with PDEATHSIG, a program is killed when
        # that thread ends.
        start = partial(
            subprocess.Popen,
            list(map(str, argv)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            cwd=directory,
            bufsize=0,
            start_new_session=True,
            pass_fds=descriptors,
        )
        Thread(target=self._carry, args=(start, begun), daemon=True).start()
        begun.wait()
        if self._error is not None:
            self._said.close()
            raise self._error

    def _carry(self, start: Callable[[], subprocess.Popen[bytes]], begun: Event) -> None:
        try:
            process = start()
        except OSError as error:
            self._error = error
            begun.set()
            return
        self._process = process
        begun.set()
        Thread(target=self._write, args=(process,), daemon=True).start()
        output = process.stdout
        while output is not None and not self._is_closed:
            block = os.read(output.fileno(), BLOCK_BYTES)
            while not self._is_closed:
                with suppress(Full):
                    self._arrived.put(block, timeout=0.1)
                    break
            if not block:
                break
        process.wait()
        self._outgoing.put(b"")

    def _write(self, process: subprocess.Popen[bytes]) -> None:
        """Writes what is to be sent, until an empty block ends the input."""
        pipe = process.stdin
        if pipe is None:
            return
        with suppress(OSError):
            while block := self._outgoing.get():
                view = memoryview(block)
                while view:
                    view = view[pipe.write(view) :]
        with suppress(OSError):
            pipe.close()

    def send(self, data: bytes) -> None:
        self._outgoing.put(data)

    def signal(self, number: signal.Signals) -> None:
        """Sends the program a signal, unless it has ended."""
        if self._process is not None:
            self._process.send_signal(number)

    def close(self) -> None:
        if self._process is None or self._is_closed:
            return
        self.go_on()
        self._outgoing.put(b"")
        end = monotonic() + GRACE_S
        while self._process.poll() is None and monotonic() < end:
            # Whatever else it writes is read, so that it can end.
            with suppress(Empty):
                self._arrived.get(timeout=0.02)
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._is_closed = True
        self._has_ended = True
        self._said.close()

    def kill(self) -> None:
        """Ends the program at once."""
        if self._process is not None:
            self._process.kill()
        self.close()

    def ending(self) -> str:
        if self._process is None or self._is_closed:
            return "it was closed"
        try:
            status = self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        self._said.seek(0)
        said = self._said.read().decode(errors="replace").strip()
        return f"ended with status {status}: {said or 'no message'}"
