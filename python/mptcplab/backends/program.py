"""A user's simulator as a back-end: the program that `simulator::main` makes of a crate with algorithms."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any

from mptcplab.backends import Capability, Tick
from mptcplab.errors import RunFailed, SpecError, Unsupported, UsageError

#: The exit status of a program for wrong input.
WRONG_INPUT = 2
#: Time limit for an answer. A large experiment takes a second.
PATIENCE_S = 60.0


class ProgramRun:
    """A run in its own process. It advances by one interval of samples for each line sent to it."""

    def __init__(self, program: Path, experiment: Mapping[str, Any], seed: int, directory: Path) -> None:
        self._program = program
        self._said = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115  (open as long as the run)
        self._process = subprocess.Popen(
            [program, "run", str(seed), directory],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            encoding="utf-8",
        )
        self._state = "running"
        self._send(json.dumps(experiment))

    @property
    def state(self) -> str:
        return self._state

    def samples(self) -> Iterator[Tick]:
        while self._state == "running":
            self._send("")
            tick = self._receive()
            if tick["ended"]:
                self._state = "ended"
            yield Tick(tick["now_ns"], partial(tick.__getitem__, "latest"))

    def inject(self, action: Mapping[str, Any]) -> dict[str, Any]:
        raise Unsupported(self._program.name, [(f"action {action['kind']}", "injected actions need --on sim")])

    def inject_later(self, action: Mapping[str, Any], after_ns: int) -> None:  # noqa: ARG002
        self.inject(action)

    def events(self, since: int) -> list[dict[str, Any]]:  # noqa: ARG002
        """Returns nothing, because a program tells its events in the result."""
        return []

    def heed_within(self, step_ns: int) -> None:
        """Does nothing, because a program advances by intervals of samples, and nothing can be injected."""

    def stop(self, reason: str) -> None:  # noqa: ARG002  (the bundle records the reason)
        self._state = "stopped"

    def result(self) -> dict[str, Any]:
        _pipe(self._process.stdin).close()
        result = self._receive()
        self._process.wait()
        self._said.close()
        return result

    def _send(self, line: str) -> None:
        try:
            pipe = _pipe(self._process.stdin)
            pipe.write(f"{line}\n")
            pipe.flush()
        except OSError:
            raise self._failure() from None

    def _receive(self) -> dict[str, Any]:
        line = _pipe(self._process.stdout).readline()
        try:
            document: dict[str, Any] = json.loads(line)
        except ValueError:
            raise self._failure() from None
        return document

    def _failure(self) -> RunFailed:
        self._process.kill()
        status = self._process.wait()
        self._said.seek(0)
        said = self._said.read().strip()
        self._said.close()
        return RunFailed(f"{self._program} ended with status {status}: {said or 'no message'}")


class Program:
    """A simulator with algorithms that mptcplab does not have."""

    in_real_time = False

    def __init__(self, path: Path) -> None:
        self._path = path
        if not path.is_file() or not os.access(path, os.X_OK):
            raise UsageError(f"--on {path}: there is no such program; build it, or use --on sim")
        # Results of different builds of a program have different names.
        self.name = f"{path.stem}-{hashlib.sha256(path.read_bytes()).hexdigest()[:8]}"

    def ready(self) -> None:
        """Does nothing: the program needs no privileges."""

    def probe(self) -> list[Capability]:
        return [Capability(feature, available, why) for feature, available, why in self._ask("capabilities")]

    def check(self, experiment: Mapping[str, Any]) -> list[tuple[str, str]]:
        return [(feature, why) for feature, why in self._ask("check", json.dumps(experiment))]

    def start(self, experiment: Mapping[str, Any], seed: int, directory: Path) -> ProgramRun:
        return ProgramRun(self._path.resolve(), experiment, seed, directory)

    def _ask(self, command: str, given: str = "") -> Any:
        try:
            done = subprocess.run(
                [self._path.resolve(), command],
                input=given,
                capture_output=True,
                text=True,
                encoding="utf-8",
                timeout=PATIENCE_S,
            )
            if done.returncode == WRONG_INPUT:
                raise SpecError(f"{self._path}: {done.stderr.strip()}")
            return json.loads(done.stdout)
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            allowed = "a program with simulator::main, of this version"
            raise UsageError(f"--on {self._path}: not a simulator of mptcplab: {error}; allowed: {allowed}") from error


def _pipe(stream: IO[str] | None) -> IO[str]:
    if stream is None:
        raise RunFailed("the program has no standard input or output")
    return stream
