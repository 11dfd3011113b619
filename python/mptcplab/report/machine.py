"""The environment of a run, for people."""

from __future__ import annotations

from collections.abc import Iterable

from mptcplab.report.quantities import quantity
from mptcplab.results.entities import Json


def machine_rows(record: Json) -> list[list[str]]:
    """Returns the versions, kernel and machine of a record, each with its name."""
    machine, versions = record["machine"], record["versions"]
    memory = quantity(machine["memory_bytes"], "B") if machine["memory_bytes"] else None
    elsewhere = [["reached by", machine["on"]]] if "on" in machine else []
    if machine.get("emulated"):
        elsewhere.append(["processor", f"emulated ({machine['accelerator']}), so it is slow"])
    return [
        *elsewhere,
        ["mptcplab", " ".join(_given(versions["mptcplab"], versions["commit"]))],
        ["Python", versions["python"]],
        ["kernel", record["kernel"]],
        ["machine", ", ".join(_given(machine["cpu"], machine["architecture"], f"{machine['cpus']} CPUs", memory))],
    ]


def _given(*values: str | None) -> Iterable[str]:
    return (value for value in values if value)
