"""Verdicts on expectations in the formats that test systems read: JUnit XML and KTAP."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING
from xml.etree import ElementTree as Xml

from mptcplab.results.bundle import changes_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mptcplab.results import Bundle
    from mptcplab.results.entities import Json


def as_junit(bundles: Sequence[Bundle]) -> str:
    """Returns JUnit XML: a test suite per bundle, and a test case per expectation. A run that did
    not finish is an error.
    """
    suites = Xml.Element("testsuites", {"name": "mptcplab"})
    for bundle, name in zip(bundles, names_of(bundles), strict=True):
        verdicts = bundle.record["expectations"]
        failures = sum(verdict["held"] is False for verdict in verdicts)
        counts = {
            "tests": str(len(verdicts) + 1),
            "failures": str(failures),
            "errors": str(int(bundle.status != "done")),
            "skipped": str(sum(verdict["held"] is None for verdict in verdicts)),
        }
        suite = Xml.SubElement(suites, "testsuite", {"name": name, "time": str(bundle.record["wall_s"] or 0), **counts})
        run = Xml.SubElement(suite, "testcase", {"name": "the run is done", "classname": name})
        if bundle.status != "done":
            Xml.SubElement(run, "error", {"message": bundle.record["why"] or bundle.status})
        for verdict, text in zip(verdicts, _texts(verdicts), strict=True):
            case = Xml.SubElement(suite, "testcase", {"name": text, "classname": name})
            if not verdict["held"]:
                kind = "skipped" if verdict["held"] is None else "failure"
                Xml.SubElement(case, kind, {"message": verdict["why"] or ""})
    Xml.indent(suites)
    return Xml.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def as_ktap(bundles: Sequence[Bundle]) -> str:
    """Returns KTAP version 1, the format of the kernel's tests: a test per bundle, with its
    expectations as subtests.
    """
    lines = ["KTAP version 1", f"1..{len(bundles)}"]
    for number, (bundle, name) in enumerate(zip(bundles, names_of(bundles), strict=True), 1):
        verdicts = bundle.record["expectations"]
        if verdicts:
            lines += ["  KTAP version 1", f"  1..{len(verdicts)}"]
        for index, (verdict, text) in enumerate(zip(verdicts, _texts(verdicts), strict=True), 1):
            skip = f" # SKIP {_plain(verdict['why'])}" if verdict["held"] is None else ""
            lines += [f"  # {_plain(verdict['why'])}"] if verdict["held"] is False else []
            lines.append(f"  {_ok(verdict['held'] is not False)} {index} {_plain(text)}{skip}")
        if bundle.status != "done":
            lines.append(f"# {_plain(bundle.record['why'] or bundle.status)}")
        held = bundle.status == "done" and all(verdict["held"] is not False for verdict in verdicts)
        lines.append(f"{_ok(held)} {number} {_plain(name)}")
    return "\n".join(lines) + "\n"


def _texts(verdicts: Sequence[Json]) -> list[str]:
    """Returns a unique text for each expectation: one that is given twice has its number."""
    texts = [verdict["text"] for verdict in verdicts]
    alike = Counter(texts)
    return [text if alike[text] == 1 else f"{text} ({number})" for number, text in enumerate(texts, 1)]


def names_of(bundles: Sequence[Bundle]) -> list[str]:
    """Returns a unique name for each bundle, with the changes of ``--set``, and its directory if
    names would be equal.
    """
    names = [_name(bundle) for bundle in bundles]
    alike = Counter(names)
    return [
        name if alike[name] == 1 else f"{name} ({bundle.path})" for name, bundle in zip(names, bundles, strict=True)
    ]


def _name(bundle: Bundle) -> str:
    record = bundle.record
    changes = ", ".join(changes_of(bundle))
    told = f"{record['experiment']} {record['backend']} seed {record['seed']}"
    return f"{told}: {changes}" if changes else told


def _ok(held: bool) -> str:
    return "ok" if held else "not ok"


def _plain(text: object) -> str:
    """Returns the text on one line and without #, which would start a directive."""
    return " ".join(str(text).replace("#", "").split())
