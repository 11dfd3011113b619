#!/usr/bin/env python3
"""A back-end as a program: the simulator, with the rates of all links changed by the factor in
``FACTOR``, or a result with ``STATUS``.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from mptcplab.backends import backend

SIMULATOR = backend("sim")
FACTOR = float(os.environ.get("FACTOR", "1"))
STATUS = os.environ.get("STATUS", "done")


def run(start: dict[str, Any]) -> dict[str, Any]:
    """Runs an experiment to its end, and returns its result."""
    experiment = start["experiment"]
    for link in experiment["links"]:
        for direction in (link["forward"], link["backward"]):
            direction["rate_bps"] = int(direction["rate_bps"] * FACTOR)
    running = SIMULATOR.start(experiment, start["seed"], Path(start["directory"]))
    for _ in running.samples():
        pass
    return running.result() | {"status": STATUS, "why": "told so"}


def main() -> None:
    result: dict[str, Any] = {}
    for line in sys.stdin:
        match json.loads(line):
            case "capabilities":
                answer: Any = [[one.feature, one.available, one.why] for one in SIMULATOR.probe()]
            case {"check": _}:
                answer = []
            case {"start": start}:
                result = run(start)
                answer = {"now_ns": 0}
            case {"advance": _}:
                answer = {"now_ns": result["end_ns"], "ended": True, "latest": {}, "events": []}
            case "finish":
                answer = {"summary": result, "files": [], "machine": None}
        print(json.dumps(answer), flush=True)


main()
