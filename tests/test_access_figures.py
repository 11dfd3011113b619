"""Tests the figures of access networks: air time, packets in a transmission,
states of the radio.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from mptcplab import Run, load, run
from mptcplab.plots import Drawing, Specification, drawings_of
from mptcplab.plots.marks import marks_with_handovers
from mptcplab.plots.rows import Row, Rows

#: The phone sends at once, sleeps on Wi-Fi, is silent on LTE from 1 s on, changes the cell at 2 s,
#: and is idle from 3.8 s on. The laptop uploads.
TWO_RADIOS = """
name: two-radios
vary: none
hosts: {phone: {}, laptop: {}, server: {}}
nodes: {ap: {kind: ap}, gateway: {kind: router}}
media: {air: {wifi: {standard: n, snr: 40db, mobility: none}}}
links:
  phone: {between: [phone.wlan0, ap], medium: air, wifi: {power_save: 100ms}}
  laptop: {between: [laptop.wlan0, ap], medium: air}
  line: {between: [ap, gateway], rate: 1gbit, delay: 2ms, queue: 1000p}
  lte: {between: [phone.wwan0, gateway], cellular: {rate: 40mbit, mobility: static, drx: 80ms, inactivity: 1500ms}}
  net: {between: [gateway, server.eth0], rate: 1gbit, delay: 2ms, queue: 1000p}
flows:
  call: {from: phone, to: server, transport: udp, app: {cbr: {rate: 200kbit, size: 200, duration: 1s}}, primary: lte}
  upload: {from: laptop, to: server, transport: tcp, app: {bulk: {duration: 6s}}}
events:
  - {id: cell, at: 2s, handover: {link: lte, gap: 300ms}}
measure: {every: 20ms}
duration: 6s
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("radios")
    (folder / "two-radios.yaml").write_text(TWO_RADIOS)
    [one] = run(load(folder / "two-radios.yaml"), out=folder / "results")
    return one


@pytest.fixture(scope="module")
def drawn(ran: Run) -> dict[str, Drawing]:
    return {drawing.name: drawing for drawing in drawings_of(ran.load())}


def specified(drawing: Drawing) -> Specification:
    assert isinstance(drawing.specification, Specification)
    return drawing.specification


def row(drawing: Drawing, label: str) -> Row:
    assert isinstance(drawing.specification, Rows)
    [found] = [row for row in drawing.specification.rows if row.label == label]
    return found


def test_the_air_is_shared_by_the_stations_that_used_it(drawn: dict[str, Drawing]) -> None:
    [panel] = specified(drawn["air"]).panels
    assert [curve.label for curve in panel.curves] == ["laptop"]
    assert panel.y.high == 100
    assert 80 < np.mean(panel.curves[0].y) <= 100


def test_transmissions_are_as_long_as_the_aggregates(drawn: dict[str, Drawing]) -> None:
    [panel] = specified(drawn["aggregates"]).panels
    [data, acknowledgments] = panel.curves
    assert [data.label, acknowledgments.label] == ["laptop →", "laptop ←"]
    assert 5 < np.nanmean(data.y) <= 64
    assert acknowledgments.is_dashed


def test_radios_have_the_states_that_they_were_in(drawn: dict[str, Drawing]) -> None:
    """The numbers of the states are those of the models."""
    lte = row(drawn["radio"], "lte")
    assert [sign.kind for sign in lte.signs] == ["handover"]
    assert lte.signs[0].at == pytest.approx(2, abs=0.03)
    between = [(span.start, span.end) for span in lte.spans if span.state == "between cells"]
    assert between == [(pytest.approx(2, abs=0.03), pytest.approx(2.3, abs=0.03))]
    assert max(span.end for span in lte.spans if span.state == "idle") == 6
    assert any(span.state == "DRX" and 1 < span.start < 2 for span in lte.spans)
    assert all(span.end <= 4 for span in lte.spans if span.name == "connected" and not span.state)
    assert any(span.state == "asleep" and span.end == 6 for span in row(drawn["radio"], "phone").spans)


def test_hatches_and_signs_are_explained(drawn: dict[str, Drawing]) -> None:
    notes = drawn["radio"].notes
    assert "Dotted: DRX or asleep." in notes
    assert "Hatched: idle." in notes
    assert "\N{BLACK DIAMOND}: handover." in notes


def test_a_run_without_access_networks_has_none_of_these_figures(drawn: dict[str, Drawing]) -> None:
    from made_kernel_run import made_kernel_run

    assert not {drawing.name for drawing in drawings_of(made_kernel_run())} & {"air", "aggregates", "radio"}
    assert {"air", "aggregates", "radio"} <= set(drawn)


def test_a_notebook_draws_them_too(ran: Run) -> None:
    for figure in (ran.plot.air(), ran.plot.aggregates(), ran.plot.radio()):
        assert figure.axes


def test_handovers_that_a_model_draws_are_marks_and_those_of_events_have_one(tmp_path: Path, ran: Run) -> None:
    drives = TWO_RADIOS.replace("mobility: static,", "mobility: driving, cells: {every: 1s},")
    (tmp_path / "drives.yaml").write_text(drives)
    [driven] = run(load(tmp_path / "drives.yaml"), out=tmp_path / "results")
    marks = {
        name: [mark.label for mark in marks_with_handovers(one.load())] for name, one in (("a", ran), ("b", driven))
    }
    assert marks["a"] == ["cell"]
    assert set(marks["b"]) == {"cell", "lte moves to another cell"}


def test_every_state_of_a_radio_has_a_name(tmp_path: Path) -> None:
    nsa = "cellular: {generation: nsa, rate: 40mbit, mobility: driving, nr_leg: {every: 500ms}}"
    (tmp_path / "nsa.yaml").write_text(
        f"name: nsa\nhosts: {{phone: {{}}, server: {{}}}}\nlinks: {{lte: {{between: [phone.wwan0, server.eth0], {nsa}}}}}\n"
        "flows: {film: {from: server, to: phone, opened_by: to, transport: tcp}}\nmeasure: {every: 20ms}\nduration: 8s\n"
    )
    [driven] = run(load(tmp_path / "nsa.yaml"), out=tmp_path / "results")
    [drawing] = [drawing for drawing in drawings_of(driven.load()) if drawing.name == "radio"]
    assert "without 5G" in {span.state for span in row(drawing, "lte").spans}


def test_a_cable_modem_has_no_radio(tmp_path: Path) -> None:
    (tmp_path / "modem.yaml").write_text(
        "name: modem\nhosts: {home: {}, server: {}}\n"
        "links: {line: {between: [home.eth0, server.eth0], rate: 5mbit, cable: {}}}\n"
        "flows: {mail: {from: home, to: server, transport: tcp, app: {bulk: {bytes: 10kB}}}}\nduration: 2s\n"
    )
    [ran] = run(load(tmp_path / "modem.yaml"), out=tmp_path / "results")
    assert "radio" not in {drawing.name for drawing in drawings_of(ran.load())}
