"""The worlds of a report card: experiments with a connection over two paths, and with its rivals.

All worlds have path A, 10 Mbit/s with 20 ms, and path B of the same rate, whose round-trip time,
loss and rivals a cell sets. TCP with `reno` in place of the connection is the reference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mptcplab.experiment import Experiment

RATE = "10mbit"
RTT_MS = 20
#: Of the rate of a path.
UDP_RATE = "5mbit"
DURATION = "30s"

Json = dict[str, Any]
Path = Literal["a", "b"]
PATHS: tuple[Path, ...] = ("a", "b")

#: Rivals by name: the fields of their flow.
RIVALS: Mapping[str, Json] = {
    "none": {},
    "1 TCP": {"transport": "tcp", "cc": "reno"},
    "4 TCP": {"transport": "tcp", "cc": "reno", "parallel": 4},
    "UDP": {"transport": "udp", "app": {"cbr": {"rate": UDP_RATE, "size": 1200}}},
}
SUBFLOWS = (1, 2, 4)
RTT_RATIOS = (1, 5, 20)
LOSSES = ("0%", "0.1%", "1%")


@dataclass(frozen=True)
class Cell:
    """A condition: the number of subflows on each path; of path B, how many times the round-trip
    time of path A it has, and its loss; and the rivals.
    """

    subflows: int
    rtt_ratio: int
    loss: str
    rivals: str

    @property
    def words(self) -> str:
        """The condition in words."""
        subflows = "1 subflow" if self.subflows == 1 else f"{self.subflows} subflows"
        return f"{subflows} on each path, RTT x{self.rtt_ratio}, loss {self.loss}, rivals {self.rivals}"

    @property
    def short(self) -> str:
        """The condition for narrow columns."""
        return f"{self.subflows}, x{self.rtt_ratio}, {self.loss}, {self.rivals}"


@dataclass(frozen=True)
class Connection:
    """What is between client and server: `control` over both paths, or TCP over one of them."""

    control: str | None
    paths: Sequence[Path]

    @property
    def flow(self) -> Json:
        """The fields of its flow."""
        ends: Json = {"from": "client", "to": "server"}
        if self.control is None:
            return {**ends, "transport": "tcp", "cc": "reno"}
        scheduler = ["min_rtt", "kernel_default"]
        return {**ends, "cc": self.control, "path_manager": "full_mesh", "scheduler": scheduler}

    def interfaces(self, path: Path, cell: Cell) -> list[str]:
        """The client's interfaces on a path, which are also the names of their links."""
        return [f"{path}{n + 1}" for n in range(1 if self.control is None else cell.subflows)]


def disjoint(cell: Cell, connection: Connection, busy: Sequence[Path] = PATHS) -> Experiment:
    """Two paths without a common link. The rivals are on the paths `busy`, each with its own."""
    hosts: Json = {"client": {}, "server": {}}
    flows, links, nodes = {"tested": connection.flow}, {}, {}
    name = "report-card/disjoint"
    for path in connection.paths:
        ratio, loss = (cell.rtt_ratio, cell.loss) if path == "b" else (1, "0%")
        rivals = cell.rivals if path in busy else "none"
        router, rival = f"router_{path}", f"rival_{path}"
        nodes[router] = {"kind": "router"}
        for one in connection.interfaces(path, cell):
            links[one] = _access(f"client.{one}", router, rtt_ms=1)
        ends = [router, f"server.{path}"]
        links[f"path_{path}"] = {"between": ends, **_bottleneck(RTT_MS * ratio), "loss": loss}
        if rivals != "none":
            hosts[rival] = {}
            links[rival] = _access(f"{rival}.eth0", router, rtt_ms=1)
            flows[rival] = {"from": rival, "to": "server", **RIVALS[rivals]}
        name += f"/{path}-x{ratio}-{loss}-{rivals}"
    return _experiment(name, cell, connection, hosts=hosts, nodes=nodes, links=links, flows=flows)


def one_busy(cell: Cell, connection: Connection) -> Experiment:
    """Two paths without a common link, and the rivals on path B."""
    return disjoint(cell, connection, busy=("b",))


def shared(cell: Cell, connection: Connection) -> Experiment:
    """Both paths have one bottleneck, which they share with the rivals."""
    links: Json = {"shared": {"between": ["router", "server.eth0"], **_bottleneck(RTT_MS // 2)}}
    for path in connection.paths:
        ratio, loss = (cell.rtt_ratio, cell.loss) if path == "b" else (1, "0%")
        for one in connection.interfaces(path, cell):
            links[one] = {**_access(f"client.{one}", "router", rtt_ms=RTT_MS * ratio - RTT_MS // 2), "loss": loss}
    links["rival"] = _access("rival.eth0", "router", rtt_ms=RTT_MS - RTT_MS // 2)
    flows = {"tested": connection.flow, "rival": {"from": "rival", "to": "server", **RIVALS[cell.rivals]}}
    name = f"report-card/shared/x{cell.rtt_ratio}-{cell.loss}-{cell.rivals}"
    if connection.control is None:
        name = f"report-card/shared/{cell.rivals}"
    hosts: Json = {"client": {}, "server": {}, "rival": {}}
    nodes = {"router": {"kind": "router"}}
    return _experiment(name, cell, connection, hosts=hosts, nodes=nodes, links=links, flows=flows)


def _access(interface: str, router: str, *, rtt_ms: int) -> Json:
    return {"between": [interface, router], "rate": "100mbit", "rtt": f"{rtt_ms}ms"}


def _bottleneck(rtt_ms: int) -> Json:
    """A link that queues what one round-trip time of path A, or of its own if longer, carries."""
    return {"rate": RATE, "rtt": f"{rtt_ms}ms", "queue": "1bdp" if rtt_ms >= RTT_MS else "2bdp"}


def _experiment(name: str, cell: Cell, connection: Connection, **parts: Json) -> Experiment:
    """Returns the experiment. Equal references have equal names, because they run only once."""
    tested = "tcp" if connection.control is None else f"{cell.subflows}-on-each-path"
    title = f"Report card: {cell.words}" if connection.control else "Report card: TCP for reference"
    name = f"{name}/{tested}".replace("%", "pc").replace(" ", "-")
    described = {"name": name, "title": title, "duration": DURATION, "measure": {"every": "500ms"}, **parts}
    return Experiment.model_validate(described)
