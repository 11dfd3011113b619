"""The notations of a table of claims: for measured quantities, and for the values that a claim
allows.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?"
_WINDOW = rf"({_NUMBER})\.\.({_NUMBER})"
_MEASURE = re.compile(rf"(?:(sum|least|largest) )?(rate_of )?([\w.-]+)(?: {_WINDOW})?(?: @ (\S+))?")
_BOUND = re.compile(rf"(<=|>=|<|>|==) ?({_NUMBER})")
_BAND = re.compile(_WINDOW)

#: How the values of several experiments become one.
Combination = Literal["sum", "least", "largest"]
_COMBINATIONS: dict[str, Combination] = {"sum": "sum", "least": "least", "largest": "largest"}


@dataclass(frozen=True)
class Measure:
    """What is measured: ``mean_bps 20..50 @ fig9/n1``.

    ``name`` is a quantity, or a metric of an entity as in an expectation; ``window_s`` the part of
    the run; ``on`` a pattern of experiments of the paper in which ``{n}`` is the parameter n of the
    experiment it is compared with. ``of_several`` combines the values of all experiments of the
    pattern, seed by seed. With ``is_rate``, ``name`` is a counter of an entity, of which the rate
    is measured.
    """

    name: str
    window_s: tuple[float, float] | None
    on: str | None
    of_several: Combination | None = None
    is_rate: bool = False

    @classmethod
    def parse(cls, text: str) -> Measure:
        """Raises ValueError."""
        match = _MEASURE.fullmatch(text)
        if match is None:
            raise ValueError(
                f"{text!r} is not of the form [sum|least|largest] [rate_of] NAME [FROM..TO] [@ EXPERIMENT]"
            )
        of_several, rate_of, name, start, end, on = match.groups()
        window = None if start is None else (float(start), float(end))
        if window is not None and not window[0] < window[1]:
            raise ValueError(f"{text!r}: the window is empty")
        if of_several is not None and on is None:
            raise ValueError(f"{text!r}: {of_several} needs '@ EXPERIMENTS'")
        return cls(name, window, on, _COMBINATIONS.get(of_several), rate_of is not None)

    @property
    def is_ambiguous(self) -> bool:
        """Whether its pattern can mean several experiments, of which nothing makes one value."""
        return self.of_several is None and self.on is not None and not {"*", "?", "["}.isdisjoint(self.on)

    @property
    def counter(self) -> tuple[str, str] | None:
        """The entity and the counter of which it is the rate."""
        if not self.is_rate:
            return None
        entity, _, counter = self.name.rpartition(".")
        return entity, counter


@dataclass(frozen=True)
class Range:
    """A range from `low` to `high`, ends included unless open: ``>= 0.95``, ``< 1``, ``6.8..8.0``,
    ``== 9``.
    """

    low: float = -math.inf
    high: float = math.inf
    low_open: bool = False
    high_open: bool = False

    @classmethod
    def parse(cls, text: str) -> Range:
        """Parses a range. Raises ValueError."""
        if band := _BAND.fullmatch(text):
            low, high = float(band[1]), float(band[2])
            if low > high:
                raise ValueError(f"{text!r}: the range is empty")
            return cls(low, high)
        bound = _BOUND.fullmatch(text)
        if bound is None:
            raise ValueError(f"invalid range {text!r}; allowed: >= 0.95, < 1, == 9, or 6.8..8.0")
        sign, number = bound[1], float(bound[2])
        if sign == "==":
            return cls(number, number)
        if sign.startswith("<"):
            return cls(high=number, high_open=sign == "<")
        return cls(low=number, low_open=sign == ">")

    def holds_all(self, low: float, high: float) -> bool:
        """Returns whether the range contains everything from `low` to `high`."""
        above = low > self.low if self.low_open else low >= self.low
        below = high < self.high if self.high_open else high <= self.high
        return above and below

    @property
    def outside(self) -> tuple[Range, ...]:
        """What lies beside it."""
        below = (Range(high=self.low, high_open=not self.low_open),) if self.low > -math.inf else ()
        above = (Range(low=self.high, low_open=not self.high_open),) if self.high < math.inf else ()
        return below + above
