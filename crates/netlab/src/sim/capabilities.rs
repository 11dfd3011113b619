//! Capabilities of the simulator, with the reasons for those that it lacks.

use std::borrow::Cow;

use crate::capabilities::Capability;
use crate::registry::Registry;

const NEEDS_KERNEL: &str =
    "runs programs, which need a real kernel: use the kernel or userspace back-end";

const TABLE: &[Capability] = &[
    Capability::has("transport udp"),
    Capability::has("transport tcp"),
    Capability::has("transport mptcp"),
    Capability::has("app cbr"),
    Capability::has("app probe"),
    Capability::has("app bulk"),
    Capability::has("app request_response"),
    Capability::has("app short_flows"),
    Capability::has("app streaming"),
    Capability::has("app video"),
    Capability::lacks("app iperf3", NEEDS_KERNEL),
    Capability::lacks("app command", NEEDS_KERNEL),
    Capability::has("action interface_down"),
    Capability::has("action interface_up"),
    Capability::has("action link_down"),
    Capability::has("action link_up"),
    Capability::has("action set_link"),
    Capability::has("action address_add"),
    Capability::has("action address_remove"),
    Capability::has("action set_backup"),
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
    Capability::has("next_hop ecmp_l3"),
    Capability::has("next_hop ecmp_l4"),
    Capability::has("next_hop random"),
    Capability::has("next_hop by_port"),
    Capability::has("middlebox strip_options"),
    Capability::has("middlebox drop_options"),
    Capability::has("middlebox rewrite_sequence"),
    Capability::has("middlebox nat"),
    Capability::has("middlebox split"),
    Capability::has("middlebox coalesce"),
    Capability::has("middlebox change_bytes"),
    Capability::has("middlebox insert_bytes"),
    Capability::has("middlebox duplicate"),
    Capability::has("middlebox acknowledge_early"),
    Capability::has("captures"),
    Capability::has("stack backend"),
    Capability::lacks(
        "stack kernel",
        "the simulator has no kernel: use the kernel back-end",
    ),
    Capability::lacks(
        "stack userspace",
        "the simulator's hosts run our stack in virtual time; in real time use --on userspace",
    ),
    Capability::lacks(
        "own class",
        "classes in Python run in the simulator that comes with mptcplab: use --on sim",
    ),
    Capability::lacks(
        "own object",
        "the simulator has no kernel to register it in: use --on kernel",
    ),
    Capability::lacks(
        "own simulator",
        "only a simulator of your own has it: use --on PROGRAM",
    ),
    Capability::has("one_at_a_time"),
    Capability::has("handshake race"),
    Capability::has("behaviour mainline"),
    Capability::has("behaviour oot"),
    Capability::has("fallback rfc"),
    Capability::has("fallback strict"),
    Capability::has("host_jitter none"),
    Capability::has("host_jitter linux"),
    Capability::has("host_jitter quantiles"),
    Capability::has("first_hop network"),
    Capability::has("first_hop host"),
];

/// Returns everything that a description can ask for, with the algorithms of `registry`.
pub fn capabilities(registry: &Registry) -> Vec<Capability> {
    let algorithms = registry.names();
    let algorithms = algorithms.map(|(kind, name)| format!("{} {name}", kind.field()));
    let parameters = registry.parameters().iter();
    let parameters =
        parameters.map(|(kind, algorithm, name)| format!("{} {algorithm} {name}", kind.field()));
    let named = algorithms.chain(parameters).map(|feature| Capability {
        feature: Cow::Owned(feature),
        missing_because: None,
    });
    TABLE.iter().cloned().chain(named).collect()
}
