//! What the simulator can do, and why not what it cannot.

use crate::capabilities::Capability;

const NEEDS_ENGINE: &str = "arrives with the protocol engine";
const NEEDS_KERNEL: &str =
    "runs programs, which need a real kernel: use the kernel or userspace back-end";

const TABLE: &[Capability] = &[
    Capability::has("transport udp"),
    Capability::lacks("transport tcp", NEEDS_ENGINE),
    Capability::lacks("transport mptcp", NEEDS_ENGINE),
    Capability::has("app cbr"),
    Capability::has("app probe"),
    Capability::lacks("app bulk", NEEDS_ENGINE),
    Capability::lacks("app request_response", NEEDS_ENGINE),
    Capability::lacks("app short_flows", NEEDS_ENGINE),
    Capability::lacks("app streaming", NEEDS_ENGINE),
    Capability::lacks("app iperf3", NEEDS_KERNEL),
    Capability::lacks("app command", NEEDS_KERNEL),
    Capability::has("action interface_down"),
    Capability::has("action interface_up"),
    Capability::has("action link_down"),
    Capability::has("action link_up"),
    Capability::has("action set_link"),
    Capability::has("action address_add"),
    Capability::has("action address_remove"),
    Capability::lacks("action set_backup", NEEDS_ENGINE),
    Capability::lacks("action exec", NEEDS_KERNEL),
    Capability::has("queue drop_tail"),
    Capability::has("queue codel"),
    Capability::has("queue fq_codel"),
    Capability::has("queue red"),
    Capability::has("queue pie"),
    Capability::has("loss bernoulli"),
    Capability::has("loss gilbert_elliott"),
    Capability::has("loss list"),
    Capability::has("trace"),
    Capability::has("medium"),
    Capability::lacks("captures", "the simulator does not write capture files yet"),
    Capability::has("stack backend"),
    Capability::lacks(
        "stack kernel",
        "the simulator has no kernel: use the kernel back-end",
    ),
    Capability::lacks(
        "stack userspace",
        "our stack in real time needs the userspace back-end",
    ),
    Capability::lacks("one_at_a_time", NEEDS_ENGINE),
    Capability::has("first_hop network"),
    Capability::lacks(
        "first_hop host",
        "back-pressure on a sender's stack arrives with the protocol engine",
    ),
];

/// All that a description can ask for.
pub fn capabilities() -> &'static [Capability] {
    TABLE
}
