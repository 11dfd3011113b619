"""Tests that what was compared with too few measurements is marked as illustrative, in
documentation and results.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from command_line import mptcplab
from mptcplab.experiment import resolved_form
from mptcplab.results.evidence import INDEPENDENT_CHECKS, is_illustrative

MEDIA = Path(__file__).parent.parent / "docs" / "internals" / "media"
PAGES = {"wifi": "wifi.md", "cellular": "cellular.md", "leo": "satellite.md"}
RUN = """
name: {name}
hosts: {{phone: {{}}, server: {{}}}}
links: {{link: {{between: [phone.wwan0, server.eth0], {link}}}}}
flows: {{mail: {{from: phone, to: server, transport: tcp, app: {{bulk: {{bytes: 10kB}}}}}}}}
duration: 5s
"""


@pytest.mark.parametrize("kind", PAGES)
def test_the_page_of_a_medium_says_whether_it_is_illustrative(kind: str) -> None:
    page = (MEDIA / PAGES[kind]).read_text(encoding="utf-8")
    assert ("**Illustrative:**" in page) == is_illustrative(kind)


@pytest.mark.parametrize("kind", PAGES)
def test_the_independent_checks_are_those_of_the_page(kind: str) -> None:
    page = (MEDIA / PAGES[kind]).read_text(encoding="utf-8")
    if kind == "wifi":  # of which every check is independent
        assert "Nothing was fitted to" in page
        assert all(f"| {check}: " in page for check in INDEPENDENT_CHECKS[kind])
        return
    independent = [row for row in page.splitlines() if re.search(r"\| yes[^|]*\|$", row)]
    assert tuple(re.findall(r"^\| ([CL]\d): ", "\n".join(independent), re.MULTILINE)) == INDEPENDENT_CHECKS[kind]


def test_every_kind_of_access_network_is_judged() -> None:
    kinds = {get_args(get_type_hints(one)["kind"])[0] for one in get_args(resolved_form.Access)}
    assert set(INDEPENDENT_CHECKS) == kinds


@pytest.mark.parametrize(
    ("name", "link", "line"),
    [
        (
            "lte",
            "cellular: {rate: 40mbit}",
            "illustrative: the model of cellular links was compared with fewer than two",
        ),
        ("dish", "leo: {}", None),
        (
            "modem",
            "rate: 5mbit, cable: {}",
            "illustrative: the model of cable modems was compared with fewer than two",
        ),
        ("dsl", "profile: vdsl2", "illustrative: the profile vdsl2 was compared with fewer than two"),
        ("train", "profile: train", "illustrative: the model of cellular links and the profile train were compared"),
    ],
)
def test_results_say_what_is_illustrative(tmp_path: Path, name: str, link: str, line: str | None) -> None:
    (tmp_path / "x.yaml").write_text(RUN.format(name=name, link=link))
    ended = mptcplab("run", "x.yaml", "--out", "results", cwd=tmp_path)
    assert ended.status == 0, ended
    assert ("illustrative" in ended.out) == (line is not None)
    assert line is None or line in ended.out
    [bundle] = (tmp_path / "results" / name).glob("sim-*")
    assert mptcplab("report", bundle, cwd=tmp_path).status == 0
    assert ("Illustrative: " in (bundle / "report.html").read_text(encoding="utf-8")) == (line is not None)
