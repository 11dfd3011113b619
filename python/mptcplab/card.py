"""Shows a resolved experiment in a notebook: its topology, flows and events, as HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jinja2 import Environment

from mptcplab.picture import as_svg
from mptcplab.units import Duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MOST_ROWS = 20
#: Topologies with more links are too large to be read in a notebook.
MOST_LINKS = 40
MISSING = "\N{EN DASH}"
_TABLE = Environment(autoescape=True).from_string(
    '<div style="overflow-x: auto; white-space: nowrap">'
    "<table><thead><tr>{% for head in heads %}<th>{{ head }}</th>{% endfor %}</tr></thead><tbody>"
    "{% for row in rows %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>{% endfor %}</tbody></table>"
    "{% if more %}<p>and {{ more }} more</p>{% endif %}</div>"
)
_HEAD = Environment(autoescape=True).from_string("<p><b>{{ name }}</b> {{ title }}<br>{{ facts }}</p>")


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a table as HTML. All text is escaped. Of many rows it has the first, and the number
    of the others.
    """
    return _TABLE.render(heads=heads, rows=rows[:MOST_ROWS], more=max(0, len(rows) - MOST_ROWS))


def heading(name: str, title: str, facts: str) -> str:
    """Returns the heading of what a notebook shows, as HTML."""
    return _HEAD.render(name=name, title=title, facts=facts)


def as_html(experiment: Mapping[str, Any]) -> str:
    """Returns a resolved experiment as HTML: heading, topology, flows and events."""
    parameters = [f"{name} = {value}" for name, value in experiment["parameters"].items()]
    facts = ", ".join([f"at most {Duration(experiment['duration_ns'])}", *parameters])
    parts = [heading(experiment["name"], experiment["title"] or "", facts)]
    if len(experiment["links"]) <= MOST_LINKS:
        parts.append(as_svg(experiment))
    heads = ("flow", "from", "to", "transport", "application", "congestion control", "scheduler", "path manager")
    parts.append(table((*heads, "capacity"), [_flow(flow) for flow in experiment["flows"]]))
    if experiment["events"]:
        parts.append(table(("at", "event", "action", "of"), [_event(event) for event in experiment["events"]]))
    return "".join(parts)


def _flow(flow: Mapping[str, Any]) -> list[str]:
    uses = {"udp": (), "tcp": ("cc",)}.get(flow["transport"], ("cc", "scheduler", "path_manager"))
    choices = [_choices(flow[key]) if key in uses else MISSING for key in ("cc", "scheduler", "path_manager")]
    capacity = MISSING if flow["ceiling_bps"] is None else f"{flow['ceiling_bps'] / 1e6:.3g} Mbit/s"
    return [flow["id"], flow["from"], flow["to"], flow["transport"], flow["app"]["kind"], *choices, capacity]


def _choices(listed: Sequence[Any]) -> str:
    """Returns the names of a preference list."""
    return ", ".join(one["name"] if isinstance(one, dict) else str(one) for one in listed)


def _event(event: Mapping[str, Any]) -> list[str]:
    action = event["action"]
    of = action.get("interface") or action.get("link") or action.get("host") or action.get("strategy") or ""
    return [str(Duration(event["at_ns"])), event["id"], action["kind"].replace("_", " "), of]
