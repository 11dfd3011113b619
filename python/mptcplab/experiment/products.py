"""Products in references: `${125mbit / scale}` is a quantity multiplied or divided by numbers."""

from __future__ import annotations

import re
from fractions import Fraction

from mptcplab.units import Duration, Rate, Size

_TERM = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z/%]*)")
#: Rates, times and sizes are whole numbers of the smallest unit, to which products are rounded.
_WHOLE = {Duration: "ns", Rate: "bit", Size: "B"}
_DIGITS = 12


def factors(expression: str) -> list[tuple[str, str]]:
    """Returns the operators and operands of a product: `("*", "125mbit"), ("/", "scale")`."""
    first, *rest = re.split(r"\s+([*/])\s+", expression.strip())
    return [("*", first), *zip(rest[::2], rest[1::2], strict=True)]


def product(terms: list[tuple[str, str]]) -> str:
    """Returns the product of operators and numbers, of which the first may have a unit, as text.

    Raises ValueError for an operand that is not a number, a second unit, or a division by zero.
    """
    number, unit = Fraction(1), ""
    for place, (operator, text) in enumerate(terms):
        match = _TERM.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"'{text}' is not a number")
        if match[2] and place:
            raise ValueError(f"'{text}' has a unit")
        unit = unit or match[2]
        if operator == "/" and not Fraction(match[1]):
            raise ValueError("division by zero")
        number = number * Fraction(match[1]) if operator == "*" else number / Fraction(match[1])
    return _written(number, unit)


def _written(number: Fraction, unit: str) -> str:
    for kind, smallest in _WHOLE.items():
        if unit and (factor := kind.factor_of(unit)):
            exact = number * factor
            # The unit is kept where that is exact, because people read the text.
            return _decimal(number) + unit if exact.denominator == 1 else f"{round(exact)}{smallest}"
    return _decimal(number) + unit


def _decimal(number: Fraction) -> str:
    return str(number.numerator) if number.denominator == 1 else f"{float(number):.{_DIGITS}g}"
