"""Draws the topology of a resolved experiment: as lines of text for a terminal,
as SVG for a page.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as Xml

from mptcplab.capacities import gives_rate
from mptcplab.units import Duration, Rate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    Resolved = Mapping[str, Any]
    Point = tuple[float, float]
    #: The left, top, right and bottom of a rectangle.
    Box = tuple[float, float, float, float]

#: The largest number of links in a terminal. The SVG shows all links.
TEXT_LINKS = 40

# Lengths in pixels.
LAYER_WIDTH = 300
LINK_HEIGHT = 56
NODE_WIDTH = 96
NODE_HEIGHT = 40
MARGIN = 24
LEGEND_HEIGHT = 24
PATH_WIDTH = 5

#: The mean width of a letter of a link's texts, and how far these reach above and below the link.
LETTER_WIDTH = 6.2
TEXT_ABOVE, TEXT_BELOW = 16, 28
#: Where along a link its texts may stand, as parts of it, the best place first.
ALONG = tuple(0.5 + side * step / 32 for step in range(11) for side in (1, -1))

#: The number of colours of paths in the style.
PATH_COLOURS = 8

STYLE = """
.topology { --ink: #1a1a1a; --paper: #ffffff; --host: #dbe9f6; --node: #efe7d6; --soft: #667 }
.topology { font: 12px system-ui, sans-serif; height: auto }
@media (prefers-color-scheme: dark) {
  .topology { --ink: #e8e8e8; --paper: #16181c; --host: #23405c; --node: #4a412e; --soft: #a9b }
}
.topology .node { fill: var(--node); stroke: var(--ink) }
.topology .host { fill: var(--host) }
.topology .link { fill: none; stroke: var(--soft); stroke-width: 1.5 }
.topology text { fill: var(--ink); text-anchor: middle }
.topology .detail { fill: var(--soft); font-size: 11px; paint-order: stroke; stroke: var(--paper); stroke-width: 4px }
"""

#: The style of what a picture with paths has beyond others.
PATH_STYLE = """
.topology .grouped { stroke: var(--ink); stroke-dasharray: 6 4 }
.topology .path { fill: none; stroke-width: 5; stroke-linecap: round }
.topology .path0 { stroke: #0072b2 } .topology .path1 { stroke: #d55e00 }
.topology .path2 { stroke: #009e73 } .topology .path3 { stroke: #cc79a7 }
.topology .path4 { stroke: #e69f00 } .topology .path5 { stroke: #56b4e9 }
.topology .path6 { stroke: #8c6bb1 } .topology .path7 { stroke: #999999 }
.topology .key { text-anchor: start }
"""


def link_summary(link: Mapping[str, Any], media: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns rate and delay of a link in a few words, of both directions if they differ."""
    if link.get("real"):  # absent in experiments of earlier versions
        return "real"
    forward, backward = link["forward"], link["backward"]
    medium = media.get(link["medium"] or "")
    rates = [_rate(direction, medium) for direction in (forward, backward)]
    delays = [_delay(direction["delay_ns"]) for direction in (forward, backward)]
    parts = [_both(rates), _both(delays)]
    if any(direction["loss"]["kind"] != "none" for direction in (forward, backward)):
        parts.append("lossy")
    if medium is not None:
        parts.append(f"on {link['medium']}")
    return ", ".join(parts)


def _delay(delay_ns: int) -> str:
    """Returns a duration in its largest unit, as in `12.5ms`. A description
    would have `12500us`.
    """
    units = sorted(Duration.units.items(), key=lambda item: item[1])
    name, factor = [unit for unit in units if unit[1] <= max(delay_ns, 1)][-1]
    return f"{delay_ns / factor:g}{name}" if delay_ns else "0s"


def as_text(experiment: Resolved) -> list[str]:
    """Returns the links as lines, grouped by the node at which they start."""
    media = _media(experiment)
    interfaces = {interface["id"]: interface for interface in experiment["interfaces"]}
    links = experiment["links"][:TEXT_LINKS]
    summaries = [link_summary(link, media) for link in links]
    name_width = max((len(link["id"]) for link in links), default=0)
    summary_width = max((len(summary) for summary in summaries), default=0)
    rows = [
        (
            interfaces[link["a"]]["node"],
            f"{_short(link['a'], interfaces)} ── {link['id']:<{name_width}}  {summary:<{summary_width}} ── {link['b']}",
        )
        for link, summary in zip(links, summaries, strict=True)
    ]
    lines = list(_grouped(rows))
    hidden = len(experiment["links"]) - len(links)
    return [*lines, f"... and {hidden} more links"] if hidden else lines


def as_svg(experiment: Resolved, *, paths: bool = False) -> str:
    """Returns the topology as an SVG document that follows the reader's light or dark scheme.

    With `paths` it has the paths of the first flow in colours, and links of shared-risk groups
    dashed.
    """
    places = _places(experiment)
    drawn = experiment["flows"][0]["paths"] if paths and experiment["flows"] else []
    width = max((x for x, _ in places.values()), default=0) + NODE_WIDTH / 2 + MARGIN
    lowest = max((y for _, y in places.values()), default=0)
    legend = lowest + max(_tallest_bundle(experiment), NODE_HEIGHT) / 2 + MARGIN
    height = legend + len(drawn) * LEGEND_HEIGHT
    svg = Xml.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "class": "topology",
            "viewBox": f"0 0 {width:.0f} {height:.0f}",
            "width": f"{width:.0f}",
            "role": "img",
            "aria-label": f"Topology of {experiment['name']}: {len(places)} nodes, {len(experiment['links'])} links",
        },
    )
    Xml.SubElement(svg, "style").text = STYLE + (PATH_STYLE if drawn else "")
    _draw_links(svg, experiment, places, drawn)
    _draw_nodes(svg, experiment, places)
    for number, path in enumerate(drawn):
        told = f"{experiment['flows'][0]['id']}, path {number + 1}: {path['local']} to {path['remote']}"
        _draw_key(svg, legend + number * LEGEND_HEIGHT, number, told)
    return Xml.tostring(svg, encoding="unicode")


def _media(experiment: Resolved) -> dict[str, dict[str, Any]]:
    """Returns the media by their ids, each with the standard of its Wi-Fi or None."""
    standards = {one["medium"]: one["standard"] for one in experiment["access"] if one["kind"] == "wifi"}
    return {medium["id"]: {**medium, "standard": standards.get(medium["id"])} for medium in experiment["media"]}


def _rate(direction: Mapping[str, Any], medium: Mapping[str, Any] | None) -> str:
    """Returns the rate in words; on Wi-Fi, whose rate varies, the standard."""
    if medium and medium["standard"]:
        return f"802.11{medium['standard']}"
    rate_bps = (medium or {}).get("rate_bps") or direction["rate_bps"]
    if gives_rate(direction["trace"]):
        return "trace"
    return str(Rate(rate_bps)) if rate_bps else "unlimited"


def _both(values: list[str]) -> str:
    forward, backward = values
    return forward if forward == backward else f"{forward} → {backward} ←"


def _short(interface: str, interfaces: Mapping[str, Mapping[str, Any]]) -> str:
    return interface.removeprefix(f"{interfaces[interface]['node']}.")


def _grouped(rows: list[tuple[str, str]]) -> Iterator[str]:
    for node, group in groupby(rows, key=lambda row: row[0]):
        texts = [text for _, text in group]
        for index, text in enumerate(texts):
            lead = node if index == 0 else " " * len(node)
            branch = _branch(index, len(texts))
            yield f"{lead} {branch} {text}"


def _branch(index: int, count: int) -> str:
    if count == 1:
        return "─"
    if index == 0:
        return "┬"
    return "└" if index == count - 1 else "├"


def _neighbours(experiment: Resolved) -> dict[str, list[str]]:
    """Returns the neighbours of each node, once for each link, in the order of the links."""
    node_of = {interface["id"]: interface["node"] for interface in experiment["interfaces"]}
    neighbours: dict[str, list[str]] = defaultdict(list)
    for link in experiment["links"]:
        a, b = node_of[link["a"]], node_of[link["b"]]
        neighbours[a].append(b)
        neighbours[b].append(a)
    return neighbours


def _layers(experiment: Resolved) -> list[list[str]]:
    """Returns the nodes by distance in hops from the sender of the first flow. Unconnected nodes
    come last.
    """
    neighbours = _neighbours(experiment)
    nodes = [node["id"] for node in (*experiment["hosts"], *experiment["nodes"])]
    first = experiment["flows"][0]["from"] if experiment["flows"] else nodes[0]
    seen, layers = {first}, [[first]]
    while layers[-1]:
        reached = dict.fromkeys(peer for node in layers[-1] for peer in neighbours[node] if peer not in seen)
        seen.update(reached)
        layers.append(list(reached))
    layers[-1] = [node for node in nodes if node not in seen]
    return [layer for layer in layers if layer]


def _tallest_bundle(experiment: Resolved) -> float:
    """Returns the height of the largest group of parallel links between two nodes."""
    return max((len(bundle) for bundle in _bundles(experiment).values()), default=1) * LINK_HEIGHT


def _places(experiment: Resolved) -> dict[str, tuple[float, float]]:
    """Returns the centre of each node."""
    layers = _layers(experiment)
    spacing = max(_tallest_bundle(experiment), NODE_HEIGHT + MARGIN)
    height = spacing * max(len(layer) for layer in layers)
    columns, x = [], MARGIN + NODE_WIDTH / 2 - LAYER_WIDTH
    for layer in layers:
        x += LAYER_WIDTH + _detour(_most_passed(experiment, layer))
        columns.append(x)
    return {
        node: (x, MARGIN + height * (row + 0.5) / len(layer))
        for x, layer in zip(columns, layers, strict=True)
        for row, node in enumerate(layer)
    }


def _most_passed(experiment: Resolved, layer: Sequence[str]) -> int:
    """Returns the most nodes of a layer that a link between two others of it passes."""
    rows = {node: row for row, node in enumerate(layer)}
    within = [(rows[a], rows[b]) for a, b in _bundles(experiment) if a in rows and b in rows]
    return max((abs(one - other) - 1 for one, other in within), default=0)


def _detour(passed: int) -> float:
    """Returns how far left of a column a link runs that passes nodes of it. The first term keeps
    its texts off them.
    """
    return (0.5 + 0.6 * passed) * NODE_WIDTH if passed > 0 else 0.0


def _bundles(experiment: Resolved) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    """Returns the links by the pair of nodes that they join."""
    node_of = {interface["id"]: interface["node"] for interface in experiment["interfaces"]}
    bundles: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for link in experiment["links"]:
        a, b = sorted((node_of[link["a"]], node_of[link["b"]]))
        bundles[a, b].append(link)
    return bundles


def _draw_links(
    svg: Xml.Element,
    experiment: Resolved,
    places: Mapping[str, tuple[float, float]],
    paths: Sequence[Mapping[str, Any]],
) -> None:
    grouped = {link for group in (experiment["control"] or {"srlg": []})["srlg"] for link in group["links"]}
    media = _media(experiment)
    node_of = {interface["id"]: interface["node"] for interface in experiment["interfaces"]}
    taken = [_box_around(place, NODE_WIDTH, NODE_HEIGHT / 2, NODE_HEIGHT / 2) for place in places.values()]
    for (a, b), links in _bundles(experiment).items():
        (ax, ay), (bx, by) = places[a], places[b]
        for index, link in enumerate(links):
            bend = (index - (len(links) - 1) / 2) * LINK_HEIGHT
            aside = _aside((ax, ay), (bx, by), places.values())
            # The control point of a quadratic curve is twice as far out as the curve.
            bent = ((ax + bx) / 2 - 2 * aside, (ay + by) / 2 + 2 * bend)
            path = f"M {ax:.0f} {ay:.0f} Q {bent[0]:.0f} {bent[1]:.0f} {bx:.0f} {by:.0f}"
            over = [number for number, one in enumerate(paths) if link["id"] in {hop["link"] for hop in one["hops"]}]
            for place, number in enumerate(over):
                shift = (place - (len(over) - 1) / 2) * PATH_WIDTH
                look = {"class": f"path path{number % PATH_COLOURS}", "transform": f"translate(0 {shift:.1f})"}
                Xml.SubElement(svg, "path", {**look, "d": path})
            is_grouped = bool(paths) and link["id"] in grouped
            if is_grouped or not over:
                kind = "link grouped" if is_grouped else "link"
                Xml.SubElement(svg, "path", {"class": kind, "d": path, "data-link": link["id"]})
            texts = (link["id"], link_summary(link, media), _ends(link, (ax, bx), a, node_of))
            x, y = _free_place([(ax, ay), bent, (bx, by)], LETTER_WIDTH * max(map(len, texts)), taken)
            for line, (text, kind) in enumerate(zip(texts, ("name", "detail", "detail"), strict=True)):
                _text(svg, x, y - 4 + 14 * line, text, kind).set("data-link", link["id"])


def _free_place(curve: Sequence[Point], width: float, taken: list[Box]) -> Point:
    """Returns the place on a quadratic curve where texts cover least of what is taken, and takes
    it.
    """
    places = [_point_on(curve, part) for part in ALONG]
    boxes = [_box_around(place, width, TEXT_ABOVE, TEXT_BELOW) for place in places]
    covered = [sum(_common_area(box, other) for other in taken) for box in boxes]
    best = covered.index(min(covered))
    taken.append(boxes[best])
    return places[best]


def _point_on(curve: Sequence[Point], part: float) -> Point:
    weights = ((1 - part) ** 2, 2 * part * (1 - part), part**2)
    x, y = (sum(weight * point[axis] for weight, point in zip(weights, curve, strict=True)) for axis in (0, 1))
    return x, y


def _box_around(place: Point, width: float, above: float, below: float) -> Box:
    x, y = place
    return x - width / 2, y - above, x + width / 2, y + below


def _common_area(one: Box, other: Box) -> float:
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(width, 0.0) * max(height, 0.0)


def _aside(a: tuple[float, float], b: tuple[float, float], places: Iterable[tuple[float, float]]) -> float:
    """Returns how far left of its ends the middle of a link is, so that it passes the nodes between
    them.
    """
    between = sum(x == a[0] and min(a[1], b[1]) < y < max(a[1], b[1]) for x, y in places)
    return _detour(between) if a[0] == b[0] else 0


def _draw_key(svg: Xml.Element, y: float, number: int, text: str) -> None:
    """Draws the line of a path in the legend."""
    line = {"class": f"path path{number % PATH_COLOURS}", "d": f"M {MARGIN} {y:.0f} h 32"}
    Xml.SubElement(svg, "path", line)
    Xml.SubElement(svg, "text", {"class": "key", "x": str(MARGIN + 40), "y": f"{y + 4:.0f}"}).text = text


def _ends(link: Mapping[str, Any], xs: tuple[float, float], a: str, node_of: Mapping[str, str]) -> str:
    """Returns the names of the interfaces as they stand: the left one first."""
    ends = [link["a"], link["b"]] if node_of[link["a"]] == a else [link["b"], link["a"]]
    names = [end.removeprefix(f"{node_of[end]}.") for end in (ends if xs[0] <= xs[1] else ends[::-1])]
    return " \N{EN DASH} ".join(names)


def _draw_nodes(svg: Xml.Element, experiment: Resolved, places: Mapping[str, tuple[float, float]]) -> None:
    hosts = {host["id"] for host in experiment["hosts"]}
    for node, (x, y) in places.items():
        shape = {
            "class": "node host" if node in hosts else "node",
            "x": f"{x - NODE_WIDTH / 2:.0f}",
            "y": f"{y - NODE_HEIGHT / 2:.0f}",
            "width": str(NODE_WIDTH),
            "height": str(NODE_HEIGHT),
            "rx": "6" if node in hosts else "18",
        }
        Xml.SubElement(svg, "rect", shape)
        _text(svg, x, y + 4, node)


def _text(svg: Xml.Element, x: float, y: float, text: str, kind: str = "name") -> Xml.Element:
    element = Xml.SubElement(svg, "text", {"class": kind, "x": f"{x:.0f}", "y": f"{y:.0f}"})
    element.text = text
    return element
