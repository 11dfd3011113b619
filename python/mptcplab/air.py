"""What the air of a Wi-Fi network carries of one station alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mptcplab import _core


def most_payload_bps(network: Mapping[str, Any], payload_bytes: int, header_bytes: int) -> dict[str, int]:
    """Returns the largest rate of payload in bit/s in one direction of each station that has the
    air for itself, by link.

    Packets have ``payload_bytes`` behind ``header_bytes`` of IP and transport. `network` is an
    access network of kind `wifi` in the resolved form.
    """
    return _core.most_payload_over_wifi_bps(json.dumps(network), payload_bytes, header_bytes)
