"""Algorithms of one's own for own-algorithms.yaml: a congestion control, a scheduler and a path
manager.

Hooks get copies of what the engine knows, and answer what is to be done; mptcplab.hooks has the
types of both.
"""

from mptcplab.hooks import (
    Acked,
    Assign,
    Change,
    Command,
    Congestion,
    Connection,
    Context,
    Established,
    Event,
    OpenSubflow,
    View,
)


class Aimd:
    """Additive increase, multiplicative decrease (Chiu and Jain, 1989), each subflow by itself."""

    def __init__(self, add_packets: float = 1.0, keep: float = 0.5) -> None:
        self.add_packets = add_packets
        self.keep = keep

    def acked(self, context: Context, acked: Acked) -> Change | None:
        """Doubles the window in a round trip of slow start, and adds some packets in any other."""
        this = context.this
        if not acked.is_window_limited:
            return None
        if this.cwnd_bytes < this.ssthresh_bytes:
            return Change(cwnd_bytes=this.cwnd_bytes + acked.bytes)
        packets = acked.bytes / this.cwnd_bytes * self.add_packets
        return Change(cwnd_bytes=this.cwnd_bytes + packets * this.mss_bytes)

    def congestion(self, context: Context, congestion: Congestion) -> Change:
        """Keeps a part of the window; after a timeout the engine begins with one segment anew."""
        return Change(ssthresh_bytes=self.keep * context.this.cwnd_bytes)


class MostRoom:
    """New data go to the subflow whose window has the most room; what is to be sent again too."""

    def next(self, view: View) -> Assign | None:
        """Waits while no window is open, or no new data fits into that of the peer."""
        if view.reason not in ("new_data", "reinject"):
            return None
        free = [subflow for subflow in view.subflows if subflow.is_available and subflow.has_window]
        if not free:
            return None
        best = max(free, key=lambda subflow: subflow.room_bytes)
        return Assign(best.id, min(best.mss_bytes, view.head.len))


class EveryPair:
    """A subflow for each pair of addresses, opened as soon as the connection stands, and never
    again.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def handle(self, now_ns: int, event: Event) -> list[Command]:
        """Only the side that opened the connection opens subflows."""
        if not isinstance(event, Established) or self.connection.role == "acceptor":
            return []
        (first, _), (_, port) = self.connection.initial.local, self.connection.initial.remote
        locals_ = dict.fromkeys(pair.local for pair in self.connection.pairs)
        numbers = {local: 0 if local == first else number for number, local in enumerate(locals_, start=1)}
        initial = (first, self.connection.initial.remote[0])
        return [
            OpenSubflow(pair.local, numbers[pair.local], (pair.remote, port))
            for pair in self.connection.pairs
            if pair != initial
        ]
