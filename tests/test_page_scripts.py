"""Tests that the bundled scripts of the pages match their sources."""

from __future__ import annotations

import hashlib
from pathlib import Path

ROOT = Path(__file__).parent.parent
WEB = ROOT / "web"
MADE_FROM = ("package-lock.json", "tsconfig.json", "build.mjs", "src/*.ts")
BUNDLES = ("report/scripts/*", "web/scripts/*")


def test_bundles_are_those_that_were_made_from_the_sources() -> None:
    recorded = {}
    for line in (WEB / "SHA256SUMS").read_text().splitlines():
        digest, _, name = line.partition("  ")
        recorded[name] = digest
    sources = {file.relative_to(WEB).as_posix(): file for pattern in MADE_FROM for file in WEB.glob(pattern)}
    package = ROOT / "python" / "mptcplab"
    bundles = {file.relative_to(package).as_posix(): file for pattern in BUNDLES for file in package.glob(pattern)}
    present = {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in {**sources, **bundles}.items()}
    assert present == recorded, "a source or a bundle has changed by itself: run `make pages`"


def test_the_licence_of_each_library_in_a_bundle_is_beside_it() -> None:
    told = (ROOT / "python/mptcplab/web/scripts/LICENSES").read_text()
    assert "@dagrejs/dagre" in told
    assert "Permission is hereby granted" in told
