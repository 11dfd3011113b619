"""The arguments and results of the hooks of user-defined algorithms. Views are copies, so changes
to them do nothing.

Times and durations are whole nanoseconds. Times count from the start of the run.
`docs/guide/extending.md` describes the hooks.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

# ---- congestion control --------------------------------------------------------------------------


class Window(NamedTuple):
    """A subflow as congestion control sees it."""

    cwnd_bytes: float
    ssthresh_bytes: float
    """Infinite until the first congestion event."""
    mss_bytes: int
    srtt_ns: int | None
    """Smoothed round-trip time (RFC 6298); None without a sample."""
    min_rtt_ns: int | None
    in_flight_bytes: int
    """Bytes sent, and neither acknowledged nor marked lost."""
    in_recovery: bool
    is_usable: bool
    """Established, and neither closing nor stale."""
    acked_since_loss_bytes: int
    acked_between_losses_bytes: int
    """Bytes acknowledged between the last two congestion events."""


class Context(NamedTuple):
    """All subflows of a connection, and the one that the hook is about."""

    now_ns: int
    which: int
    windows: tuple[Window, ...]
    """The subflows in the order in which they were established."""

    @property
    def this(self) -> Window:
        """The subflow that the hook is about."""
        return self.windows[self.which]


class DeliveryRate(NamedTuple):
    """A sample of the delivery rate (draft-ietf-ccwg-bbr, section 4.1)."""

    bytes_per_second: float
    is_application_limited: bool
    delivered_before_bytes: int
    """Bytes delivered when the segment of this sample was sent."""


class Acked(NamedTuple):
    """The effect of an acknowledgment."""

    bytes: int
    """Bytes newly acknowledged, cumulatively or selectively."""
    lost_bytes: int
    """Bytes newly marked lost by this acknowledgment."""
    rtt_ns: int | None
    is_window_limited: bool
    """Whether the window limited the sender. Otherwise it should not grow."""
    delivery_rate: DeliveryRate | None
    delivered_bytes: int
    """Bytes delivered on the subflow since it began."""


Congestion = Literal["loss", "ecn", "timeout"]


class Change(NamedTuple):
    """The result of a hook: new values for its subflow. None leaves a value unchanged."""

    cwnd_bytes: float | None = None
    """The engine keeps at least one segment."""
    ssthresh_bytes: float | None = None
    """The engine keeps at least two segments."""


# ---- scheduler -----------------------------------------------------------------------------------


class SubflowView(NamedTuple):
    """A subflow as a scheduler sees it."""

    id: int
    """The id, which is never reused in the connection."""
    is_usable: bool
    """Established and not closing. Only such a subflow can carry data."""
    is_backup: bool
    is_stale: bool
    """Timed out without progress."""
    in_loss: bool
    """Recovering from a retransmission timeout."""
    is_open: bool
    """Not recovering from any loss."""
    srtt_ns: int
    """0 without a sample."""
    rttvar_ns: int
    mss_bytes: int
    cwnd_bytes: int
    ssthresh_bytes: int
    """2**32 - 1 while there is no threshold."""
    in_flight_bytes: int
    queued_bytes: int
    """Bytes assigned and not yet sent."""
    unacked_bytes: int
    """Bytes sent or assigned, and not acknowledged."""
    buffer_bytes: int
    """The upper limit of unacked_bytes."""
    pacing_rate: float
    """Bytes per second."""
    sent_bytes: int
    resent_bytes: int
    missed_intervals: int
    """Expiries of the connection's timer since the subflow last received something."""
    has_carried_head: bool
    """Whether the subflow has already carried the head."""
    is_available: bool
    """Usable and not stale."""
    has_window: bool
    """Whether a full segment could leave now."""
    room_bytes: int
    """Bytes that its window and its buffer can still take."""
    buffer_left_bytes: int


class Range(NamedTuple):
    """A range of the byte stream: the first byte, and the length."""

    start: int
    len: int


class View(NamedTuple):
    """A connection as a scheduler sees it."""

    now_ns: int
    reason: Literal["reinject", "meta_timeout", "new_data", "window_blocked", "buffer_blocked", "nothing_new"]
    """Why the scheduler is called."""
    subflows: tuple[SubflowView, ...]
    head: Range
    """The data that the decision is about; not empty."""
    acked_bytes: int
    written_bytes: int
    assigned_bytes: int
    window_bytes: int
    """The peer's receive window beyond acked_bytes."""
    unassigned_bytes: int
    window_left_bytes: int
    """New data that the peer's receive window can still take."""


class Assign(NamedTuple):
    """Assigns the first bytes of the head to the subflow with that id."""

    subflow: int
    bytes: int


class AssignRange(NamedTuple):
    """Assigns data behind the head, written and not yet acknowledged, to a subflow."""

    subflow: int
    start: int
    len: int


class Penalize(NamedTuple):
    """Halves the window of a subflow (Raiciu et al., NSDI 2012, section 4.2)."""

    subflow: int


# ---- path manager --------------------------------------------------------------------------------

Socket = tuple[str, int]
"""An address and a port."""


class FourTuple(NamedTuple):
    """The addresses and ports of a subflow."""

    local: Socket
    remote: Socket


class AddressPair(NamedTuple):
    """A local and a remote address between which packets can pass."""

    local: str
    remote: str


class Connection(NamedTuple):
    """The data that a path manager has about its connection from the start."""

    role: Literal["opener", "acceptor"]
    initial: FourTuple
    pairs: tuple[AddressPair, ...]
    """In order of preference."""
    down: tuple[str, ...]
    """Local addresses that are not usable at the start."""
    backup: tuple[str, ...]
    """Local addresses whose subflows have backup priority."""


class Established(NamedTuple):
    """From this event on, subflows can be opened and addresses announced."""


class AddressUp(NamedTuple):
    """A local address is usable, or usable again."""

    local: str


class AddressDown(NamedTuple):
    """A local address is no longer usable."""

    local: str


class Backup(NamedTuple):
    """The subflows of a local address become backup ones, or regular ones again."""

    local: str
    on: bool


class Announced(NamedTuple):
    """The peer announced an address. Without a port, the port is that of the initial subflow."""

    id: int
    address: str
    port: int | None


class Removed(NamedTuple):
    """The peer withdrew an address."""

    id: int


class SubflowEstablished(NamedTuple):
    """A further subflow is established, opened by either host."""

    subflow: FourTuple
    local_id: int
    remote_id: int


class SubflowClosed(NamedTuple):
    """A subflow is closed, or could not be established."""

    subflow: FourTuple


class Unfit(NamedTuple):
    """A pair should not be tried again while another is available."""

    pair: AddressPair


class Progress(NamedTuple):
    """The last subflow is closed, and data got through since the last such event. ``SubflowClosed``
    follows.
    """


class OpenFailed(NamedTuple):
    """The host refused at once to open a subflow."""

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
    """Announces a local address to the peer (ADD_ADDR). Without a port, the port is that of the
    initial subflow.
    """

    id: int
    address: str
    port: int | None = None


class Remove(NamedTuple):
    """Withdraws a local address (REMOVE_ADDR). Its subflows stay open."""

    id: int
    address: str


class OpenSubflow(NamedTuple):
    """Opens a subflow from a port that the host chooses. `local_id` is 0 for the initial subflow's
    address.
    """

    local: str
    local_id: int
    remote: Socket
    backup: bool = False


class CloseSubflow(NamedTuple):
    """Closes a subflow."""

    subflow: FourTuple


class SetBackup(NamedTuple):
    """Makes a subflow a backup one, or a regular one again (MP_PRIO)."""

    subflow: FourTuple
    backup: bool


Command = Announce | Remove | OpenSubflow | CloseSubflow | SetBackup
