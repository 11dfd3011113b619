"""Tests that the compiled eBPF objects match their sources."""

from __future__ import annotations

import hashlib
from pathlib import Path

ROOT = Path(__file__).parent.parent
BUILT = ("bpf/*.c", "bpf/*.h", "bpf/objects/*.o", "examples/*.bpf.c", "examples/*.bpf.o")


def test_objects_are_those_that_were_made_from_the_sources() -> None:
    recorded = {}
    for line in (ROOT / "bpf/objects/SHA256SUMS").read_text().splitlines():
        digest, _, name = line.partition("  ")
        recorded[name] = digest
    files = [file for pattern in BUILT for file in ROOT.glob(pattern)]
    present = {str(file.relative_to(ROOT)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    assert present == recorded, "a source or an object has changed by itself: run `make bpf`"
