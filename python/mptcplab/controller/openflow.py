"""Translates between what the controller decides and OpenFlow 1.3 as os-ken writes and reads it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from ipaddress import ip_address
from typing import Any

from mptcplab.controller.messages import (
    Barrier,
    CountEntries,
    Counters,
    Message,
    PacketOut,
    ReadCounters,
    ReadTable,
)
from mptcplab.controller.tables import (
    ACK,
    COOKIE,
    IPV4,
    SYN,
    TCP,
    UDP,
    Action,
    Bucket,
    DecrementTtl,
    Entry,
    Group,
    Match,
    Output,
    SetEthernetDestination,
    SetEthernetSource,
    Table,
    ToGroup,
)
from mptcplab.controller.updates import PutEntry, PutGroup, RemoveEntry, RemoveGroup

WHOLE_COOKIE = 0xFFFFFFFFFFFFFFFF
#: Entries from this priority on are rules of outages, which are not the controller's.
PRIORITY_OF_OTHERS = 0x8000

_IP_FIELDS = {IPV4: ("ipv4_src", "ipv4_dst")}
_IPV6_FIELDS = ("ipv6_src", "ipv6_dst")
_PORT_FIELDS = {TCP: ("tcp_src", "tcp_dst"), UDP: ("udp_src", "udp_dst")}
_OPENING = (SYN, SYN | ACK)
#: OFPAT_DEC_NW_TTL (OpenFlow 1.3, A.2.5).
_DECREMENT_TTL = 24


def serialized(datapath: Any, messages: Iterable[Message]) -> bytes:
    """Returns the bytes of messages to a switch, in this order."""
    pieces = []
    for each in (one for message in messages for one in written(datapath, message)):
        if each.xid is None:
            datapath.set_xid(each)
        each.serialize()
        pieces.append(bytes(each.buf))
    return b"".join(pieces)


def written(datapath: Any, message: Message) -> list[Any]:
    """Returns the messages of os-ken for one of the controller."""
    parser, protocol = datapath.ofproto_parser, datapath.ofproto
    match message:
        case PutEntry(entry):
            return [_flow_mod(datapath, protocol.OFPFC_ADD, entry)]
        case RemoveEntry(entry):
            return [_flow_mod(datapath, protocol.OFPFC_DELETE_STRICT, entry)]
        case PutGroup(group, is_there):
            command = protocol.OFPGC_MODIFY if is_there else protocol.OFPGC_ADD
            return [_group_mod(datapath, command, group)]
        case RemoveGroup(group):
            return [_group_mod(datapath, protocol.OFPGC_DELETE, group)]
        case Barrier(number):
            barrier = parser.OFPBarrierRequest(datapath)
            barrier.xid = number
            return [barrier]
        case ReadTable():
            entries = _request(datapath, parser.OFPFlowStatsRequest)
            return [parser.OFPGroupDescStatsRequest(datapath, 0), entries]
        case ReadCounters(of_entries):
            ports = parser.OFPPortStatsRequest(datapath, 0, protocol.OFPP_ANY)
            tables = parser.OFPTableStatsRequest(datapath, 0)
            if of_entries:
                return [tables, ports, _request(datapath, parser.OFPFlowStatsRequest)]
            return [tables, ports, *written(datapath, CountEntries())]
        case CountEntries():
            return [_request(datapath, parser.OFPAggregateStatsRequest)]
        case PacketOut(frame, in_port, actions):
            return [
                parser.OFPPacketOut(
                    datapath=datapath,
                    buffer_id=protocol.OFP_NO_BUFFER,
                    in_port=in_port or protocol.OFPP_CONTROLLER,
                    actions=_actions(datapath, actions),
                    data=frame,
                )
            ]
    raise AssertionError(message)


def _request(datapath: Any, kind: Any) -> Any:
    """Returns a request for all entries of the controller."""
    protocol = datapath.ofproto
    return kind(
        datapath,
        0,
        protocol.OFPTT_ALL,
        protocol.OFPP_ANY,
        protocol.OFPG_ANY,
        COOKIE,
        WHOLE_COOKIE,
        datapath.ofproto_parser.OFPMatch(),
    )


def _flow_mod(datapath: Any, command: int, entry: Entry) -> Any:
    parser, protocol = datapath.ofproto_parser, datapath.ofproto
    apply = parser.OFPInstructionActions(protocol.OFPIT_APPLY_ACTIONS, _actions(datapath, entry.actions))
    return parser.OFPFlowMod(
        datapath=datapath,
        cookie=COOKIE,
        cookie_mask=0 if command == protocol.OFPFC_ADD else WHOLE_COOKIE,
        command=command,
        priority=entry.priority,
        buffer_id=protocol.OFP_NO_BUFFER,
        out_port=protocol.OFPP_ANY,
        out_group=protocol.OFPG_ANY,
        match=_match(parser, entry.match),
        instructions=[apply],
    )


@lru_cache(maxsize=4096)
def _match(parser: Any, match: Match) -> Any:
    """Returns a match of os-ken, which takes longer to make than the rest of a message."""
    return parser.OFPMatch(**_fields(match))


def _group_mod(datapath: Any, command: int, group: Group) -> Any:
    parser, protocol = datapath.ofproto_parser, datapath.ofproto
    buckets = [
        parser.OFPBucket(
            weight=0,
            watch_port=bucket.watch_port,
            watch_group=protocol.OFPG_ANY,
            actions=_actions(datapath, bucket.actions),
        )
        for bucket in group.buckets
    ]
    return parser.OFPGroupMod(datapath, command, protocol.OFPGT_FF, group.id, buckets)


def _actions(datapath: Any, actions: Iterable[Action]) -> list[Any]:
    parser, protocol = datapath.ofproto_parser, datapath.ofproto
    found = []
    for action in actions:
        match action:
            case Output(port):
                found.append(parser.OFPActionOutput(port, protocol.OFPCML_NO_BUFFER))
            case ToGroup(group):
                found.append(parser.OFPActionGroup(group))
            case SetEthernetSource(address):
                found.append(parser.OFPActionSetField(eth_src=address))
            case SetEthernetDestination(address):
                found.append(parser.OFPActionSetField(eth_dst=address))
            case DecrementTtl():
                found.append(parser.OFPActionDecNwTtl())
    return found


def _fields(match: Match) -> dict[str, Any]:
    """Returns a match by os-ken's names of fields."""
    addresses = _IP_FIELDS.get(match.ethernet_type or 0, _IPV6_FIELDS)
    ports = _PORT_FIELDS.get(match.protocol or 0, ("", ""))
    named = {
        "eth_type": match.ethernet_type,
        "eth_src": match.ethernet_source,
        addresses[0]: match.source,
        addresses[1]: match.destination,
        "ip_proto": match.protocol,
        ports[0]: match.source_port,
        ports[1]: match.destination_port,
        "tcp_flags": _OPENING if match.opening else None,
        "in_port": match.in_port,
    }
    return {name: value for name, value in named.items() if value is not None}


def read_entry(row: Any) -> Entry:
    """Returns an entry of the reply to a request for the flow statistics."""
    actions = [action for instruction in row.instructions for action in getattr(instruction, "actions", ())]
    return Entry(row.priority, _read_match(dict(row.match.items())), _read_actions(actions))


def _read_match(fields: Mapping[str, Any]) -> Match:
    def first(*names: str) -> Any:
        return next((fields[name] for name in names if name in fields), None)

    source, destination = first("ipv4_src", "ipv6_src"), first("ipv4_dst", "ipv6_dst")
    return Match(
        fields.get("eth_type"),
        None if source is None else str(ip_address(source)),
        None if destination is None else str(ip_address(destination)),
        fields.get("ip_proto"),
        first("tcp_src", "udp_src"),
        first("tcp_dst", "udp_dst"),
        fields.get("eth_src"),
        opening="tcp_flags" in fields,
        in_port=fields.get("in_port"),
    )


def _read_actions(actions: Iterable[Any]) -> tuple[Action, ...]:
    found: list[Action] = []
    for action in actions:
        if hasattr(action, "group_id"):
            found.append(ToGroup(action.group_id))
        elif hasattr(action, "port"):
            found.append(Output(action.port))
        elif getattr(action, "key", None) == "eth_src":
            found.append(SetEthernetSource(action.value))
        elif getattr(action, "key", None) == "eth_dst":
            found.append(SetEthernetDestination(action.value))
        elif getattr(action, "type", None) == _DECREMENT_TTL:
            found.append(DecrementTtl())
    return tuple(found)


def read_group(row: Any) -> Group:
    """Returns a group of the reply to a request for the descriptions of groups."""
    buckets = (Bucket(bucket.watch_port, _read_actions(bucket.actions)) for bucket in row.buckets)
    return Group(row.group_id, tuple(buckets))


def read_table(rows: Iterable[Any], groups: Iterable[Any]) -> Table:
    """Returns the table of a switch."""
    table = Table(groups={group.group_id: read_group(group) for group in groups})
    for row in _own(rows):
        table.add(read_entry(row))
    return table


def _own(rows: Iterable[Any]) -> Iterable[Any]:
    return (row for row in rows if row.priority < PRIORITY_OF_OTHERS)


_PORT_COUNTERS = ("rx_packets", "tx_packets", "rx_bytes", "tx_bytes", "rx_dropped", "tx_dropped")


def read_counters(tables: Iterable[Any], ports: Iterable[Any]) -> Counters:
    """Returns the counters of a switch without those of entries."""
    listed = list(tables)
    return Counters(
        lookups=sum(row.lookup_count for row in listed),
        matched=sum(row.matched_count for row in listed),
        ports={row.port_no: {name: getattr(row, name) for name in _PORT_COUNTERS} for row in ports},
    )


def read_flows(rows: Iterable[Any]) -> dict[tuple[int, Match], tuple[int, int]]:
    """Returns the counters of entries."""
    return {read_entry(row).key: (row.packet_count, row.byte_count) for row in _own(rows)}
