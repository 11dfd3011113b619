"""Which sites operate: they check in by a heartbeat, and are dropped after three that are missing."""

from __future__ import annotations

from collections.abc import Iterable

BEAT_S = 2.0
MISSED = 3


class Membership:
    """The sites that operate, by number. Times are seconds of one clock of the caller."""

    def __init__(self, sites: Iterable[int]) -> None:
        self._heard_s: dict[int, float | None] = dict.fromkeys(sites)
        self._present: set[int] = set()

    @property
    def present(self) -> frozenset[int]:
        """The sites that operate."""
        return frozenset(self._present)

    def heard_s(self, site: int) -> float | None:
        """Returns when the last heartbeat arrived; None before the first one."""
        return self._heard_s[site]

    def beat(self, site: int, now_s: float) -> bool:
        """Records a heartbeat. Returns whether the site has just come, or come back."""
        self._heard_s[site] = now_s
        is_new = site not in self._present
        self._present.add(site)
        return is_new

    def drop_silent(self, now_s: float) -> list[int]:
        """Drops the sites that were silent for too long, and returns them."""
        silent = [site for site in sorted(self._present) if now_s - (self._heard_s[site] or 0.0) >= MISSED * BEAT_S]
        self._present.difference_update(silent)
        return silent

    def drop(self, site: int) -> None:
        """Drops a site that is known to be lost."""
        self._present.discard(site)
