"""A controller of 60 lines: installs the entries of all paths over OpenFlow 1.3, and answers
echoes.

With an argument it also speaks the lines of JSON that the controller of mptcplab speaks.
"""

import json
import os
import socket
import struct
import sys
import threading
import time
from ipaddress import ip_interface

EXPERIMENT = json.load(open(os.environ["MPTCPLAB_EXPERIMENT"]))
SWITCHES = json.load(open(os.environ["MPTCPLAB_SWITCHES"]))["switches"]
TALKS = len(sys.argv) > 1
PORTS = {port["interface"]: (s["name"], port["number"]) for s in SWITCHES for port in s["ports"]}
LINKS = {link["id"]: link for link in EXPERIMENT["links"]}
ADDRESSES = {i["id"]: [ip_interface(i[f]).ip for f in ("ipv4", "ipv6") if i[f]] for i in EXPERIMENT["interfaces"]}
OTHER = {"forward": "backward", "backward": "forward"}
connections, ready = {}, threading.Semaphore(0)


def message(kind, body=b"", transaction=1):
    return struct.pack("!BBHI", 4, kind, 8 + len(body), transaction) + body


def flow_mod(source, destination, port, own=()):
    kind, fields = (0x0800, (11, 12)) if source.version == 4 else (0x86DD, (26, 27))
    parts = [(5, struct.pack("!H", kind)), (fields[0], source.packed), (fields[1], destination.packed), *own]
    match = b"".join(struct.pack("!HBB", 0x8000, number << 1, len(value)) + value for number, value in parts)
    match = struct.pack("!HH", 1, 4 + len(match)) + match
    match += bytes(-len(match) % 8)
    output = struct.pack("!HH4xHHIH6x", 4, 24, 0, 16, port, 0)
    head = struct.pack("!QQBBHHHIIIH2x", 0x6D70, 0, 0, 0, 0, 0, 200 if own else 100, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    return message(14, head + match + output)


def entries(local, remote, hops, own=()):
    ends = [(LINKS[h["link"]]["a"], LINKS[h["link"]]["b"])[:: 1 if h["direction"] == "forward" else -1] for h in hops]
    for _, departure in zip(ends, ends[1:]):
        if departure[0] in PORTS:
            for source in ADDRESSES[local]:
                for destination in ADDRESSES[remote]:
                    if source.version == destination.version:
                        yield PORTS[departure[0]][0], flow_mod(source, destination, PORTS[departure[0]][1], own)


def of_path(path, there, back):
    yield from entries(path["local"], path["remote"], there)
    yield from entries(path["remote"], path["local"], back)


def all_entries():
    first = {}
    for index, flow in enumerate(EXPERIMENT["flows"]):
        udp = flow["transport"] == "udp"
        to_acceptor, from_acceptor = (
            ((10, bytes([17 if udp else 6])), (field, struct.pack("!H", 5001 + index)))
            for field in ((16, 15) if udp else (14, 13))
        )
        for path in flow["paths"]:
            back = [{"link": h["link"], "direction": OTHER[h["direction"]]} for h in reversed(path["hops"])]
            if first.setdefault((path["local"], path["remote"]), path["hops"]) == path["hops"]:
                yield from of_path(path, path["hops"], back)
            else:
                yield from entries(path["local"], path["remote"], path["hops"], to_acceptor)
                yield from entries(path["remote"], path["local"], back, from_acceptor)


def read(connection, length):
    data = b""
    while len(data) < length:
        piece = connection.recv(length - len(data))
        if not piece:
            raise SystemExit
        data += piece
    return data


def serve(connection):
    connection.sendall(message(0) + message(5))
    while True:
        _, kind, length, transaction = struct.unpack("!BBHI", read(connection, 8))
        body = read(connection, length - 8)
        if kind == 2:
            connection.sendall(message(3, body, transaction))
        elif kind == 6:
            name = next(s["name"] for s in SWITCHES if int(s["datapath_id"], 16) == struct.unpack("!Q", body[:8])[0])
            connections[name] = connection
            mine = b"".join(entry for switch, entry in all_entries() if switch == name)
            connection.sendall(mine + message(20))
        elif kind == 21:
            ready.release()


def say(**fields):
    print(json.dumps(fields), flush=True)


host, port = os.environ["MPTCPLAB_OPENFLOW"].split(":")
listener = socket.create_server((host, int(port)), backlog=len(SWITCHES))


def accept():
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


threading.Thread(target=accept, daemon=True).start()
for _ in SWITCHES:
    ready.acquire()
if not TALKS:
    threading.Event().wait()
say(said="ready", switches=len(SWITCHES), entries=sum(1 for _ in all_entries()))
for line in sys.stdin:
    told, began = json.loads(line), time.monotonic_ns()
    if told["do"] == "reroute":
        path = next(f for f in EXPERIMENT["flows"] if f["id"] == told["flow"])["paths"][told["path"]]
        changed = list(of_path(path, told["there"], told["back"]))
        for switch, entry in changed:
            connections[switch].sendall(entry)
        for switch in {switch for switch, _ in changed}:
            connections[switch].sendall(message(20))
        for _ in {switch for switch, _ in changed}:
            ready.acquire()
    say(said="reaction", cause=told.get("id") or told["link"], detected_ns=began, installed_ns=time.monotonic_ns(), flows=[])
