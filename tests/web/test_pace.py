"""Tests of the pace of virtual time."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mptcplab.web.pace import UNLIMITED, Pace


class Clock:
    """Real time that a test sets."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_virtual_time_passes_at_a_multiple_of_real_time() -> None:
    clock = Clock()
    pace = Pace(10.0, clock)
    assert pace.wait_s(5.0) == pytest.approx(0.5)
    clock.now_s += 0.5
    assert pace.wait_s(5.0) == pytest.approx(0.0)


def test_a_run_without_a_limit_never_waits() -> None:
    assert Pace(UNLIMITED, Clock()).wait_s(1e6) == 0


def test_a_paused_run_goes_on_by_steps() -> None:
    clock = Clock()
    pace = Pace(1.0, clock)
    pace.wait_s(2.0)
    pace.pause()
    clock.now_s += 50
    assert pace.wait_s(2.0) == math.inf
    pace.step(0.1)
    assert pace.wait_s(2.05) == 0
    assert pace.wait_s(2.1) == math.inf


@given(st.lists(st.sampled_from(["pause", "go_on", "step", "slower", "faster"]), max_size=12))
def test_after_any_changes_a_run_that_goes_on_catches_up_with_nothing(changes: list[str]) -> None:
    clock = Clock()
    pace = Pace(1.0, clock)
    for change in changes:
        clock.now_s += 7
        pace.wait_s(3.0)
        match change:
            case "pause" | "go_on":
                getattr(pace, change)()
            case "step":
                pace.step(0.2)
            case _:
                pace.change(0.5 if change == "slower" else 4.0)
    pace.wait_s(3.0)
    pace.go_on()
    assert pace.wait_s(3.0) == 0
    assert pace.wait_s(3.0 + pace.speed) == pytest.approx(1.0), "a second of real time from here"
