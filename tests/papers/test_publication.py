"""Tests the published statements on the page of a run, and the run's twin in the simulator.

The simulator makes the runs "on a kernel" under the kernel's name, so their twins have to be equal
to the bit.
"""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest
from command_line import is_refused, mptcplab
from mptcplab.backends.preferences import Offer, first_choices
from mptcplab.backends.sim import BACKEND
from mptcplab.catalogue import find
from mptcplab.report.beside import Beside
from mptcplab.report.publication import Published
from mptcplab.reproduction import Publication, Side, Twins
from mptcplab.results import Bundle, BundleWriter, evaluated, read_data
from mptcplab.runner import Nobody, execute

LIA, OLIA, WVEGAS = (f"alenazi2019/fig6/{name}" for name in ("lia", "olia", "wvegas"))
#: The choices of these experiments that such a kernel has.
MAINLINE = "transport mptcp,cc lia,cc olia,cc reno,scheduler kernel_default,path_manager full_mesh,behaviour mainline"
MEASURED = """
name: measured
hosts: {a: {}, b: {}}
links: {wire: {between: [a.eth0, b.eth0], rate: 10mbit, delay: 1ms}}
flows: {bulk: {from: a, to: b, transport: tcp, app: iperf3}}
duration: 1s
"""


def recorded(
    out: Path, name: str, changes: dict[str, str] | None = None, *, on: str = "kernel", seed: int = 1, lacking: str = ""
) -> Bundle:
    """Returns a run of an experiment of the catalogue. ``lacking`` names what the kernel does not
    have.
    """
    (member,) = find(name, changes)
    experiment = member.resolve().data
    mainline = Offer(on, dict.fromkeys(set(MAINLINE.split(",")) - {lacking}))
    choice = first_choices(experiment, [mainline if on == "kernel" else Offer.of(BACKEND)])
    with BundleWriter.create(out, experiment, backend=on, seed=seed, repeat=0, substitute=choice.substitute) as writer:
        run = BACKEND.start(choice.experiment, seed, writer.path)
        assert list(run.samples())
        result = run.result()
        told = evaluated(read_data(writer.path, experiment, result, on))
        traced = {"trace_hash": result["trace_hash"], "substitutions": choice.substitutions}
        return writer.finish("done", wall_s=60.0, **traced, **told)


def about(name: str) -> Publication:
    publication = Publication.about(name)
    assert publication is not None
    return publication


def simulated(publication: Publication, side: Side, out: Path) -> Side:
    twins = Twins.of(side, publication.needed, seed=1, out=out)
    assert not twins.why_not
    return twins.side(execute(list(twins.jobs.values()), Nobody()))


def section(page: Path, name: str) -> str:
    """Returns the text of a section of a page; empty if there is no section of that name."""
    found = re.search(
        rf'<section[^>]*aria-labelledby="{name}(?:-title)?">(.*?)</section>',
        page.read_text(encoding="utf-8"),
        re.DOTALL,
    )
    plain = re.sub(r"<svg.*?</svg>", "", found[1], flags=re.DOTALL) if found else ""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", plain)).split())


def test_the_page_of_a_run_has_what_was_published_and_the_simulator_beside_it(tmp_path: Path) -> None:
    bundle = recorded(tmp_path / "results", OLIA)
    facts = (bundle.path / "run.json").read_bytes()
    ended = mptcplab("report", "results", cwd=tmp_path)
    assert ended.status == 0, ended.err
    assert re.search(r"published values, kernel: \d of 3 inside the tolerance, 1 without a value\.", ended.out)
    assert re.search(r"published values, simulator: \d of 4 inside the tolerance\.", ended.out)

    published = section(bundle.path / "report.html", "published")
    assert "but on a mainline kernel's behaviour" in published
    assert "olia instead of olia-oot" in published
    assert "CL-A5: With half of the links down, throughput falls to about 1 Mbit/s with LIA, BALIA" in published
    assert re.search(r"about 1 Mbit/s 500 kbit/s to 1.60 Mbit/s (\S+ Mbit/s) outside \1 outside", published)
    assert re.search(r"that of fig6/lia worst < 0\.950 run alenazi2019/fig6/lia too \d\.\d+ (in|out)side", published)
    assert "mptcplab run alenazi2019/fig6/lia --on kernel" in published

    beside = section(bundle.path / "report.html", "beside")
    assert "Throughput of bulk: kernel and simulator" in beside
    assert re.search(r"bulk goodput (\S+ Mbit/s) \1 1\.00", beside)
    assert re.search(r"bulk link1 share (\S+ %) \1 \+0\.0 points", beside)

    Bundle.open(bundle.path).verify()
    assert (bundle.path / "run.json").read_bytes() == facts


@pytest.mark.parametrize("lacking", ["nothing", "cc lia"])
def test_the_twin_is_what_ran_and_not_what_would_be_chosen(tmp_path: Path, lacking: str) -> None:
    bundle = recorded(tmp_path, LIA, lacking=lacking)
    side = Side.of(bundle, {}, {})
    twin = simulated(about(LIA), side, tmp_path / "twins").runs[LIA]
    assert twin.record["substitutions"] == bundle.record["substitutions"]
    assert twin.record["trace_hash"] == bundle.record["trace_hash"]


def test_other_runs_in_the_same_results_are_taken_in(tmp_path: Path) -> None:
    bundle, publication = recorded(tmp_path, OLIA), about(OLIA)
    recorded(tmp_path, LIA, on="sim")
    recorded(tmp_path, LIA, seed=2)
    recorded(tmp_path, LIA, {"topology.parallel_links.queue": "10p"})
    assert publication.beside(bundle).why_not == {LIA: f"run {LIA} too"}
    recorded(tmp_path, LIA)
    side = publication.beside(bundle)
    assert not side.why_not
    of_runs, of_twins = (
        publication.statements(one) for one in (side, simulated(publication, side, tmp_path / "twins"))
    )
    assert [statement.claim.id for statement in of_runs] == ["CL-A4", "CL-A5", "CL-A6", "CL-A7"]
    assert [[one.judged for one in statement.compared] for statement in of_runs] == [
        [one.judged for one in statement.compared] for statement in of_twins
    ]
    assert all(one.is_inside is not None for statement in of_runs for one in statement.compared)


@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("fig6/olia", "fig6/lia"),
        ("fig6/lia", "fig6/olia fig6/balia fig6/wvegas"),
        ("fig8/round_robin", "fig8/min_rtt fig8/redundant"),
        ("fig9/n4", "fig9/n1 fig9/n2 fig9/n3 fig9/n5 fig9/n6 fig9/n7 fig10/n4"),
    ],
)
def test_a_run_needs_those_that_a_comparison_of_it_needs(name: str, others: str) -> None:
    folder = "alenazi2019/"
    assert set(about(folder + name).needed) == {folder + one for one in (name, *others.split())}


def test_what_nothing_is_published_about() -> None:
    assert Publication.about("failing-link") is None
    assert Publication.about("alenazi2019/fig6/nobody") is None
    assert not about("alenazi2019/fig7/min_rtt").needed


def test_a_description_that_was_changed_is_not_compared_with_the_papers(tmp_path: Path) -> None:
    bundle = recorded(tmp_path, OLIA, {"topology.parallel_links.queue": "10p"})
    ended = mptcplab("report", bundle.path, cwd=tmp_path)
    assert ended.status == 0, ended.err
    assert f"mptcplab report {bundle.path} --simulate" in ended.out
    published = section(bundle.path / "report.html", "published")
    assert "This run is not compared with it: topology.parallel_links.queue=10p." in published
    assert "CL-A5" in published
    assert "inside" not in published
    assert not section(bundle.path / "report.html", "beside")


def test_a_run_of_the_simulator_has_no_twin(tmp_path: Path) -> None:
    bundle = recorded(tmp_path, WVEGAS, on="sim")
    publication = about(WVEGAS)
    published = Published.of(publication, bundle, [publication.beside(bundle)])
    assert published.remark is None
    assert published.sides == ["sim"]
    assert is_refused(mptcplab("report", bundle.path, "--simulate", cwd=tmp_path), 2, "is a run of the simulator")


def test_what_cannot_be_simulated_says_why(tmp_path: Path) -> None:
    (tmp_path / "measured.yaml").write_text(MEASURED)
    (member,) = find(str(tmp_path / "measured.yaml"))
    experiment = member.resolve().data
    bundle = BundleWriter.create(tmp_path, experiment, backend="kernel", seed=1, repeat=0).finish("done")
    twins = Twins.of(Side.of(bundle, {}, {}), {"measured": experiment}, seed=1, out=tmp_path / "twins")
    assert not twins.jobs
    assert "iperf3" in Beside.missing(twins.side([]).why_not["measured"]).says
