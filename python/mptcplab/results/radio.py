"""What the numbers of ``radio_state`` mean: the states of the radio of a device, by kind of access
network.
"""

from __future__ import annotations

from collections.abc import Mapping

#: The names of the states 0, 1, .. of each kind.
RADIO_STATES: Mapping[str, tuple[str, ...]] = {
    "cellular": ("connected", "DRX", "idle", "between cells", "without 5G", "promotion"),
    "wifi": ("awake", "asleep", "scanning", "roaming"),
    "leo": ("steady", "stalled"),
}
#: The states in which a device belongs to no cell and to no access point.
DISCONNECTED = frozenset({"idle", "promotion", "between cells", "roaming"})


def states_told() -> str:
    """``cellular 0 connected, 1 DRX, ..; wifi 0 awake, ..``."""
    return "; ".join(
        f"{kind} {', '.join(f'{number} {name}' for number, name in enumerate(names))}"
        for kind, names in RADIO_STATES.items()
    )
