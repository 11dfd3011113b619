"""The errors of an overlay."""

from __future__ import annotations

from mptcplab.errors import MptcplabError


class OverlayFailed(MptcplabError):
    """An overlay, or a host that joins one, cannot go on."""

    exit_status = 4


class OverlayMissing(MptcplabError):
    """This machine cannot do what an overlay needs, or there is no overlay."""

    exit_status = 3
