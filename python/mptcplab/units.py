"""Quantities with units: typed numbers that read and print the texts of a description.

Each type is a number (`Rate("12mbit") == 12_000_000`), so arithmetic needs no unwrapping; `str()`
gives a text that reads back to exactly the same number. As the type of a pydantic field, a quantity
accepts its text or itself, is dumped as text, and describes itself in JSON Schema.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar, Self

from pydantic_core import PydanticCustomError, core_schema

NANOS_PER_SECOND = 1_000_000_000
_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_LONGEST_TEXT = 40
# With the micro sign and with the Greek letter, which look the same.
_MICROSECONDS = ("\u00b5s", "\u03bcs")


def decimal_comma(text: str) -> str:
    """Returns a hint for numbers with a decimal comma, as in `10,5ms`, or an empty text."""
    match = re.fullmatch(r"\s*([0-9]+),([0-9]+)\s*(\S*)\s*", text)
    return f", did you mean {match[1]}.{match[2]}{match[3]}, with a decimal point?" if match else ""


class QuantityError(ValueError):
    """A value that is not a quantity of the wanted kind: ``problem`` says what was found,
    ``allowed`` what may be.
    """

    def __init__(self, problem: str, allowed: str) -> None:
        super().__init__(f"{problem}; allowed: {allowed}")
        self.problem = problem
        self.allowed = allowed


def _shown(found: object) -> str:
    if isinstance(found, list | tuple | Mapping):
        return "a mapping" if isinstance(found, Mapping) else "a list"
    text = repr(found) if not isinstance(found, str) else f"'{found}'"
    return text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + "..."


class Quantity:
    """The base of all quantities: validation by `parse`, output as text, and pattern and examples
    for JSON Schema.
    """

    pattern: ClassVar[str]
    summary: ClassVar[str]
    examples: ClassVar[tuple[Any, ...]]
    plain_number: ClassVar[dict[str, Any]] = {}
    """JSON Schema of the numbers that need no unit."""

    @classmethod
    def parse(cls, found: object) -> Self:
        """Returns the quantity that `found` stands for. Raises QuantityError if it is not one."""
        raise NotImplementedError

    @classmethod
    def _validated(cls, found: object) -> Self:
        try:
            return cls.parse(found)
        except QuantityError as error:
            context = {"problem": error.problem, "allowed": error.allowed}
            raise PydanticCustomError("described", "{problem}; allowed: {allowed}", context) from None

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, _handler: object) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls._validated, serialization=core_schema.plain_serializer_function_ser_schema(cls.dumped)
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, _schema: object, _handler: object) -> dict[str, Any]:
        text = {"type": "string", "pattern": cls.pattern}
        shape = {"anyOf": [cls.plain_number, text]} if cls.plain_number else text
        return {**shape, "description": cls.summary, "examples": list(cls.examples)}

    def dumped(self) -> str | float:
        """Returns the form for YAML and JSON."""
        return str(self)


class _Counted(Quantity, int):
    """An integer number of a smallest unit, written as a number with a unit."""

    units: ClassVar[dict[str, int]]
    spellings: ClassVar[dict[str, int]] = {}
    bare: ClassVar[int | None] = None
    least: ClassVar[int] = 0
    most: ClassVar[int]
    allowed: ClassVar[str]

    def __new__(cls, found: int | str) -> Self:
        return cls.parse(found) if isinstance(found, str) else cls._bounded(found, found)

    @classmethod
    def parse(cls, found: object) -> Self:
        if isinstance(found, cls):
            return found
        if isinstance(found, str):
            return cls._bounded(cls._scaled(found), found)
        if type(found) is int and (found == 0 or cls.bare is not None):
            return cls._bounded(found * (cls.bare or 1), found)
        if type(found) in (int, float):
            raise QuantityError(f"{_shown(found)} has no unit", cls.allowed)
        raise QuantityError(f"{_shown(found)} is not a {cls.summary}", cls.allowed)

    @classmethod
    def _scaled(cls, text: str) -> int:
        match = re.fullmatch(rf"([+-]?{_NUMBER})\s*([A-Za-z\u00b5\u03bc/]*)", text.strip())
        if match is None or len(text) > _LONGEST_TEXT:
            raise QuantityError(f"{_shown(text)} is not a {cls.summary}{decimal_comma(text)}", cls.allowed)
        number, unit = match.groups()
        factor = cls.factor_of(unit) or (cls.bare if not unit else None)
        if factor is None and not (not unit and Decimal(number) == 0):
            problem = f"{_shown(text)} has no unit"
            if unit:
                problem = f"{_shown(text)} has the unknown unit '{unit}'{cls._meant(Decimal(number), unit)}"
            raise QuantityError(problem, cls.allowed)
        scaled = Fraction(number) * (factor or 1)
        if scaled.denominator != 1:
            raise QuantityError(f"{_shown(text)} is finer than 1 {cls._smallest()}", cls.allowed)
        return scaled.numerator

    @classmethod
    def factor_of(cls, unit: str) -> int | None:
        """Returns the factor from a unit, in any spelling, to the smallest unit; None for an
        unknown unit.
        """
        return cls.units.get(unit) or cls.spellings.get(unit)

    @classmethod
    def _meant(cls, number: Decimal, unit: str) -> str:  # noqa: ARG003  (overrides use the arguments)
        """Returns `, did you mean ..?` or an empty text."""
        return ""

    @classmethod
    def _smallest(cls) -> str:
        return min(cls.units, key=cls.units.__getitem__)

    @classmethod
    def _bounded(cls, number: int, found: object) -> Self:
        if number < cls.least:
            problem = "is negative" if number < 0 else f"is less than {cls._written(cls.least)}"
            raise QuantityError(f"{_shown(found)} {problem}", cls.allowed)
        if number > cls.most:
            raise QuantityError(f"{_shown(found)} is more than {cls._written(cls.most)}", cls.allowed)
        return int.__new__(cls, number)

    @classmethod
    def _written(cls, number: int) -> str:
        # The largest unit that divides evenly keeps the text short and exact.
        for unit, factor in sorted(cls.units.items(), key=lambda item: -item[1]):
            if number and number % factor == 0:
                return f"{number // factor}{unit}"
        return f"0{cls._smallest()}"

    def __str__(self) -> str:
        return self._written(int(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class Rate(_Counted):
    """Bits per second."""

    units: ClassVar[dict[str, int]] = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9}
    least, most = 1, 10**13
    summary = "rate"
    allowed = "a rate with unit, as in 800kbit, 12mbit, 1.5gbit (bits per second)"
    pattern = rf"^{_NUMBER}\s*[kKmMgG]?([bB]it(/s)?|bps|b/s)$"
    examples = ("12mbit", "1.5gbit", "800kbit")

    @classmethod
    def factor_of(cls, unit: str) -> int | None:
        """Returns the bits per second of a unit such as Mbit, mbps or Mbit/s; None for a unit that
        counts bytes.
        """
        match = re.fullmatch(r"([kKmMgG]?)(?:[bB]it(?:/s)?|bps|b/s)", unit)
        return None if match is None else cls.units[f"{match[1].lower()}bit"]

    @classmethod
    def _meant(cls, number: Decimal, unit: str) -> str:
        if match := re.fullmatch(r"([kKmMgG]?)(B|Bps|B/s)", unit):
            return f", which counts bytes; did you mean {8 * number:f}{match[1].lower()}bit?"
        if match := re.fullmatch(r"([kKmMgG])b?(its?)?", unit):
            return f", did you mean {number:f}{match[1].lower()}bit?"
        return ""


class Size(_Counted):
    """Bytes."""

    units: ClassVar[dict[str, int]] = {
        "": 1,
        "kB": 10**3,
        "MB": 10**6,
        "GB": 10**9,
        "KiB": 2**10,
        "MiB": 2**20,
        "GiB": 2**30,
    }
    spellings: ClassVar[dict[str, int]] = {"B": 1, "KB": 10**3, "kiB": 2**10}
    bare = 1
    most = 10**15
    plain_number: ClassVar[dict[str, Any]] = {"type": "integer", "minimum": 0}
    summary = "size"
    allowed = "a size, as in 1472, 64kB, 15MB, 4MiB (bytes)"
    pattern = rf"^{_NUMBER}\s*(B|kB|KB|MB|GB|KiB|kiB|MiB|GiB)?$"
    examples = ("15MB", "4MiB", "1472")

    @classmethod
    def _smallest(cls) -> str:
        return ""

    def dumped(self) -> str | float:
        """Returns a plain number of bytes if no unit fits, else text."""
        text = str(self)
        return int(self) if text.isdigit() else text


class Duration(_Counted):
    """Nanoseconds."""

    units: ClassVar[dict[str, int]] = {"ns": 1, "us": 10**3, "ms": 10**6, "s": NANOS_PER_SECOND}
    spellings: ClassVar[dict[str, int]] = {
        "min": 60 * NANOS_PER_SECOND,
        "h": 3600 * NANOS_PER_SECOND,
        **dict.fromkeys(_MICROSECONDS, 10**3),
    }
    most = 366 * 24 * 3600 * NANOS_PER_SECOND
    summary = "duration"
    allowed = "a duration with unit, as in 10us, 30ms, 1.5s, 2min"
    pattern = rf"^(0|{_NUMBER}\s*(ns|[u\u00b5\u03bc]s|ms|s|min|h))$"
    examples = ("30ms", "60s", "10us")
    plain_number: ClassVar[dict[str, Any]] = {"const": 0}

    @classmethod
    def _written(cls, number: int) -> str:
        return super()._written(number) if number else "0s"


class Probability(Quantity, float):
    """A probability, 0 to 1."""

    summary = "probability"
    allowed = "a probability from 0 to 1, as in 0.1% or 0.001"
    pattern = rf"^{_NUMBER}([eE][+-]?[0-9]{{1,3}})?\s*%?$"
    examples = ("0.1%", 0.001)
    plain_number: ClassVar[dict[str, Any]] = {"type": "number", "minimum": 0, "maximum": 1}

    def __new__(cls, found: float | str) -> Self:
        return cls.parse(found)

    @classmethod
    def parse(cls, found: object) -> Self:
        """Parses a number, or a text in percent."""
        if isinstance(found, str):
            match = re.fullmatch(rf"({_NUMBER}(?:[eE][+-]?[0-9]{{1,3}})?)\s*(%?)", found.strip())
            if match is None or len(found) > _LONGEST_TEXT:
                raise QuantityError(f"{_shown(found)} is not a probability", cls.allowed)
            number = float(Decimal(match[1]) / (100 if match[2] else 1))
        elif isinstance(found, (int, float)) and not isinstance(found, bool):
            number = found
        else:
            raise QuantityError(f"{_shown(found)} is not a probability", cls.allowed)
        if not 0 <= number <= 1:  # also refuses NaN, which compares false
            raise QuantityError(f"{_shown(found)} is not between 0 and 1", cls.allowed)
        return float.__new__(cls, number)

    def __str__(self) -> str:
        return float.__repr__(self)

    def dumped(self) -> str | float:
        """Returns the plain number."""
        return float(self)


class Decibels(Quantity, float):
    """A ratio in dB, -100 to 100."""

    summary = "ratio in dB"
    allowed = "a ratio from -100db to 100db, as in 30db"
    pattern = rf"^-?{_NUMBER}\s*[dD][bB]$"
    examples = ("30db", "12.5db")

    def __new__(cls, found: float | str) -> Self:
        return cls.parse(found)

    @classmethod
    def parse(cls, found: object) -> Self:
        """Parses a text with unit."""
        if isinstance(found, cls):
            return found
        match = re.fullmatch(rf"(-?{_NUMBER})\s*[dD][bB]", found.strip()) if isinstance(found, str) else None
        if match is None or len(match[0]) > _LONGEST_TEXT:
            raise QuantityError(f"{_shown(found)} is not a ratio in dB", cls.allowed)
        number = float(match[1])
        if not -100 <= number <= 100:
            raise QuantityError(f"{_shown(found)} is out of range", cls.allowed)
        return float.__new__(cls, number)

    def __str__(self) -> str:
        return f"{float(self):g}db"

    def dumped(self) -> str | float:
        """Returns the text with unit."""
        return str(self)


class QueueLimit(Quantity):
    """How much a queue holds: packets (`100p`), bytes (`64kB`) or a multiple of rate x round-trip
    time (`1bdp`).
    """

    summary = "queue limit"
    allowed = "packets as in 100p, bytes as in 3000B, 64kB, or rate x round-trip time as in 1bdp, 2.5bdp"
    pattern = rf"^({_NUMBER}\s*bdp|[0-9]+\s*p|{_NUMBER}\s*(B|kB|KB|MB|GB|KiB|kiB|MiB|GiB))$"
    examples = ("100p", "64kB", "1bdp")
    _MOST_PACKETS = 10**9
    _MOST_PRODUCTS = 10**4

    def __init__(self, found: str | Size) -> None:
        self.packets: int | None = None
        self.bytes: Size | None = None
        self.products: Fraction | None = None
        text = str(found).strip()
        if match := re.fullmatch(rf"([0-9]{{1,{_LONGEST_TEXT}}})\s*p", text):
            self.packets = int(match[1])
        elif match := re.fullmatch(rf"({_NUMBER})\s*bdp", text):
            self.products = Fraction(match[1])
        else:
            self.bytes = self._as_bytes(found)
        self._check(found)

    @classmethod
    def _as_bytes(cls, found: str | Size) -> Size:
        if not isinstance(found, Size) and re.fullmatch(rf"{_NUMBER}", str(found).strip()):
            # Other tools count packets here, and earlier versions counted bytes, so the hint offers
            # both.
            hint = f", did you mean {found}p, packets, or {found}B, bytes?"
            raise QuantityError(f"{_shown(found)} has no unit{hint}", cls.allowed)
        try:
            return Size.parse(found)
        except QuantityError as error:
            raise QuantityError(error.problem.replace("a size", "a queue limit"), cls.allowed) from None

    def _check(self, found: object) -> None:
        if 0 in (self.packets, self.bytes, self.products):
            raise QuantityError(f"{_shown(found)} holds nothing", self.allowed)
        if (self.packets or 0) > self._MOST_PACKETS or (self.products or 0) > self._MOST_PRODUCTS:
            raise QuantityError(f"{_shown(found)} is more than any queue", self.allowed)

    @classmethod
    def parse(cls, found: object) -> Self:
        """Parses the text of a limit, or a size."""
        if isinstance(found, cls):
            return found
        if isinstance(found, str | Size):
            return cls(found)
        if type(found) is int:
            return cls(str(found))
        raise QuantityError(f"{_shown(found)} is not a queue limit", cls.allowed)

    def __str__(self) -> str:
        if self.packets is not None:
            return f"{self.packets}p"
        if self.products is not None:
            number = format(Decimal(self.products.numerator) / Decimal(self.products.denominator), "f")
            return f"{number}bdp"
        return f"{text}B" if (text := str(self.bytes)).isdigit() else text

    def __repr__(self) -> str:
        return f"QueueLimit({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QueueLimit) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


#: Units that a sentence writes in another way than a description.
_IN_A_SENTENCE = {"us": "µs", "p": "packets", "bdp": "bandwidth-delay products", "db": "dB"}
_RATE_PREFIXES = {"k": "k", "m": "M", "g": "G"}


def in_a_sentence(text: str) -> str:
    """``50 Mbit/s`` for ``50mbit``, ``1 packet`` for ``1p``, ``0.1 %`` for ``0.1%``: a quantity as a
    sentence has it. Returns any other text as it is.
    """
    match = re.fullmatch(rf"({_NUMBER})\s*([A-Za-z/]+|%)", text)
    unit = _unit_in_a_sentence(match[2]) if match else None
    if match is None or unit is None:
        return text
    return f"{match[1]} {unit.removesuffix('s') if match[1] == '1' and unit.endswith('ts') else unit}"


def _unit_in_a_sentence(unit: str) -> str | None:
    if Rate.factor_of(unit):
        return f"{_RATE_PREFIXES.get(unit[0].lower(), '')}bit/s"
    is_known = unit == "%" or Duration.factor_of(unit) or Size.factor_of(unit)
    return _IN_A_SENTENCE.get(unit) or (unit if is_known else None)
