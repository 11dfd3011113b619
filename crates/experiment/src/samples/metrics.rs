//! The metrics of the sample table, on all back-ends. A back-end gives no value for metrics that it
//! cannot know.

/// Payload of a flow.
pub const PAYLOAD: [&str; 3] = ["bytes_sent", "bytes_received", "bytes_in_order"];
/// Connections of a flow.
pub const STREAM: [&str; 6] = [
    "out_of_order_bytes",
    "retransmitted_bytes",
    "reinjected_bytes",
    "receive_window_bytes",
    "subflows_opened",
    "subflows_alive",
];
/// A subflow, or the only connection of plain TCP.
pub const SUBFLOW: [&str; 11] = [
    "bytes_sent",
    "bytes_received",
    "retransmitted_bytes",
    "rto_count",
    "alive",
    "cwnd_bytes",
    "ssthresh_bytes",
    "in_flight_bytes",
    "srtt_s",
    "backup",
    "stale",
];
/// Playback of a video.
pub const VIDEO: [&str; 4] = [
    "video_buffer_s",
    "video_stalls",
    "video_stalled_s",
    "video_startup_s",
];
/// A link direction.
pub const LINK: [&str; 11] = [
    "wire_bytes",
    "wire_packets",
    "queue_bytes",
    "queue_packets",
    "offered_packets",
    "delivered_packets",
    "dropped_queue_full",
    "dropped_aqm",
    "dropped_loss",
    "dropped_link_down",
    "in_flight_packets",
];
/// A link direction on an access network.
pub const ACCESS: [&str; 8] = [
    "air_time_s",
    "exchanges",
    "aggregated_packets",
    "retried_packets",
    "dropped_retries",
    "held_packets",
    "radio_state",
    "handovers",
];
/// An interface.
pub const INTERFACE: [&str; 6] = [
    "up",
    "sent_packets",
    "received_packets",
    "dropped_interface_down",
    "dropped_no_address",
    "dropped_no_route",
];
/// A controlled switch.
pub const SWITCH: [&str; 7] = [
    "entries",
    "lookups",
    "matched",
    "dropped_no_entry",
    "received_packets",
    "sent_packets",
    "barrier_rtt_s",
];

/// Metrics that are recorded together, in the order of [`Group::METRICS`].
#[derive(Clone, Copy, Debug)]
pub enum Group {
    /// [`PAYLOAD`].
    Payload,
    /// Packets that applications sent and received.
    Packets,
    /// [`STREAM`].
    Stream,
    /// [`SUBFLOW`].
    Subflow,
    /// [`VIDEO`].
    Video,
    /// [`LINK`].
    Link,
    /// [`ACCESS`].
    Access,
    /// [`INTERFACE`].
    Interface,
    /// Probes sent and answered.
    Probe,
    /// The round-trip time of an answered probe.
    Rtt,
    /// How late a link direction delivers in real time.
    Lateness,
    /// [`SWITCH`].
    Switch,
    /// Packets that a switch handed to its controller and got from it.
    Controller,
}

impl Group {
    /// The names of the metrics of each group, in the order of their values.
    pub const METRICS: [&[&str]; 13] = [
        &PAYLOAD,
        &["packets_sent", "packets_received"],
        &STREAM,
        &SUBFLOW,
        &VIDEO,
        &LINK,
        &ACCESS,
        &INTERFACE,
        &["sent", "answered"],
        &["rtt_s"],
        &["late_s"],
        &SWITCH,
        &["packet_ins", "packet_outs"],
    ];
}
