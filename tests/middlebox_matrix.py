"""The middlebox matrix: the outcome of a connection behind each kind of middlebox, and the allowed
outcomes.

``python tests/middlebox_matrix.py`` writes the page of its results. It needs root, because the
kernel is one host of some runs.
"""

from __future__ import annotations

import itertools
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mptcplab import Experiment, run

Json = dict[str, Any]
#: The stacks of the sender and the receiver.
Ends = Literal["ours - ours", "ours - kernel", "kernel - ours"]
Fallback = Literal["rfc", "strict"]
#: Correct data over MPTCP or TCP, wrong data, a reset connection, or none of these within the
#: deadline.
Outcome = Literal["MPTCP", "TCP", "wrong", "reset", "no end"]

PAGE = Path(__file__).parent.parent / "docs" / "results" / "middleboxes.md"
BYTES = 1_500_000
#: The place in the stream after which data are changed. All subflows exist then, and the window is
#: full.
AFTER = "400kB"
MOST_ATTEMPTS = 3

#: The middleboxes before the sender's first interface, by name.
MIDDLEBOXES: dict[str, list[Json]] = {
    "none": [],
    "sequence numbers rewritten": [{"rewrite_sequence": {}}],
    "NAT": [{"nat": {}}],
    "segments split, options on all pieces": [{"split": {"largest": 700}}],
    "segments split, options on the first": [{"split": {"largest": 700, "options": "first"}}],
    "packets duplicated": [{"duplicate": {"probability": 0.1}}],
    "MP_JOIN stripped": [{"strip_options": {"options": "mp_join"}}],
    "options stripped from the SYN": [{"strip_options": {"segments": "syn"}}],
    "options stripped from the SYN/ACK": [{"strip_options": {"segments": "syn_ack"}}],
    "options stripped from all but SYNs": [{"strip_options": {"segments": "non_syn"}}],
    "SYNs with options dropped": [{"drop_options": {"segments": "syn"}}],
    "packets with options dropped": [{"drop_options": {}}],
    "DSS stripped from the receiver's packets": [{"direction": "arriving", "strip_options": {"options": "dss"}}],
    "ADD_ADDR stripped": [{"strip_options": {"options": "add_addr"}}],
    "acknowledged early": [{"acknowledge_early": {}}],
    "options stripped after 400 kB": [{"strip_options": {"after": AFTER}}],
    "segments joined": [{"coalesce": {}}],
    "a byte changed": [{"change_bytes": {"after": AFTER}}],
    "bytes changed at random": [{"change_bytes": {"probability": 0.02}}],
    "3 bytes inserted": [{"insert_bytes": {"bytes": 3, "after": AFTER}}],
}
#: Neither TCP nor MPTCP notices these.
UNNOTICED = list(MIDDLEBOXES)[:7]
#: These leave no options from the start (RFC 8684, section 3.7).
FROM_THE_START = list(MIDDLEBOXES)[7:12]
#: These change delivered data where no checksum covers them.
CHANGING = list(MIDDLEBOXES)[17:]


@dataclass(frozen=True)
class Cell:
    """One run of the matrix."""

    middlebox: str
    ends: Ends
    checksum: bool
    subflows: int
    fallback: Fallback

    def __str__(self) -> str:
        checksum = "checksum" if self.checksum else "no checksum"
        return f"{self.middlebox}, {self.ends}, {checksum}, {self.subflows} subflows, {self.fallback}"

    @property
    def backend(self) -> str:
        """The back-end of the cell."""
        return "sim" if self.ends == "ours - ours" else "userspace"

    def experiment(self) -> Experiment:
        """A transfer over one or two links with the middlebox on the first link. Simulated time
        costs nothing.
        """
        is_simulated = self.backend == "sim"
        both = {"checksum": self.checksum, "syn_retries": 1}
        ours = both | {"fallback": self.fallback, "stack": "backend" if is_simulated else "userspace"}
        stacks = {"ours": ours, "kernel": both | {"stack": "kernel"}}
        client, server = self.ends.split(" - ")
        names = ["one", "two"][: self.subflows]
        link = {"rate": "20mbit", "delay": "5ms", "queue": "100p"}
        manager = "full_mesh" if client == "ours" else "kernel_endpoints"
        flow = {"from": "client", "to": "server", "app": {"bulk": {"bytes": BYTES}}, "path_manager": manager}
        return Experiment.model_validate(
            {
                "name": "middlebox",
                "vary": "none",
                "hosts": {"client": stacks[client], "server": stacks[server]},
                "links": {name: {"between": [f"client.{name}", f"server.{name}"], **link} for name in names},
                "middleboxes": [{"at": "client.one", **element} for element in MIDDLEBOXES[self.middlebox]],
                "flows": {"upload": flow},
                "duration": "3600s" if is_simulated else "15s",
            }
        )

    def outcome(self, out: Path) -> Outcome:
        """Runs the cell until the machine was not too busy, and returns its outcome."""
        for attempt in range(MOST_ATTEMPTS):
            (bundle,) = run(self.experiment(), on=self.backend, out=out / str(attempt))
            (flow,) = bundle.record["result"]["flows"]
            # The kernel joins when its worker is scheduled. If data are changed earlier, there is
            # one subflow.
            is_late = self.middlebox in CHANGING and len(flow["subflows"]) < self.subflows
            if bundle.status != "invalid" and not is_late:
                break
        if flow["error"]:
            return "wrong" if "other bytes" in flow["error"] else "reset"
        if flow["end_ns"] is None:
            return "no end"
        return "TCP" if flow["fallback"] else "MPTCP"

    def allowed(self) -> set[Outcome]:
        """Returns the outcomes that RFC 8684 allows, and where it leaves a choice, those that
        `strict` allows.
        """
        if fault := self.fault():
            return {"MPTCP", "TCP", "reset", fault.outcome}
        if self.middlebox in UNNOTICED:
            return {"MPTCP"}
        if self.middlebox in FROM_THE_START:
            return {"TCP"}
        if self.middlebox not in CHANGING:
            return {"MPTCP", "TCP", "reset"}
        if not self.checksum:
            return {"MPTCP", "wrong"}
        if self.subflows > 1:
            return {"MPTCP"}
        return {"MPTCP", "wrong"} if self.fallback == "rfc" else {"MPTCP", "reset"}

    def fault(self) -> Fault | None:
        """Returns the known fault of one of the stacks in this cell, if there is one."""
        return next((fault for fault in FAULTS if fault.concerns(self)), None)


@dataclass(frozen=True)
class Fault:
    """A fault of a stack."""

    middleboxes: Sequence[str]
    ends: Ends
    outcome: Outcome
    why: str
    with_two_subflows: bool = False
    #: Whether the fault occurs only if the other host is strict and uses checksums.
    beside_strict: bool = False

    def concerns(self, cell: Cell) -> bool:
        """Returns whether a cell shows the fault."""
        is_strict = cell.checksum and cell.fallback == "strict"
        return (
            cell.middlebox in self.middleboxes
            and cell.ends == self.ends
            and (cell.subflows == 1 or self.with_two_subflows)
            and (is_strict or not self.beside_strict)
        )


FAULTS = [
    Fault(
        ["options stripped after 400 kB"],
        "ours - kernel",
        "wrong",
        "The kernel delivers data that arrives without a mapping.",
    ),
    Fault(
        ["segments joined"],
        "ours - kernel",
        "wrong",
        "After the first segment that is longer than its mapping, the kernel continues as TCP without "
        "informing the peer. The engine then sends data again, because DATA_ACKs are missing, and the kernel "
        "delivers this data too.",
        with_two_subflows=True,
    ),
    Fault(
        ["a byte changed", "bytes changed at random", "3 bytes inserted"],
        "ours - kernel",
        "wrong",
        "The kernel continues as TCP, as the RFC allows. Before it informs the sender, which uses "
        "`fallback: strict`, it has already delivered data whose checksum failed.",
        beside_strict=True,
    ),
    Fault(
        ["options stripped after 400 kB"],
        "kernel - ours",
        "no end",
        "The engine resets the subflow. The kernel neither opens another one nor informs its application, so the "
        "engine gives up on the connection after a minute.",
    ),
    Fault(
        ["segments joined"],
        "kernel - ours",
        "no end",
        "In some runs, a mapping is lost entirely, because the segment that carries it is joined to the preceding "
        "segment, for example when the kernel fills the rest of a window with 80 bytes. The outcome is then "
        "the same as for options stripped after 400 kB.",
    ),
    Fault(
        ["a byte changed", "bytes changed at random", "3 bytes inserted"],
        "kernel - ours",
        "no end",
        "The outcome is the same as for options stripped after 400 kB, but the reset carries MP_FAIL.",
        beside_strict=True,
    ),
]


def cells(ends: Sequence[Ends]) -> list[Cell]:
    """Returns all combinations."""
    factors = [MIDDLEBOXES, ends, (False, True), (1, 2), ("rfc", "strict")]
    return [Cell(*values) for values in itertools.product(*factors)]


def one_of_each(ends: tuple[Ends, Ends]) -> list[Cell]:
    """Returns one run for each middlebox. Every pair of values of the other factors occurs in some
    run.
    """
    opposites = [(0, 0, 0, 0), (0, 0, 1, 1), (0, 1, 0, 1), (0, 1, 1, 0)]
    chosen = []
    for number, middlebox in enumerate(MIDDLEBOXES):
        which, checksum, subflows, strict = (bit ^ (number // 4 % 2) for bit in opposites[number % 4])
        fallback: Fallback = "strict" if strict else "rfc"
        chosen.append(Cell(middlebox, ends[which], bool(checksum), 1 + subflows, fallback))
    return chosen


def row(middlebox: str, outcomes: Mapping[Cell, Outcome]) -> str:
    """Returns the line of the table for a middlebox."""
    found = [f"**{outcome}**" if outcome == of_fault(cell) else outcome for cell, outcome in outcomes.items()]
    return f"| {middlebox} | {' | '.join(found)} |\n"


def of_fault(cell: Cell) -> Outcome | None:
    """Returns the outcome of a cell that a stack's fault causes, if there is such a fault."""
    fault = cell.fault()
    return fault.outcome if fault else None


def reason(fault: Fault) -> str:
    """Returns the item of the page that explains a fault."""
    text = f"- {', '.join(fault.middleboxes)}: {fault.why}"
    return textwrap.fill(text, 100, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False) + "\n"


_HEAD = """\
# Behind middleboxes

This page shows how a transfer of 1.5 MB ends, with the engine and with Linux 6.18, if a
[middlebox](../guide/middleboxes.md) is in front of the sender's first interface. The transfer uses
one or two links of 20 Mbit/s with a round-trip time of 10 ms. `python tests/middlebox_matrix.py`
writes this page. The tests compare each run with what RFC 8684 allows. The entries of the tables
have these meanings:

- *MPTCP*, *TCP*: all data arrived unchanged, over MPTCP or over TCP.
- *wrong*: the application received a byte that was not sent.
- *reset*: a reset ended the connection before all data had arrived.
- *no end*: none of these outcomes occurred within the deadline, which is an hour in the simulator
  and 15 s in real time.
- An entry in **bold**: one of the stacks is at fault, for the reasons below the table.

Each column is a combination of checksums (on or off), number of subflows and fallback policy;
*strict* means that the engine uses `fallback: strict`.

Without checksums, changed data is not detected. If a checksum fails and there is only one subflow,
the connection continues as TCP (RFC 8684, section 3.7), except with `fallback: strict`. The kernel
may also continue as TCP without informing the peer, for example after acknowledgments without DSS.
The engine then resets the subflow when data arrives without a mapping.
"""
_TITLES: dict[Ends, str] = {
    "ours - ours": "Engine at both ends, in the simulator",
    "ours - kernel": "Engine sends to Linux 6.18",
    "kernel - ours": "Linux 6.18 sends to the engine",
}


def page(directory: Path) -> str:
    """Runs all cells and returns the page of their results."""
    text = _HEAD
    for ends, title in _TITLES.items():
        text += f"\n## {title}\n\n"
        text += "| middlebox | no checksum, 1 subflow | strict | 2 subflows | strict | checksum, 1 subflow | strict | 2 subflows | strict |\n"
        text += "|---" * 9 + "|\n"
        of_ends = cells([ends])
        for middlebox in MIDDLEBOXES:
            own = [cell for cell in of_ends if cell.middlebox == middlebox]
            text += row(middlebox, {cell: cell.outcome(directory / str(cell)) for cell in own})
        reasons = [reason(fault) for fault in FAULTS if fault.ends == ends]
        text += "\n" + "".join(reasons) if reasons else ""
    return text


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        PAGE.write_text(page(Path(scratch)), encoding="utf-8")
