"""Tests that imports between modules, and dependencies between crates, have one direction."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
PACKAGE = REPOSITORY / "python" / "mptcplab"

#: The modules and packages of mptcplab that each of them may import.
BASE = {"units", "errors", "document", "topology", "algorithms"}
ALLOWED: dict[str, set[str]] = {
    "units": set(),
    "errors": set(),
    "unfinished": set(),
    "hooks": set(),
    "algorithms": {"_core"},
    "behaviours": {"_core"},
    "features": {"_core"},
    "callers": {"errors"},
    "resolved_versions": {"_core"},
    "consent": {"algorithms", "callers", "errors"},
    "document": {"errors"},
    "shortest_ways": set(),
    "traces": {"document", "errors", "units"},
    "capacities": {"units"},
    "air": {"_core"},
    "paths": {"errors"},
    "user_classes": {"algorithms", "callers", "consent", "errors"},
    "recovery": {"errors", "paths", "user_classes"},
    "error_models": {"errors", "user_classes"},
    "topology": {"shortest_ways", "units", "errors"},
    "experiment": BASE
    | {"behaviours", "card", "error_models", "features", "paths", "recovery", "resolved_versions"}
    | {"air", "capacities", "traces"},
    "picture": {"capacities", "units"},
    "card": {"picture", "units"},
    "remote": {"errors", "notices"},
    "metrics": {"_core"},
    "backends": {
        "algorithms",
        "behaviours",
        "callers",
        "consent",
        "errors",
        "features",
        "hooks",
        "remote",
        "user_classes",
        "_core",
    },
    "recorded": {"errors", "experiment", "resolved_versions", "_core"},
    "catalogue_index": set(),
    "catalogue": {"catalogue_index", "backends", "callers", "consent", "errors", "experiment", "recorded"},
    "results": {
        "captures",
        "air",
        "algorithms",
        "callers",
        "capacities",
        "errors",
        "metrics",
        "recovery",
        "resolved_versions",
        "units",
        "_core",
    },
    "plots": {"results", "metrics", "errors", "sweep", "traces"},
    "notices": set(),
    "signals": set(),
    "captures": {"errors", "signals", "unfinished", "_core"},
    "report": {
        "algorithms",
        "capacities",
        "captures",
        "errors",
        "metrics",
        "picture",
        "plots",
        "reproduction",
        "results",
        "sweep",
        "units",
    },
    "shared_rate": set(),
    "runner": {"backends", "callers", "consent", "errors", "experiment", "notices", "results", "shared_rate"},
    "benchmark": {"algorithms", "backends", "errors", "experiment", "metrics", "results"},
    "report_card": {"algorithms", "backends", "benchmark", "errors", "experiment", "results"},
    "sweep": {"_core", "catalogue", "errors", "experiment", "metrics", "recorded", "results", "runner", "units"},
    "reproduction": {
        "algorithms",
        "backends",
        "catalogue",
        "catalogue_index",
        "errors",
        "experiment",
        "metrics",
        "results",
        "runner",
    },
    "families": {"errors", "experiment", "recorded", "results"},
    "interactive": {
        "card",
        "catalogue",
        "consent",
        "errors",
        "experiment",
        "families",
        "plots",
        "recorded",
        "report",
        "results",
        "runner",
        "sweep",
    },
    "web": {"backends", "callers", "catalogue", "catalogue_index", "consent", "errors", "experiment", "paths", "plots"}
    | {"recorded", "recovery", "report", "results", "runner", "units"},
    "bisection": {"backends", "errors", "metrics", "remote", "results", "runner"},
    "iproute": {"errors"},
    "routing": {"errors", "iproute"},
    "fidelity": {"backends", "behaviours", "errors", "experiment", "metrics", "report", "results", "runner"},
    "overlay": {"controller", "document", "errors", "experiment", "iproute", "paths", "remote", "units", "web"},
    "congestion": {"errors", "_core"},
    "proxy": {"errors", "signals", "_core"},
    "controller": {"errors", "paths", "recovery"},
    "shipped": set(),
    "starts": {"algorithms", "catalogue", "document", "errors", "experiment", "shipped"},
    "exercises": {"document", "errors", "experiment", "results", "runner", "unfinished"},
    "own_mptcp": set(),
    "doctor": {"errors", "backends", "own_mptcp", "remote", "_core"},
    "reference": {
        "_core",
        "algorithms",
        "catalogue",
        "doctor",
        "document",
        "experiment",
        "features",
        "overlay",
        "reproduction",
        "results",
        "units",
    },
    "cli": {
        "backends",
        "benchmark",
        "bisection",
        "callers",
        "captures",
        "catalogue",
        "catalogue_index",
        "congestion",
        "document",
        "consent",
        "doctor",
        "errors",
        "exercises",
        "experiment",
        "families",
        "metrics",
        "notices",
        "overlay",
        "picture",
        "plots",
        "proxy",
        "recorded",
        "report",
        "report_card",
        "reproduction",
        "results",
        "routing",
        "runner",
        "shipped",
        "starts",
        "sweep",
        "traces",
        "unfinished",
        "units",
        "web",
    },
}


def _rooms_imported(file: Path) -> set[str]:
    """Returns the modules of mptcplab that a file imports, anywhere in the file."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name.split(".")[1] for name in node.names if name.name.startswith("mptcplab.")}
        elif isinstance(node, ast.ImportFrom) and node.module == "mptcplab":
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mptcplab."):
            found.add((node.module or "").split(".")[1])
    return found


@pytest.mark.parametrize("room", sorted(ALLOWED))
def test_a_room_imports_only_from_the_rooms_before_it(room: str) -> None:
    place = PACKAGE / room
    files = list(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
    imported = set().union(*(_rooms_imported(file) for file in files)) - {room}
    assert imported <= ALLOWED[room]


def test_every_room_has_its_place() -> None:
    rooms = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert rooms - {"__init__", "__main__"} == set(ALLOWED)


#: The crates of the workspace that each of them may depend on.
CRATES: dict[str, set[str]] = {
    "mptcp": set(),
    "packetdrill": {"mptcp"},
    "experiment": {"mptcp"},
    "emulation": {"experiment", "mptcp"},
    "capture": {"experiment", "mptcp"},
    "simulator": {"capture", "emulation", "experiment", "mptcp"},
    "realtime": {"capture", "emulation", "experiment", "mptcp"},
    "agent": {"experiment", "realtime"},
    "python": {"capture", "emulation", "experiment", "mptcp", "realtime", "simulator"},
}


def _dependencies(manifest: Path) -> set[str]:
    """Returns the names of the crates of the workspace that a manifest depends on, tests and
    benches included.
    """
    read = tomllib.loads(manifest.read_text())
    tables = [read, *read.get("target", {}).values()]
    named = [table.get(kind, {}) for table in tables for kind in ("dependencies", "dev-dependencies")]
    return {name for table in named for name, value in table.items() if isinstance(value, dict) and "path" in value}


@pytest.mark.parametrize("crate", sorted(CRATES))
def test_a_crate_depends_only_on_the_crates_before_it(crate: str) -> None:
    manifest = REPOSITORY / "crates" / crate / "Cargo.toml"
    assert _dependencies(manifest) <= CRATES[crate]


def test_every_crate_has_its_place() -> None:
    assert {path.parent.name for path in REPOSITORY.glob("crates/*/Cargo.toml")} == set(CRATES)


def test_only_the_bindings_know_python() -> None:
    manifests = REPOSITORY.glob("crates/*/Cargo.toml")
    assert {path.parent.name for path in manifests if "pyo3" in path.read_text()} == {"python"}
