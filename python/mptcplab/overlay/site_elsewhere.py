"""A site on a machine reached by SSH, as the coordinator has it: the connection to its program there,
which is started again when it is lost.
"""

from __future__ import annotations

import asyncio
import json
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

from mptcplab.errors import MptcplabError
from mptcplab.overlay import entries
from mptcplab.overlay.failure import OverlayFailed
from mptcplab.overlay.passages import Passage
from mptcplab.overlay.plan import PlannedSite
from mptcplab.overlay.program import archive
from mptcplab.overlay.site import HostTunnel, Measured
from mptcplab.overlay.switch_entries import table
from mptcplab.remote.bootstrap import start_python
from mptcplab.remote.channel import Channel, Lost
from mptcplab.remote.place import machine_of

if TYPE_CHECKING:
    from mptcplab.overlay.switch import Switch
    from mptcplab.remote.ssh import Ssh

#: Time limits in seconds: for an answer during the start, for silence afterwards, and until the
#: next attempt after a loss.
ANSWER_S, SILENT_S, AGAIN_S = 20.0, 10.0, 2.0


class SiteElsewhere:
    """A site on another machine. `number` counts from 0.

    `connect` and `begin` wait for the machine. All else is called from the coordinator's loop and
    waits for nothing. Orders to a machine that is not connected are dropped: whoever is told that
    it is back repeats them.
    """

    def __init__(self, planned: PlannedSite, number: int) -> None:
        self.number = number
        self.is_exit = planned.is_exit
        self.at = planned.at or ""
        self._where = f"site {planned.name}, {self.at}"
        self._way: Ssh = machine_of(self.at, self._where)
        self._given_address = planned.address
        self.address = planned.address or ""
        self.addresses: Sequence[str] = ()
        self.measured: dict[tuple[int, bool], Measured] = {}
        self.tunnels: dict[int, HostTunnel] = {}
        #: What the site changes on its machine, for readers.
        self.changes: list[str] = []
        #: Why the machine is not connected.
        self.problem: str | None = None
        self.forwarding = planned.forwarding
        #: From `follow` on, if the site has one.
        self.switch: Switch | None = None
        self._passages: dict[int, Passage] = {}
        self._others: Sequence[int] = ()
        self._asked: Sequence[int] = ()
        self._channel: Channel | None = None
        self._is_up = False
        self._is_closed = threading.Event()

    # ---- the connection ----

    def connect(self) -> None:
        """Starts the program there, which tells what it will change. Raises MptcplabError."""
        channel = self._way.shell()
        try:
            way_in = start_python(channel, archive(), self._where)
            self._channel = channel
            has_switch = self.forwarding == "openflow"
            self._say({"site": self.number, "exit": self.is_exit, "switch": has_switch, "way_in": way_in})
            self.changes = self._answer("changes")
        except BaseException:
            channel.close()
            raise
        self.address = self._given_address or self._way.peer() or ""
        if ":" in self.address:
            channel.close()
            raise OverlayFailed(f"{self._where}: SSH reaches it at {self.address}; needed: `address`, by IPv4")

    def begin(self) -> None:
        """Sets up the site there. Raises MptcplabError."""
        self._say({"do": "begin"})
        try:
            self._answer("ready")
        except BaseException:
            self._close_channel()
            raise
        self._is_up = True

    def _answer(self, word: str) -> Any:
        assert self._channel is not None
        try:
            answer: dict[str, Any] = json.loads(self._channel.line(ANSWER_S))
        except Lost as lost:
            raise OverlayFailed(f"{self._where}: {lost}") from None
        if word not in answer:
            raise OverlayFailed(f"{self._where}: {answer.get('problem', answer)}")
        return answer[word]

    def follow(
        self, loop: asyncio.AbstractEventLoop, on_beat: Callable[[int], None], on_change: Callable[[int, bool], None]
    ) -> None:
        """Follows the program from now on. In `loop`, `on_beat` is called with the number at each
        heartbeat, and `on_change` when the site is lost (False) or back (True).
        """
        if self.forwarding == "openflow":
            self.switch = _switch(self._where, self._send_openflow)

        def in_loop(function: Callable[..., None], *arguments: Any) -> None:
            # The loop may have ended.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(function, *arguments)

        def work() -> None:
            while not self._is_closed.is_set():
                try:
                    while True:
                        assert self._channel is not None
                        message = json.loads(self._channel.line(SILENT_S))
                        if "problem" in message:
                            raise OverlayFailed(message["problem"])
                        in_loop(self._take, message, on_beat)
                except MptcplabError as error:
                    in_loop(self._lose, str(error), on_change)
                self._close_channel()
                if self._is_back():
                    in_loop(on_change, self.number, True)

        threading.Thread(target=work, daemon=True, name=self._where).start()

    def _is_back(self) -> bool:
        """Connects again until that works. Returns whether it did before the end."""
        while not self._is_closed.wait(AGAIN_S):
            try:
                self.connect()
                self.begin()
            except MptcplabError as error:
                self.problem = str(error)
            else:
                self.problem = None
                return True
        return False

    def _take(self, message: dict[str, Any], on_beat: Callable[[int], None]) -> None:
        if "beat" in message:
            self._record(message["beat"], on_beat)
        elif self.switch is not None:
            self.switch.receive(message["openflow"], b64decode(message["bytes"]))

    def _record(self, beat: dict[str, Any], on_beat: Callable[[int], None]) -> None:
        for other, through_tunnel, *found in beat["measured"]:
            self.measured[other, through_tunnel] = Measured(*found)
        now_s = monotonic()
        for number, age_s in beat["heard"]:
            if number in self.tunnels:
                self.tunnels[number].heard_s = now_s - age_s
        on_beat(self.number)

    def _lose(self, why: str, on_change: Callable[[int, bool], None]) -> None:
        self._is_up = False
        self.problem = why
        if self.switch is not None:
            self.switch.lose()
        on_change(self.number, False)

    def resume(self) -> None:
        """Repeats what the program there has to know, after it was started again."""
        self._say({"do": "addresses", "of": list(self.addresses)})
        self.join_mesh(self._others, self._asked)
        if self.switch is None:
            self._configure(entries.changes([], list(self._passages.values())))
        for tunnel in self.tunnels.values():
            self._open(tunnel)

    def stay_in_touch(self) -> None:
        """Sends a line, so that the program there knows that somebody listens."""
        if self._is_up and self._channel is not None:
            self._channel.send(b"\n")
            if self.switch is not None:
                self.switch.count_entries()

    def close(self) -> None:
        """Ends the program there, and waits for it."""
        self._is_closed.set()
        self._is_up = False
        self._close_channel()

    def _close_channel(self) -> None:
        if self._channel is not None:
            self._channel.close()

    # ---- orders ----

    def set_addresses(self, addresses: Sequence[str]) -> None:
        """Tells where messages of each site go."""
        self.addresses = addresses
        self._order({"do": "addresses", "of": list(addresses)})

    def join_mesh(self, others: Sequence[int], measured: Sequence[int]) -> None:
        """Sets up the tunnels to other sites, and measures some of them from now on."""
        self._others, self._asked = others, measured
        self._order({"do": "join_mesh", "others": list(others), "measured": list(measured)})
        self._put_entries()

    def change(self, removed: Sequence[Passage], added: Sequence[Passage]) -> None:
        """Forwards some passages no longer, and others from now on."""
        for passage in removed:
            self._passages.pop(passage.tunnel, None)
        self._passages |= {passage.tunnel: passage for passage in added}
        if self.switch is None:
            self._configure(entries.changes(removed, added))
        self._put_entries()

    def _put_entries(self) -> None:
        """Gives the switch, if there is one, the entries of the site's tunnels and passages."""
        if self.switch is not None:
            self.switch.put(table(self.number, self._others, self._passages.values()))

    def _send_openflow(self, connection: int, data: bytes) -> None:
        self._order({"do": "openflow", "connection": connection, "bytes": b64encode(data).decode()})

    def _configure(self, lines: Sequence[str]) -> None:
        self._order({"do": "configure", "lines": list(lines)})

    def ask(self, other: int, *, through_tunnel: bool, size: int = 0) -> None:
        """Sends an echo with `size` further bytes to another site."""
        self._order({"do": "ask", "other": other, "through_tunnel": through_tunnel, "size": size})

    def open_tunnel(self, tunnel: HostTunnel) -> None:
        """Expects messages of a host."""
        self.tunnels[tunnel.number] = tunnel
        self._open(tunnel)

    def _open(self, tunnel: HostTunnel) -> None:
        key = f"{tunnel.key:x}"
        self._order({"do": "open_tunnel", "number": tunnel.number, "key": key, "address": str(tunnel.address)})

    def close_tunnel(self, tunnel: HostTunnel) -> None:
        """Knows the tunnel of a host no longer."""
        self.tunnels.pop(tunnel.number, None)
        self._order({"do": "close_tunnel", "number": tunnel.number})

    def _order(self, order: dict[str, Any]) -> None:
        if self._is_up:
            self._say(order)

    def _say(self, message: dict[str, Any]) -> None:
        assert self._channel is not None
        self._channel.send(json.dumps(message, separators=(",", ":")).encode() + b"\n")


def _switch(name: str, send: Callable[[int, bytes], None]) -> Switch:
    # Only here, because most overlays do without os-ken.
    from mptcplab.overlay.switch import Switch

    return Switch(name, send)
