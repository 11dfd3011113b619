"""The language of ``expect``: comparisons of metrics and numbers, ``flows.bulk.goodput_bps >
6.8e6``.

Operators: ``+ - * /``, ``< <= > >= == !=``, ``and or not``, ``abs min max`` and parentheses. A
metric is written ``ENTITY.METRIC``; because names may hold hyphens, a minus between metrics needs
spaces. A number may have a unit.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mptcplab.errors import SpecError, Where
from mptcplab.results.entities import Entity, Json, entities
from mptcplab.results.evaluation import Evaluation
from mptcplab.results.host_counters import ALLOWED as ALLOWED_COUNTERS
from mptcplab.results.host_counters import counter_named, host_at, hosts_of
from mptcplab.results.run_data import Absent, NotJudged, Value
from mptcplab.results.subflows import subflow_at
from mptcplab.results.table import FORMER, METRICS, Metric, metrics_of, nearest
from mptcplab.units import NANOS_PER_SECOND, Duration, Rate, Size

ROOTS = ("flows", "links", "interfaces", "hosts", "nodes", "probes", "events", "run")
_PATH = re.compile(rf"(?<![\w.])(?:{'|'.join(ROOTS)})(?:\.[\w:@+]+(?:-[\w:@+]+)*)+")

#: A number and a unit, adjacent or with a space before a letter, after metrics have been replaced.
#: The number is matched whole (an atomic group), so that the ``e`` of ``1e-6`` is not read as a
#: unit.
_QUANTITY = re.compile(r"(?<![\w.])((?>[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?))[ ]?(%|[A-Za-z][A-Za-z/]*)(?![\w/])")

_ARITHMETIC: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_FUNCTIONS: dict[str, Callable[..., float]] = {"abs": abs, "min": min, "max": max}
ALLOWED = (
    "comparisons of ENTITY.METRIC and numbers (6.8e6, 6.8mbit) with + - * / < <= > >= == != and or not abs min max ( )"
)


@dataclass(frozen=True)
class Verdict:
    """Whether an expectation held. ``value`` is the left side of a single comparison, ``why`` the
    part that failed.
    """

    text: str
    #: None if it was not judged, because the back-end cannot have a value that decides it.
    held: bool | None
    value: float | None
    why: str | None

    def as_json(self) -> Json:
        """Returns the form that the bundle stores."""
        return {"text": self.text, "held": self.held, "value": self.value, "why": self.why}


@dataclass(frozen=True)
class _Parsed:
    """An expectation as a syntax tree in which placeholders stand for (entity, metric)."""

    text: str
    tree: ast.expr
    metrics: dict[str, tuple[str, str]]
    #: Numbers with a unit: the value converted to the unit of metrics, and that unit.
    quantities: dict[str, tuple[float, str]]


def check(expectations: Sequence[str], resolved: Json) -> None:
    """Checks expectations before a run. Raises SpecError for bad syntax, an unknown entity or an
    unknown metric.
    """
    known = entities(resolved)
    for index, text in enumerate(expectations):
        where = _where(resolved, f"expect.{index}")
        parsed = _parse(text, where)
        units = {name: unit for name, (_, unit) in parsed.quantities.items()}
        for name, metric in parsed.metrics.items():
            units[name] = _check_metric(*metric, known, where, resolved).unit
        _check_units(parsed, units, where)


def evaluate(expectations: Sequence[str], evaluation: Evaluation) -> list[Verdict]:
    """Evaluates expectations over a run. An expectation that needs an absent value does not hold.

    The expectations must have been checked against the same experiment. Raises SpecError or
    KeyError otherwise.
    """
    resolved = evaluation.run.resolved
    return [_verdict(_parse(text, _where(resolved, f"expect.{i}")), evaluation) for i, text in enumerate(expectations)]


def check_metric(metric: str, resolved: Json, field: str) -> Metric:
    """Returns the metric that ``ENTITY.METRIC`` in a field of the description names. Raises
    SpecError.
    """
    path, _, name = metric.rpartition(".")
    return _check_metric(path, name, entities(resolved), _where(resolved, field), resolved)


def _where(resolved: Json, field: str) -> Where:
    """Returns the place of a field, with file and line if the field comes from a file."""
    origin = re.fullmatch(r"(.+?):(\d+)(?::(\d+))?", resolved["origins"].get(field, ""))
    if origin is None:
        return Where(field=field)
    return Where(origin[1], int(origin[2]), int(origin[3]) if origin[3] else None, field)


def _parse(text: str, where: Where) -> _Parsed:
    metrics: dict[str, tuple[str, str]] = {}

    def placeholder(match: re.Match[str]) -> str:
        entity, _, metric = match[0].rpartition(".")
        name = f"metric_{len(metrics)}"
        metrics[name] = (entity, metric)
        return name

    quantities: dict[str, tuple[float, str]] = {}
    written: dict[str, str] = {}

    def quantity(match: re.Match[str]) -> str:
        if " " in match[0] and not _is_unit(match[2]):
            return match[0]
        name = f"quantity_{len(quantities)}"
        quantities[name] = _in_unit_of_metrics(match[1], match[2], text, where)
        written[name] = match[0]
        return name

    try:
        tree = ast.parse(_QUANTITY.sub(quantity, _PATH.sub(placeholder, text)).strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise SpecError(f"{text!r} is not an expectation: {_syntax_problem(error)}", where, allowed=ALLOWED) from error
    named = {name: ".".join(metric) for name, metric in metrics.items()} | written
    _check_logical(tree, named, text, where)
    return _Parsed(text, tree, metrics, quantities)


def _is_unit(name: str) -> bool:
    return name == "%" or any(kind.factor_of(name) for kind in (Rate, Duration, Size))


def _in_unit_of_metrics(number: str, unit: str, text: str, where: Where) -> tuple[float, str]:
    """Converts a number to the unit of metrics: bit/s, s, B or none. Returns the value and that
    unit.
    """
    if unit == "%":
        return float(number) / 100, ""
    for kind, base, smallest in ((Rate, "bit/s", 1), (Duration, "s", NANOS_PER_SECOND), (Size, "B", 1)):
        if factor := kind.factor_of(unit):
            return float(number) * factor / smallest, base
    raise SpecError(
        f"{text!r}: {number + unit!r} has the unknown unit {unit!r}",
        where,
        allowed="rates as 100kbit, 6.8mbit; durations as 20ms, 1.5s; sizes as 64kB, 4MiB; 5%",
    )


def _check_units(parsed: _Parsed, units: dict[str, str], where: Where) -> None:
    """Checks that numbers with a unit are compared only with values of that
    unit. Raises SpecError.
    """
    for node in ast.walk(parsed.tree):
        operands = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
        named = [operand.id for operand in operands if isinstance(operand, ast.Name)]
        if any(name in parsed.quantities for name in named) and len({units[name] for name in named}) > 1:
            metric = next((name for name in named if name in parsed.metrics), None)
            if metric is not None:
                other = next(name for name in named if units[name] != units[metric])
                path = ".".join(parsed.metrics[metric])
                found, wanted = (_unit_name(unit) for unit in (units[other], units[metric]))
                raise SpecError(f"{parsed.text!r}: {path} is in {wanted}, and compared with {found}", where)


def _unit_name(unit: str) -> str:
    return unit or "no unit"


def _syntax_problem(error: Exception) -> str:
    return error.msg if isinstance(error, SyntaxError) else "it is nested too deeply or holds a null character"


def _check_logical(node: ast.expr, named: dict[str, str], text: str, where: Where) -> None:
    """Checks that an expectation, or an operand of ``and``, ``or``, ``not``, is a comparison.
    Raises SpecError.
    """
    match node:
        case ast.BoolOp(values=operands):
            for operand in operands:
                _check_logical(operand, named, text, where)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            _check_logical(operand, named, text, where)
        case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in _COMPARISONS for op in ops):
            for operand in (left, *others):
                _check_number(operand, named, text, where)
        case _:
            found = _shown(node, named)
            raise SpecError(f"{text!r}: {found!r} is not a comparison", where, allowed=ALLOWED)


def _check_number(node: ast.expr, named: dict[str, str], text: str, where: Where) -> None:
    match node:
        case ast.Constant(value=value) if type(value) in (int, float):
            return
        case ast.Name(id=name) if name in named:
            return
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            operands = [left, right]
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            operands = [operand]
        case ast.Call(func=ast.Name(id=name), args=operands, keywords=[]) if name in _FUNCTIONS and operands:
            if name == "abs" and len(operands) != 1:
                raise SpecError(f"{text!r}: abs takes one argument, not {len(operands)}", where)
        case _:
            found = _shown(node, named)
            raise SpecError(f"{text!r}: {found!r} is neither a metric nor a number", where, allowed=ALLOWED)
    for operand in operands:
        _check_number(operand, named, text, where)


def _shown(node: ast.expr, named: dict[str, str]) -> str:
    """Returns the source of a node with the original text in place of the placeholders."""
    return re.sub(r"(?:metric|quantity)_\d+", lambda m: named.get(m[0], m[0]), ast.unparse(node))


def _check_metric(path: str, name: str, known: dict[str, Entity], where: Where, resolved: Json) -> Metric:
    datagrams = [flow["id"] for flow in resolved["flows"] if flow["transport"] == "udp"]
    entity = known.get(path) or host_at(path, resolved) or subflow_at(path, known, datagrams)
    if entity is None:
        _refuse_entity(path, name, known | hosts_of(resolved), where)
    assert entity is not None
    if entity.kind == "host":
        return _check_counter(path, name, where)
    metric = METRICS.get((entity.kind, name))
    if metric is None:
        _refuse_metric(entity, name, where)
    assert metric is not None
    if not metric.scalar:
        raise SpecError(
            f"{path}.{name} is {_a(metric.form)}, not a number", where, allowed=f"one of {_scalars(entity.kind)}"
        )
    return metric


def _check_counter(path: str, name: str, where: Where) -> Metric:
    counter = counter_named(name)
    if counter is None:
        raise SpecError(f"{path!r} is a host and has no metric {name!r}", where, allowed=ALLOWED_COUNTERS)
    return counter


def _refuse_entity(path: str, name: str, known: dict[str, Entity], where: Where) -> None:
    """Raises SpecError for an entity that the experiment does not have."""
    if f"{path}.{name}" in known:
        kind = known[f"{path}.{name}"].kind
        allowed = ALLOWED_COUNTERS if kind == "host" else _scalars(kind)
        raise SpecError(f"{path}.{name} is {_a(kind)}, the metric is missing", where, allowed=allowed)
    candidates = [other for other in known if other.split(".")[0] == path.split(".")[0]] or list(known)
    close = nearest(path, candidates)
    hint = f"; did you mean {close}?" if close else ""
    if any(f"-{root}." in path for root in ROOTS):
        hint = "; a minus between metrics needs spaces around it"
    asked = f"{path}.{name}" if path in ROOTS else path
    raise SpecError(f"there is no {asked!r} in this experiment{hint}", where, allowed=_listed(candidates))


def _refuse_metric(entity: Entity, name: str, where: Where) -> None:
    """Raises SpecError for a metric that the entity does not have."""
    former = FORMER.get((entity.kind, name))
    if former is not None:
        raise SpecError(f"{entity.path}.{name} is called {former} now", where, allowed=f"{entity.path}.{former}")
    names = [metric.name for metric in metrics_of(entity.kind) if metric.scalar]
    close = nearest(name, names)
    hint = f"; did you mean {close}?" if close else ""
    if "-" in name:
        hint = "; a minus between metrics needs spaces around it"
    raise SpecError(
        f"{entity.path!r} is {_a(entity.kind)} and has no metric {name!r}{hint}", where, allowed=_scalars(entity.kind)
    )


def _a(noun: str) -> str:
    """Puts the article before a noun: ``an event``, ``a flow``."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def _scalars(kind: Any) -> str:
    return _listed([metric.name for metric in metrics_of(kind) if metric.scalar])


def _listed(names: Sequence[str], most: int = 40) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _verdict(parsed: _Parsed, evaluation: Evaluation) -> Verdict:
    values: dict[str, Value] = {name: evaluation.value(*metric) for name, metric in parsed.metrics.items()}
    values |= {name: number for name, (number, _) in parsed.quantities.items()}
    held = _truth(parsed.tree, values)
    left = parsed.tree.left if isinstance(parsed.tree, ast.Compare) else None
    value = _number(left, values) if left is not None else None
    absent = [value for value in values.values() if isinstance(value, Absent)]
    is_judged = held is not None or not absent or not all(isinstance(one, NotJudged) for one in absent)
    return Verdict(
        parsed.text,
        held is True if is_judged else None,
        None if isinstance(value, Absent) else value,
        None if held else _explanation(parsed, values),
    )


def _explanation(parsed: _Parsed, values: dict[str, Value]) -> str:
    """Returns the values of the metrics of an expectation, or why they are absent."""
    parts = []
    for name, (path, metric) in parsed.metrics.items():
        value = values[name]
        parts.append(f"{path}.{metric} is {f'null: {value.why}' if isinstance(value, Absent) else f'{value:.6g}'}")
    return "; ".join(dict.fromkeys(parts)) or "it is false whatever the run does"


def _truth(node: ast.expr, values: dict[str, Value]) -> bool | None:
    """Returns the three-valued truth of a node: None if it depends on an absent value."""
    match node:
        case ast.UnaryOp(operand=operand):
            truth = _truth(operand, values)
            return None if truth is None else not truth
        case ast.BoolOp(op=op, values=operands):
            truths = {_truth(operand, values) for operand in operands}
            decisive = isinstance(op, ast.Or)
            return decisive if decisive in truths else None if None in truths else not decisive
        case ast.Compare(left=left, ops=ops, comparators=others):
            numbers = [_number(operand, values) for operand in (left, *others)]
            known = [number for number in numbers if not isinstance(number, Absent)]
            if len(known) < len(numbers):
                return None
            return all(_COMPARISONS[type(op)](known[i], known[i + 1]) for i, op in enumerate(ops))
    raise AssertionError(f"{ast.dump(node)} was not refused")


def _number(node: ast.expr, values: dict[str, Value]) -> Value:
    operands: list[ast.expr]
    apply: Callable[..., float]
    match node:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.Name(id=name):
            return values[name]
        case ast.BinOp(left=left, op=op, right=right):
            operands, apply = [left, right], _ARITHMETIC[type(op)]
        case ast.UnaryOp(op=op, operand=operand):
            operands, apply = [operand], operator.neg if isinstance(op, ast.USub) else operator.pos
        case ast.Call(func=ast.Name(id=name), args=operands):
            apply = _FUNCTIONS[name] if len(operands) > 1 or name == "abs" else float
        case _:
            raise AssertionError(f"{ast.dump(node)} was not refused")
    return _applied(apply, [_number(operand, values) for operand in operands])


def _applied(apply: Callable[..., float], numbers: list[Value]) -> Value:
    for number in numbers:
        if isinstance(number, Absent):
            return number
    try:
        return float(apply(*numbers))
    except (ZeroDivisionError, OverflowError) as error:
        return Absent(str(error))
