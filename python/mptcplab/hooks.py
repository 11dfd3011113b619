"""What the hooks of algorithms of your own see and answer. Views are copies: nothing that is done to one has an effect.

Instants and durations are whole nanoseconds, an instant from the start of the run; `docs/extending.md` has the hooks.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

# ---- congestion control ----------------------------------------------------------------------------------------------


class Window(NamedTuple):
    """A subflow as congestion control sees it."""

    cwnd_bytes: float
    ssthresh_bytes: float
    """Infinite until the first congestion."""
    mss_bytes: int
    srtt_ns: int | None
    """Smoothed round-trip time (RFC 6298), None without a sample."""
    min_rtt_ns: int | None
    in_flight_bytes: int
    """Sent and neither acknowledged nor counted as lost."""
    in_recovery: bool
    is_usable: bool
    """Established, and neither closing nor stale."""
    acked_since_loss_bytes: int
    acked_between_losses_bytes: int
    """Acknowledged between the last two congestions."""


class Context(NamedTuple):
    """All subflows of a connection, and which of them a hook is about."""

    now_ns: int
    which: int
    windows: tuple[Window, ...]
    """In the order in which subflows came."""

    @property
    def this(self) -> Window:
        """The subflow that the hook is about."""
        return self.windows[self.which]


class DeliveryRate(NamedTuple):
    """A sample of the rate of delivery (draft-ietf-ccwg-bbr, section 4.1)."""

    bytes_per_second: float
    is_application_limited: bool
    delivered_before_bytes: int
    """Delivered when the segment that measured it was sent."""


class Acked(NamedTuple):
    """What an acknowledgment brought."""

    bytes: int
    """Newly acknowledged, cumulatively or selectively."""
    lost_bytes: int
    """Newly counted as lost because of it."""
    rtt_ns: int | None
    is_window_limited: bool
    """Whether the window was in use; without that it should not grow."""
    delivery_rate: DeliveryRate | None
    delivered_bytes: int
    """On the subflow since it began."""


Congestion = Literal["loss", "ecn", "timeout"]


class Change(NamedTuple):
    """The answer of a hook: new values for the subflow that it is about; None leaves one as it is."""

    cwnd_bytes: float | None = None
    """At least a segment is kept."""
    ssthresh_bytes: float | None = None
    """At least two segments are kept."""


# ---- scheduler -------------------------------------------------------------------------------------------------------


class SubflowView(NamedTuple):
    """A subflow as a scheduler sees it."""

    id: int
    """Never used again in its connection."""
    is_usable: bool
    """Established and not closing: only such a subflow can be given data."""
    is_backup: bool
    is_stale: bool
    """Found to deliver nothing."""
    in_loss: bool
    """It repairs what a retransmission timeout left."""
    is_open: bool
    """It repairs nothing."""
    srtt_ns: int
    """0 without a sample."""
    rttvar_ns: int
    mss_bytes: int
    cwnd_bytes: int
    ssthresh_bytes: int
    """2**32 - 1 while there is none."""
    in_flight_bytes: int
    queued_bytes: int
    """Assigned and not yet sent."""
    unacked_bytes: int
    """Sent or assigned, and not acknowledged."""
    buffer_bytes: int
    """The most that unacked_bytes may become."""
    pacing_rate: float
    """Bytes per second."""
    sent_bytes: int
    resent_bytes: int
    missed_intervals: int
    """Expiries of the connection's timer since something was received on it."""
    has_carried_head: bool
    """Whether it has carried the data in question already."""
    is_available: bool
    """Usable and not stale."""
    has_window: bool
    """Whether a full segment could leave now."""
    room_bytes: int
    """What its window and its buffer still take."""
    buffer_left_bytes: int


class Range(NamedTuple):
    """Data of a stream: the first byte, and how many."""

    start: int
    len: int


class View(NamedTuple):
    """A connection as a scheduler sees it."""

    now_ns: int
    reason: Literal["reinject", "meta_timeout", "new_data", "window_blocked", "buffer_blocked", "nothing_new"]
    """Why it is asked."""
    subflows: tuple[SubflowView, ...]
    head: Range
    """The data in question; not empty."""
    acked_bytes: int
    written_bytes: int
    assigned_bytes: int
    window_bytes: int
    """The peer's receive window beyond acked_bytes."""
    unassigned_bytes: int
    window_left_bytes: int
    """New data that the peer's window still takes."""


class Assign(NamedTuple):
    """The first bytes of the head go to the subflow with that id."""

    subflow: int
    bytes: int


class AssignRange(NamedTuple):
    """Data behind the head, written and not yet acknowledged, goes to a subflow."""

    subflow: int
    start: int
    len: int


class Penalize(NamedTuple):
    """The window of a subflow is halved (Raiciu et al., NSDI 2012, section 4.2)."""

    subflow: int


# ---- path manager ----------------------------------------------------------------------------------------------------

Socket = tuple[str, int]
"""An address and a port."""


class FourTuple(NamedTuple):
    """Both ends of a subflow."""

    local: Socket
    remote: Socket


class AddressPair(NamedTuple):
    """Two addresses between which packets can go."""

    local: str
    remote: str


class Connection(NamedTuple):
    """What a path manager knows of its connection from the start."""

    role: Literal["opener", "acceptor"]
    initial: FourTuple
    pairs: tuple[AddressPair, ...]
    """In order of preference."""
    down: tuple[str, ...]
    """Local addresses that are not usable now."""
    backup: tuple[str, ...]
    """Local addresses whose subflows are backup ones."""


class Established(NamedTuple):
    """From now on subflows can be opened and addresses announced."""


class AddressUp(NamedTuple):
    """A local address is usable (again)."""

    local: str


class AddressDown(NamedTuple):
    """A local address is gone."""

    local: str


class Backup(NamedTuple):
    """The subflows of a local address are to be backup ones, or regular ones again."""

    local: str
    on: bool


class Announced(NamedTuple):
    """The peer announced an address; without a port it is that of the initial subflow."""

    id: int
    address: str
    port: int | None


class Removed(NamedTuple):
    """The peer removed an address."""

    id: int


class SubflowEstablished(NamedTuple):
    """A further subflow is established, whoever opened it."""

    subflow: FourTuple
    local_id: int
    remote_id: int


class SubflowClosed(NamedTuple):
    """A subflow is closed, or could not be established."""

    subflow: FourTuple


class Unfit(NamedTuple):
    """A pair is not to be tried again while there is another way."""

    pair: AddressPair


class Progress(NamedTuple):
    """The last subflow is closed, and data have got through since it was the last time. That it is closed follows."""


class OpenFailed(NamedTuple):
    """A command to open a subflow was refused at once."""

    pair: AddressPair


Event = (
    Established
    | AddressUp
    | AddressDown
    | Backup
    | Announced
    | Removed
    | SubflowEstablished
    | SubflowClosed
    | Unfit
    | Progress
    | OpenFailed
)


class Announce(NamedTuple):
    """Tell the peer of a local address (ADD_ADDR); without a port it is that of the initial subflow."""

    id: int
    address: str
    port: int | None = None


class Remove(NamedTuple):
    """Tell the peer that a local address is gone (REMOVE_ADDR); subflows stay."""

    id: int
    address: str


class OpenSubflow(NamedTuple):
    """Open a subflow, from a port that the host chooses; `local_id` is 0 for the initial subflow's address."""

    local: str
    local_id: int
    remote: Socket
    backup: bool = False


class CloseSubflow(NamedTuple):
    """Close a subflow."""

    subflow: FourTuple


class SetBackup(NamedTuple):
    """Make a subflow a backup one, or a regular one again (MP_PRIO)."""

    subflow: FourTuple
    backup: bool


Command = Announce | Remove | OpenSubflow | CloseSubflow | SetBackup
