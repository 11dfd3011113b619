"""The compiled objects in bpf/objects belong to the sources beside them."""

from __future__ import annotations

import hashlib
from pathlib import Path

BPF = Path(__file__).parent.parent / "bpf"
BUILT = ("*.c", "*.h", "objects/*.o")


def test_objects_are_those_that_were_made_from_the_sources() -> None:
    recorded = {}
    for line in (BPF / "objects" / "SHA256SUMS").read_text().splitlines():
        digest, _, name = line.partition("  ")
        recorded[name] = digest
    files = [file for pattern in BUILT for file in BPF.glob(pattern)]
    present = {str(file.relative_to(BPF)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    assert present == recorded, "a source or an object has changed by itself: run `make bpf`"
