"""How far the clocks of the machines of a run differ, and what that means for times that compare
two of them.
"""

from __future__ import annotations

from mptcplab.results.run_data import Absent, RunData, Value

#: The metrics of flows that compare a time at one host of the flow with a time at the other.
OF_BOTH_HOSTS = frozenset(
    ("delay_p50_s", "delay_p95_s", "delay_p99_s", "fct_s", "fct_no_handshake_s", "stream_startup_s")
)
#: The metrics of events that compare a time at a host with the time of the event.
SINCE_EVENTS = frozenset(("outage_measured_s", "recovery_s", "full_rate_s"))
#: A value is uncertain if the clocks differ by more than this share of it, and by more than this
#: time.
SHARE, SMALLEST_S = 0.1, 0.001


def between_hosts_s(run: RunData, flow: str) -> float:
    """Returns the largest difference of the clocks of the two hosts of a flow; 0 if they have one
    clock.
    """
    described = run.flows[flow]
    machines = {_machine(run, described[end]) for end in ("from", "to")}
    return sum(_from_the_runs_s(run, machine) for machine in machines) if len(machines) > 1 else 0.0


def of_hosts_s(run: RunData, flow: str) -> float:
    """Returns the largest difference of the clock of a host of a flow from that of the run."""
    described = run.flows[flow]
    return max(_from_the_runs_s(run, _machine(run, described[end])) for end in ("from", "to"))


def certain(value: Value, bound_s: float) -> Value:
    """Returns a time, or why it is uncertain if the clocks that it compares differ by `bound_s`."""
    if isinstance(value, Absent) or bound_s <= max(SHARE * abs(value), SMALLEST_S):
        return value
    return Absent(f"it compares clocks of two machines, which may differ by {bound_s * 1e3:.3g} ms")


def _machine(run: RunData, host: str) -> str | None:
    hosts = {one["id"]: one for one in run.resolved["hosts"]}
    # Absent in experiments of earlier versions, and for hosts that left no record.
    machine = hosts.get(host, {}).get("machine")
    return None if machine is None else str(machine["id"])


def _from_the_runs_s(run: RunData, machine: str | None) -> float:
    """Returns the largest difference of a machine's clock from that of the machine that ran the
    experiment. In the simulator, all hosts have one clock.
    """
    bounds = {one["id"]: one["clock"]["bound_s"] for one in run.result.get("machines", [])}
    return float(bounds.get(machine, 0.0))
