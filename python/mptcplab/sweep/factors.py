"""The factors of a sweep: keys of ``--set`` with several values, and the parameters of the
description.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

from mptcplab.errors import UsageError
from mptcplab.units import Duration, Probability, QuantityError, Rate, Size

MOST_COMBINATIONS = 10_000
_OPENING, _CLOSING, _QUOTES = "[{", "]}", "'\""
_PLAIN = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_QUEUE_LIMIT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(p|bdp)")
#: Quantities, the unit in which they are shown, and the number of smallest units in it.
_QUANTITIES = ((Duration, "s", 1e9), (Rate, "bit/s", 1.0), (Size, "B", 1.0), (Probability, "", 1.0))


@dataclass(frozen=True)
class Factor:
    """A key and its values as written."""

    name: str
    values: tuple[str, ...]

    @property
    def numbers(self) -> tuple[float, ...] | None:
        """The values in `unit`, or None if one is not a number or if their units differ in kind."""
        return self._measured[0] if self._measured else None

    @property
    def unit(self) -> str:
        """The unit of the numbers: ``s``, ``bit/s``, ``B``, ``packets``, ``bdp``, or none."""
        return self._measured[1] if self._measured else ""

    @cached_property
    def _measured(self) -> tuple[tuple[float, ...], str] | None:
        read = [_number(value) for value in self.values]
        # A value of 0 needs no unit.
        units = {unit for found in read if found for number, unit in [found] if number or unit} or {""}
        if None in read or len(units) > 1:
            return None
        return tuple(found[0] for found in read if found), units.pop()


def each_combination(values: Mapping[str, Sequence[str]]) -> Iterator[dict[str, str]]:
    """Yields the changes of each combination of the values of ``--set``. Raises UsageError if there
    are too many.
    """
    count = prod(len(several) for several in values.values())
    if count > MOST_COMBINATIONS:
        raise UsageError(f"--set makes {count} combinations; at most {MOST_COMBINATIONS} are allowed")
    yield from (dict(zip(values, picked, strict=True)) for picked in product(*values.values()))


def split_settings(settings: Mapping[str, str]) -> dict[str, list[str]]:
    """Splits the values of each ``--set``. Raises UsageError."""
    return {key: split_values(text, key) for key, text in settings.items()}


def split_values(text: str, key: str) -> list[str]:
    """Splits the values of ``--set KEY=V1,V2``, except at commas within brackets or quotes. Raises
    UsageError.
    """
    values, depth, quote = [""], 0, ""
    for sign in text:
        if quote:
            quote = "" if sign == quote else quote
        elif sign in _QUOTES:
            quote = sign
        depth += 0 if quote else (sign in _OPENING) - (sign in _CLOSING)
        if sign == "," and not depth and not quote:
            values.append("")
        else:
            values[-1] += sign
    values = [value.strip() for value in values]
    twice = next((value for value in values if values.count(value) > 1), None)
    if twice is not None:
        raise UsageError(f"--set {key}: has the value {twice!r} twice" if twice else f"--set {key}: a value is missing")
    if "" in values:
        raise UsageError(f"--set {key}: a value is missing; write it as in --set {key}=1,2")
    return values


def _number(text: str) -> tuple[float, str] | None:
    """Returns a value as a number and its unit."""
    if _PLAIN.fullmatch(text):
        return float(text), ""
    if limit := _QUEUE_LIMIT.fullmatch(text):
        return float(limit[1]), "packets" if limit[2] == "p" else "bdp"
    for kind, unit, in_unit in _QUANTITIES:
        try:
            return kind.parse(text) / in_unit, unit
        except QuantityError:
            continue
    return None
