"""The load of the machine during a run in real time, and whether it may have influenced the
results.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mptcplab.results.entities import Json

#: Bounds above which load may have influenced the results. Runs above the emulator's own, wider
#: bounds are invalid.
LATE_S, STANDSTILL_S, START_S, STOLEN = 0.001, 0.05, 0.05, 0.05
NANOS_PER_SECOND = 1_000_000_000

STAT = Path("/proc/stat")
#: Indices of columns of /proc/stat (proc_stat(5)), after the word cpu.
IDLE, IOWAIT, STEAL = 3, 4, 7


@dataclass(frozen=True)
class CpuTimes:
    """Time of all processors since the start of the machine, in ticks."""

    total: int
    idle: int
    stolen: int

    @classmethod
    def now(cls) -> CpuTimes | None:
        """Returns the current times, or None if the system does not report them."""
        try:
            first = STAT.read_text(encoding="utf-8").splitlines()[0]
        except OSError:
            return None
        ticks = [int(word) for word in first.split()[1:]]
        # The later columns, times of guests, are included in these.
        return cls(sum(ticks[: STEAL + 1]), ticks[IDLE] + ticks[IOWAIT], ticks[STEAL])

    def until(self, later: CpuTimes) -> Json:
        """Returns the fraction of the time until `later` that was used, and that was stolen by
        other virtual machines.
        """
        ticks = max(1, later.total - self.total)
        stolen = (later.stolen - self.stolen) / ticks
        return {"used": 1 - (later.idle - self.idle) / ticks - stolen, "stolen": stolen}


def why_busy(record: Json, resolved: Json) -> str | None:
    """Returns by which signs the machine was too busy, or None if it was not.

    `record` is run.json, `resolved` the experiment. Always None for runs in virtual time.
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
    """Returns how much later than the seeds allow a flow started, at most."""
    asked = {flow["id"]: flow["start_ns"] + resolved["vary"]["start_ns"] for flow in resolved["flows"]}
    starts = {flow["id"]: flow["start_ns"] for flow in result.get("flows", [])}
    late = [starts[flow] - latest for flow, latest in asked.items() if starts.get(flow) is not None]
    return max(late, default=0) / NANOS_PER_SECOND
