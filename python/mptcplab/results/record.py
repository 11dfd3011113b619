"""The parts of run.json about a finished run: events, flows, metrics and expectations, evaluated
from its data.
"""

from __future__ import annotations

from dataclasses import asdict

from mptcplab.results.entities import Json
from mptcplab.results.evaluation import Evaluation
from mptcplab.results.expectations import evaluate
from mptcplab.results.recovery import recoveries
from mptcplab.results.run_data import Absent, RunData, Value
from mptcplab.results.subflows import subflows_of
from mptcplab.results.tables import NANOS_PER_SECOND


def evaluated(run: RunData) -> Json:
    """Returns the fields of run.json that follow from a run's data, for ``BundleWriter.finish``.

    ``metrics`` holds a number or null for every scalar metric of every entity. ``absent`` holds the
    reason for each null.
    """
    evaluation = Evaluation(run)
    values = evaluation.all_values()
    return {
        "result": run.result,
        "events": [_event(run, event) for event in run.result["events"]],
        "flows": [_flow(evaluation, flow) for flow in run.flows],
        "metrics": {
            path: {name: _number(value) for name, value in metrics.items()} for path, metrics in values.items()
        },
        "absent": {
            path: {name: value.why for name, value in metrics.items() if isinstance(value, Absent)}
            for path, metrics in values.items()
        },
        "expectations": [verdict.as_json() for verdict in evaluate(run.resolved["expect"], evaluation)],
    }


def _event(run: RunData, event: Json) -> Json:
    return {
        "id": event["id"],
        "parent": event["parent"],
        "asked_s": event["asked_ns"] / NANOS_PER_SECOND,
        "actual_s": event["actual_ns"] / NANOS_PER_SECOND,
        "injected": event["injected"],
        "action": next(h.action for h in run.happenings if h.id == event["id"]),
    }


def _flow(evaluation: Evaluation, flow: str) -> Json:
    """Returns a flow as the summary shows it."""
    run, path = evaluation.run, f"flows.{flow}"

    def of(metric: str) -> float | None:
        return _number(evaluation.value(path, metric))

    return {
        "id": flow,
        "transport": run.flows[flow]["transport"],
        "bytes": _bytes(run, flow),
        **{name: of(name) for name in ("goodput_bps", "ceiling_bps", "start_s", "end_s", "fct_s", "jitter_s2")},
        "recovery": [
            {"event": r.event, "from": r.since, "of": r.of, "seconds": _number(r.seconds)}
            for r in recoveries(run, flow)
        ],
        "subflows": _subflows(run, flow),
        "fallback": run.flow_results[flow].get("fallback"),
    }


def _subflows(run: RunData, flow: str) -> list[Json]:
    """Returns the reported subflows. A flow on one path without subflows is its only subflow."""
    reported = subflows_of(run, flow)
    if reported:
        return [{name: value for name, value in asdict(one).items() if name != "flow"} for one in reported]
    used = run.flow_results[flow]["path"]
    ends = {end: _address(run, used[end]) for end in ("local", "remote")}
    return [{"id": 0, **ends, "link": used["link"], "bytes": _bytes(run, flow)}]


def _address(run: RunData, interface: str) -> str:
    """Returns the address of an interface of the description. Any other string is an address
    already.
    """
    addresses = {i["id"]: i["ipv4"] or i["ipv6"] for i in run.resolved["interfaces"]}
    return str(addresses.get(interface) or interface).split("/")[0]


def _bytes(run: RunData, flow: str) -> int:
    counted = run.samples.last(f"flows.{flow}", "bytes_in_order")
    return int(run.flow_results[flow]["bytes"] if counted is None else counted)


def _number(value: Value) -> float | None:
    return None if isinstance(value, Absent) else value
