"""Tests `mptcplab show --paths`: the ways of paths in the terminal and in the picture of the
topology.
"""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as Xml

from command_line import mptcplab
from documentation import EXAMPLES

SVG = "{http://www.w3.org/2000/svg}"
#: The size of texts.
LETTER_PX, LINE_PX = 6, 12
DISJOINT = EXAMPLES / "disjoint-paths.yaml"


def test_each_path_is_shown_with_its_nodes_and_the_cut_that_limits_them(tmp_path: Path) -> None:
    done = mptcplab("show", DISJOINT, "--paths", cwd=tmp_path)
    assert "Lisbon Madrid Milan Vienna" in done.out
    assert "Lisbon Paris Zurich Vienna" in done.out
    assert "have 2 edge-disjoint ways, because all cross Lisbon-Madrid, Lisbon-Paris" in done.out


def test_shared_links_and_groups_are_named(tmp_path: Path) -> None:
    changes = ("--set", "control.policy=shortest", "--set", "control.srlg={tunnel: [Lisbon-Madrid]}")
    done = mptcplab("show", DISJOINT, "--paths", *changes, cwd=tmp_path)
    assert "Lisbon-Madrid with path 2" in done.out
    assert "tunnel" in done.out


def test_the_picture_has_a_colour_for_each_path_and_dashes_for_groups(tmp_path: Path) -> None:
    file = tmp_path / "paths.svg"
    change = "control.srlg={tunnel: [Madrid-Milan]}"
    mptcplab("show", DISJOINT, "--paths", "--svg", file, "--set", change, cwd=tmp_path)
    classes = [shape.get("class") for shape in Xml.parse(file).getroot().iter(f"{SVG}path")]
    assert classes.count("path path0") == 1 + 5  # the legend, two links of hosts, three between switches
    assert classes.count("path path1") == 1 + 5
    assert classes.count("link grouped") == 1


def test_no_text_of_a_picture_covers_another(tmp_path: Path) -> None:
    file = tmp_path / "mesh.svg"
    mptcplab("show", DISJOINT, "--svg", file, cwd=tmp_path)
    texts = [(float(t.get("x", 0)), float(t.get("y", 0)), t.text or "") for t in Xml.parse(file).iter(f"{SVG}text")]
    beside = [
        (one, other)
        for number, (x, y, one) in enumerate(texts)
        for other_x, other_y, other in texts[number + 1 :]
        if abs(x - other_x) < LETTER_PX / 2 * (len(one) + len(other)) and abs(y - other_y) < LINE_PX
    ]
    assert beside == []
