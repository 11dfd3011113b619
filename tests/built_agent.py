"""The agent that tests run, as `make agent` or cargo has built it."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]
BUILT = (
    ROOT / "python" / "mptcplab" / "mptcplab-agent",
    *(ROOT / "target" / profile / "mptcplab-agent" for profile in ("release", "debug")),
)
AGENT = next((path for path in BUILT if path.exists()), BUILT[0])
