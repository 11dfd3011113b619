"""Evaluates the metrics of a run's entities."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from math import isfinite
from typing import Any

from mptcplab.results import clocks
from mptcplab.results.capture_metrics import CAPTURE_METRICS
from mptcplab.results.entities import Entity, Json, entities
from mptcplab.results.event_metrics import EVENT_METRICS, EventView
from mptcplab.results.flow_metrics import FLOW_METRICS, NO_CONNECTION, NO_VIDEO, FlowView
from mptcplab.results.handovers import HANDOVER_METRICS
from mptcplab.results.host_counters import counted, host_at
from mptcplab.results.network_metrics import LINK_METRICS, PROBE_METRICS, RUN_METRICS, EntityView, jain_index
from mptcplab.results.run_data import Absent, RunData, Value
from mptcplab.results.subflow_metrics import SUBFLOW_METRICS, SubflowView
from mptcplab.results.subflows import Subflow, subflow_at, subflows_of
from mptcplab.results.table import ACCESS, METRICS, Grouping, Metric, metrics_of

COMBINE: dict[Grouping, Callable[[list[float]], float]] = {"sum": sum, "max": max, "min": min}


class Evaluation:
    """The metrics of one run. A value that does not exist is an ``Absent`` with the reason, never
    0.
    """

    def __init__(self, run: RunData) -> None:
        self.run = run
        self._known: dict[tuple[str, str], Value] = {}
        self._events: dict[str, EventView] = {}

    @cached_property
    def entities(self) -> dict[str, Entity]:
        """The entities of the run by path, including the subflows that were sampled or reported."""
        known = entities(self.run.resolved, [h.id for h in self.run.happenings if h.injected])
        sampled = self.run.samples.entities("flows.")
        subflows = (subflow_at(path, known) for path in dict.fromkeys([*self._reported, *sampled]) if path not in known)
        return known | {entity.path: entity for entity in subflows if entity is not None}

    @cached_property
    def _reported(self) -> dict[str, Subflow]:
        """The subflows of which the back-end reports addresses, by their path."""
        return {one.entity: one for flow in self.run.flow_results for one in subflows_of(self.run, flow)}

    def value(self, path: str, name: str) -> Value:
        """Returns a metric of an entity: the last value of a counter, the mean of a gauge, or a
        derived value.

        Raises KeyError for an entity or a metric that does not exist.
        """
        host = host_at(path, self.run.resolved)
        if host is not None:
            return counted(self.run, host.members[0], name)
        entity = self.entities.get(path) or subflow_at(path, self.entities)
        if entity is None:
            raise KeyError(path)
        return self._value(entity, METRICS[entity.kind, name])

    def _value(self, entity: Entity, metric: Metric) -> Value:
        path, name = entity.path, metric.name
        if (path, name) not in self._known:
            there = path in self.entities
            value = self._evaluate(entity, metric) if there else Absent("the run had no such subflow")
            finite = isinstance(value, Absent) or isfinite(value)
            self._known[path, name] = value if finite else Absent("it is not a finite number")
        return self._known[path, name]

    def all_values(self) -> dict[str, dict[str, Value]]:
        """Returns every scalar metric that the back-end supplies, of every entity. Event metrics
        cover all flows.
        """
        return {
            path: {
                metric.name: self._value(entity, metric)
                for metric in metrics_of(entity.kind)
                if metric.scalar and (self._why_awaited(metric) is None or self.run.samples.series(path, metric.name))
            }
            for path, entity in self.entities.items()
            if entity.flow is None
        }

    def _evaluate(self, entity: Entity, metric: Metric) -> Value:
        link = self._real_link_of(entity)
        if link is not None and metric.name != "up":
            return Absent(f"link {link} is real: the emulator does not see its packets")
        if metric.form in ("counter", "gauge"):
            return self._grouped(entity, metric, lambda path, flow: self._sampled(path, flow, metric))
        why = self._why_awaited(metric)
        if why is not None:
            return Absent(why)
        if not metric.scalar:
            return Absent(f"it is a {metric.form}, not a number")
        return self._derived(entity, metric)

    def _real_link_of(self, entity: Entity) -> str | None:
        """Returns the real link that a link entity is a direction of, or that an interface is at."""
        _, _, name = entity.path.partition(".")
        if entity.kind == "link":
            links = [name.rpartition(".")[0]]
        elif entity.kind == "interface":
            links = [link for link, of in self.run.links.items() if name in (of["a"], of["b"])]
        else:
            return None
        return next((link for link in links if link in self.run.real_links), None)

    def _derived(self, entity: Entity, metric: Metric) -> Value:
        match entity.kind:
            case "flow" if metric.name == "jain_index":
                return jain_index(self.run, entity.members)
            case "flow":
                return self._grouped(entity, metric, lambda _, flow: self._of_flow(flow, metric.name))
            case "event":
                return self._of_event(entity, metric.name)
            case "subflow":
                return self._of_subflow(entity, metric.name)
            case "run":
                return (RUN_METRICS | CAPTURE_METRICS)[metric.name](self.run)
            case _:
                of_network: dict[str, Any] = {"link": LINK_METRICS, "probe": PROBE_METRICS}
                value: Value = of_network[entity.kind][metric.name](EntityView(self.run, entity.path))
                return value

    def _grouped(self, entity: Entity, metric: Metric, of: Callable[[str, str], Value]) -> Value:
        """Returns the value of a single entity, or the combined value of the flows of a group."""
        if entity.kind != "flow" or len(entity.members) == 1:
            flow = entity.members[0] if entity.members else ""
            return of(f"flows.{flow}" if entity.kind == "flow" else entity.path, flow)
        if metric.grouped is None:
            return Absent("it is defined for one flow, not for a group")
        values = [of(f"flows.{flow}", flow) for flow in entity.members]
        missing = next((value for value in values if isinstance(value, Absent)), None)
        return missing or COMBINE[metric.grouped]([value for value in values if not isinstance(value, Absent)])

    def _of_flow(self, flow: str, name: str) -> Value:
        value = FLOW_METRICS[name](FlowView(self.run, flow))
        is_compared = name in clocks.OF_BOTH_HOSTS
        return clocks.certain(value, clocks.between_hosts_s(self.run, flow)) if is_compared else value

    def _of_subflow(self, entity: Entity, name: str) -> Value:
        subflow = self._reported.get(entity.path)
        if subflow is None:
            return Absent("the back-end reports no addresses of it")
        return SUBFLOW_METRICS[name](SubflowView(self.run, subflow))

    def _of_event(self, entity: Entity, name: str) -> Value:
        if entity.path not in self._events:
            happened = tuple(h for h in self.run.happenings if h.id in entity.members)
            flows = (entity.flow,) if entity.flow else tuple(self.run.flows)
            self._events[entity.path] = EventView(self.run, happened, flows)
        event = self._events[entity.path]
        if not event.happenings:
            return Absent("the run ended before the event")
        value = (EVENT_METRICS | HANDOVER_METRICS)[name](event)
        if name not in clocks.SINCE_EVENTS:
            return value
        return clocks.certain(value, max((clocks.of_hosts_s(self.run, flow) for flow in event.flows), default=0.0))

    def _sampled(self, path: str, flow: str, metric: Metric) -> Value:
        samples = self.run.samples
        value = (samples.last if metric.form == "counter" else samples.mean)(path, metric.name)
        if value is not None:
            return value
        why = self._why_awaited(metric) or self._why_unknown(self.run.flows.get(flow, {}), metric)
        return Absent(why or "the back-end gave no samples of it")

    @staticmethod
    def _why_unknown(flow: Json, metric: Metric) -> str | None:
        """Returns why a flow of this kind cannot have a metric; None if it can."""
        if metric.name.startswith("video_") and flow:
            return "the video never played" if flow["app"]["kind"] == "video" else NO_VIDEO
        if metric.name in ACCESS:
            return "the link is on no access network"
        return NO_CONNECTION if flow.get("transport") == "udp" else None

    def _why_awaited(self, metric: Metric) -> str | None:
        """Returns why the back-end of this run does not supply a metric; None if it does."""
        why = metric.awaits.get(self.run.backend)
        return None if why is None else f"back-end {self.run.backend} does not supply it: {why}"
