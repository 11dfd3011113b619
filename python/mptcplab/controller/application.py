"""The part of the controller that knows os-ken: hands what switches say to `Control`, and its
messages to switches.

Everything runs in the thread of this application, in the order in which it arrived.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

# os-ken cannot import its controller before its base.
from os_ken.base import app_manager
from os_ken.controller import event, ofp_event
from os_ken.controller.handler import DEAD_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
from os_ken.ofproto import ofproto_v1_3

from mptcplab.controller import openflow
from mptcplab.controller.control import Control
from mptcplab.controller.messages import Counters, Message, ReadCounters, ReadTable
from mptcplab.controller.network import Experiment, Network
from mptcplab.errors import MptcplabError

#: Interval at which the controller looks at the time.
TURN_S = 0.05

GROUPS, TABLES, PORTS = "groups", "tables", "ports"


class Posted(event.EventBase):  # type: ignore[misc]
    """Something that another thread wants done in the thread of the application."""

    def __init__(self, call: Callable[[], None]) -> None:
        super().__init__()
        self.call = call


Handler = Callable[["Application", Any], None]


def on(happened: type, *states: str) -> Callable[[Handler], Handler]:
    """Registers a method for an event, of switches in some states."""

    def register(handler: Handler) -> Handler:
        registered: Handler = set_ev_cls(happened, list(states) or None)(_or_end(handler))
        return registered

    return register


def _or_end(handler: Handler) -> Handler:
    """Ends the process if a handler fails, because os-ken would go on with
    half of the work done.
    """

    @wraps(handler)
    def handle(application: Application, happened: Any) -> None:
        try:
            handler(application, happened)
        except MptcplabError as error:
            application.say({"said": "problem", "text": str(error)})
            os._exit(error.exit_status)
        except Exception:
            traceback.print_exc()
            os._exit(1)

    return handle


class Application(app_manager.OSKenApp):  # type: ignore[misc]
    """An application of os-ken, and the outlet of `Control`."""

    OFP_VERSIONS = (ofproto_v1_3.OFP_VERSION,)

    def __init__(self, experiment: Experiment) -> None:
        super().__init__()
        self._names = Network(experiment).switch_by_number
        self._datapaths: dict[str, Any] = {}
        #: Replies in several parts, by switch and kind, and what each switch was asked for.
        self._parts: dict[tuple[str, str], list[Any]] = {}
        self._asked: dict[str, list[type[Message]]] = {}
        self._control = Control(experiment, self)
        self._statistics_s = experiment["control"]["statistics_ns"] / 1e9

    def start(self) -> None:
        """Starts the threads that read orders and look at the time."""
        super().start()
        for target in (self._read_orders, self._watch_time):
            threading.Thread(target=target, daemon=True).start()

    # ---- outlet ----

    def send(self, switch: str, messages: Sequence[Message]) -> None:
        """Sends messages to a switch in one piece."""
        datapath = self._datapaths.get(switch)
        if datapath is None:
            return
        for message in messages:
            if isinstance(message, ReadTable | ReadCounters):
                self._asked.setdefault(switch, []).append(type(message))
        datapath.send(openflow.serialized(datapath, messages))

    def say(self, said: Mapping[str, Any]) -> None:
        """Writes a line."""
        try:
            print(json.dumps(said), flush=True)
        except OSError:
            os._exit(0)

    def now_ns(self) -> int:
        """Returns the time of the monotonic clock."""
        return time.monotonic_ns()

    # ---- other threads ----

    def post(self, call: Callable[[], None]) -> None:
        """Lets the thread of the application do something."""
        self.send_event(self.name, Posted(call))

    def _read_orders(self) -> None:
        """Reads orders. The process ends with its input, because os-ken has no other end."""
        for line in sys.stdin:
            self.post(lambda line=line: self._on_order(line))  # type: ignore[misc]
        os._exit(0)

    def _on_order(self, line: str) -> None:
        try:
            order = json.loads(line)
        except ValueError as error:
            self.say({"said": "problem", "text": f"an order is no JSON: {error}: {line.strip()[:80]!r}"})
            return
        self._control.on_order(order)

    def _watch_time(self) -> None:
        due_s = time.monotonic() + self._statistics_s
        while True:
            time.sleep(min(TURN_S, self._statistics_s))
            self.post(self._control.on_time)
            if time.monotonic() >= due_s:
                due_s += self._statistics_s
                self.post(self._control.on_statistics_due)

    @on(Posted)
    def _on_posted(self, ev: Posted) -> None:
        ev.call()

    # ---- switches ----

    @on(ofp_event.EventOFPStateChange, MAIN_DISPATCHER, DEAD_DISPATCHER)
    def _on_state(self, ev: Any) -> None:
        datapath = ev.datapath
        name = self._names.get(datapath.id)
        if ev.state == DEAD_DISPATCHER:
            if name is not None and self._datapaths.get(name) is datapath:
                del self._datapaths[name]
                self._control.on_lost(name)
        elif name is None:
            self.say({"said": "problem", "text": f"switch {datapath.id}: has no place in the experiment"})
        else:
            self._datapaths[name] = datapath
            self._asked.pop(name, None)
            self._parts = {key: rows for key, rows in self._parts.items() if key[0] != name}
            datapath.send_msg(datapath.ofproto_parser.OFPPortDescStatsRequest(datapath, 0))

    @on(ofp_event.EventOFPPortDescStatsReply, MAIN_DISPATCHER)
    def _on_ports(self, ev: Any) -> None:
        found = self._gathered(ev.msg, "described")
        if found is not None:
            name, ports = found
            self._control.on_connected(name, {port.port_no: _is_up(ev.msg.datapath, port) for port in ports})

    @on(ofp_event.EventOFPPortStatus, MAIN_DISPATCHER)
    def _on_port(self, ev: Any) -> None:
        name = self._name(ev.msg.datapath)
        if name is not None:
            is_gone = ev.msg.reason == ev.msg.datapath.ofproto.OFPPR_DELETE
            is_up = not is_gone and _is_up(ev.msg.datapath, ev.msg.desc)
            self._control.on_port(name, ev.msg.desc.port_no, is_up=is_up)

    @on(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def _on_packet(self, ev: Any) -> None:
        name = self._name(ev.msg.datapath)
        if name is not None:
            is_miss = ev.msg.reason == ev.msg.datapath.ofproto.OFPR_NO_MATCH
            self._control.on_packet(name, ev.msg.match["in_port"], bytes(ev.msg.data), is_miss=is_miss)

    @on(ofp_event.EventOFPBarrierReply, MAIN_DISPATCHER)
    def _on_barrier(self, ev: Any) -> None:
        name = self._name(ev.msg.datapath)
        if name is not None:
            self._control.on_barrier(name, ev.msg.xid)

    @on(ofp_event.EventOFPErrorMsg, MAIN_DISPATCHER)
    def _on_error(self, ev: Any) -> None:
        name = self._name(ev.msg.datapath)
        if name is not None:
            self._control.on_refused(name, f"OpenFlow error of type {ev.msg.type}, code {ev.msg.code}")

    # ---- statistics ----

    @on(ofp_event.EventOFPGroupDescStatsReply, MAIN_DISPATCHER)
    def _on_groups(self, ev: Any) -> None:
        self._keep(ev.msg, GROUPS)

    @on(ofp_event.EventOFPTableStatsReply, MAIN_DISPATCHER)
    def _on_tables(self, ev: Any) -> None:
        self._keep(ev.msg, TABLES)

    @on(ofp_event.EventOFPPortStatsReply, MAIN_DISPATCHER)
    def _on_port_counters(self, ev: Any) -> None:
        self._keep(ev.msg, PORTS)

    @on(ofp_event.EventOFPFlowStatsReply, MAIN_DISPATCHER)
    def _on_flows(self, ev: Any) -> None:
        """Handles the last of the replies that a switch was asked for: they come in the order of
        the requests.
        """
        found = self._gathered(ev.msg, "flows")
        if found is None:
            return
        name, rows = found
        if self._asked[name].pop(0) is ReadTable:
            self._control.on_table(name, openflow.read_table(rows, self._parts.pop((name, GROUPS), [])))
        else:
            counters = self._counters(name)
            counters.flows = openflow.read_flows(rows)
            counters.entries = len(counters.flows)
            self._control.on_counters(name, counters)

    @on(ofp_event.EventOFPAggregateStatsReply, MAIN_DISPATCHER)
    def _on_number_of_flows(self, ev: Any) -> None:
        """Handles the last of the replies to a request for counters without those of entries."""
        name = self._name(ev.msg.datapath)
        if name is not None:
            self._asked[name].pop(0)
            counters = self._counters(name)
            counters.entries = ev.msg.body.flow_count
            self._control.on_counters(name, counters)

    def _counters(self, name: str) -> Counters:
        tables, ports = (self._parts.pop((name, kind), []) for kind in (TABLES, PORTS))
        return openflow.read_counters(tables, ports)

    def _keep(self, message: Any, kind: str) -> None:
        """Keeps a reply until the one that completes it."""
        found = self._gathered(message, kind)
        if found is not None:
            self._parts[found[0], kind] = found[1]

    def _gathered(self, message: Any, kind: str) -> tuple[str, list[Any]] | None:
        """Returns the switch and the rows of a reply once its last part is here."""
        name = self._name(message.datapath)
        if name is None:
            return None
        rows = self._parts.setdefault((name, f"part of {kind}"), [])
        rows += message.body
        if message.flags & message.datapath.ofproto.OFPMPF_REPLY_MORE:
            return None
        return name, self._parts.pop((name, f"part of {kind}"))

    def _name(self, datapath: Any) -> str | None:
        """Returns the name of a switch; None if another connection has replaced this one."""
        name = self._names.get(datapath.id)
        return name if name is not None and self._datapaths.get(name) is datapath else None


def _is_up(datapath: Any, port: Any) -> bool:
    return not port.state & datapath.ofproto.OFPPS_LINK_DOWN
