"""Metrics over the members of a family: their description, and its validation."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from mptcplab.document import Node, kind_of, wrong
from mptcplab.experiment.base import Model, Name, described, nearest_hint, one_of
from mptcplab.experiment.validation import validated

Kind = Literal["ratio", "difference", "value", "argmax", "crossover"]
KINDS: tuple[Kind, ...] = ("ratio", "difference", "value", "argmax", "crossover")
# Kinds with a value for each member, and those of them that need a reference.
OF_MEMBERS: tuple[Kind, ...] = ("ratio", "difference", "value")
_TO_A_REFERENCE: tuple[Kind, ...] = ("ratio", "difference")


class FamilyMetric(Model):
    """A metric over the members of a family: exactly one of `ratio`, `difference`, `value`,
    `argmax` and `crossover`.
    """

    id: Name
    """Name in results."""
    ratio: str | None = Field(
        None, description="this metric divided by the reference member's", examples=["flows.bulk.goodput_bps"]
    )
    difference: str | None = Field(
        None,
        description="this metric minus the reference member's",
        examples=["flows.bulk.bytes_in_order"],
    )
    value: str | None = Field(
        None, description="this metric itself, for the table of the members", examples=["events.cut.gap_s"]
    )
    argmax: str | None = Field(
        None,
        description="the value of `over` at which this metric is largest",
        examples=["flows.bulk.goodput_bps"],
    )
    crossover: Annotated[list[str], Field(min_length=2, max_length=2)] | None = Field(
        None,
        description="the value of `over` at which the first metric passes the second",
        examples=[["flows.a.goodput_bps", "flows.b.goodput_bps"]],
    )
    over: str | None = Field(
        None, description="with `argmax` and `crossover`: the parameter that varies", examples=["n"]
    )

    @property
    def kind(self) -> Kind:
        """The kind of the metric."""
        return next(kind for kind in KINDS if getattr(self, kind) is not None)

    @model_validator(mode="after")
    def _one_kind(self) -> FamilyMetric:
        kind = one_of(self, list(KINDS), "a family metric")
        if kind in OF_MEMBERS and self.over is not None:
            raise described(f"'over' has no effect on {kind}", "argmax and crossover with over", field="over")
        if kind not in OF_MEMBERS and self.over is None:
            raise described(f"{kind} needs 'over'", "over: PARAMETER")
        return self


def family_metrics(family: Node) -> list[FamilyMetric]:
    """Returns the metrics of a family. Raises SpecError for a wrong metric, for two with one name,
    and for one over an unknown parameter.
    """
    listed = family.child("family")
    if listed is None:
        return []
    if not isinstance(listed.value, list):
        raise wrong(family, ("family",), f"found {kind_of(listed.plain())}", "a list of metrics, each with an id")
    metrics = [validated(FamilyMetric, node, ("family", place)) for place, node in enumerate(listed.value)]
    for place, metric in enumerate(metrics):
        _check(family, place, metric, [earlier.id for earlier in metrics[:place]])
    return metrics


def _check(family: Node, place: int, metric: FamilyMetric, taken: list[str]) -> None:
    if metric.id in taken:
        problem = f"'{metric.id}' is also metric {taken.index(metric.id) + 1}"
        raise wrong(family, ("family", place, "id"), problem, "different ids")
    parameters = family.child("parameters")
    known = list(parameters.mapping) if parameters is not None else []
    if metric.over is not None and metric.over not in known:
        problem = f"unknown parameter '{metric.over}'{nearest_hint(metric.over, known)}"
        raise wrong(family, ("family", place, "over"), problem, ", ".join(known) or "declare it under parameters")
    # `reference: null` is accepted, because `--set` writes it if it removes the reference member.
    if metric.kind in _TO_A_REFERENCE and family.child("reference") is None:
        raise wrong(
            family, ("family", place, metric.kind), "needs a reference", "reference: {PARAMETER: VALUE} beside it"
        )
