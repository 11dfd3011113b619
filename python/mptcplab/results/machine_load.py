"""How busy the machine was while a run went on in real time, and whether its numbers are then the run's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mptcplab.results.entities import Json

#: From here on what was measured may be the machine's doing. Runs beyond the emulator's own, wider bounds are invalid.
LATE_S, STANDSTILL_S, START_S, STOLEN = 0.001, 0.05, 0.05, 0.05
NANOS_PER_SECOND = 1_000_000_000

STAT = Path("/proc/stat")
#: Places of the columns of /proc/stat (proc_stat(5)), after the word cpu.
IDLE, IOWAIT, STEAL = 3, 4, 7


@dataclass(frozen=True)
class CpuTimes:
    """Time of all processors since the start of the machine, in ticks."""

    total: int
    idle: int
    stolen: int

    @classmethod
    def now(cls) -> CpuTimes | None:
        """None where the system does not tell."""
        try:
            first = STAT.read_text(encoding="utf-8").splitlines()[0]
        except OSError:
            return None
        ticks = [int(word) for word in first.split()[1:]]
        # The times of guests stand behind these, and are in them.
        return cls(sum(ticks[: STEAL + 1]), ticks[IDLE] + ticks[IOWAIT], ticks[STEAL])

    def until(self, later: CpuTimes) -> Json:
        """Which part of the time between was used, and which another machine had taken."""
        ticks = max(1, later.total - self.total)
        stolen = (later.stolen - self.stolen) / ticks
        return {"used": 1 - (later.idle - self.idle) / ticks - stolen, "stolen": stolen}


def why_busy(record: Json, resolved: Json) -> str | None:
    """That the machine was too busy for its numbers to be the run's own, and by which sign; None if it was not.

    ``record`` is run.json, ``resolved`` the experiment. Of runs in virtual time always None.
    """
    result = record["result"] or {}
    late = [link["late"]["p99_s"] for link in result.get("links", []) if (link.get("late") or {}).get("deliveries")]
    worst, standstill = max(late, default=0.0), result.get("longest_standstill_s") or 0.0
    stolen = (record["machine"].get("load") or {}).get("stolen", 0.0)
    started = _latest_start_s(result, resolved) if late else 0.0
    signs = [
        (worst, LATE_S, f"1 packet in 100 came more than {1e3 * worst:.1f} ms late"),
        (standstill, STANDSTILL_S, f"the emulator stood still for {1e3 * standstill:.0f} ms"),
        (started, START_S, f"a flow started {1e3 * started:.0f} ms late"),
        (stolen, STOLEN, f"{100 * stolen:.0f} % of its time went to other machines"),
    ]
    told = [words for found, bound, words in signs if found > bound]
    return f"the machine was busy: {', '.join(told)}" if told else None


def _latest_start_s(result: Json, resolved: Json) -> float:
    """By how much a flow started later than seeds let it."""
    asked = {flow["id"]: flow["start_ns"] + resolved["vary"]["start_ns"] for flow in resolved["flows"]}
    starts = {flow["id"]: flow["start_ns"] for flow in result.get("flows", [])}
    late = [starts[flow] - latest for flow, latest in asked.items() if starts.get(flow) is not None]
    return max(late, default=0) / NANOS_PER_SECOND
