"""Tests of the page of results: what it tells, what it does, and what it refuses."""

from __future__ import annotations

import io
import json
import shutil
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")

from mptcplab.experiment import load
from mptcplab.results.lock import Lock
from mptcplab.runner import execute, plan
from mptcplab.web.finished import ResultsPage
from mptcplab.web.gate import CHANGES_HEADER, Gate
from mptcplab.web.offers import Offers
from mptcplab.web.shelf import Shelf, read_address, write_address
from mptcplab.web.started import Launcher
from starlette.testclient import TestClient

HOST = "127.0.0.1:8440"
EXAMPLES = Path(__file__).parents[2] / "examples"

ONE_LINK = """
name: short
title: A short transfer
hosts: {phone: {}, server: {}}
links:
  wifi: {between: [phone.wlan0, server.eth0], rate: 6mbit, delay: 10ms}
flows:
  download: {from: server, to: phone, opened_by: to}
duration: 500ms
"""
PROGRAM = """
name: with-program
hosts: {phone: {}, server: {}}
links:
  wifi: {between: [phone.wlan0, server.eth0], rate: 6mbit, delay: 10ms}
flows:
  fetch: {from: phone, to: server, app: {command: [touch, /tmp/must-not-be]}}
duration: 500ms
"""


class NoHooks:
    """An observer of runs that does nothing."""

    def advanced(self, *_: object) -> None: ...

    def finished(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three runs of one experiment, one of them with another rate."""
    out = tmp_path_factory.mktemp("made")
    description = out / "short.yaml"
    description.write_text(ONE_LINK)
    for changes, repeat in (({}, 2), ({"links.wifi.rate": "3mbit"}, 1)):
        [member] = load(description, changes)
        execute(plan([member.resolve().data], "sim", seed=1, repeat=repeat, out=out / "results"), NoHooks())
    return out / "results"


@pytest.fixture
def results(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "results"))


def page_of(results: Path, *offered: Path, allow_programs: bool = False) -> TestClient:
    """A browser that has opened the printed address."""
    offers = Offers(offered)
    launcher = Launcher(results, offers, allow_programs)
    app = Gate(ResultsPage(Shelf(results), launcher, offers).app(), "the-token", [HOST])
    browser = TestClient(app, base_url=f"http://{HOST}")
    assert browser.get("/?token=the-token").status_code == 200
    return browser


@pytest.fixture
def browser(results: Path) -> TestClient:
    return page_of(results)


def runs(browser: TestClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = browser.get("/runs").json()["runs"]
    return found


def post(browser: TestClient, path: str, body: object) -> Any:
    return browser.post(path, json=body, headers={CHANGES_HEADER: "1"})


def test_each_run_is_told_with_its_setting(browser: TestClient) -> None:
    told = runs(browser)
    assert sorted((run["experiment"], run["seed"], tuple(run["changes"])) for run in told) == [
        ("short", 1, ()),
        ("short", 1, ("links.wifi.rate=3mbit",)),
        ("short", 2, ()),
    ]
    assert {(run["status"], run["backend"], run["title"]) for run in told} == {("done", "sim", "A short transfer")}


def test_equal_experiments_have_the_changes_of_the_newest_run(made: Path, results: Path, browser: TestClient) -> None:
    [member] = load(made.parent / "short.yaml", {"links.*.rate": "3mbit"})
    execute(plan([member.resolve().data], "sim", seed=2, repeat=1, out=results), NoHooks())
    told = [(run["seed"], run["changes"]) for run in runs(browser) if run["changes"]]
    assert sorted(told) == [(1, ["links.*.rate=3mbit"]), (2, ["links.*.rate=3mbit"])]


def test_reports_and_comparisons_are_whole_pages(browser: TestClient) -> None:
    told = runs(browser)
    report = browser.get(f"/report/{told[0]['id']}")
    assert report.status_code == 200
    assert "What happened" in report.text
    assert "connect-src" not in report.headers["content-security-policy"]
    compared = browser.get("/compare", params={"run": [run["id"] for run in told]})
    assert "What is compared" in compared.text
    alone = browser.get("/compare", params={"run": told[0]["id"]})
    assert alone.status_code == 409
    assert "a comparison needs runs of at least two" in alone.text


def test_a_download_has_the_files_of_the_runs(browser: TestClient, results: Path) -> None:
    name = runs(browser)[0]["id"]
    answer = browser.get("/download", params={"run": name})
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert archive.read(f"{name}/run.json") == (results / name / "run.json").read_bytes()
        assert archive.testzip() is None


def test_deleted_runs_are_gone_and_others_stay(browser: TestClient, results: Path) -> None:
    first, *others = (run["id"] for run in runs(browser))
    assert post(browser, "/delete", {"runs": [first]}).json() == {"deleted": 1}
    assert not (results / first).exists()
    assert [run["id"] for run in runs(browser)] == others
    assert post(browser, "/delete", {"runs": others}).json() == {"deleted": 2}
    assert results.is_dir()
    assert not (results / "short").exists(), "empty folders go, too"


@pytest.mark.parametrize(
    "path", ["/", "/runs", "/experiments", "/report/short/x", "/compare", "/download", "/finished.js"]
)
def test_nothing_is_told_without_the_token(results: Path, path: str) -> None:
    known = page_of(results)
    stranger = TestClient(known.app, base_url=f"http://{HOST}")
    assert stranger.get(path).status_code == 401


@pytest.mark.parametrize("path", ["/delete", "/start"])
def test_a_change_needs_the_header(browser: TestClient, results: Path, path: str) -> None:
    before = sorted(results.rglob("run.json"))
    names = [run["id"] for run in runs(browser)]
    assert browser.post(path, json={"runs": names, "again": names[0]}).status_code == 403
    assert sorted(results.rglob("run.json")) == before


def asked_in_all_ways(browser: TestClient, name: str) -> list[Any]:
    return [
        browser.get(f"/report/{name}"),
        browser.get("/download", params={"run": name}),
        browser.get("/compare", params={"run": [name, name]}),
        post(browser, "/delete", {"runs": [name]}),
        post(browser, "/start", {"again": name}),
    ]


@pytest.mark.parametrize(
    "form", ["../outside", "%2e%2e/outside", "short/../../outside", "ABSOLUTE", "%2fetc", "", "a%00b"]
)
def test_no_path_leads_out_of_the_folder(browser: TestClient, results: Path, form: str) -> None:
    outside = results.parent / "outside"
    shutil.copytree(next(results.rglob("run.json")).parent, outside)
    name = form.replace("ABSOLUTE", f"/{outside}")
    for answer in asked_in_all_ways(browser, name):
        assert answer.status_code in (404, 409, 400), answer.text
        assert "What happened" not in answer.text
    assert (outside / "run.json").is_file()


def test_links_are_not_followed(browser: TestClient, results: Path) -> None:
    outside = results.parent / "outside"
    whole = next(results.rglob("run.json")).parent
    shutil.copytree(whole, outside)
    (results / "linked").symlink_to(outside)
    (results / "parent").symlink_to(outside.parent)
    secret = results.parent / "secret"
    secret.write_text("hidden")
    within = results / "within"
    shutil.copytree(whole, within)
    (within / "samples.csv").unlink(missing_ok=True)
    (within / "captures").mkdir(exist_ok=True)
    (within / "captures" / "x.pcap").symlink_to(secret)
    for name in ("linked", "parent/outside", "within"):
        for answer in asked_in_all_ways(browser, name):
            assert answer.status_code == 404, (name, answer.text)
            assert "link" in answer.text
            assert "hidden" not in answer.text
    assert (outside / "run.json").is_file()
    assert {run["id"] for run in runs(browser)} & {"linked", "parent/outside"} == set()
    assert [run["why"] for run in runs(browser) if run["id"] == "within"] == [
        "x.pcap is a link, and links are not followed"
    ]


def test_a_bundle_that_cannot_be_shown_is_told_in_one_sentence(browser: TestClient, results: Path) -> None:
    written, damaged, foreign = (results / run["id"] for run in runs(browser))
    (damaged / "run.json").write_text("{")
    record = json.loads((foreign / "run.json").read_text())
    (foreign / "run.json").write_text(json.dumps(record | {"schema": "mptcplab/run/99"}))
    unfinished = json.loads((written / "run.json").read_text()) | {"status": "unfinished", "why": None}
    (written / "run.json").write_text(json.dumps(unfinished))
    lock = Lock(written)
    told = {run["id"]: (run["status"], run["why"]) for run in runs(browser)}
    assert told == {
        written.relative_to(results).as_posix(): ("running", "is being written"),
        damaged.relative_to(results).as_posix(): ("damaged", "run.json cannot be read"),
        foreign.relative_to(results).as_posix(): (
            "foreign",
            "is of another version: mptcplab/run/99; this version reads mptcplab/run/1",
        ),
    }
    for place, why in ((written, "is being written"), (damaged, "run.json"), (foreign, "this version reads")):
        answer = browser.get(f"/report/{place.relative_to(results)}")
        assert answer.status_code == 409
        assert why in answer.text
        assert "Traceback" not in answer.text
    assert post(browser, "/delete", {"runs": [written.relative_to(results).as_posix()]}).status_code == 409
    assert written.is_dir()
    lock.release()
    [left] = [run for run in runs(browser) if run["status"] == "unfinished"]
    assert left["why"] == "was interrupted; mptcplab clean removes it"


def test_changed_samples_are_told_when_they_are_read(browser: TestClient, results: Path) -> None:
    name = runs(browser)[0]["id"]
    table = next((results / name).glob("samples.*"))
    table.write_bytes(table.read_bytes()[:-9])
    answer = browser.get(f"/report/{name}")
    assert answer.status_code == 409
    assert "was changed" in answer.text


def ended(browser: TestClient, launched: int) -> None:
    until = time.monotonic() + 60
    while sum(run["status"] == "done" for run in runs(browser)) < launched:
        assert time.monotonic() < until, "the started run ends"
        time.sleep(0.1)


def test_a_run_is_started_and_goes_on_without_a_viewer(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mptcplab.web.running.PATIENCE_S", 0.1)
    description = results.parent / "offered.yaml"
    description.write_text(ONE_LINK.replace("name: short", "name: offered"))
    browser = page_of(results, description)
    assert "offered" in {entry["id"] for entry in browser.get("/experiments").json()}
    started = post(browser, "/start", {"experiment": "offered", "seed": 7, "speed": "max"})
    assert started.status_code == 200, started.text
    assert "A short transfer" in browser.get(f"/{started.json()['live']}").text
    ended(browser, 4)
    [run] = [run for run in runs(browser) if run["experiment"] == "offered"]
    assert run["seed"] == 7
    assert run["id"].startswith("live/")


def test_a_run_ends_unfinished_with_its_server(tmp_path: Path) -> None:
    description = tmp_path / "long.yaml"
    description.write_text(ONE_LINK.replace("500ms", "600s"))
    launcher = Launcher(tmp_path / "results", Offers([description]), allow_programs=False)
    run = launcher.start({"experiment": "short"}, None)
    run.end()
    assert not run.goes_on
    assert run.watched.bundle is not None
    assert (run.watched.bundle.status, run.watched.bundle.record["why"]) == ("unfinished", "interrupted")


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"experiment": "nowhere"}, "is not offered"),
        ({"experiment": "/etc/passwd"}, "is not offered"),
        ({"experiment": "short", "backend": "/bin/sh"}, "is not offered"),
        ({"again": "FIRST", "backend": "/bin/sh"}, "back-end '/bin/sh': unknown"),
        ({"again": "FIRST", "seed": -1}, "seed -1"),
        ({"again": "FIRST", "seed": True}, "seed True"),
        ({"again": "FIRST", "speed": "2x"}, "speed '2x'"),
        ([], "allowed"),
    ],
)
def test_a_wrong_start_is_refused_with_a_reason(browser: TestClient, asked: Any, why: str) -> None:
    first = runs(browser)[0]["id"]
    body = {key: first if value == "FIRST" else value for key, value in asked.items()} if asked else asked
    answer = post(browser, "/start", body)
    assert answer.status_code in (400, 404, 409)
    assert why in answer.json()["why"]
    assert len(runs(browser)) == 3


@pytest.mark.parametrize("backend", ["sim", "kernel"])
def test_programs_start_from_the_page_only_if_that_was_allowed(results: Path, backend: str) -> None:
    description = results.parent / "program.yaml"
    description.write_text(PROGRAM)
    browser = page_of(results, description)
    answer = post(browser, "/start", {"experiment": "with-program", "backend": backend})
    assert answer.status_code == 409
    assert "runs code of its own" in answer.json()["why"]
    assert "--allow-programs" in answer.json()["why"]


def test_classes_start_from_the_page_only_if_that_was_allowed(
    results: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("mptcplab.web.running.PATIENCE_S", 0.1)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    description = EXAMPLES / "own-algorithms.yaml"
    [member] = load(description)
    name = member.name
    browser = page_of(results, description)
    assert post(browser, "/start", {"experiment": name}).status_code == 409
    # What was allowed elsewhere does not count.
    monkeypatch.setenv("MPTCPLAB_ALLOW_PROGRAMS", "1")
    assert post(browser, "/start", {"experiment": name}).status_code == 409
    monkeypatch.delenv("MPTCPLAB_ALLOW_PROGRAMS")
    allowing = page_of(results, description, allow_programs=True)
    answer = post(allowing, "/start", {"experiment": name})
    assert answer.status_code == 200, answer.text


def test_the_page_of_a_live_run_is_found_by_its_user_only(tmp_path: Path) -> None:
    file = write_address(tmp_path / "live" / "one", "http://127.0.0.1:8440/?token=x")
    assert file.stat().st_mode & 0o077 == 0
    assert read_address(tmp_path / "live" / "one") == "http://127.0.0.1:8440/?token=x"
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / file.name).symlink_to(file)
    assert read_address(tmp_path / "linked") is None
    file.write_text("javascript:alert(1)")
    assert read_address(tmp_path / "live" / "one") is None
