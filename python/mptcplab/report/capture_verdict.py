"""The verdict on a connection of a capture: what happened, and which packets show it, in at most
three sentences.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mptcplab.report.quantities import quantity

Json = dict[str, Any]

SIDES = ("client", "server")
MOST_SENTENCES = 3
#: What to do about options that were cut off.
WHOLE_HEADERS = "Capture whole headers, with a snap length of at least 144 bytes."
#: The reasons of a reset (RFC 8684, section 3.6).
REASONS = {
    0: "unspecified",
    1: "MPTCP-specific error",
    2: "lack of resources",
    3: "administratively prohibited",
    4: "too much outstanding data",
    5: "unacceptable performance",
    6: "middlebox interference",
}
#: The token in the text of the event of a SYN with MP_JOIN.
JOIN_TOKEN = re.compile(r"^SYN, token ([0-9a-f]{8})")
#: What shows that a host had data to send while none was captured.
SILENCE_SIGNS = {
    "retransmission": (
        ", and packet {packet} retransmits acknowledged data, so the acknowledgment had not reached the {side}"
    ),
    "no_push": ", although more was queued, because packet {packet} has no PSH",
}
#: Seconds without an answer, or without room in the receive window, that a verdict mentions.
LEAST_STALL_S = 0.5


@dataclass(frozen=True)
class Finding:
    """A sentence of a verdict. ``kind`` names what was found, for programs."""

    kind: str
    text: str


@dataclass(frozen=True)
class Stall:
    """A time in which a subflow acknowledged nothing that ``side`` sent."""

    subflow: int
    side: str
    begin_s: float
    length_s: float
    retries: int
    is_over: bool


def with_verdicts(document: Json) -> Json:
    """Returns the document of ``mptcplab.captures.explain`` with a ``verdict`` first in each
    connection.
    """
    connections = [{"verdict": as_json(connection), **connection} for connection in document["connections"]]
    return {**document, "connections": connections}


def as_json(connection: Json) -> list[Json]:
    """Returns the verdict as a list of objects with ``kind`` and ``text``."""
    return [{"kind": finding.kind, "text": finding.text} for finding in verdict(connection)]


def verdict_sentences(connection: Json) -> list[str]:
    """Returns the verdict in sentences."""
    return [finding.text for finding in verdict(connection)]


def may_use_mptcp(connection: Json) -> bool:
    """Returns whether an MPTCP option may have been where the capture has only part of the options."""
    is_plain = connection["version"] is None
    return is_plain and not connection["subflows"][0]["syns"]["without_mptcp"] and _cut(connection) > 0


def verdict(connection: Json) -> list[Finding]:
    """Returns the most important findings about a connection, at least one and at most three."""
    searches = PLAIN_SEARCHES if connection["version"] is None else SEARCHES
    found = [finding for search in searches for finding in search(connection)]
    if not found:
        return [_healthy(connection)]
    is_multipath = connection["version"] is not None
    if is_multipath and len(found) < MOST_SENTENCES and (carried := _carried(connection)):
        found.append(Finding("carried", f"{carried[0].upper()}{carried[1:]}."))
    left = len(found) - MOST_SENTENCES
    if left > 0:
        last = found[MOST_SENTENCES - 1]
        found[MOST_SENTENCES - 1] = Finding(last.kind, f"{last.text} Further findings are in the tables below.")
    return found[:MOST_SENTENCES]


def _packets(connection: Json, side: str) -> int:
    return sum(subflow["directions"][side]["packets"] for subflow in connection["subflows"])


def _peer(side: str) -> str:
    return "server" if side == "client" else "client"


def _missing_parts(connection: Json) -> Iterator[Finding]:
    """Names the parts of the connection that the capture lacks."""
    one_way = [subflow for subflow in connection["subflows"] if _silent_side(subflow)]
    for side in SIDES:
        if subflows := [subflow for subflow in one_way if _silent_side(subflow) == side]:
            text = (
                f"The capture has no packet of the {side} on {_names(subflows)}, so it is unknown what the {side} "
                "answered, and whether it refused anything."
            )
            yield Finding("one_direction", text)
    if connection["subflows"][0]["role"] != "initial" and not one_way:
        text = (
            "The beginning of the connection is not in the capture, so its keys are unknown, and HMACs of joins "
            "cannot be checked."
        )
        yield Finding("beginning_missing", text)


def _cut_options(connection: Json) -> Iterator[Finding]:
    """Names packets of which too little was captured to know all of their options."""
    if cut := _cut(connection):
        all_packets = sum(_packets(connection, side) for side in SIDES)
        text = (
            f"The capture has only the beginning of the TCP options of {cut} of {_count(all_packets, 'packet')}, so "
            f"signals of MPTCP may be missing here that were sent. {WHOLE_HEADERS}"
        )
        yield Finding("options_cut", text)


def _cut(connection: Json) -> int:
    directions = [subflow["directions"][side] for subflow in connection["subflows"] for side in SIDES]
    return sum(direction["options_cut"] for direction in directions)


def _syns(subflow: Json) -> int:
    syns: dict[str, int] = subflow["syns"]
    return syns["with_mptcp"] + syns["without_mptcp"] + syns["options_cut"]


def _silent_side(subflow: Json) -> str | None:
    """Returns the side whose packets were not captured. A side that did not answer a SYN is not
    such a side.
    """
    syns = _syns(subflow)
    for side in SIDES:
        other = subflow["directions"][_peer(side)]["packets"]
        if not subflow["directions"][side]["packets"] and other > syns:
            return side
    return None


def _keys(connection: Json) -> list[str | None]:
    return [connection["sides"][side]["key"] for side in SIDES]


def _fallback(connection: Json) -> Iterator[Finding]:
    """Explains why the connection continued as TCP, if no data was changed."""
    fallback = connection["fallback"]
    if fallback is None or connection["mp_fail"] is not None:
        return
    packet, at = fallback["packet"], quantity(fallback["at_s"], "s")
    if fallback["cause"] == "answer_without_capable":
        yield _no_capable(connection["subflows"][0], packet)
    elif fallback["cause"] == "infinite_mapping":
        text = (
            f"The {fallback['from']} gave MPTCP up at {at} by an infinite mapping (packet {packet}); no MP_FAIL that "
            "would give the reason is in the capture."
        )
        yield Finding("infinite_mapping", text)
    else:
        yield _without_signal(connection, at)


def _no_capable(subflow: Json, packet: int) -> Finding:
    syns = subflow["syns"]
    if syns["without_mptcp"] and syns["with_mptcp"]:
        text = (
            f"The connection is plain TCP: {_count(syns['with_mptcp'], 'SYN')} with MP_CAPABLE had no answer, and the "
            "client tried again without the option. Something on the way may drop SYNs with MP_CAPABLE."
        )
        return Finding("syn_with_capable_unanswered", text)
    text = (
        f"The server does not speak MPTCP: its SYN/ACK (packet {packet}) carries no MP_CAPABLE. Or the option of "
        "the SYN or of the SYN/ACK was removed on the way."
    )
    return Finding("no_mptcp_at_server", text)


def _without_signal(connection: Json, at: str) -> Finding:
    bare = [(packet, side) for side in SIDES if (packet := connection["bare_packets"][side]) is not None]
    packet, side = min(bare, default=(connection["fallback"]["packet"], connection["fallback"]["from"]))
    text = (
        f"MPTCP fell back to TCP at {at}, because packet {packet} of the {side} carries no DSS option: it was removed "
        f"on the way, or the {side} received no MPTCP option from the {_peer(side)} either."
    )
    return Finding("no_signal", text)


def _changed_payload(connection: Json) -> Iterator[Finding]:
    """Tells who found a wrong checksum, and whether the capture shows the change."""
    fail, wrong = connection["mp_fail"], _wrong_checksum(connection)
    went_on = " The connection continued as TCP." if connection["fallback"] else ""
    if wrong is not None:
        side, subflow, first = wrong
        text = (
            f"Payload of the {side} was changed on the way to the capture point, between byte {first['data']} and "
            f"byte {first['data'] + first['bytes']}: the DSS checksum of packet {first['packet']} on subflow {subflow} "
            "is not that of the payload"
        )
        text += f"; the {fail['from']} answered with MP_FAIL (packet {fail['packet']})." if fail else "."
        yield Finding("payload_changed", text + went_on)
    elif fail is not None:
        sender = _peer(fail["from"])
        place = "" if fail["data"] is None else f" from byte {fail['data']} on"
        yield Finding(
            "payload_refused",
            f"The {fail['from']} refused data of the {sender}{place} with MP_FAIL (packet {fail['packet']}). "
            + _checksums_in_capture(connection, fail, sender)
            + went_on,
        )


def _wrong_checksum(connection: Json) -> tuple[str, int, Json] | None:
    found = [
        (side, subflow["id"], first)
        for subflow in connection["subflows"]
        for side in SIDES
        if (first := subflow["directions"][side]["checksums"]["first_wrong"]) is not None
    ]
    return min(found, key=lambda one: one[2]["packet"], default=None)


def _checksums_in_capture(connection: Json, fail: Json, sender: str) -> str:
    [subflow] = [one for one in connection["subflows"] if one["id"] == fail["subflow"]]
    right = subflow["directions"][sender]["checksums"]["right"]
    if right:
        return (
            f"All {right} DSS checksums of the {sender} that can be verified are right in this capture, so the data "
            "was changed after the capture point."
        )
    return "The capture lacks the payload or the checksums, so it does not show what was changed."


def _aborted(connection: Json) -> Iterator[Finding]:
    if (abort := connection["mp_fastclose"]) is not None:
        text = (
            f"The {abort['from']} aborted the connection at {quantity(abort['at_s'], 's')} "
            f"(MP_FASTCLOSE, packet {abort['packet']})."
        )
        yield Finding("aborted", text)


def _unanswered(connection: Json) -> Iterator[Finding]:
    """Tells that the first SYN was refused or had no answer."""
    first = connection["subflows"][0]
    if first["role"] != "initial" or first["answered_s"] is not None or first["usable_s"] is not None:
        return
    ended = first["ended"]
    if ended is not None and ended["how"] == "reset":
        yield Finding("refused", f"The {ended['by']} refused the connection by RST (packet {ended['packet']}).")
    elif not _packets(connection, "server"):
        tried = _count(_syns(first), "SYN")
        yield Finding("no_answer", f"No answer to {tried} of the client is in the capture.")


def _refused_joins(connection: Json) -> Iterator[Finding]:
    """Tells of joined subflows that never could carry data. Subflows with the same fate share a
    sentence.
    """
    fates: dict[tuple[str, str], list[Json]] = {}
    has_keys = all(_keys(connection))
    for subflow in connection["subflows"]:
        if subflow["role"] == "join" and subflow["opened_by"] and not _silent_side(subflow):
            kind = _fate(subflow)
            if kind is not None:
                fates.setdefault((kind, subflow["opened_by"]), []).append(subflow)
    for (kind, _), subflows in fates.items():
        text = _told(kind, subflows[0], has_keys=has_keys)
        if others := subflows[1:]:
            text += f" The same happened to {_names(others)}."
        yield Finding(kind, text)


def _is_kept_out(subflow: Json) -> bool:
    """Returns whether something kept a joined subflow from carrying data."""
    return bool(subflow["role"] == "join" and subflow["opened_by"] and _fate(subflow))


def _fate(subflow: Json) -> str | None:
    """Returns what kept a joined subflow from carrying data. None if nothing did."""
    opener = subflow["opened_by"]
    answer, proof = subflow["proofs"][_peer(opener)], subflow["proofs"][opener]
    ended = subflow["ended"]
    reset_by = ended["by"] if ended is not None and ended["how"] == "reset" else None
    if answer is not None and answer["is_right"] is False:
        return "answer_hmac_wrong"
    if proof is not None and proof["is_right"] is False:
        return "join_hmac_wrong"
    if subflow["answered_s"] is None:
        return "join_refused" if reset_by == _peer(opener) else "join_unanswered"
    if answer is None:
        return "join_without_option"
    if subflow["usable_s"] is not None:
        return None
    return "join_incomplete" if reset_by is None else "join_reset"


#: What kept a joined subflow from carrying data, with the fields of `_told`.
FATES = {
    "join_refused": "The {by} refused subflow {id}: it answered the SYN with RST{reset}.",
    "join_unanswered": (
        "Subflow {id} never began: no answer to {tried} with MP_JOIN of the {opener} is in the capture, so the {peer} "
        "is unreachable there, or something drops SYNs with MP_JOIN."
    ),
    "join_without_option": (
        "Subflow {id} could not join: the SYN/ACK of the {peer} carries no MP_JOIN, which was removed on the way from "
        "its SYN or from the SYN/ACK{ended}."
    ),
    "answer_hmac_wrong": (
        "The HMAC in the SYN/ACK of the {peer} for subflow {id} (packet {answer}) is not that of the keys in this "
        "capture, so it was changed before the capture point, or the {peer} holds other keys{ended}."
    ),
    "join_hmac_wrong": (
        "The HMAC of the {opener} for subflow {id} (packet {proof}) is not that of the keys in this capture, so it was "
        "changed before the capture point, or the {opener} holds other keys{ended}."
    ),
    "join_reset": "The {by} reset subflow {id} during its handshake{reset}. {of_proof}",
    "join_incomplete": (
        "Subflow {id} never could carry data: no answer of the {peer} to the third packet is in the capture."
    ),
}


def _told(kind: str, subflow: Json, *, has_keys: bool) -> str:
    """Returns the sentence of `FATES` about a subflow."""
    opener, ended, proofs = subflow["opened_by"], subflow["ended"], subflow["proofs"]
    peer = _peer(opener)
    was_reset = ended is not None and ended["how"] == "reset"
    return FATES[kind].format(
        id=subflow["id"],
        opener=opener,
        peer=peer,
        by=ended["by"] if was_reset else "",
        reset=_reset(subflow) if was_reset else "",
        ended=_ended(subflow),
        tried=_count(_syns(subflow), "SYN"),
        answer=proofs[peer] and proofs[peer]["packet"],
        proof=proofs[opener] and proofs[opener]["packet"],
        of_proof=_of_proof(subflow, ended["by"], has_keys=has_keys) if was_reset else "",
    )


def _of_proof(subflow: Json, by: str, *, has_keys: bool) -> str:
    """Tells whether the HMAC of the host whose handshake `by` reset is right."""
    sender = _peer(by)
    proof = subflow["proofs"][sender]
    if proof is None:
        return f"No HMAC of the {sender} is in the capture."
    if proof["is_right"] is None:
        why = "the capture lacks nonces" if has_keys else "the capture lacks the keys"
        return f"Whether the HMAC in packet {proof['packet']} is right is unknown, because {why}."
    return (
        f"The HMAC of the {sender} (packet {proof['packet']}) is right in this capture, so something after "
        f"the capture point changed it, or the {by} holds other keys or refuses for another reason."
    )


def _reset(subflow: Json) -> str:
    """Returns the packet and the reason of a reset, in parentheses."""
    ended = subflow["ended"]
    reason = ended["reason"]
    said = "no reason given" if reason is None else f"'{REASONS.get(reason, f'reason {reason}')}'"
    return f" (packet {ended['packet']}, {said})"


def _ended(subflow: Json) -> str:
    ended = subflow["ended"]
    if ended is None or ended["how"] != "reset":
        return ""
    return f"; the {ended['by']} reset the subflow{_reset(subflow)}"


def _resets(connection: Json) -> Iterator[Finding]:
    """Tells of subflows that were reset after they could carry data."""
    if connection["mp_fastclose"] is not None:
        return
    resets: dict[tuple[str, int | None], list[Json]] = {}
    for subflow in connection["subflows"]:
        ended = subflow["ended"]
        was_open = subflow["usable_s"] is not None or subflow["role"] == "by_data"
        if ended is not None and ended["how"] == "reset" and was_open and not _is_kept_out(subflow):
            resets.setdefault((ended["by"], ended["reason"]), []).append(subflow)
    for (side, _), subflows in resets.items():
        yield Finding("reset", f"The {side} reset {_names(subflows)}{_reset(subflows[0])}.")


def _other_keys(connection: Json) -> Iterator[Finding]:
    """Tells of the first join whose token is that of no key in the capture."""
    server = connection["sides"]["server"]
    tokens = [connection["sides"][side]["token"] for side in SIDES]
    for event in connection["events"]:
        asked = JOIN_TOKEN.search(event["text"]) if event["kind"] == "mp_join" else None
        if asked is not None and all(_keys(connection)) and asked[1] not in tokens:
            text = (
                f"The join in packet {event['packet']} asks for token {asked[1]}, but the server's key in this capture "
                f"has token {server['token']}, so the key or the token was changed before the capture point."
            )
            yield Finding("join_token_wrong", text)
            return


def _violations(connection: Json) -> Iterator[Finding]:
    """Tells of packets that contradict the others, unless another sentence does."""
    told = {subflow["id"] for subflow in connection["subflows"] if _is_kept_out(subflow)}
    packets = {address["packet"] for address in connection["announced"] if address["is_hmac_right"] is False}
    left = [
        event
        for event in connection["events"]
        if event["kind"] == "violation" and event["subflow"] not in told and event["packet"] not in packets
    ]
    if not left:
        return
    first = left[0]
    times = sum(event["times"] for event in left)
    more = f", and {times - 1} more such signs are in the capture" if times > 1 else ""
    text = f"Packet {first['packet']} of the {first['from']} contradicts earlier packets: {first['text']}{more}."
    yield Finding("violation", text)


def _connection_stalls(connection: Json) -> Iterator[Finding]:
    """Tells of the longest time in which no data of a host was acknowledged on any subflow, or in
    which none was captured although it had data to send.
    """
    stalls = [*_gaps(connection), *_silences(connection)]
    if not stalls:
        return
    longest_s, told = max(stalls, key=lambda stall: stall[0])
    all_s = quantity(sum(seconds for seconds, _ in stalls), "s")
    more = f"; {len(stalls)} such stalls lasted {all_s} in all" if len(stalls) > 1 else ""
    text = f"The connection stalled for {quantity(longest_s, 's')}: {told}{more}."
    yield Finding("connection_stalled", text)


def _gaps(connection: Json) -> Iterator[tuple[float, str]]:
    """Yields the length of each long gap, and what happened in it."""
    # DATA_ACKs may be among the options that were cut off.
    if _cut(connection):
        return
    for side in SIDES:
        for gap in connection["data"][side]["gaps"]:
            if _is_long(gap["seconds"]):
                yield (
                    gap["seconds"],
                    f"from {gap['at_s']:.3f} s on, no data of the {side} was acknowledged, while "
                    f"{quantity(gap['waiting_bytes'], 'B')} waited",
                )


def _silences(connection: Json) -> Iterator[tuple[float, str]]:
    """Yields the length of each long silence of the only subflow, and what shows that its sender
    had data to send.
    """
    if len(connection["subflows"]) > 1:
        return
    [subflow] = connection["subflows"]
    for side in SIDES:
        for silence in subflow["directions"][side]["silences"]:
            if _is_long(silence["seconds"]):
                sign = SILENCE_SIGNS[silence["sign"]].format(side=side, packet=silence["packet"])
                yield (
                    silence["seconds"],
                    f"from {silence['at_s']:.3f} s on, no new data of the {side} reached the capture point{sign}",
                )


def _closed_windows(connection: Json) -> Iterator[Finding]:
    """Tells which host was held back by the receive window of the other."""
    for side in SIDES:
        limited_s = connection["data"][side]["window_limited_s"]
        if _is_long(limited_s):
            text = (
                f"The receive window of the {_peer(side)} held the {side} back for {quantity(limited_s, 's')}, because "
                "it had no room for another segment."
            )
            yield Finding("window_closed", text)


def _is_long(seconds: float) -> bool:
    return seconds >= LEAST_STALL_S


def _subflow_stalls(connection: Json) -> Iterator[Finding]:
    """Tells of the longest time in which each subflow did not answer retransmissions, the longest
    first.
    """
    of_subflows = [stall for subflow in connection["subflows"] if (stall := _longest_stall(connection, subflow))]
    if not of_subflows or _is_told(connection, of_subflows[0]):
        return
    parts = []
    stalls = sorted(of_subflows, key=lambda stall: -stall.length_s)
    for stall in stalls:
        end = f"for {quantity(stall.length_s, 's')}" if stall.is_over else "until the end of the capture"
        parts.append(
            f"subflow {stall.subflow} stalled {end}: from {stall.begin_s:.3f} s on, nothing that the {stall.side} sent "
            f"on it was acknowledged ({_count(stall.retries, 'retransmission')})"
        )
    text = "; ".join(parts[:2])
    if others := [str(stall.subflow) for stall in stalls[2:]]:
        text += f"; subflow{'s' if len(others) > 1 else ''} {_series(others)} stalled as well"
    side = stalls[0].side
    if reinjected := connection["data"][side]["reinjected"]["bytes"]:
        text += f"; the connection reinjected {quantity(reinjected, 'B')} of the {side}'s data in all"
    yield Finding("stalled", f"{text[0].upper()}{text[1:]}.")


def _longest_stall(connection: Json, subflow: Json) -> Stall | None:
    """Returns the longest time in which a subflow did not answer, if a verdict mentions it."""
    stalls = [
        Stall(subflow["id"], side, begin, end - begin, episode["retries"], episode["end_s"] is not None)
        for side in SIDES
        for episode in subflow["directions"][side]["timeouts"]
        for begin in [episode["at_s"] - episode["after_s"]]
        for end in [connection["end_s"] if episode["end_s"] is None else episode["end_s"]]
        if _is_long(end - begin)
    ]
    return max(stalls, default=None, key=lambda stall: stall.length_s)


def _is_told(connection: Json, stall: Stall) -> bool:
    """Returns whether the stall of an only subflow is that of the connection, which is told."""
    gaps = connection["data"][stall.side]["gaps"] if len(connection["subflows"]) == 1 and not _cut(connection) else []
    begin, end = stall.begin_s, stall.begin_s + stall.length_s
    return any(gap["at_s"] <= begin and end <= gap["at_s"] + gap["seconds"] + LEAST_STALL_S for gap in gaps)


def _announcements(connection: Json) -> Iterator[Finding]:
    """Tells of announced addresses that were not used, and of those with a wrong HMAC."""
    unused: dict[tuple[str, bool, bool], list[str]] = {}
    for address in connection["announced"]:
        name = f"{address['address']} (ADD_ADDR, packet {address['packet']})"
        if address["is_hmac_right"] is False:
            text = (
                f"The HMAC with which the {address['from']} announced {name} is not that of the keys, so the "
                "announcement was changed before the capture point."
            )
            yield Finding("announcement_hmac_wrong", text)
        elif not address["joined"]:
            unused.setdefault((address["from"], address["echoed"], address["withdrawn"]), []).append(name)
    for (side, echoed, withdrawn), names in unused.items():
        then = ", and withdrew the announcement" if withdrawn else ""
        text = (
            f"The {side} announced {_series(names)}{then}; no join there is in the capture. The {_peer(side)} "
            f"{'echoed' if echoed else 'did not echo'} the announcement."
        )
        yield Finding("announced_not_joined", text)


def _plain(connection: Json) -> Iterator[Finding]:
    """Tells why a connection is plain TCP, or why that is unknown."""
    yield _why_plain(connection)


def _why_plain(connection: Json) -> Finding:
    first = connection["subflows"][0]
    syns = first["syns"]
    if may_use_mptcp(connection):
        missing = "TCP options of the client's SYN" if syns["options_cut"] else "beginning of the connection"
        text = (
            f"The capture does not show whether the connection uses MPTCP, because the {missing} "
            f"{'were' if syns['options_cut'] else 'was'} not captured in full. {WHOLE_HEADERS}"
        )
        return Finding("plain_options_cut", text)
    if not syns["without_mptcp"]:
        start = (
            "The beginning of the connection is not in the capture, and no packet has an MPTCP option: it is plain "
            "TCP, or its options were removed"
        )
        return Finding("plain_beginning_missing", f"{start}{_plain_end(first)}.")
    if first["answered_s"] is None and not first["directions"]["server"]["packets"] and first["usable_s"] is None:
        text = f"Plain TCP: no answer to {_count(syns['without_mptcp'], 'SYN')} of the client is in the capture."
        return Finding("no_answer", text)
    text = "Plain TCP: the SYN of the client does not ask for MPTCP (or its MP_CAPABLE was removed before the capture)"
    return Finding("plain", f"{text}{_plain_end(first)}.")


def _plain_end(subflow: Json) -> str:
    ended = subflow["ended"]
    if ended is None or ended["how"] != "reset":
        return ""
    return f"; the {ended['by']} reset it (packet {ended['packet']})"


def _healthy(connection: Json) -> Finding:
    carried = _carried(connection) or "no data is in the capture"
    if len(connection["subflows"]) == 1:
        alone = "MPTCP was negotiated, and the capture has no second subflow"
        return Finding("one_subflow", f"{alone}: {carried}. A capture of one interface shows only its path.")
    return Finding("worked", f"MPTCP worked: {carried}; nothing was refused in this capture.")


def _carried(connection: Json) -> str:
    """Returns how the subflows shared the data of the host that sent more."""
    sums = {side: sum(one["directions"][side]["bytes"] for one in connection["subflows"]) for side in SIDES}
    side = max(SIDES, key=lambda one: sums[one])
    total = sums[side]
    if not total:
        return ""
    shares = {one["id"]: one["directions"][side]["bytes"] for one in connection["subflows"]}
    used = {name: sent for name, sent in shares.items() if sent}
    sent = quantity(connection["data"][side]["bytes"] or total, "B")
    if len(used) == 1:
        able = [one for one in connection["subflows"] if one["usable_s"] is not None and not _is_kept_out(one)]
        idle = [one for one in able if not one["bytes"]]
        others = f"; {_names(idle)} could have carried data and did not" if idle else ""
        return f"subflow {next(iter(used))} carried all {sent} of the {side}{others}"
    parts = _series([f"{sent / total:.0%}" for sent in used.values()])
    return f"{len(used)} subflows carried {parts} of the {sent} of the {side}"


def _names(subflows: Sequence[Json]) -> str:
    numbers = [str(subflow["id"]) for subflow in subflows]
    return f"subflow {numbers[0]}" if len(numbers) == 1 else f"subflows {_series(numbers)}"


def _series(items: Sequence[str]) -> str:
    if len(items) > 8:
        return f"{', '.join(items[:8])} and {len(items) - 8} more"
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


#: The searches for what kept data waiting, the worst first.
STALLS: list[Callable[[Json], Iterator[Finding]]] = [_connection_stalls, _subflow_stalls, _closed_windows]
#: The searches for findings on plain TCP, the worst first.
PLAIN_SEARCHES = [*STALLS, _plain]
#: The searches for findings on MPTCP, the worst first.
SEARCHES: list[Callable[[Json], Iterator[Finding]]] = [
    _unanswered,
    _changed_payload,
    _fallback,
    _aborted,
    _refused_joins,
    _resets,
    _other_keys,
    _violations,
    *STALLS,
    _missing_parts,
    _cut_options,
    _announcements,
]
