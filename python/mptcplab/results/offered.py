"""What applications offer that do not send all they can."""

from __future__ import annotations

from mptcplab.results.entities import Json

#: The applications whose offer the network either carries or does not.
STEADY = "cbr"
#: Applications that wait for the answer before they send again.
_ON_ANSWERS = ("request_response",)


def offered_bps(flow: Json) -> float | None:
    """Returns the rate of payload in bit/s that the application of a resolved flow sends at most in
    the long run; None if it sends all it can.
    """
    app = flow["app"]
    match app["kind"]:
        case "cbr":
            return float(app["rate_bps"])
        case "streaming":
            return float(app["bitrate_bps"])
        case "video":
            return float(app["bitrates_bps"][-1])
        case "probe":
            return 8e9 * float(app["size_bytes"]) / float(app["every_ns"])
    return None


def steady_bps(flow: Json) -> float | None:
    """Returns the offered rate of a resolved flow that the network either carries or does not; None
    for other applications.
    """
    return offered_bps(flow) if flow["app"]["kind"] == STEADY else None


def is_limited_by_application(flow: Json) -> bool:
    """Returns whether the application decides how much a resolved flow carries, if the network can
    carry it.
    """
    return offered_bps(flow) is not None or flow["app"]["kind"] in _ON_ANSWERS


def pause_s(flow: Json, unit_bytes: float) -> float:
    """Returns the time between two units of ``unit_bytes`` of an application with a rate of its
    own, else 0.
    """
    if flow["app"]["kind"] == "video":
        return float(flow["app"]["segment_ns"]) / 1e9
    offered = offered_bps(flow)
    return 8 * unit_bytes / offered if offered else 0.0
