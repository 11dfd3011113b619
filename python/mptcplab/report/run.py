"""The page of one run."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from mptcplab.capacities import gives_rate
from mptcplab.picture import as_svg
from mptcplab.plots import drawings_of
from mptcplab.plots.marks import in_words
from mptcplab.report.beside import Beside
from mptcplab.report.captured import CapturedHost
from mptcplab.report.equilibrium import settlings
from mptcplab.report.grid import Grid
from mptcplab.report.live import Live
from mptcplab.report.machine import machine_rows
from mptcplab.report.page import Picture, render
from mptcplab.report.publication import Published
from mptcplab.report.quantities import MISSING, head, quantity
from mptcplab.report.verdict import busy, fell_back, place, sentences, substituted, user_code
from mptcplab.results import METRICS, Bundle, Evaluation, RunData
from mptcplab.results.bundle import EXPERIMENT
from mptcplab.results.entities import Json
from mptcplab.results.evidence import illustrative_told
from mptcplab.results.offered import is_limited_by_application
from mptcplab.results.table import Kind

MOST_ROWS = 200
MOST_TEXT = 200_000
MOST_DRAWN_LINKS = 60
FLOW_COLUMNS = (
    "goodput_bps",
    "ceiling_ratio",
    "fct_s",
    "delay_p50_s",
    "delay_p99_s",
    "jitter_s",
    "loss_ratio",
    "reordering_ratio",
)
TIMES_OF_EVENTS = {"recovery_s": "recovery", "full_rate_s": "full rate again", "shortfall_s": "short of it"}
EVENT_COLUMNS = (*TIMES_OF_EVENTS, "gap_s", "unaffected_fraction")
LINK_COLUMNS = ("offered_packets", "delivered_packets", "utilisation", "queue_bytes_max", "queue_delay_s")


def run_page(
    bundle: Bundle,
    captured: Sequence[CapturedHost] = (),
    *,
    published: Published | None = None,
    beside: Beside | None = None,
) -> str:
    """The report of a finished run as HTML, which links the pages of these captures beside it.

    ``published`` and ``beside``: what a paper says about its experiment, and its twin in the
    simulator, if that is wanted. Raises BundleError if the bundle is unfinished or damaged.
    """
    return page_of(bundle.record, bundle.load(), bundle.path, captured, published, beside)


def page_of(
    record: Json,
    run: RunData,
    directory: Path,
    captured: Sequence[CapturedHost] = (),
    published: Published | None = None,
    beside: Beside | None = None,
) -> str:
    """Returns the report of a run from its record, its data, the directory of its bundle, and
    further sections.
    """
    return render(
        "run.html.j2",
        record=record,
        title=run.resolved["title"] or record["experiment"],
        description=run.resolved["description"],
        verdict=[*sentences(record, run), *busy(record, run.resolved)],
        warnings=_warnings(record),
        remarks=_remarks(record, run.resolved),
        substitutions=[f"Substituted: {substituted(one)}." for one in record["substitutions"]],
        held=sum(verdict["held"] is True for verdict in record["expectations"]),
        pictures=[Picture.of(drawing) for drawing in drawings_of(run)],
        flows=_flows(record, run),
        events=_events(record),
        links=_links(record, run),
        captured=captured,
        published=published,
        beside=beside,
        beside_pictures=[Picture.of(drawing) for drawing in beside.drawings] if beside else [],
        live=Live.of(run),
        settlings=settlings(record, run),
        metrics=_all_metrics(record, run),
        # The picture escapes what the description says.
        topology=Markup(as_svg(run.resolved)) if len(run.resolved["links"]) <= MOST_DRAWN_LINKS else None,
        settings=_settings(run.resolved, run.result),
        origins=_origins(run.resolved),
        environment=_environment(record),
        command=_command(record, directory),
        invoked=shlex.join(record["command"]),
        resolved=_resolved(run.resolved),
    )


def _command(record: Json, directory: Path) -> str:
    """Returns the command that runs exactly this again, into another directory."""
    again = ["mptcplab", "run", str(directory / EXPERIMENT), "--on", place(record), "--seed", str(record["seed"])]
    return shlex.join([*again, "--out", "reproduced"])


def _warnings(record: Json) -> list[str]:
    """Returns what a reader must know before the numbers."""
    found = []
    if record["status"] != "done":
        found.append(f"This run is {record['status']}: {record['why'] or 'no reason was recorded'}.")
    return found + [fell_back(flow) for flow in record["flows"] if flow.get("fallback")]


def _remarks(record: Json, resolved: Json) -> list[str]:
    """Returns what a reader should know and need not worry about."""
    found = [f"User code: {user_code(entry)} is not mptcplab's own." for entry in record.get("user_code", ())]
    illustrative = illustrative_told(resolved)
    found += [f"Illustrative: {illustrative}."] if illustrative else []
    return found + [
        f"{event['id']} was injected while the run went on." for event in record["events"] if event["injected"]
    ]


def _resolved(resolved: Json) -> str:
    """Returns the resolved experiment as text, unless it is too long for the page."""
    text = json.dumps({key: value for key, value in resolved.items() if key != "origins"}, indent=1, ensure_ascii=False)
    return text if len(text) <= MOST_TEXT else f"It has {len(text)} characters: see experiment.json in the bundle."


def _flows(record: Json, run: RunData) -> Grid:
    heads = ["flow", "transport", "bytes", *(head(name) for name in FLOW_COLUMNS)]
    rows = [
        [
            flow["id"],
            flow["transport"],
            quantity(flow["bytes"], "B"),
            *(_flow_value(record, run, flow["id"], name) for name in FLOW_COLUMNS),
        ]
        for flow in record["flows"][:MOST_ROWS]
    ]
    return Grid(heads, rows, frozenset(range(2, len(heads))))


def _flow_value(record: Json, run: RunData, flow: str, name: str) -> str:
    """Returns a cell of a flow. The ceiling says nothing about a flow that its
    application limits.
    """
    if name == "ceiling_ratio" and flow in run.flows and is_limited_by_application(run.flows[flow]):
        return MISSING
    return _value(record, f"flows.{flow}", "flow", name)


def _events(record: Json) -> Grid:
    heads = ["event", "what", "asked", "actual", *TIMES_OF_EVENTS.values(), "longest silence", "rate kept"]
    rows = []
    for event in record["events"][:MOST_ROWS]:
        path = f"events.{event['id']}"
        measured = [_value(record, path, "event", name) for name in EVENT_COLUMNS]
        times = [quantity(event[name], "s") for name in ("asked_s", "actual_s")]
        rows.append([event["id"], in_words(event["action"]), *times, *measured])
    return Grid(heads, rows, frozenset(range(2, len(heads))))


def _links(record: Json, run: RunData) -> Grid:
    paths = [path for path in run.samples.entities("links.") if path in record["metrics"]][:MOST_ROWS]
    dropped = {path: [m for m in run.samples.metrics(path) if m.startswith("dropped_")] for path in paths}
    reasons = sorted({reason for path in paths for reason in dropped[path] if run.samples.last(path, reason)})
    shown = (*LINK_COLUMNS, *reasons)
    heads = ["link", *(head(name) for name in shown)]
    rows = [[path.removeprefix("links."), *(_value(record, path, "link", name) for name in shown)] for path in paths]
    return Grid(heads, rows, frozenset(range(1, len(heads))))


def _all_metrics(record: Json, run: RunData) -> Grid:
    """Returns every metric of every entity, with the reason if it has no value."""
    known = Evaluation(run).entities
    rows = []
    for path, values in record["metrics"].items():
        for name, value in values.items():
            metric = METRICS.get((known[path].kind, name))
            if metric is None:
                continue  # of an earlier version
            why = record["absent"].get(path, {}).get(name, "")
            rows.append(
                [f"{path}.{name}", quantity(value, metric.unit) if value is not None else why, metric.definition]
            )
    return Grid(["metric", "value", "definition"], rows[: 5 * MOST_ROWS])


def _settings(resolved: Json, result: Json) -> Grid:
    """Returns the resolved network, with a row for each direction of an emulated link and for each
    real link.
    """
    measured = {link["id"]: link["rtt_s"] for link in result.get("real_links", [])}
    rows = []
    for link in resolved["links"][:MOST_ROWS]:
        if link["id"] in measured:
            rows.append(_real_link(link, measured[link["id"]]))
            continue
        for name in ("forward", "backward"):
            way = link[name]
            ends = (link["a"], link["b"]) if name == "forward" else (link["b"], link["a"])
            queue = way["queue"]
            limit = [
                f"{queue[f'limit_{unit}']} {unit}"
                for unit in ("packets", "bytes")
                if queue.get(f"limit_{unit}") is not None
            ]
            rows.append(
                [
                    link["id"],
                    " → ".join(ends),
                    "as the medium" if link["medium"] and way["rate_bps"] is None else _rate(way),
                    quantity(way["delay_ns"] / 1e9, "s"),
                    f"{queue['kind']} {' '.join(limit)}".strip(),
                    _loss(way["loss"]),
                ]
            )
    return Grid(["link", "direction", "rate", "delay", "queue", "loss"], rows, frozenset({2, 3}))


def _real_link(link: Json, rtt_s: float | None) -> list[str]:
    round_trip = MISSING if rtt_s is None else f"round trip {quantity(rtt_s, 's')}, measured before the run"
    return [link["id"], f"{link['a']} ↔ {link['b']}", "real", round_trip, MISSING, MISSING]


def _rate(way: Json) -> str:
    if gives_rate(way["trace"]):
        return "trace"
    return "unlimited" if way["rate_bps"] is None else quantity(way["rate_bps"], "bit/s")


def _loss(loss: Json) -> str:
    parameters = [f"{key} {value}" for key, value in loss.items() if key not in ("kind", "packets")]
    lost = [f"{len(loss['packets'])} packets"] if "packets" in loss else []
    return " ".join([loss["kind"], *parameters, *lost])


def _origins(resolved: Json) -> Grid:
    return Grid(["value", "where it came from"], [[path, origin] for path, origin in resolved["origins"].items()])


def _environment(record: Json) -> Grid:
    rows = [
        *machine_rows(record),
        ["started", record["started"]],
        ["took", quantity(record["wall_s"], "s")],
        ["trace hash", record["trace_hash"] or MISSING],
        ["digest of the experiment", record["digest"]],
    ]
    return Grid(["", ""], rows + [[f"SHA-256 of {name}", value] for name, value in record["sha256"].items()])


def _value(record: Json, path: str, kind: Kind, name: str) -> str:
    unit = METRICS[kind, name].unit
    return quantity(record["metrics"].get(path, {}).get(name), "" if unit == "packets" else unit)
