"""The pace of virtual time: how far a simulated run may be by now."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

#: The pace of a run that goes as fast as it can.
UNLIMITED = math.inf
#: The speeds that people choose from, by their words: multiples of real time.
SPEEDS = {"1x": 1.0, "10x": 10.0, "max": UNLIMITED}


class Pace:
    """Lets virtual time pass at a multiple of real time, or stop.

    `speed` is that multiple, `UNLIMITED` for no limit. `clock` returns real time in seconds.
    """

    def __init__(self, speed: float = 1.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._speed = speed
        self._is_paused = False
        self._now_s = 0.0
        self._origin = (0.0, clock())
        #: How far a paused run may go on, in seconds of the run.
        self._allowed_s = 0.0

    @property
    def speed(self) -> float:
        """The multiple of real time."""
        return self._speed

    @property
    def is_paused(self) -> bool:
        """Whether virtual time stands still."""
        return self._is_paused

    def reached(self, now_s: float) -> None:
        """Takes note of the time of the run."""
        self._now_s = now_s

    def wait_s(self, now_s: float) -> float:
        """Returns for how long in real seconds the run has to wait at `now_s`: infinity while it is
        paused.
        """
        self._now_s = now_s
        if self._is_paused:
            return 0.0 if now_s < self._allowed_s else math.inf
        if self._speed == UNLIMITED:
            return 0.0
        run_s, real_s = self._origin
        return max(0.0, real_s + (now_s - run_s) / self._speed - self._clock())

    def change(self, speed: float) -> None:
        """Sets the multiple of real time from now on."""
        self._speed = speed
        self._begin_anew()

    def pause(self) -> None:
        """Stops virtual time."""
        self._is_paused = True
        self._allowed_s = self._now_s

    def go_on(self) -> None:
        """Ends a pause."""
        self._is_paused = False
        self._begin_anew()

    def step(self, length_s: float) -> None:
        """Lets a paused run go on by `length_s` of its time."""
        self._allowed_s = max(self._allowed_s, self._now_s) + length_s

    def _begin_anew(self) -> None:
        self._origin = (self._now_s, self._clock())
