"""The content of a capture as sentences and tables, for the terminal and for its page."""

from __future__ import annotations

from typing import Any

from mptcplab.report.capture_verdict import may_use_mptcp, verdict_sentences
from mptcplab.report.grid import Grid
from mptcplab.report.quantities import MISSING, quantity

Json = dict[str, Any]

SIDES = ("client", "server")
#: The names of events, in the words of RFC 8684.
EVENT_NAMES = {
    "syn": "SYN",
    "mp_capable": "MP_CAPABLE",
    "mp_join": "MP_JOIN",
    "usable": "usable",
    "add_addr": "ADD_ADDR",
    "remove_addr": "REMOVE_ADDR",
    "mp_prio": "MP_PRIO",
    "mp_fail": "MP_FAIL",
    "mp_fastclose": "MP_FASTCLOSE",
    "data_fin": "DATA_FIN",
    "fin": "FIN",
    "reset": "RST",
    "fallback": "fallback",
    "timeout": "timeout",
    "violation": "violation",
}
ENDINGS = {
    "data_fin": "ended by DATA_FIN",
    "fast_close": "aborted by MP_FASTCLOSE",
    "fin": "ended by FIN",
    "reset": "reset",
}
SUBFLOW_HEADS = [
    "subflow",
    "opened by",
    "client",
    "server",
    "start (s)",
    "usable (s)",
    "client sent",
    "server sent",
    "sent again",
    "timeouts",
    "round trip",
    "end",
]
SUBFLOW_NUMERIC = frozenset({0, 4, 5, 6, 7, 8, 9, 10})


def size(count: float) -> str:
    """Formats a number of bytes: ``23 kB``."""
    return quantity(count, "B")


def capture_sentences(document: Json) -> list[str]:
    """Returns sentences about the content of the files and the parts that could not be read."""
    frames, connections = document["frames"], document["connections"]
    multipath = sum(connection["version"] is not None for connection in connections)
    unknown = sum(map(may_use_mptcp, connections))
    plain = len(connections) - multipath - unknown
    others = _count(plain, "plain TCP connection") if plain else "no plain TCP"
    if unknown:
        others += f", {_count(unknown, 'connection')} of which the capture does not tell the kind"
    fallen = sum(connection["fallback"] is not None for connection in connections)
    fell_back = f" ({fallen} fell back to TCP)" if fallen else ""
    sentences = [
        f"{_count(frames['frames'], 'packet')} in {quantity(document['duration_s'], 's')}: "
        f"{_count(multipath, 'MPTCP connection')}{fell_back}, {others}."
    ]
    left = {
        "other": "of other protocols",
        "fragments": "parts of IP packets",
        "cut": "captured too short",
        "malformed": "with headers that contradict themselves",
        "unknown_link": "of unknown kinds of link",
    }
    passed_over = [f"{frames[key]} {words}" for key, words in left.items() if frames[key]]
    if passed_over:
        sentences.append(f"Passed over: {', '.join(passed_over)}.")
    if earlier := frames["out_of_order"]:
        has = "has a time" if earlier == 1 else "have times"
        sentences.append(
            f"{_count(earlier, 'packet')} {has} before that of the preceding packet, by up to "
            f"{quantity(document['longest_step_back_s'], 's')}, so durations and rates here may be wrong. "
            "`reordercap` sorts a capture by time."
        )
    sentences.extend(
        f"{file['path']}: cannot be read beyond packet {file['frames']}: {file['broken']}."
        for file in document["files"]
        if file["broken"]
    )
    return sentences


def connection_title(connection: Json) -> str:
    """Returns the title of a connection: its addresses, version, fallback and token."""
    sides = connection["sides"]
    if may_use_mptcp(connection):
        kind = "TCP, perhaps Multipath TCP"
    else:
        kind = "plain TCP" if connection["version"] is None else f"Multipath TCP version {connection['version']}"
    fell_back = ", fell back to TCP" if connection["fallback"] else ""
    token = f", token {connection['token']}" if connection["token"] else ""
    return (
        f"Connection {connection['id']}: {sides['client']['address']} \N{RIGHTWARDS ARROW} "
        f"{sides['server']['address']}, {kind}{fell_back}{token}"
    )


def connection_sentences(connection: Json) -> list[str]:
    """Returns sentences about a connection as a whole and about its data, after its verdict."""
    lasted = connection["end_s"] - connection["start_s"]
    subflows = connection["subflows"]
    begun = f"{_count(len(subflows), 'subflow')} in {quantity(lasted, 's')}"
    unusable = sum(subflow["usable_s"] is None and not subflow["bytes"] for subflow in subflows)
    if unusable:
        begun += f", {unusable} of them never usable"
    second = connection["second_subflow_usable_after_s"]
    if second is not None:
        begun += f", the second usable after {quantity(second, 's')}"
    if connection["checksums"]:
        begun += ", with checksums"
    if connection["ending"]:
        begun += f", {ENDINGS[connection['ending']]}"
    sentences = [begun + "."]
    for side in SIDES:
        sentences.extend(_data_sentences(side, connection["data"][side]))
    return sentences


def _data_sentences(side: str, data: Json) -> list[str]:
    if not data["bytes"]:
        return []
    rate = f" at {quantity(data['goodput_bps'], 'bit/s')}" if data["goodput_bps"] else ""
    sentences = [f"The {side} sent {size(data['bytes'])} of data{rate}."]
    if (sent_again := data["reinjected"])["bytes"]:
        sentences.append(
            f"{size(sent_again['bytes'])} of it was reinjected: {size(sent_again['useful_bytes'])} was needed, "
            f"{size(sent_again['redundant_bytes'])} was redundant."
        )
    if data["unseen_bytes"]:
        sentences.append(f"{size(data['unseen_bytes'])} were acknowledged that are not in the capture.")
    if (waits := data["head_of_line"]) is not None:
        early = data["order"]["early_segments"]
        sentences.append(
            f"{_count(early, 'segment')} came ahead of earlier data and waited for it: "
            f"{quantity(waits['median_s'], 's')} in the median, {quantity(waits['max_s'], 's')} at most."
        )
    if data["window_limited_s"] > 0:
        sentences.append(f"The receive window held it back for {quantity(data['window_limited_s'], 's')}.")
    sentences.extend(_gap_sentence(gap) for gap in data["gaps"])
    return sentences


def _gap_sentence(gap: Json) -> str:
    moved = (
        f"subflow {gap['to_subflow']} took over from subflow {gap['from_subflow']}"
        if gap["from_subflow"] not in (None, gap["to_subflow"])
        else f"subflow {gap['to_subflow']} went on"
    )
    return (
        f"From {gap['at_s']:.3f} s on, nothing was acknowledged for {quantity(gap['seconds'], 's')}, with "
        f"{size(gap['waiting_bytes'])} waiting; then {moved}."
    )


def subflow_grid(connection: Json) -> Grid:
    """Returns a row for each subflow."""
    subflows = connection["subflows"]
    sent = {side: sum(subflow["directions"][side]["bytes"] for subflow in subflows) for side in SIDES}
    return Grid(SUBFLOW_HEADS, [_subflow_row(subflow, sent) for subflow in subflows], SUBFLOW_NUMERIC)


def _payload(subflow: Json, sent: dict[str, int]) -> list[str]:
    """Returns the payload that each host sent on a subflow, and its share of the host's total."""
    cells = []
    for side in SIDES:
        found = subflow["directions"][side]["bytes"]
        share = f" ({found / sent[side]:.1%})" if sent[side] else ""
        cells.append(f"{size(found)}{share}")
    return cells


def _subflow_row(subflow: Json, sent: dict[str, int]) -> list[str]:
    directions = [subflow["directions"][side] for side in SIDES]
    main = max(directions, key=lambda direction: direction["bytes"])
    return [
        str(subflow["id"]),
        (subflow["opened_by"] or "not seen") + (", backup" if subflow["backup"] else ""),
        subflow["local"],
        subflow["remote"],
        f"{subflow['start_s']:.6f}",
        MISSING if subflow["usable_s"] is None else f"{subflow['usable_s']:.6f}",
        *_payload(subflow, sent),
        size(sum(direction["retransmitted_bytes"] for direction in directions)),
        str(sum(episode["retries"] for direction in directions for episode in direction["timeouts"])),
        quantity(main["rtt"] and main["rtt"]["median_s"], "s"),
        _end(subflow["ended"]),
    ]


def _end(ended: Json | None) -> str:
    if ended is None:
        return "open"
    if ended["how"] == "fin":
        return "FIN"
    reason = "" if ended["reason"] is None else f", reason {ended['reason']}"
    return f"RST by the {ended['by']}{reason}"


def _repeated(times: int) -> str:
    return "" if times == 0 else " (repeated once)" if times == 1 else f" (repeated {times} times)"


def event_grid(connection: Json) -> Grid:
    """Returns a row for each event other than data."""
    rows = [
        [
            f"{event['at_s']:.6f}",
            str(event["packet"]),
            str(event["subflow"]),
            event["from"],
            EVENT_NAMES[event["kind"]],
            event["text"] + _repeated(event["times"] - 1),
        ]
        for event in connection["events"]
    ]
    return Grid(["seconds", "packet", "subflow", "from", "what", "which"], rows, frozenset({0, 1, 2}))


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def overview(document: Json, most: int = 5) -> str:
    """Returns a few lines about the largest connections, for a display that is redrawn often."""
    lines = capture_sentences(document)
    for connection in sorted(document["connections"], key=importance)[:most]:
        lines += ["", connection_title(connection)]
        lines += [f"  {sentence}" for sentence in verdict_sentences(connection)]
        lines += [
            f"  subflow {row[0]}  {row[2]} \N{RIGHTWARDS ARROW} {row[3]}  {row[6]} and {row[7]}  round trip {row[10]}"
            for row in subflow_grid(connection).rows
        ]
    return "\n".join(lines)


def importance(connection: Json) -> tuple[bool, int]:
    """Returns the key by which connections are sorted: MPTCP first, then those
    with more payload.
    """
    return connection["version"] is None, -connection["bytes"]


def clock_sentences(one_way: Json) -> list[str]:
    """Returns sentences about the alignment of the clocks of both hosts."""
    offset = one_way["clock_offset_s"]
    if offset is None:
        return ["No subflow has packets both ways in both captures: the clocks cannot be compared."]
    ahead = "ahead" if offset >= 0 else "behind"
    return [
        f"The clock at the other end is taken to be {quantity(abs(offset), 's')} {ahead}, "
        f"\N{PLUS-MINUS SIGN} {quantity(one_way['uncertainty_s'], 's')}: "
        "the fastest packets are taken to need as long one way as the other."
    ]


def one_way_grid(one_way: Json) -> Grid:
    """Returns a row for each direction of each subflow that both captures show."""
    rows = [
        [
            way["source"],
            way["destination"],
            size(way["sent_bytes"]),
            size(way["arrived_bytes"]),
            MISSING if way["loss"] is None else f"{way['loss']:.2%}",
            *(quantity(way["delay"] and way["delay"][key], "s") for key in ("min_s", "median_s", "p95_s", "max_s")),
        ]
        for way in one_way["ways"]
    ]
    heads = ["from", "to", "sent", "arrived", "lost", "delay least", "median", "95 %", "most"]
    return Grid(heads, rows, frozenset(range(2, 9)))


def packet_sentences(packet: Json) -> list[str]:
    """Returns sentences that identify a packet."""
    flags = ", ".join(packet["flags"]) or "no flags"
    sentences = [
        f"Packet {packet['packet']} at {packet['at_s']:.6f} s, from the {packet['from']} on subflow "
        f"{packet['subflow']} of connection {packet['connection']}: {packet['source']} \N{RIGHTWARDS ARROW} "
        f"{packet['destination']}",
        f"{flags}; sequence number {packet['seq']}, acknowledgment {packet['ack']}, window {packet['window']}, "
        f"{packet['payload_bytes']} bytes of payload",
    ]
    if packet["are_options_cut"]:
        sentences.append("Some of its options were not captured.")
    return sentences


def packet_grid(packet: Json) -> Grid:
    """Returns a row for each field of each option."""
    rows = []
    for option in packet["options"]:
        rows.append([option["name"], f"{option['bytes']} bytes", option["hex"], option["source"]])
        rows.extend(["", field["name"], field["value"], field["meaning"]] for field in option["fields"])
    return Grid(["option", "field", "value", "meaning"], rows)
