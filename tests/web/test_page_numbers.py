"""Tests that every number on the live page, once its run has ended, is one of the bundle: in the
tables, in the picture of the network, in the charts, in the log and at the sliders.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from browser import chromium, needs_browser
from live_run import PATIENCE_MS, Shown, cells
from mptcplab.plots.marks import in_words
from mptcplab.results import Bundle, RunData, Subflow, subflows_of
from mptcplab.web.subflows import named_paths

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.slow, needs_browser]

EXAMPLES = Path(__file__).parents[2] / "examples"
#: Two links, a medium with Wi-Fi beside cellular access, and a network of switches.
NAMES = ("two-paths-mptcp", "commute", "disjoint-paths")
#: At ten times the speed of real time, the page is told samples that are this far apart.
TOLD_EVERY_S = 0.1
SIDES = ("forward", "backward")
PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "m": 1e-3, "\N{MICRO SIGN}": 1e-6}
#: The page shows three digits.
ROUNDING = 0.0051
#: The steps of ten hundredths with which the keyboard reads a chart from its middle to its end.
STEPS_TO_END = 6
#: The charts of values at an instant. Others have rates over an interval.
GAUGES = ("Congestion windows", "Smoothed round-trip times")

Curves = Mapping[str, Mapping[str, float | None]]


def number(text: str, unit: str) -> float | None:
    """Returns the number of a text such as ``39.2 Mbit/s``, None for a dash."""
    if text == "\N{EN DASH}":
        return None
    found = re.fullmatch(rf"(-?[\d.]+(?:e[+-]?\d+)?) (.?){re.escape(unit)}", text)
    assert found is not None, text
    return float(found[1]) * PREFIXES[found[2]]


def shown_as(value: float | None) -> Any:
    """Returns what equals the number that the page shows for a value."""
    return value if value is None else pytest.approx(value, rel=ROUNDING, abs=1e-9)


@dataclass(frozen=True)
class Held:
    """What the bundle holds of an interval between two samples that the page is told."""

    run: RunData
    #: The end of the interval.
    to_s: float

    def last(self, entity: str, metric: str) -> float | None:
        """Returns the value of a metric at the end, None if the entity was gone by then."""
        return self._at(entity, metric, self.to_s)

    def _at(self, entity: str, metric: str, time_s: float) -> float | None:
        series = self.run.samples.series(entity, metric)
        if series is None:
            return None
        found = np.flatnonzero(np.isclose(series.times_s, time_s, atol=1e-6, rtol=0))
        return float(series.values[found[0]]) if len(found) else None

    def rate(self, entity: str, metric: str) -> float:
        """Returns how fast a counter grew, 0 if the entity was gone by the end."""
        last, before = self.last(entity, metric), self._at(entity, metric, self.to_s - TOLD_EVERY_S)
        return 0.0 if last is None else (last - (before or 0)) / TOLD_EVERY_S

    def of_link(self, link: str, metric: Callable[[str], float | None]) -> list[float]:
        """Returns a value of both directions of a link."""
        return [metric(f"links.{link}.{side}") or 0.0 for side in SIDES]

    def bits(self, link: str) -> list[float]:
        """Returns what a link carried in both directions, in bit/s."""
        return self.of_link(link, lambda entity: 8 * self.rate(entity, "wire_bytes"))

    def air_percent(self, link: str) -> float | None:
        """Returns the part of the time that a link occupied its channel, None for one without."""
        if self.last(f"links.{link}.forward", "air_time_s") is None:
            return None
        shares = self.of_link(link, lambda entity: 100 * self.rate(entity, "air_time_s"))
        return max(shares) if self.run.links[link]["medium"] is None else sum(shares)

    def queue_bytes(self, link: str) -> float:
        """Returns what waited for a link in both directions."""
        return sum(self.of_link(link, lambda entity: self.last(entity, "queue_bytes")))

    def label(self, subflow: Subflow) -> str:
        """Returns the name of a subflow, with the link that distinguishes its path."""
        paths = named_paths(self.run.flows[subflow.flow])
        [path] = [one for one in paths if one.ends == (subflow.interface, subflow.remote_interface)]
        return f"{path.name}, subflow {subflow.id}"

    def subflows(self) -> Iterator[Subflow]:
        """Yields the subflows of all flows."""
        for flow in self.run.flows:
            yield from subflows_of(self.run, flow)

    def arrived(self, flow: str) -> float:
        """Returns the bytes per second that arrived of a flow, on all of its subflows if it has any."""
        entities = [subflow.entity for subflow in subflows_of(self.run, flow)] or [f"flows.{flow}"]
        return sum(self.rate(entity, "bytes_received") for entity in entities)

    def curves(self) -> Curves:
        """Returns the value of each curve of each chart."""
        flows, links = self.run.flows, self.run.links
        arrived = {flow: 8e-6 * self.arrived(flow) for flow in flows}
        air = {link: share for link in links if (share := self.air_percent(link)) is not None}
        return {
            **({"Arrived in total": arrived} if len(flows) > 1 else {}),
            **{title: values for flow in flows for title, values in self._curves_of(flow).items()},
            "Carried by each link, both ways": {link: 1e-6 * sum(self.bits(link)) for link in links},
            **({"Time on the air": air} if air else {}),
        }

    def _curves_of(self, flow: str) -> Curves:
        subflows = [one for one in subflows_of(self.run, flow) if (one.opened_s or 0) < self.to_s]
        if not subflows:
            return {f"Arrived of {flow}": {flow: 8e-6 * self.rate(f"flows.{flow}", "bytes_received")}}

        def each(value: Callable[[str], float | None]) -> Mapping[str, float | None]:
            return {self.label(subflow): value(subflow.entity) for subflow in subflows}

        def gauge(metric: str, factor: float) -> Mapping[str, float | None]:
            return each(lambda entity: None if (last := self.last(entity, metric)) is None else factor * last)

        def sent(entity: str) -> float:
            return max(0.0, self.rate(entity, "bytes_sent") - self.rate(entity, "retransmitted_bytes"))

        total = sum(sent(subflow.entity) for subflow in subflows)
        return {
            f"Arrived in order on each subflow of {flow}": each(
                lambda entity: 8e-6 * self.rate(entity, "bytes_received")
            ),
            f"What the scheduler chose for {flow}": each(lambda entity: 100 * sent(entity) / (total or 1.0)),
            f"Congestion windows of {flow}": gauge("cwnd_bytes", 1e-3),
            f"Smoothed round-trip times of {flow}": gauge("srtt_s", 1e3),
            f"Reinjected by {flow}": {flow: 1e-3 * self.rate(f"flows.{flow}", "reinjected_bytes")},
        }


@dataclass(frozen=True)
class Ended:
    """The page of a run that has ended, and what its bundle holds."""

    page: Page
    run: RunData
    record: Any

    @property
    def held(self) -> Held:
        """What the bundle holds of the last interval."""
        return Held(self.run, self.run.end_s)

    def curves(self, *keys: str) -> tuple[float, Curves]:
        """Reads all charts at the time to which the keys lead. Returns that time, and the values."""
        found: dict[str, Mapping[str, float | None]] = {}
        for panel in self.page.locator(".panel").all():
            chart = panel.locator(".chart")
            chart.focus()
            for key in keys:
                self.page.keyboard.press(key)
            head, *lines = chart.locator(".tip > div").all_inner_texts()
            self.page.keyboard.press("0")
            readings = [line.rsplit(": ", 1) for line in lines]
            found[str(panel.get_attribute("data-title"))] = {
                label: float(text.split(" ")[0]) for label, text in readings
            }
        return float(head.removesuffix(" s")), found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module", params=NAMES)
def ended(
    request: pytest.FixtureRequest, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ended]:
    directory = tmp_path_factory.mktemp(request.param)
    shown = Shown(directory, "--speed", "10x", spec=EXAMPLES / f"{request.param}.yaml")
    page = browser.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(shown.address)
    page.get_by_text("The run has ended").wait_for()
    yield Ended(page, Bundle.open(shown.bundle).load(), shown.record)
    page.close()
    shown.end()


def test_the_table_of_links(ended: Ended) -> None:
    held, metrics = ended.held, ended.record["metrics"]
    downs = {
        link: [
            one["id"] for one in ended.run.resolved["interfaces"] if one["link"] == link and is_down(held, one["id"])
        ]
        for link in ended.run.links
    }
    assert {
        name: (number(along, "bit/s"), number(against, "bit/s"), number(queue, "B"), int(lost), state)
        for name, _, along, against, queue, lost, state, _ in cells(ended.page, "links")
    } == {
        link: (
            *map(shown_as, held.bits(link)),
            shown_as(held.queue_bytes(link)),
            sum(metrics[f"links.{link}.{side}"]["dropped_packets"] for side in SIDES),
            f"{', '.join(downs[link])} down" if downs[link] else "up",
        )
        for link in ended.run.links
    }


def is_down(held: Held, interface: str) -> bool:
    return held.last(f"interfaces.{interface}", "up") == 0


def test_the_table_of_subflows(ended: Ended) -> None:
    held = ended.held
    found = {
        (flow, name): (number(rate, "bit/s"), number(window, "B"), number(round_trip, "s"))
        for name, flow, rate, window, round_trip, *_ in cells(ended.page, "subflows")
    }
    assert found == {
        (subflow.flow, held.label(subflow)): (
            shown_as(8 * held.rate(subflow.entity, "bytes_received")),
            shown_as(held.last(subflow.entity, "cwnd_bytes")),
            shown_as(held.last(subflow.entity, "srtt_s")),
        )
        for subflow in held.subflows()
    }


def test_the_picture_of_the_network(ended: Ended) -> None:
    held = ended.held
    found: dict[str, list[str]] = {}
    parts: list[str] = []
    for text in ended.page.locator(".topology .name:not(rect + .name), .topology .detail").all_text_contents():
        if text in ended.run.links:
            found[text] = parts = []
        else:
            parts.append(text)
    assert found.keys() == ended.run.links.keys()
    for link, parts in found.items():
        values = dict(re.findall(r"(\S+) ([\d.]+ [^ ,]+)", " ".join(parts)))
        ways = [number(values.pop(arrow), "bit/s") for arrow in ("\N{RIGHTWARDS ARROW}", "\N{LEFTWARDS ARROW}")]
        assert ways == [*map(shown_as, held.bits(link))], link
        if "air" in values:
            assert number(values.pop("air"), "%") == pytest.approx(held.air_percent(link), abs=0.51), link
        if "queue" in values:
            assert number(values.pop("queue"), "B") == shown_as(held.queue_bytes(link)), link
        assert values == {}, link


def shown_curves(curves: Curves) -> Any:
    """Returns what equals the readings of charts. A curve that has ended has none."""
    return {
        title: {label: shown_as(value) for label, value in of_title.items() if value is not None}
        for title, of_title in curves.items()
    }


def test_the_last_point_of_each_curve(ended: Ended) -> None:
    time_s, found = ended.curves(*["Shift+ArrowRight"] * STEPS_TO_END)
    assert time_s == pytest.approx(ended.run.end_s)
    assert found == shown_curves(ended.held.curves())


def test_a_rate_is_drawn_over_its_interval(ended: Ended) -> None:
    time_s, found = ended.curves("+", "+", "+", "ArrowRight")
    intervals = int(time_s / TOLD_EVERY_S + 1e-6)
    assert 0 < time_s / TOLD_EVERY_S - intervals < 0.5, "a time in the first half of an interval"
    before, within = (Held(ended.run, TOLD_EVERY_S * number).curves() for number in (intervals, intervals + 1))
    expected = {title: (before if title.startswith(GAUGES) else within)[title] for title in within}
    assert found == shown_curves(expected)


def test_charts_name_subflows_as_the_table_does(ended: Ended) -> None:
    for flow in ended.run.flows:
        for chart in (f"Arrived in order on each subflow of {flow}", f"Congestion windows of {flow}"):
            legend = ended.page.locator(f'.panel[data-title="{chart}"] .legend button').all_inner_texts()
            assert legend == [ended.held.label(subflow) for subflow in subflows_of(ended.run, flow)]


def test_the_log_and_the_head(ended: Ended) -> None:
    resolved, record = ended.run.resolved, ended.record
    assert (
        ended.page.locator("#where").inner_text() == f"{resolved['name']} · {record['backend']} · seed {record['seed']}"
    )
    assert ended.page.locator("#state").inner_text() == record["status"]
    assert ended.page.locator("#log .event").all_inner_texts()[::-1] == [
        f"{happening.actual_s:.2f} s: {in_words(happening.action)}" for happening in ended.run.happenings
    ]
    opened = {f"subflow {subflow.id} of {subflow.flow}": subflow.opened_s for subflow in ended.held.subflows()}
    told = {
        found[2]: float(found[1])
        for line in ended.page.locator("#log .note-line").all_inner_texts()
        if (found := re.match(r"([\d.]+) s: (.*) has opened", line))
    }
    assert told.keys() == opened.keys()
    assert all(0 <= told[name] - (opened[name] or 0) <= TOLD_EVERY_S for name in told), (told, opened)


def test_the_sliders_of_each_link(ended: Ended) -> None:
    assert all(event["action"]["kind"] != "set_link" for event in ended.run.resolved["events"])
    signals = {
        station["link"]: station["snr"]["means"][-1]["mean_mdb"] / 1000
        for access in ended.run.resolved["access"]
        if access["kind"] == "wifi"
        for station in access["stations"]
    }
    for link, described in ended.run.links.items():
        ended.page.get_by_role("rowheader", name=link, exact=True).click()
        labels = ended.page.locator("#hands label:has(output)").all()
        shown = {
            str(one.evaluate("each => each.firstChild.textContent")): one.locator("output").inner_text()
            for one in labels
        }
        forward = described["forward"]
        loss = 100 * forward["loss"].get("probability", 0)
        assert number(shown.pop("Delay"), "s") == shown_as(forward["delay_ns"] / 1e9)
        assert number(shown.pop("Loss"), "%") == shown_as(loss)
        if forward["rate_bps"] is not None:
            assert number(shown.pop("Rate"), "bit/s") == shown_as(forward["rate_bps"])
        assert {name: number(text, "dB") for name, text in shown.items()} == (
            {"Signal": round(signals[link])} if link in signals else {}
        )
