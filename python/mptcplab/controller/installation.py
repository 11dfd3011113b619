"""Carries out rounds of changes: each begins once all switches have answered the barrier of the one
before.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Sequence

from mptcplab.controller.messages import Barrier, Outlet
from mptcplab.controller.updates import Round

Done = Callable[[], None]
#: The largest transaction number that the controller uses for barriers.
_MOST_BARRIERS = 0x7FFFFFFF


class Installation:
    """The changes under way at the switches that are connected."""

    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet
        self._numbers = itertools.cycle(range(1, _MOST_BARRIERS))
        self._answers: dict[tuple[str, int], Done] = {}
        self._waiting: deque[tuple[list[Round], Done]] = deque()
        self._is_busy = False
        self.connected: set[str] = set()

    def in_turn(self, rounds: Sequence[Round], done: Done) -> None:
        """Carries out rounds after those that were given before."""
        self._waiting.append((list(rounds), done))
        self._next()

    def _next(self) -> None:
        if self._is_busy or not self._waiting:
            return
        self._is_busy = True
        rounds, done = self._waiting.popleft()

        def finish() -> None:
            self._is_busy = False
            done()
            self._next()

        self.at_once(rounds, finish)

    def at_once(self, rounds: Sequence[Round], done: Done) -> None:
        """Carries out rounds beside others that are under way."""
        if not rounds:
            done()
            return
        first, *rest = rounds
        waiting = set(first) & self.connected

        def answered(switch: str) -> None:
            waiting.discard(switch)
            if not waiting:
                self.at_once(rest, done)

        if not waiting:
            self.at_once(rest, done)
        for switch in sorted(waiting):
            self.ask(switch, first[switch], lambda switch=switch: answered(switch))  # type: ignore[misc]

    def ask(self, switch: str, messages: Sequence[object], done: Done) -> None:
        """Sends messages and a barrier to one switch; `done` follows the answer, or the loss of the
        connection.
        """
        number = next(self._numbers)
        self._answers[switch, number] = done
        self._outlet.send(switch, [*messages, Barrier(number)])  # type: ignore[list-item]

    def on_barrier(self, switch: str, number: int) -> None:
        """Handles the answer to a barrier."""
        done = self._answers.pop((switch, number), None)
        if done is not None:
            done()

    def on_lost(self, switch: str) -> None:
        """Handles the loss of a connection: nothing more is expected of the switch."""
        self.connected.discard(switch)
        for name, number in [key for key in self._answers if key[0] == switch]:
            self._answers.pop((name, number))()
