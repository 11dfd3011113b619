"""Tests when times that compare clocks of two machines are certain."""

from __future__ import annotations

import pytest
from mptcplab.results.clocks import certain
from mptcplab.results.run_data import Absent


@pytest.mark.parametrize(
    ("value_s", "bound_s"),
    [(0.020, 0.002), (0.005, 0.001), (10.0, 0.9), (0.0001, 0.0)],
)
def test_a_time_is_certain_within_a_tenth_of_it_or_a_millisecond(value_s: float, bound_s: float) -> None:
    assert certain(value_s, bound_s) == value_s


@pytest.mark.parametrize(("value_s", "bound_s"), [(0.020, 0.0021), (0.005, 0.0011), (10.0, 1.1)])
def test_a_time_is_absent_beyond_both(value_s: float, bound_s: float) -> None:
    absent = certain(value_s, bound_s)
    assert isinstance(absent, Absent)
    assert f"{bound_s * 1e3:.3g} ms" in absent.why


def test_the_reason_of_an_absent_time_stays() -> None:
    absent = Absent("no data unit was delivered")
    assert certain(absent, 1.0) is absent
