"""The middlebox matrix: what is left of a connection behind each kind of middlebox, and what may be left of it.

python tests/middlebox_matrix.py writes the page of its results; as root, for it runs with the kernel at one end too.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mptcplab import Experiment, run

Json = dict[str, Any]
#: Whose stacks sender and receiver have.
Ends = Literal["ours - ours", "ours - kernel", "kernel - ours"]
Fallback = Literal["rfc", "strict"]
#: Data that are right, over what; data that are not; a connection that was reset; none of these within the deadline.
Outcome = Literal["MPTCP", "TCP", "wrong", "reset", "no end"]

PAGE = Path(__file__).parent.parent / "docs" / "results" / "middleboxes.md"
BYTES = 1_500_000
#: From there on data are harmed in mid-stream: all subflows are there, and the window is full.
AFTER = "400kB"
MOST_ATTEMPTS = 3

#: By name, the middleboxes before the sender's first interface.
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
#: TCP notices nothing of these, and neither does MPTCP.
UNNOTICED = list(MIDDLEBOXES)[:7]
#: These leave no options from the start (RFC 8684, section 3.7).
FROM_THE_START = list(MIDDLEBOXES)[7:12]
#: These change what is delivered where nobody sums it.
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
        """Where it runs."""
        return "sim" if self.ends == "ours - ours" else "userspace"

    def experiment(self) -> Experiment:
        """A transfer over one or two links; the middlebox is on the first. Simulated time costs nothing."""
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
        """What came of it, on a machine that was not too busy."""
        for attempt in range(MOST_ATTEMPTS):
            (bundle,) = run(self.experiment(), on=self.backend, out=out / str(attempt))
            (flow,) = bundle.record["result"]["flows"]
            # The kernel joins when its worker has its turn; where data are harmed before, there is one subflow.
            is_late = self.middlebox in CHANGING and len(flow["subflows"]) < self.subflows
            if bundle.status != "invalid" and not is_late:
                break
        if flow["error"]:
            return "wrong" if "other bytes" in flow["error"] else "reset"
        if flow["end_ns"] is None:
            return "no end"
        return "TCP" if flow["fallback"] else "MPTCP"

    def allowed(self) -> set[Outcome]:
        """What may come of it by RFC 8684, and by `strict` where that leaves a choice."""
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
        """What one of the stacks does wrong there, if it does."""
        return next((fault for fault in FAULTS if fault.concerns(self)), None)


@dataclass(frozen=True)
class Fault:
    """What a stack does wrong."""

    middleboxes: Sequence[str]
    ends: Ends
    outcome: Outcome
    why: str
    with_two_subflows: bool = False
    #: Only where the other end is strict, and has a checksum to be strict with.
    beside_strict: bool = False

    def concerns(self, cell: Cell) -> bool:
        """Whether a cell shows it."""
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
        "The kernel delivers what comes without a mapping.",
    ),
    Fault(
        ["segments joined"],
        "ours - kernel",
        "wrong",
        "After the first segment that is longer than its mapping the kernel goes on as TCP, tells nobody, and delivers "
        "what is sent again for want of DATA_ACKs.",
        with_two_subflows=True,
    ),
    Fault(
        ["a byte changed", "bytes changed at random", "3 bytes inserted"],
        "ours - kernel",
        "wrong",
        "The kernel goes on as TCP, as the RFC allows, and delivers what its checksum has found wrong, before the "
        "sender, which is strict, hears of it.",
        beside_strict=True,
    ),
    Fault(
        ["options stripped after 400 kB"],
        "kernel - ours",
        "no end",
        "Ours resets the subflow; the kernel neither opens another one nor tells its application. After a minute ours "
        "gives the connection up.",
    ),
    Fault(
        ["segments joined"],
        "kernel - ours",
        "no end",
        "Now and then a whole mapping loses its options to the segment before it, as when the kernel fills up a window with "
        "80 bytes. What follows is the same.",
    ),
    Fault(
        ["a byte changed", "bytes changed at random", "3 bytes inserted"],
        "kernel - ours",
        "no end",
        "The same, with MP_FAIL in the reset.",
        beside_strict=True,
    ),
]


def cells(ends: Sequence[Ends]) -> list[Cell]:
    """All combinations."""
    factors = [MIDDLEBOXES, ends, (False, True), (1, 2), ("rfc", "strict")]
    return [Cell(*values) for values in itertools.product(*factors)]


def one_of_each(ends: tuple[Ends, Ends]) -> list[Cell]:
    """A run for each middlebox; of the other factors every two values meet somewhere."""
    opposites = [(0, 0, 0, 0), (0, 0, 1, 1), (0, 1, 0, 1), (0, 1, 1, 0)]
    chosen = []
    for number, middlebox in enumerate(MIDDLEBOXES):
        which, checksum, subflows, strict = (bit ^ (number // 4 % 2) for bit in opposites[number % 4])
        fallback: Fallback = "strict" if strict else "rfc"
        chosen.append(Cell(middlebox, ends[which], bool(checksum), 1 + subflows, fallback))
    return chosen


def row(middlebox: str, outcomes: Mapping[Cell, Outcome]) -> str:
    """The line of the table for a middlebox."""
    found = [f"**{outcome}**" if outcome == of_fault(cell) else outcome for cell, outcome in outcomes.items()]
    return f"| {middlebox} | {' | '.join(found)} |\n"


def of_fault(cell: Cell) -> Outcome | None:
    """What comes of a cell by a stack's fault, if one is at fault there."""
    fault = cell.fault()
    return fault.outcome if fault else None


_HEAD = """\
# Behind middleboxes

What is left of a transfer of 1.5 MB with a [middlebox](../middleboxes.md) before the sender's first interface, over one link or two of 20 Mbit/s and 10 ms
there and back. Written by `python tests/middlebox_matrix.py`; the tests hold each run against what RFC 8684 lets through.

- *MPTCP*, *TCP*: the data are right, over what; *wrong*: a byte arrived that was not sent; *reset*: a reset ended it before the data were there.
- *no end*: none of these within the deadline, an hour in the simulator and 15 s in real time.
- Without checksums nobody notices changed data; with them and one subflow, RFC 8684, section 3.7 goes on as TCP, and `fallback: strict` does not.
- **Bold** is where a stack is at fault; the reasons are below each table. Where the kernel goes on as TCP without telling, as after acknowledgments
  without DSS, ours resets what comes without a mapping.
"""
_TITLES: dict[Ends, str] = {
    "ours - ours": "Our stack at both ends, in the simulator",
    "ours - kernel": "Ours sends to Linux 6.18",
    "kernel - ours": "Linux 6.18 sends to ours",
}


def page(directory: Path) -> str:
    """The page of all results, measured now."""
    text = _HEAD
    for ends, title in _TITLES.items():
        text += f"\n## {title}\n\n"
        text += "| | no checksum, 1 subflow | strict | 2 subflows | strict | checksum, 1 subflow | strict | 2 subflows | strict |\n"
        text += "|---" * 9 + "|\n"
        of_ends = cells([ends])
        for middlebox in MIDDLEBOXES:
            own = [cell for cell in of_ends if cell.middlebox == middlebox]
            text += row(middlebox, {cell: cell.outcome(directory / str(cell)) for cell in own})
        reasons = [f"- {', '.join(fault.middleboxes)}: {fault.why}\n" for fault in FAULTS if fault.ends == ends]
        text += "\n" + "".join(reasons) if reasons else ""
    return text


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        PAGE.write_text(page(Path(scratch)), encoding="utf-8")
