"""The switch of a site on another machine, as the coordinator has it: OpenFlow 1.3 as os-ken writes
and reads it, over a connection that others carry.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count
from typing import Any

from os_ken.ofproto import ofproto_parser, ofproto_v1_3
from os_ken.ofproto.ofproto_protocol import ProtocolDesc

from mptcplab.controller import openflow
from mptcplab.controller.messages import CountEntries, Message, ReadTable
from mptcplab.controller.tables import Table
from mptcplab.controller.updates import difference


class Datapath(ProtocolDesc):  # type: ignore[misc]
    """What os-ken needs to know of a switch to write a message."""

    def __init__(self) -> None:
        super().__init__(ofproto_v1_3.OFP_VERSION)
        self._numbers = count(1)

    def set_xid(self, message: Any) -> None:
        """Gives a message a number."""
        message.set_xid(next(self._numbers))


class Switch:
    """A switch that gets the entries it should have, whenever it connects and whenever they change.

    `send` carries bytes to the connection with a number.
    """

    def __init__(self, name: str, send: Callable[[int, bytes], None]) -> None:
        self._name = name
        self._send = send
        self._datapath = Datapath()
        self._connection: int | None = None
        self._rest = b""
        self._wanted = Table()
        #: What the switch has once it has carried out all that was sent; None until that is known.
        self._present: Table | None = None
        self._rows: list[Any] = []
        #: How many entries the switch says that it has; None while that is not known.
        self.entries: int | None = None

    def put(self, wanted: Table) -> None:
        """Gives the switch these entries instead of those that it has."""
        self._wanted = wanted
        if self._present is not None:
            self._write(*difference(self._name, self._present, wanted))
            self._present = wanted

    def count_entries(self) -> None:
        """Asks for the number of entries."""
        if self._present is not None:
            self._write(CountEntries())

    def lose(self) -> None:
        """Ends the connection."""
        self._connection = self._present = self.entries = None

    def receive(self, connection: int, data: bytes) -> None:
        """Reads bytes of a connection, which begins without any."""
        if not data:
            self.lose()
            self._connection, self._rest, self._rows = connection, b"", []
            self._say(self._parser.OFPHello(self._datapath))
        if connection != self._connection:
            return
        self._rest += data
        size = ofproto_v1_3.OFP_HEADER_SIZE
        while len(self._rest) >= size:
            version, kind, length, number = ofproto_parser.header(self._rest)
            if len(self._rest) < length:
                return
            read = ofproto_parser.msg(self._datapath, version, kind, length, number, self._rest[:length])
            self._rest = self._rest[max(length, size) :]
            self._handle(read)

    @property
    def _parser(self) -> Any:
        return self._datapath.ofproto_parser

    def _handle(self, read: Any) -> None:
        parser = self._parser
        match read:
            case parser.OFPHello():
                self._say(parser.OFPFeaturesRequest(self._datapath))
            case parser.OFPEchoRequest():
                reply = parser.OFPEchoReply(self._datapath, read.data)
                reply.xid = read.xid
                self._say(reply)
            case parser.OFPSwitchFeatures():
                self._write(ReadTable())
            case parser.OFPFlowStatsReply():
                self._learn(read)
            case parser.OFPAggregateStatsReply():
                self.entries = read.body.flow_count
            case parser.OFPErrorMsg():
                problem = f"OpenFlow error of type {read.type}, code {read.code}"
                print(f"{self._name}: {problem}", file=sys.stderr, flush=True)

    def _learn(self, reply: Any) -> None:
        """Learns what the switch has, from a reply in parts, and makes it what it should be."""
        self._rows += reply.body
        if not reply.flags & ofproto_v1_3.OFPMPF_REPLY_MORE:
            self._present = openflow.read_table(self._rows, ())
            self._rows = []
            self.put(self._wanted)
            self.count_entries()

    def _write(self, *messages: Message) -> None:
        if messages and self._connection is not None:
            self._send(self._connection, openflow.serialized(self._datapath, messages))

    def _say(self, message: Any) -> None:
        """Sends a message that the controller of a run leaves to os-ken."""
        if message.xid is None:
            self._datapath.set_xid(message)
        message.serialize()
        assert self._connection is not None
        self._send(self._connection, bytes(message.buf))
