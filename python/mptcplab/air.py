"""What the air of a Wi-Fi network carries of one station alone, from the resolved form of the network.

The durations are those of IEEE Std 802.11-2020, clauses 16 to 21 and 27, as in the simulator
(``crates/emulation/src/link/wifi/phy.rs``). A test holds them to what the simulator delivers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import log2
from typing import Any, Literal, TypeAlias, get_args

Json = Mapping[str, Any]
Category: TypeAlias = Literal["best_effort", "background", "video", "voice"]

#: The access categories in the order of the resolved form.
CATEGORIES: tuple[Category, ...] = get_args(Category)

_LLC_BYTES, _FCS_BYTES, _DELIMITER_BYTES = 8, 4, 4
_ACK_BYTES, _BLOCK_ACK_BYTES = 14, 32
_SERVICE_AND_TAIL_BITS = 22
#: Bits per subcarrier and symbol of each MCS, in twelfths, and the signal at 20 MHz at which half of its frames fail,
#: in thousandths of a dB.
_MCS = (
    (6, 2000), (12, 5000), (18, 8000), (24, 12_000), (36, 17_000), (48, 21_000), (54, 22_500), (60, 24_000),
    (72, 28_500), (80, 30_500), (90, 33_000), (100, 35_500),
)  # fmt: skip
_MCS_COUNT = {"n": 8, "ac": 10, "ax": 12}
#: Mbit/s of OFDM without MCS, and its signal; kbit/s of DSSS.
_OFDM = ((6, 2000), (9, 3500), (12, 5000), (18, 8000), (24, 12_000), (36, 17_000), (48, 21_000), (54, 22_500))
_DSSS = ((1000, -1000), (2000, 2000), (5500, 5000), (11_000, 8000))
_SNR_OF_DOUBLE_WIDTH_MDB = 3000
_SUBCARRIERS = {20: 52, 40: 108, 80: 234, 160: 468}
_HE_SUBCARRIERS = {20: 234, 40: 468, 80: 980, 160: 1960}
#: Slot, SIFS and the silence after each OFDM frame in us.
_TIMES_US = {"b": (20, 10, 0), "g": (9, 10, 6)}
_TIMES_AT_5_GHZ_US = (9, 16, 0)
#: The signal is above its mean and this many standard deviations in 2 % of the time.
_DEVIATIONS = 2


@dataclass(frozen=True)
class _Rate:
    """A rate of data frames: its bits per symbol of a length in us, the preamble, and the signal it needs."""

    bits_per_symbol: float
    symbol_us: float
    preamble_us: float
    snr50_mdb: float

    @property
    def mbps(self) -> float:
        return self.bits_per_symbol / self.symbol_us


def most_payload_bps(network: Json, link: str, payload_bytes: int, header_bytes: int) -> int:
    """Returns the largest rate of payload in bit/s in one direction of a station that has the air for itself.

    Its packets have ``payload_bytes`` behind ``header_bytes`` of IP and transport.

    The rate of the frames is the fixed one, else the best of those that arrive at two standard deviations above the
    largest mean of the signal. `network` is an access network of kind `wifi`.
    """
    [station] = [one for one in network["stations"] if one["link"] == link]
    air = _Air(network, station)
    return int(max(air.packets_per_s(rate, payload_bytes + header_bytes) for rate in air.rates()) * 8 * payload_bytes)


class _Air:
    """The air of a network for one of its stations."""

    def __init__(self, network: Json, station: Json) -> None:
        self._network, self._station = network, station
        self._standard = network["standard"]
        self._slot_us, self._sifs_us, self._silence_us = _TIMES_US.get(self._standard, _TIMES_AT_5_GHZ_US)

    def rates(self) -> list[_Rate]:
        """Returns the rates that the station may use, at least one."""
        every = self._every_rate()
        if self._station["rate"]["kind"] == "fixed":
            return [every[self._station["rate"]["mcs"]]]
        signal = self._station["snr"]
        most_mdb = max(mean["mean_mdb"] for mean in signal["means"]) + _DEVIATIONS * signal["sd_mdb"]
        return [rate for rate in every if rate.snr50_mdb <= most_mdb] or every[:1]

    def packets_per_s(self, rate: _Rate, ip_bytes: int) -> float:
        """Returns the packets per second if every transmission is as long as it may be and arrives."""
        access: Json = self._network["edca"][CATEGORIES.index(self._station["access_category"])]
        header = 26 if self._standard in _MCS_COUNT else 24
        mpdu = ip_bytes + _LLC_BYTES + header + _FCS_BYTES
        subframe = -(-(mpdu + _DELIMITER_BYTES) // 4) * 4
        limits: Json = self._network["aggregation"]
        txop_us = float(access["txop_limit_ns"]) / 1000
        longest_us = min(limits["max_ppdu_ns"] / 1000, txop_us or float("inf"))
        most_bytes = min(int(limits["max_bytes"]), self._most_bytes(rate, longest_us))
        mpdus = max(1, min(int(limits["max_mpdus"]), most_bytes // subframe))
        sent = mpdus * subframe if mpdus > 1 else mpdu
        answer = _BLOCK_ACK_BYTES if mpdus > 1 else _ACK_BYTES
        exchange_us = self._ppdu_us(rate, sent) + self._sifs_us + self._control_us(rate, answer)
        # A TXOP is a row of exchanges with SIFS between them.
        exchanges = max(1, int((txop_us + self._sifs_us) // (exchange_us + self._sifs_us)))
        waiting_us = self._sifs_us + float(access["aifsn"] + access["cw_min"] / 2) * self._slot_us
        busy_us = exchanges * exchange_us + (exchanges - 1) * self._sifs_us
        return 1e6 * exchanges * mpdus / (waiting_us + busy_us)

    def _every_rate(self) -> list[_Rate]:
        if self._standard == "b":
            return [_Rate(kbps / 1000, 1, 192, signal) for kbps, signal in _DSSS]
        if self._standard not in _MCS_COUNT:
            return [_Rate(4 * mbps, 4, 20, signal) for mbps, signal in _OFDM]
        streams, width = self._station["streams"], self._network["width_mhz"]
        trainings = 1 if streams == 1 else streams + streams % 2
        is_he = self._standard == "ax"
        symbol_us = (12.8 if is_he else 3.2) + self._network["guard_interval_ns"] / 1000
        preamble_us = {"n": 32 + 4 * trainings, "ac": 36 + 4 * trainings, "ax": 36.8 + 7.2 * trainings}[self._standard]
        subcarriers = (_HE_SUBCARRIERS if is_he else _SUBCARRIERS)[width]
        wider_mdb = _SNR_OF_DOUBLE_WIDTH_MDB * log2(width / 20)
        known = _MCS[: _MCS_COUNT[self._standard]]
        return [
            _Rate(subcarriers * bits * streams // 12, symbol_us, preamble_us, signal + wider_mdb)
            for bits, signal in known
        ]

    def _ppdu_us(self, rate: _Rate, frame_bytes: int) -> float:
        if self._standard == "b":
            return rate.preamble_us + 8 * frame_bytes / rate.mbps
        symbols = -(-(_SERVICE_AND_TAIL_BITS + 8 * frame_bytes) // rate.bits_per_symbol)
        return rate.preamble_us + symbols * rate.symbol_us + self._silence_us

    def _most_bytes(self, rate: _Rate, longest_us: float) -> int:
        if longest_us == float("inf"):
            return int(self._network["aggregation"]["max_bytes"])
        payload_us = longest_us - rate.preamble_us - self._silence_us
        bits = payload_us // rate.symbol_us * rate.bits_per_symbol
        return max(0, int(bits - _SERVICE_AND_TAIL_BITS) // 8)

    def _control_us(self, rate: _Rate, frame_bytes: int) -> float:
        """Returns the duration of a control frame, at the highest basic rate not above that of the data."""
        basic = (2.0, 1.0) if self._standard == "b" else (24.0, 12.0, 6.0)
        mbps = next((one for one in basic if one <= rate.mbps), basic[-1])
        if self._standard == "b":
            return self._ppdu_us(_Rate(mbps, 1, 192, 0), frame_bytes)
        return self._ppdu_us(_Rate(4 * mbps, 4, 20, 0), frame_bytes)
