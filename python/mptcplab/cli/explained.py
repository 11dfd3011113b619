"""Prints a resolved experiment: its head, topology, capacities, schedule, and the origin of every
value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mptcplab.cli.console import escape
from mptcplab.cli.output import RESULTS, print_table
from mptcplab.experiment.ways import limits, ways_of
from mptcplab.picture import as_text
from mptcplab.plots.marks import in_words
from mptcplab.report.quantities import quantity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mptcplab.experiment import Resolved

#: Number of rows printed. A generated topology can have hundreds of flows; --resolved has all.
MOST_ROWS = 40
#: Fields that are printed elsewhere, or that describe the family instead of this experiment.
SAID_ELSEWHERE = {
    "name",
    "title",
    "description",
    "parameters",
    "exclude",
    "reference",
    "family",
    "published",
}
ENTITIES = ("hosts", "nodes", "media", "links", "flows", "events")


def print_head(experiment: Mapping[str, Any]) -> None:
    """Prints the name, title, duration, and the parameters of a member of a family."""
    RESULTS.print(f"[bold]{escape(experiment['name'])}[/]  {escape(experiment['title'] or '')}")
    if experiment["description"]:
        RESULTS.print(escape(experiment["description"]))
    parameters = ", ".join(f"{name} = {value}" for name, value in experiment["parameters"].items())
    profiles = ", ".join(experiment["profiles"])
    facts = [
        f"at most {quantity(experiment['duration_ns'] / 1e9, 's')}",
        f"parameters {parameters}" if parameters else "",
        f"profile {profiles}" if profiles else "",
    ]
    RESULTS.print(escape("; ".join(fact for fact in facts if fact)), style="dim")


def print_back_ends(entry: Mapping[str, Any]) -> None:
    """Prints the back-ends that run an experiment, and what the others lack for it, from its entry
    in the catalogue.
    """
    on = f"runs on {', '.join(entry['on'])}" if entry["on"] else "runs on no back-end"
    RESULTS.print("; ".join([on, *waits_of(entry)]), style="dim", markup=False)


def waits_of(entry: Mapping[str, Any]) -> list[str]:
    """Returns what back-ends lack for an experiment. Those that lack the same
    are named together.
    """
    lacking: dict[str, list[str]] = {}
    for name, features in entry["waits"].items():
        lacking.setdefault(", ".join(features), []).append(name)
    return [
        f"{names[0]} waits for {features}"
        if len(names) == 1
        else f"{', '.join(names[:-1])} and {names[-1]} wait for {features}"
        for features, names in lacking.items()
    ]


def print_topology(experiment: Mapping[str, Any]) -> None:
    """Prints the links as a text picture."""
    _title("topology")
    for line in as_text(experiment):
        RESULTS.print(line, markup=False, soft_wrap=True)


def print_devices(experiment: Mapping[str, Any]) -> None:
    """Prints the children of devices that a run will create, and on which machine."""
    machines = {host["id"]: host["machine"] for host in experiment["hosts"]}
    rows = []
    for interface in experiment["interfaces"]:
        if interface["device"] is not None:
            machine = machines[interface["node"]]
            where = "this machine" if machine is None else f"{machine['id']} ({machine['at']})"
            device, child = interface["device"]["name"], interface["device"]["child"] or "macvlan, or ipvlan on Wi-Fi"
            rows.append((escape(where), escape(device), child, escape(interface["id"])))
    if rows:
        _title("created on machines, and removed after the run")
        print_table(("machine", "device", "child", "as interface"), rows[:MOST_ROWS])
        _print_hidden(len(rows))


def print_middleboxes(experiment: Mapping[str, Any]) -> None:
    """Prints the middleboxes, if there are some."""
    if not experiment.get("middleboxes"):
        return
    _title("middleboxes")
    rows = []
    for middlebox in experiment["middleboxes"]:
        settings = {name: value for name, value in middlebox["element"].items() if value is not None}
        kind = settings.pop("kind")
        words = ", ".join(
            f"{name} {' '.join(value) if isinstance(value, list) else value}" for name, value in settings.items()
        )
        rows.append((escape(middlebox["at"]), middlebox["direction"], kind, escape(words)))
    print_table(("at", "packets", "kind", "settings"), rows[:MOST_ROWS])
    _print_hidden(len(rows))


def print_ceilings(experiment: Mapping[str, Any]) -> None:
    """Prints the payload capacity of each flow, less the headers of its
    transport and of the links.
    """
    _title("flows and their payload capacities")
    rows = [
        (
            escape(flow["id"]),
            f"{flow['from']} → {flow['to']}",
            flow["transport"],
            flow["app"]["kind"],
            quantity(flow["ceiling_bps"], "bit/s"),
            f"{len(flow['paths'])}",
        )
        for flow in experiment["flows"][:MOST_ROWS]
    ]
    print_table(("flow", "", "transport", "application", "ceiling", "paths"), rows, right=(4, 5))
    _print_hidden(len(experiment["flows"]))


def print_paths(experiment: Mapping[str, Any]) -> None:
    """Prints the way of each path, what it shares with other paths of its flow, and why there are
    no more ways.
    """
    _title("paths")
    rows = [
        (
            escape(flow["id"]) if way.number == 1 else "",
            str(way.number),
            f"{escape(way.local)} → {escape(way.remote)}",
            "routers choose" if way.is_chosen else escape(" ".join(way.nodes)) or "direct",
            quantity(way.rtt_ns / 1e9, "s"),
            quantity(way.rate_bps, "bit/s"),
            escape(", ".join(f"{link} with {_numbers(others)}" for link, others in way.shared.items())),
            escape(", ".join(way.groups)),
        )
        for flow in experiment["flows"][:MOST_ROWS]
        for way in ways_of(experiment, flow)
    ]
    columns = ("flow", "path", "", "over", "round trip", "rate", "shares", "groups")
    print_table(columns, rows, right=(1, 4, 5))
    _print_hidden(len(experiment["flows"]))
    for flow, why in limits(experiment):
        RESULTS.print(f"{flow}: {why}", markup=False, soft_wrap=True)


def _numbers(paths: tuple[int, ...]) -> str:
    return f"path{'s' if len(paths) > 1 else ''} {', '.join(map(str, paths))}"


def print_schedule(experiment: Mapping[str, Any]) -> None:
    """Prints the events in order of time."""
    if not experiment["events"]:
        return
    _title("schedule")
    links = {link["id"]: link for link in experiment["links"]}
    rows = []
    for event in experiment["events"]:
        words = in_words(event["action"])
        if event["action"]["kind"] == "set_link":
            words = f"{event['action']['link']}: {_difference(event['action'], links)}"
            links[event["action"]["link"]] = event["action"]
        rows.append((quantity(event["at_ns"] / 1e9, "s"), escape(event["id"]), escape(words)))
    print_table(("at", "event", "what"), rows[:MOST_ROWS], right=(0,))
    _print_hidden(len(rows))


def _difference(new: Mapping[str, Any], links: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns the changes of a `set` event, per direction where they differ."""
    old = links[new["link"]]
    changes = {side: _changed(old[side], new[side]) for side in ("forward", "backward")}
    if changes["forward"] == changes["backward"]:
        return changes["forward"]
    return "; ".join(f"{side} {change}" for side, change in changes.items() if change)


def _changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {old[name]} → {new[name]}" for name in new if new[name] != old[name])


def print_published(resolved: Resolved) -> None:
    """Prints the results that the paper published, from the description and from its table of
    claims.
    """
    from mptcplab.reproduction import claims_about

    said = [
        f"{' '.join(str(value[key]) for key in ('metric', 'op', 'value', 'unit') if key in value)}  ({value['source']})"
        for value in resolved.description.get("published", [])
    ]
    said += [f"{claim.id}: {claim.says}  ({claim.source})" for claim in claims_about(resolved.data["name"])]
    if said:
        _title("published")
    for line in said:
        RESULTS.print(escape(line), soft_wrap=True)


def print_origins(resolved: Resolved) -> None:
    """Prints every value of the description, defaults included, with its origin, under a heading
    for each host, link or flow.
    """
    _title("every value and its origin")
    rows: list[tuple[str, str, str]] = []
    entity = None
    description = {key: value for key, value in resolved.description.items() if key not in SAID_ELSEWHERE}
    for path, value in _leaves(description):
        parts = path.split(".")
        depth = 2 if parts[0] in ENTITIES and len(parts) > 2 else 0
        if depth and parts[:depth] != entity:
            entity = parts[:depth]
            rows.append((f"[bold]{escape('.'.join(entity))}[/]", "", ""))
        name = ("  " if depth else "") + ".".join(parts[depth:])
        rows.append((escape(name), escape(_shown(value)), f"[dim]{escape(_origin(resolved.origins, path))}[/]"))
    print_table(("value", "", "origin"), rows)


def _origin(origins: Mapping[str, str], path: str) -> str:
    """Returns the origin of a value, or of the list that contains it."""
    while path and path not in origins:
        path = path.rpartition(".")[0]
    return origins.get(path, "")


def _shown(value: Any) -> str:
    return "none" if value in ([], {}, "") else str(value).lower() if isinstance(value, bool) else str(value)


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the paths and values of all scalars, as in ``links.wifi.rate``."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from _leaves(inner, f"{path}.{index}")
    else:
        yield path, value


def _title(text: str) -> None:
    RESULTS.print(f"\n[bold]{text}[/]")


def _print_hidden(count: int) -> None:
    if count > MOST_ROWS:
        RESULTS.print(f"... and {count - MOST_ROWS} more (--resolved has all)", style="dim")
