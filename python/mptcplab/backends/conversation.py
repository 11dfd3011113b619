"""A conversation with a program that is a back-end: requests and answers as lines of JSON.

`experiment::program` of the crates describes the requests.
"""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from mptcplab.backends import Tick
from mptcplab.backends.later import Later
from mptcplab.errors import RunFailed
from mptcplab.remote.channel import Channel, Lost

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: The interval of the lines that tell an agent that its caller lives.
BEAT_S = 1.0
#: The names of files that a program may send: the tables of a run, and files in its folders.
_FILE = re.compile(r"(samples|units)\.parquet|(captures|programs)/[^/\0]+(/[^/\0]+)*")


class Conversation:
    """Requests to a program over a channel, one at a time.

    With `beats`, both ends send an empty line each second, and an end that is silent counts as
    lost. A program that can be held stands still between requests, and is sent none.
    """

    def __init__(self, channel: Channel, where: str, *, patience_s: float, beats: bool) -> None:
        self.where = where
        self.is_open = True
        self._channel = channel
        self._patience_s = patience_s
        self._beats = beats
        self._is_closed = Event()
        if beats and not channel.can_hold:
            Thread(target=self._beat, daemon=True).start()

    def _beat(self) -> None:
        while not self._is_closed.wait(BEAT_S):
            self._channel.send(b"\n")

    def ask(self, request: Any, *, patient: bool = False) -> Any:
        """Returns the answer to a request. A `patient` one waits as long as a program without beats
        needs.

        Raises ValueError for a request that the program refuses, OSError for a file that it cannot
        write, and RunFailed for all else.
        """
        try:
            self._channel.go_on()
            self._channel.send(json.dumps(request).encode() + b"\n")
            answer = json.loads(self._line(patient=patient))
            self._channel.hold()
        except Lost as lost:
            self.close()
            raise RunFailed(f"{self.where}: {lost}") from None
        except ValueError:
            self.close()
            raise RunFailed(f"{self.where}: not a program of mptcplab, because its answer is not JSON") from None
        if isinstance(answer, dict) and isinstance(error := answer.get("error"), dict):
            raise _ERRORS.get(error.get("kind", ""), RunFailed)(error.get("text"))
        return answer

    def _line(self, *, patient: bool) -> bytes:
        limit = None if patient and not self._beats else self._patience_s
        while not (line := self._channel.line(limit).strip()):
            pass
        return line

    def receive(self, files: list[list[Any]], directory: Path) -> None:
        """Writes the files that follow an answer. Raises RunFailed if one is lost, changed or has a
        wrong name.
        """
        self._channel.go_on()
        for name, count, sha256 in files:
            if not _FILE.fullmatch(name) or ".." in name.split("/"):
                self.close()
                raise RunFailed(f"{self.where}: sends a file that no run has: {name!r}")
            path, found = directory / name, hashlib.sha256()
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                with path.open("wb") as file:
                    for block in self._channel.exactly(count, self._patience_s):
                        found.update(block)
                        file.write(block)
            except Lost as lost:
                self.close()
                raise RunFailed(f"{self.where}: {lost}") from None
            if found.hexdigest() != sha256:
                self.close()
                raise RunFailed(f"{self.where}: {name} was changed on its way")
        self._channel.hold()

    def close(self) -> None:
        """Ends the program's input, with which it ends."""
        if self.is_open:
            self.is_open = False
            self._is_closed.set()
            self._channel.close()


_ERRORS: Mapping[str, type[Exception]] = {"refused": ValueError, "file": OSError, "machine": RunFailed}


class ConversationRun:
    """A run in a program. It advances by `step_ns` for each tick.

    Without `own_disk` the program is on another machine, and its files are sent here at the end.
    """

    def __init__(
        self,
        conversation: Conversation,
        experiment: Mapping[str, Any],
        seed: int,
        directory: Path,
        *,
        step_ns: int,
        own_disk: bool,
        keeps: bool,
    ) -> None:
        self._conversation = conversation
        self._directory = directory
        self._own_disk = own_disk
        self._every_ns: int = step_ns
        self._step_ns = self._every_ns
        #: Whether the conversation serves further runs.
        self._keeps = keeps
        self._later = Later()
        self._events: list[dict[str, Any]] = []
        self._state = "stopped"
        given = str(directory.resolve()) if own_disk else None
        start = {"seed": seed, "directory": given, "experiment": experiment}
        try:
            self._now_ns: int = self._asked({"start": start})["now_ns"]
        except BaseException:
            if not keeps:
                conversation.close()
            raise
        self._state = "running"

    @property
    def state(self) -> str:
        return self._state

    def samples(self) -> Iterator[Tick]:
        while self._state == "running":
            self._later.apply_due(self._now_ns, self.inject)
            tick = self._ask({"advance": self._later.until(self._now_ns + self._step_ns)})
            self._now_ns = tick["now_ns"]
            self._events += tick["events"]
            if tick["ended"]:
                self._state = "ended"
            yield Tick(self._now_ns, partial(tick.__getitem__, "latest"))

    def _asked(self, request: Any) -> Any:
        """Returns the answer to a request. The disk of another machine fails the run, and not what
        writes its bundle here.
        """
        try:
            return self._conversation.ask(request, patient=True)
        except OSError as error:
            if self._own_disk:
                raise
            # The next run begins anew there.
            self._conversation.close()
            raise RunFailed(f"{self._conversation.where}: {error}") from None

    def _ask(self, request: Any) -> Any:
        try:
            return self._asked(request)
        except RunFailed as failure:
            raise RunFailed(f"{failure} (at {self._now_ns / 1e9:.1f} s of the run)") from None

    def inject(self, action: Mapping[str, Any]) -> dict[str, Any]:
        event: dict[str, Any] = self._conversation.ask({"inject": action}, patient=True)
        return event

    def inject_later(self, action: Mapping[str, Any], after_ns: int) -> None:
        self._later.add(self._now_ns + after_ns, action)

    def events(self, since: int) -> list[dict[str, Any]]:
        return self._events[since:]

    def heed_within(self, step_ns: int) -> None:
        self._step_ns = min(self._every_ns, step_ns)

    def stop(self, reason: str) -> None:  # noqa: ARG002  (the bundle records the reason)
        self._state = "stopped"

    def result(self) -> dict[str, Any]:
        ended = self._ask("finish")
        self._conversation.receive(ended["files"], self._directory)
        if not self._keeps:
            self._conversation.close()
        result: dict[str, Any] = ended["summary"]
        if ended["machine"] is not None:
            result["environment"] = ended["machine"]
        return result

    def __del__(self) -> None:
        # An abandoned run ends with its program.
        if self._state == "running" and self._conversation.is_open:
            with suppress(Exception):
                self._conversation.close()
