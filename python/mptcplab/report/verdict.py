"""The verdict on a run, in sentences."""

from __future__ import annotations

from mptcplab.report.quantities import quantity
from mptcplab.results import RunData, why_busy
from mptcplab.results.entities import Json
from mptcplab.results.offered import STEADY, is_limited_by_application, offered_bps

BACKENDS = {"sim": "in the simulator", "userspace": "on the userspace stack", "kernel": "on the Linux kernel"}
#: The target of recovery: see ``recovery_s`` in the table of metrics.
CARRIED = "at least 90 % of the remaining capacity"
#: The kernel's counter of segments that it drops although TCP has acknowledged them, which is a
#: fault of the kernel.
BEYOND_WINDOW = "MPTcpExtNoDSSInWindow"
MOST_FLOWS = 4
MOST_EVENTS = 6


def sentences(record: Json, run: RunData) -> list[str]:
    """Returns the sentences at the top of a report, most important first."""
    duration_s = run.end_s
    where = _where(record)
    ran = f"Ran {where} for {quantity(duration_s, 's')} with seed {record['seed']}."
    said = [ran, *(_flow(flow, run.flows.get(flow["id"])) for flow in record["flows"][:MOST_FLOWS])]
    if len(record["flows"]) > MOST_FLOWS:
        total = record["metrics"]["run"]["goodput_bps"]
        said.append(f"All {len(record['flows'])} flows together carried {quantity(total, 'bit/s')}.")
    names = dict.fromkeys(event["parent"] or event["id"] for event in record["events"])
    told = [sentence for name in names if (sentence := _event(record, name, duration_s))]
    more = [f"{len(told) - MOST_EVENTS} more are in the table of events."] if len(told) > MOST_EVENTS else []
    return said + told[:MOST_EVENTS] + more + _lateness(record)


def _where(record: Json) -> str:
    """Returns where a run took place: a back-end, perhaps of another machine, or a program."""
    stack = record["backend"].partition("@")[0]
    if elsewhere := record["machine"].get("on"):
        return f"{BACKENDS[stack]} of {elsewhere} ({' '.join(record['kernel'].split()[:2])})"
    return BACKENDS.get(stack) or str(record["backend"])


def place(record: Json) -> str:
    """Returns the value of ``--on`` for the back-end of a run. The path of a user's simulator is
    not recorded.
    """
    if elsewhere := record["machine"].get("on"):
        return str(elsewhere)
    return str(record["backend"]) if record["backend"] in BACKENDS else "PROGRAM"


def substituted(substitution: Json) -> str:
    """Returns what was used instead of the first choice of a list, with the reason."""
    return "{where}: {used} instead of {asked} ({why})".format(**substitution)


def user_code(entry: Json) -> str:
    """Returns the name and digest of a user-defined algorithm: ``./mine.py:MyControl (SHA-256
    1a2b3c4d..)``.
    """
    return f"{entry['name']} (SHA-256 {entry['sha256'][:8]}..)" if entry["sha256"] else str(entry["name"])


def fell_back(flow: Json) -> str:
    """Returns that a connection fell back to TCP, with the reason."""
    return f"{flow['id']} fell back to TCP: {flow['fallback']}."


def _flow(flow: Json, described: Json | None) -> str:
    carried = f"{flow['id']} ({flow['transport']}) carried {quantity(flow['goodput_bps'], 'bit/s')}"
    if flow["goodput_bps"] is not None:
        carried += _compared(flow, described)
    if flow["fct_s"] is not None:
        carried += f", and was complete after {quantity(flow['fct_s'], 's')}"
    return carried + "."


def _compared(flow: Json, described: Json | None) -> str:
    """Returns what the goodput of a flow is to be compared with: the offer of its application, or
    the network.
    """
    if described is not None and is_limited_by_application(described):
        kind, offered = described["app"]["kind"], offered_bps(described)
        if kind == STEADY and offered:
            share = 100 * flow["goodput_bps"] / offered
            return f", {share:.0f} % of the {quantity(offered, 'bit/s')} that it was offered"
        rate = f" of {quantity(offered, 'bit/s')}" if offered else ""
        return f", limited by its application ({kind.replace('_', ' ')}{rate})"
    if not flow["ceiling_bps"]:
        return ""
    share = 100 * flow["goodput_bps"] / flow["ceiling_bps"]
    return f", {share:.0f} % of its ceiling of {quantity(flow['ceiling_bps'], 'bit/s')}"


def _event(record: Json, name: str, duration_s: float) -> str | None:
    """Returns how the worst flow recovered from an event and its parts, or None for events that
    change no capacity.
    """
    metrics = record["metrics"].get(f"events.{name}", {})
    start = f"{name} {_when(record, name)}"
    if metrics.get("mean_before_bps") is None:
        back = metrics.get("recovery_s")
        if back == 0:
            return f"{start}: every flow had {CARRIED} at once."
        return None if back is None else f"{start}: the worst flow had {CARRIED} after {quantity(back, 's')}."
    short = _shortfall(metrics, duration_s)
    silence = f"longest silence {quantity(metrics['gap_s'], 's')}{_subflows(metrics)}"
    recovery = metrics["recovery_s"]
    if recovery is None:
        why = record["absent"].get(f"events.{name}", {}).get("recovery_s", "unknown")
        return f"{start}: no recovery time ({why}){short}; {silence}."
    if recovery == 0 and metrics.get("shortfall_s") == 0:
        return f"{start}: every flow kept {CARRIED} in each second; {silence}."
    changes = sum(name in (event["parent"], event["id"]) for event in record["events"])
    after = f"after {quantity(recovery, 's')}"
    if changes > 1:
        after = f"at the latest {quantity(recovery, 's')} after each of its {changes} changes"
    return f"{start}: the worst flow had {CARRIED} {after}{short}; {silence}."


def _when(record: Json, name: str) -> str:
    """Returns the time of an event, or the first and last time of a sequence."""
    times = [event["actual_s"] for event in record["events"] if name in (event["parent"], event["id"])]
    first, last = min(times), max(times)
    return f"at {quantity(first, 's')}" if first == last else f"from {quantity(first, 's')} to {quantity(last, 's')}"


def _shortfall(metrics: Json, duration_s: float) -> str:
    """Returns how long a flow was below the target, from the first failure to the last repair."""
    shortfall, outage = metrics.get("shortfall_s"), metrics.get("outage_actual_s")
    if not shortfall:
        return ""
    outage = duration_s - metrics["actual_s"] if outage is None else outage
    return f"; it had less in {quantity(shortfall, 's')} of {quantity(outage, 's')}"


def _subflows(metrics: Json) -> str:
    """Returns how many of the subflows hit by an outage continued or were re-created."""
    counts = {"survived": metrics.get("subflows_reused"), "re-created": metrics.get("subflows_recreated")}
    verbs = {"survived": ("survived", "survived"), "re-created": ("was re-created", "were re-created")}
    known = [
        f"{count:.0f} {verbs[what][count != 1]}" if count else f"none {verbs[what][0]}"
        for what, count in counts.items()
        if count is not None
    ]
    return f"; of the affected subflows {' and '.join(known)}" if known else ""


def _lateness(record: Json) -> list[str]:
    """Returns the lateness of the emulator, for runs in real time."""
    links = (record["result"] or {}).get("links", [])
    late = [link["late"] for link in links if link.get("late") and link["late"]["deliveries"]]
    if not late:
        return []
    mean_s = sum(one["mean_s"] * one["deliveries"] for one in late) / sum(one["deliveries"] for one in late)
    mean, most = quantity(mean_s, "s"), quantity(max(one["max_s"] for one in late), "s")
    return [f"The emulator delivered packets {mean} late on average (at most {most})."]


def busy(record: Json, resolved: Json) -> list[str]:
    """Returns whether the load of the machine may have influenced the results, and how many
    segments the kernel dropped by its own fault.
    """
    why = why_busy(record, resolved)
    told = [f"{why[0].upper()}{why[1:]}. The load of the machine may have influenced the results."] if why else []
    hosts = (record["result"] or {}).get("hosts") or []
    dropped = sum((host.get("counters") or {}).get(BEYOND_WINDOW, 0) for host in hosts)
    if dropped:
        told.append(
            f"The kernel dropped {dropped} segments that TCP had acknowledged, because they were beyond the"
            " connection's window. This is a fault of the kernel that the simulator does not have. Each such segment"
            " waits for a timer, so the run carries less."
        )
    return told
