"""What happened in a run, in sentences."""

from __future__ import annotations

from mptcplab.report.quantities import quantity
from mptcplab.results import why_busy
from mptcplab.results.entities import Json

BACKENDS = {"sim": "in the simulator", "userspace": "on our own stack", "kernel": "on the Linux kernel"}
#: What a flow can be asked for: see ``recovery_s`` in the metric table.
CARRIED = "nine tenths of what the network could carry"
#: What a kernel counts of its own fault, by which it drops what it has acknowledged.
BEYOND_WINDOW = "MPTcpExtNoDSSInWindow"
MOST_FLOWS = 4
MOST_EVENTS = 6


def sentences(record: Json, duration_s: float) -> list[str]:
    """The verdict at the top of a report, most important first."""
    where = BACKENDS.get(record["backend"], record["backend"])
    ran = f"Ran {where} for {quantity(duration_s, 's')} with seed {record['seed']}."
    said = [ran, *(_flow(flow) for flow in record["flows"][:MOST_FLOWS])]
    if len(record["flows"]) > MOST_FLOWS:
        total = record["metrics"]["run"]["goodput_bps"]
        said.append(f"All {len(record['flows'])} flows together carried {quantity(total, 'bit/s')}.")
    names = dict.fromkeys(event["parent"] or event["id"] for event in record["events"])
    told = [sentence for name in names if (sentence := _event(record, name, duration_s))]
    more = [f"{len(told) - MOST_EVENTS} more are in the table of events."] if len(told) > MOST_EVENTS else []
    return said + told[:MOST_EVENTS] + more + _lateness(record)


def place(record: Json) -> str:
    """What ``--on`` takes for the back-end of a run; where a program of a user's own lies, only the user knows."""
    return record["backend"] if record["backend"] in BACKENDS else "PROGRAM"


def substituted(substitution: Json) -> str:
    """What was used instead of the first choice of a list, and why."""
    return "{where}: {used} instead of {asked} ({why})".format(**substitution)


def user_code(entry: Json) -> str:
    """An algorithm of a user's own, and what of: ``./mine.py:MyControl (SHA-256 1a2b3c4d..)``."""
    return f"{entry['name']} (SHA-256 {entry['sha256'][:8]}..)" if entry["sha256"] else str(entry["name"])


def fell_back(flow: Json) -> str:
    """That a connection was plain TCP although Multipath TCP was asked for, and why."""
    return f"{flow['id']} fell back to TCP: {flow['fallback']}."


def _flow(flow: Json) -> str:
    carried = f"{flow['id']} ({flow['transport']}) carried {quantity(flow['goodput_bps'], 'bit/s')}"
    if flow["ceiling_bps"] and flow["goodput_bps"] is not None:
        share = 100 * flow["goodput_bps"] / flow["ceiling_bps"]
        carried += f", {share:.0f} % of its ceiling of {quantity(flow['ceiling_bps'], 'bit/s')}"
    if flow["fct_s"] is not None:
        carried += f", and was complete after {quantity(flow['fct_s'], 's')}"
    return carried + "."


def _event(record: Json, name: str, duration_s: float) -> str | None:
    """How the worst flow got over all that an event heads; nothing for events that neither take nor give capacity."""
    metrics = record["metrics"].get(f"events.{name}", {})
    start = f"{name} {_when(record, name)}"
    if metrics.get("mean_before_bps") is None:
        back = metrics.get("recovery_s")
        return None if back is None else f"{start}: the worst flow had {CARRIED} after {quantity(back, 's')}."
    short = _shortfall(metrics, duration_s)
    silence = f"longest silence {quantity(metrics['gap_s'], 's')}{_subflows(metrics)}"
    recovery = metrics["recovery_s"]
    if recovery is None:
        why = record["absent"].get(f"events.{name}", {}).get("recovery_s", "unknown")
        return f"{start}: no recovery time ({why}){short}; {silence}."
    if recovery == 0 and metrics.get("shortfall_s") == 0:
        return f"{start}: every flow kept {CARRIED}, second by second; {silence}."
    changes = sum(name in (event["parent"], event["id"]) for event in record["events"])
    after = f"after {quantity(recovery, 's')}"
    if changes > 1:
        after = f"at the latest {quantity(recovery, 's')} after each of its {changes} changes"
    return f"{start}: the worst flow had {CARRIED} {after}{short}; {silence}."


def _when(record: Json, name: str) -> str:
    """When an event happened, or from when to when a sequence."""
    times = [event["actual_s"] for event in record["events"] if name in (event["parent"], event["id"])]
    first, last = min(times), max(times)
    return f"at {quantity(first, 's')}" if first == last else f"from {quantity(first, 's')} to {quantity(last, 's')}"


def _shortfall(metrics: Json, duration_s: float) -> str:
    """How long a flow had less than it could have had, from the first failure to the last repair."""
    shortfall, outage = metrics.get("shortfall_s"), metrics.get("outage_actual_s")
    if not shortfall:
        return ""
    outage = duration_s - metrics["actual_s"] if outage is None else outage
    return f"; it had less in {quantity(shortfall, 's')} of {quantity(outage, 's')}"


def _subflows(metrics: Json) -> str:
    """What became of the subflows that an outage hit."""
    counts = {"went on": metrics.get("subflows_reused"), "re-created": metrics.get("subflows_recreated")}
    known = [f"{count:.0f} {what}" for what, count in counts.items() if count is not None]
    return f"; of the subflows hit, {' and '.join(known)}" if known else ""


def _lateness(record: Json) -> list[str]:
    """How far the emulated network was from the model, for runs in real time."""
    links = (record["result"] or {}).get("links", [])
    late = [link["late"] for link in links if link.get("late") and link["late"]["deliveries"]]
    if not late:
        return []
    mean_s = sum(one["mean_s"] * one["deliveries"] for one in late) / sum(one["deliveries"] for one in late)
    mean, most = quantity(mean_s, "s"), quantity(max(one["max_s"] for one in late), "s")
    return [f"Packets came {mean} later than the link model says in the mean, {most} at most."]


def busy(record: Json, resolved: Json) -> list[str]:
    """That the machine may have had a part in what was measured; and what the kernel let go by a fault of its own."""
    why = why_busy(record, resolved)
    told = [f"{why[0].upper()}{why[1:]}. What was measured may be the machine's."] if why else []
    hosts = (record["result"] or {}).get("hosts") or []
    dropped = sum((host.get("counters") or {}).get(BEYOND_WINDOW, 0) for host in hosts)
    if dropped:
        told.append(
            f"The kernel dropped {dropped} segments that TCP had acknowledged, as they lay beyond the connection's"
            " window: a fault of its own, which the simulator does not have. Each waits for a timer, so such runs"
            " carry less."
        )
    return told
