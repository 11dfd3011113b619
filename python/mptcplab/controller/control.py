"""The controller without input and output: takes what switches and the program say, and answers
through an outlet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mptcplab import recovery
from mptcplab.controller.first_packets import FirstPackets
from mptcplab.controller.installation import Installation
from mptcplab.controller.link_states import LinkStates
from mptcplab.controller.messages import Counters, Outlet, ReadTable
from mptcplab.controller.network import Experiment, Network
from mptcplab.controller.sampling import Sampling
from mptcplab.controller.search import Search
from mptcplab.controller.state import State
from mptcplab.controller.statistics import Exchanged
from mptcplab.controller.streams import PathKey, Way
from mptcplab.controller.tables import LLDP, Table
from mptcplab.controller.updates import difference
from mptcplab.errors import MptcplabError

#: Attempts to give a switch its table before a difference is a problem.
MOST_ATTEMPTS = 3


class Control:
    """Keeps the tables of all switches. Each method handles one thing that happened, in the order
    of their calls.
    """

    def __init__(self, experiment: Experiment, outlet: Outlet) -> None:
        self._outlet = outlet
        self._network = Network(experiment)
        first = experiment["control"]["recovery"]
        self._detects_by_port = first["detect_ns"] is None
        self._state = State(self._network, recovery.strategy_of(experiment, first["strategy"]))
        self._links = LinkStates(self._network)
        self._installation = Installation(outlet)
        self._exchanged = {switch: Exchanged() for switch in self._network.switches}
        self._first_packets = FirstPackets(self._state, self._installation, outlet, self._exchanged)
        self._sampling = Sampling(self._state, self._installation, outlet, self._exchanged)
        self._search = Search(self._network, outlet) if self._state.roles.discovers else None
        self._found: dict[str, Table] = {}
        self._has_begun = self._is_ready = False
        #: Attempts at the switches whose tables were not yet found as computed.
        self._unconfirmed = dict.fromkeys(self._network.switches, 0)

    # ---- connections of switches ----

    def on_connected(self, switch: str, is_up: Mapping[int, bool]) -> None:
        """Handles a switch that connects, with the state of its ports."""
        self._installation.connected.add(switch)
        for link, up in self._links.set_all(switch, is_up):
            if self._has_begun:
                self._on_link(link, is_up=up, seen_ns=self._outlet.now_ns())
        self._outlet.send(switch, [ReadTable()])

    def on_lost(self, switch: str) -> None:
        """Handles the loss of the connection to a switch. Its entries stay, and so does the
        traffic.
        """
        if switch in self._installation.connected:
            self._installation.on_lost(switch)
            self._sampling.on_lost(switch)
            self._problem(f"switch {switch}: the connection is lost; its entries stay")

    def on_table(self, switch: str, found: Table) -> None:
        """Handles what a switch holds: at first, after it has returned, and when it is checked."""
        self._found[switch] = found
        if not self._has_begun:
            if len(self._found) == len(self._network.switches):
                self._begin()
        elif switch in self._unconfirmed:
            self._confirm(switch, found)
        else:
            self._complete(switch, found)

    def _begin(self) -> None:
        self._has_begun = True
        down = self._links.down if self._detects_by_port else set()
        self._state.adopt(self._found, self._state.ways.of_graph(down))
        for switch in self._network.switches:
            self._complete(switch, self._found[switch])

    def _complete(self, switch: str, found: Table) -> None:
        """Gives a switch what it lacks, and then reads its table again."""
        self._unconfirmed.setdefault(switch, 0)
        changes = difference(switch, found, self._state.tables[switch])
        self._installation.ask(switch, changes, lambda: self._outlet.send(switch, [ReadTable()]))

    def _confirm(self, switch: str, found: Table) -> None:
        """Compares what a switch holds with what it was given. Changes under way meanwhile need
        another attempt.
        """
        wrong = difference(switch, found, self._state.tables[switch])
        if wrong and self._unconfirmed[switch] < MOST_ATTEMPTS:
            self._unconfirmed[switch] += 1
            self._complete(switch, found)
        elif wrong:
            counts = f"{len(found.entries)} entries, expected {len(self._state.tables[switch].entries)}"
            self._problem(f"switch {switch}: after {MOST_ATTEMPTS} attempts found {counts}; {len(wrong)} differ")
        else:
            self._unconfirmed.pop(switch)
            if not self._unconfirmed and not self._is_ready:
                self._on_confirmed()

    def _on_confirmed(self) -> None:
        if self._search is not None and not self._search.is_over:
            self._search.begin()
            return
        self._is_ready = True
        entries = sum(len(table.entries) for table in self._state.tables.values())
        self._outlet.say({"said": "ready", "switches": len(self._network.switches), "entries": entries})

    def on_barrier(self, switch: str, number: int) -> None:
        """Handles the answer to a barrier."""
        self._installation.on_barrier(switch, number)

    def on_refused(self, switch: str, why: str) -> None:
        """Handles an error that a switch reports."""
        self._problem(f"switch {switch}: refused a message: {why}")

    # ---- links ----

    def on_port(self, switch: str, number: int, *, is_up: bool) -> None:
        """Handles the state of a port."""
        seen_ns = self._outlet.now_ns()
        changed = self._links.set(switch, number, is_up)
        if changed is not None and self._has_begun:
            self._on_link(changed[0], is_up=changed[1], seen_ns=seen_ns)

    def _on_link(self, link: str, *, is_up: bool, seen_ns: int) -> None:
        if self._detects_by_port:
            self._react(link, is_up=is_up, seen_ns=seen_ns, by_switch=True)

    def _react(self, link: str, *, is_up: bool, seen_ns: int, by_switch: bool) -> None:
        """Lets the strategy react to a link. `by_switch`: the switches have seen it too, so their
        own detours work.
        """
        ways = self._state.ways
        if not ways.of_graph({link}) or is_up != (link in ways.down):
            return
        protected = self._state.protected(link) if by_switch else set()
        changed: Mapping[PathKey, Way] = {}
        try:
            changed = ways.repair(link) if is_up else ways.fail(link, protected)
        except MptcplabError as error:
            self._problem(str(error))
        reacting = {key[0] for key in {*changed, *protected}}
        said = {"said": "reaction", "cause": link, "state": "up" if is_up else "down", "detected_ns": seen_ns}
        self._install(changed, {**said, "flows": sorted(reacting)}, seen_ns)

    def _install(self, changed: Mapping[PathKey, Way], said: Mapping[str, Any], unchanged_ns: int) -> None:
        """Installs new ways, and says when the last switch had them."""
        if not changed:
            self._outlet.say({**said, "installed_ns": unchanged_ns})
            return
        rounds = self._state.renew()
        self._installation.in_turn(rounds, lambda: self._outlet.say({**said, "installed_ns": self._outlet.now_ns()}))

    # ---- orders ----

    def on_order(self, order: Mapping[str, Any]) -> None:
        """Handles an order of the program that started the controller."""
        seen_ns = self._outlet.now_ns()
        try:
            match order["do"]:
                case "reroute":
                    self._reroute(order, seen_ns)
                case "set_recovery":
                    self._set_recovery(order, seen_ns)
                case "failed" | "repaired" as what:
                    link = self._network.links[order["link"]]["id"]
                    self._react(link, is_up=what == "repaired", seen_ns=seen_ns, by_switch=False)
                case other:
                    self._problem(f"order {other!r} is unknown; allowed: reroute, set_recovery, failed, repaired")
        except KeyError as missing:
            self._problem(f"order {order}: {missing} is missing or unknown")
        except TypeError:
            self._problem(f"order {order}: a value has the wrong type")
        except MptcplabError as error:
            self._problem(str(error))

    def _reroute(self, order: Mapping[str, Any], seen_ns: int) -> None:
        key = (order["flow"], order["path"])
        self._state.ways.reroute(key, order["there"], order["back"])
        self._state.prepare_anew()
        said = {"said": "reaction", "cause": order["id"], "state": "rerouted", "detected_ns": seen_ns}
        self._install({key: self._state.ways.now[key]}, {**said, "flows": [key[0]]}, seen_ns)

    def _set_recovery(self, order: Mapping[str, Any], seen_ns: int) -> None:
        """Lets another strategy recover the network from now on."""
        said = {"said": "reaction", "cause": order["id"], "state": "rerouted", "detected_ns": seen_ns}
        before = self._state.ways.now
        self._state.change_strategy(recovery.strategy_of(self._network.experiment, order["strategy"]))
        changed = {key: way for key, way in self._state.ways.now.items() if way != before[key]}
        flows = sorted({flow for flow, _ in changed})
        # Entries may change although ways do not: those of detours.
        self._install(self._state.ways.now, {**said, "flows": flows}, seen_ns)

    # ---- packets and time ----

    def on_packet(self, switch: str, in_port: int, frame: bytes, *, is_miss: bool) -> None:
        """Handles a frame that a switch hands over. `is_miss`: no entry of a
        flow was there for it.
        """
        self._exchanged[switch].packet_ins += 1
        if int.from_bytes(frame[12:14], "big") != LLDP:
            self._first_packets.on_frame(switch, in_port, frame, is_miss=is_miss)
        elif self._search is not None:
            self._search.on_frame(switch, in_port, frame)
            self._end_search()

    def on_time(self) -> None:
        """Handles that time has passed. Raises RunFailed if discovery does not find the described
        links in time.
        """
        if self._search is not None:
            self._search.on_time()
            self._end_search()

    def _end_search(self) -> None:
        """Removes the entries for discovery once it is over."""
        if self._search is not None and self._search.is_over:
            self._search = None
            self._installation.in_turn(self._state.stop_discovery(), self._on_confirmed)

    def on_statistics_due(self) -> None:
        """Asks all switches for their counters."""
        if self._is_ready:
            self._sampling.begin()

    def on_counters(self, switch: str, counters: Counters) -> None:
        """Handles the counters of a switch."""
        self._sampling.on_counters(switch, counters)

    def _problem(self, text: str) -> None:
        self._outlet.say({"said": "problem", "text": text})
