"""Numbers for people: a value with its unit, three significant digits, a prefix that keeps it
short.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mptcplab.report.grid import Cell, Part

if TYPE_CHECKING:
    from mptcplab.results import Spread

PREFIXED = {"bit/s": ("bit/s", "kbit/s", "Mbit/s", "Gbit/s"), "B": ("B", "kB", "MB", "GB")}
#: The text of a value that does not exist.
MISSING = "\N{EN DASH}"


def quantity(value: float | None, unit: str) -> Cell:
    """``7.21 Mbit/s``, ``30 ms``, ``18.1 µs``, ``0.98``; a dash for a value that does not exist."""
    return Cell(_written(value, unit), Part(value, unit))


def _written(value: float | None, unit: str) -> str:
    if value is None:
        return MISSING
    if unit == "s" and 0 < abs(value) < 0.9995e-3:
        return _with_unit(value * 1e6, "µs")
    if unit == "s" and 0 < abs(value) < 0.9995:
        return _with_unit(value * 1000, "ms")
    if unit in PREFIXED:
        return _prefixed(value, PREFIXED[unit])
    if unit == "0/1":
        return "yes" if value == 1 else "no" if value == 0 else _digits(value)
    return _with_unit(value, unit)


def interval(low: float | None, high: float | None, unit: str) -> Cell:
    """``22.2 to 23.1 Mbit/s``, ``600 ms to 1.20 s``: two values, with the unit once if it is the
    same; a dash if they do not exist.
    """
    parts = Part(low, unit, "low"), Part(high, unit, "high")
    if low is None or high is None:
        return Cell(MISSING, *parts)
    first, last = _written(low, unit), _written(high, unit)
    number, space, prefixed = first.partition(" ")
    return Cell(f"{number if space and last.endswith(f' {prefixed}') else first} to {last}", *parts)


def interval_of(spread: Spread, unit: str) -> Cell:
    """Returns the interval of a median; a dash for that of one run, which has none."""
    return interval(spread.low, spread.high, unit) if spread.n > 1 else interval(None, None, unit)


def head(name: str) -> str:
    """Returns the name of a metric as a column head, without its unit, which is
    beside the values.
    """
    for suffix in ("_bps", "_bytes", "_packets", "_s"):
        name = name.removesuffix(suffix)
    return name.replace("_", " ")


def full_head(metric: str) -> str:
    """``goodput of bulk`` for ``flows.bulk.goodput_bps``; of the run, ``goodput``."""
    path, _, name = metric.rpartition(".")
    entity = path.partition(".")[2]
    return f"{head(name)} of {entity}" if entity else head(name)


def _prefixed(value: float, units: tuple[str, ...]) -> str:
    step = 0
    while abs(value) >= 999.5 and step + 1 < len(units):
        value, step = value / 1000, step + 1
    return _with_unit(value, units[step])


def _with_unit(value: float, unit: str) -> str:
    return f"{_digits(value)} {unit}".rstrip()


def _digits(value: float) -> str:
    """Returns a number with three significant digits, or a whole number in full."""
    if value == int(value) and abs(value) < 1e9:
        return f"{int(value):,}".replace(",", "\u202f")
    if abs(value) >= 999.5:
        return f"{value:,.0f}".replace(",", "\u202f")
    return f"{value:#.3g}".rstrip(".")
