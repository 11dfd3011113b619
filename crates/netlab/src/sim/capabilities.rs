//! What the simulator can do, and why not what it cannot: the one table behind [`capabilities`] and `check`.

/// Something that a description can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capability {
    /// What kind of thing and which, as in `transport udp`.
    pub feature: &'static str,
    /// Why the simulator does not have it; `None` if it has.
    pub missing_because: Option<&'static str>,
}

const NEEDS_ENGINE: &str = "arrives with the protocol engine";
const NEEDS_KERNEL: &str =
    "runs programs, which need a real kernel: use the kernel or userspace back-end";

const fn has(feature: &'static str) -> Capability {
    Capability {
        feature,
        missing_because: None,
    }
}

const fn lacks(feature: &'static str, why: &'static str) -> Capability {
    Capability {
        feature,
        missing_because: Some(why),
    }
}

const TABLE: &[Capability] = &[
    has("transport udp"),
    lacks("transport tcp", NEEDS_ENGINE),
    lacks("transport mptcp", NEEDS_ENGINE),
    has("app cbr"),
    has("app probe"),
    lacks("app bulk", NEEDS_ENGINE),
    lacks("app request_response", NEEDS_ENGINE),
    lacks("app short_flows", NEEDS_ENGINE),
    lacks("app streaming", NEEDS_ENGINE),
    lacks("app iperf3", NEEDS_KERNEL),
    lacks("app command", NEEDS_KERNEL),
    has("action interface_down"),
    has("action interface_up"),
    has("action link_down"),
    has("action link_up"),
    has("action set_link"),
    has("action address_add"),
    has("action address_remove"),
    lacks("action set_backup", NEEDS_ENGINE),
    lacks("action exec", NEEDS_KERNEL),
    has("queue drop_tail"),
    has("queue codel"),
    has("queue fq_codel"),
    has("queue red"),
    has("queue pie"),
    has("loss bernoulli"),
    has("loss gilbert_elliott"),
    has("loss list"),
    has("trace"),
    has("medium"),
    lacks("captures", "the simulator does not write capture files yet"),
    has("stack backend"),
    lacks(
        "stack kernel",
        "the simulator has no kernel: use the kernel back-end",
    ),
    lacks(
        "stack userspace",
        "our stack in real time needs the userspace back-end",
    ),
    has("first_hop network"),
    lacks(
        "first_hop host",
        "back-pressure on a sender's stack arrives with the protocol engine",
    ),
];

/// All that a description can ask for.
pub fn capabilities() -> &'static [Capability] {
    TABLE
}

/// Why the simulator does not have a feature; `None` if it has. What the table does not name it does not have.
pub(super) fn missing_because(feature: &str) -> Option<&'static str> {
    match TABLE
        .iter()
        .find(|capability| capability.feature == feature)
    {
        Some(capability) => capability.missing_because,
        None => Some("the simulator does not know it"),
    }
}
