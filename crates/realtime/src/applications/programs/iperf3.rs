//! iperf3: its command line, and the JSON that it prints.

use experiment::resolved::{Flow, FlowEnd, Transport};
use serde::Serialize;
use serde_json::Value;

/// Options that the description of a flow already determines, and the reason.
const DECIDED_ELSEWHERE: &[(&[&str], &str)] = &[
    (
        &["-s", "--server"],
        "the host that does not open the flow is the server",
    ),
    (
        &["-c", "--client"],
        "the host that opens the flow is the client",
    ),
    (&["-p", "--port"], "each flow has a port of its own"),
    (
        &["-B", "--bind", "--bind-dev"],
        "`primary` says which addresses are used",
    ),
    (&["-R", "--reverse"], "`from` sends: use `opened_by: to`"),
    (
        &["--bidir"],
        "a flow has one direction: use `direction: both`",
    ),
    (&["-u", "--udp"], "use `transport: udp`"),
    (&["--sctp"], "`transport` is tcp, mptcp or udp"),
    (&["-C", "--congestion", "--linux-congestion"], "use `cc`"),
    (
        &["-J", "--json", "--json-stream", "--logfile"],
        "its output is read as one JSON document",
    ),
    (&["-D", "--daemon"], "it has to stay in the foreground"),
    (&["-I", "--pidfile"], "the run knows its processes"),
];

/// Returns the first argument of a flow that is not allowed, and why.
pub(super) fn refused_argument(args: &[String]) -> Option<(String, &'static str)> {
    args.iter().find_map(|argument| {
        let long = argument.split('=').next().unwrap_or(argument);
        let (_, why) = DECIDED_ELSEWHERE.iter().find(|(names, _)| {
            names.iter().any(|name| {
                // A short option may have its value attached.
                let is_short = !name.starts_with("--");
                long == *name
                    || is_short && argument.starts_with(name) && !argument.starts_with("--")
            })
        })?;
        Some((argument.clone(), *why))
    })
}

/// Returns the command line of the server.
pub(super) fn server(port: u16) -> Vec<String> {
    ["iperf3", "-s", "-1", "-J", "-p", &port.to_string()]
        .map(str::to_owned)
        .to_vec()
}

/// Returns the command line of the client.
pub(super) fn client(
    flow: &Flow,
    own: &str,
    peer: &str,
    port: u16,
    args: &[String],
) -> Vec<String> {
    let port = port.to_string();
    let mut argv = vec!["iperf3", "-c", peer, "-p", &port, "-B", own, "-J"];
    if flow.opened_by == FlowEnd::To {
        argv.push("-R");
    }
    if flow.transport == Transport::Udp {
        argv.push("-u");
    }
    if let Some(control) = control_of(flow) {
        argv.extend(["-C", control]);
    }
    let argv = argv.into_iter().map(str::to_owned);
    argv.chain(args.iter().cloned()).collect()
}

/// Returns the congestion control of the client's `-C`.
pub(super) fn control_of(flow: &Flow) -> Option<&str> {
    let control = flow.cc.first().map(|cc| cc.name.as_str());
    control.filter(|_| flow.transport != Transport::Udp)
}

/// The measurements of an iperf3 run. Fields that it did not measure are `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Iperf3Report {
    /// Payload that the sender counted.
    pub bytes_sent: Option<u64>,
    /// Payload that the receiver counted.
    pub bytes_received: Option<u64>,
    /// How long the sender sent.
    pub seconds: Option<f64>,
    /// Segments that the sender's TCP retransmitted, as iperf3 reports them (`tcpi_total_retrans`).
    /// With MPTCP, those of the initial subflow.
    pub retransmits: Option<u64>,
    /// Datagrams sent.
    pub packets: Option<u64>,
    /// Datagrams that the receiver missed.
    pub lost_packets: Option<u64>,
    /// Jitter of datagrams (RFC 1889) at the receiver.
    pub jitter_s: Option<f64>,
    /// The intervals of the sender.
    pub intervals: Vec<Iperf3Interval>,
}

/// One interval of a report.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Iperf3Interval {
    /// Start of the interval, in seconds since the test began.
    pub start_s: f64,
    /// End of the interval.
    pub end_s: f64,
    /// Payload.
    pub bytes: u64,
}

/// The documents of both sides. Either is missing if the program was killed before it could write.
pub(super) struct Documents {
    sender: Value,
    receiver: Value,
    client: Value,
}

impl Documents {
    pub(super) fn parse(client: &[u8], server: &[u8], opened_by: FlowEnd) -> Self {
        let document = |bytes| serde_json::from_slice::<Value>(bytes).unwrap_or_default();
        let (client, server) = (document(client), document(server));
        let (sender, receiver) = match opened_by {
            FlowEnd::From => (client.clone(), server),
            FlowEnd::To => (server, client.clone()),
        };
        Self {
            sender,
            receiver,
            client,
        }
    }

    /// Returns the client's error. An interruption is not an error, because the end of a run
    /// interrupts the client.
    pub(super) fn error(&self) -> Option<String> {
        let error = self.client["error"].as_str()?;
        (!error.starts_with("interrupt")).then(|| error.to_owned())
    }

    /// Returns the measurements; `None` if neither side wrote any.
    pub(super) fn report(&self) -> Option<Iperf3Report> {
        let end = |side: &Value, of: &str| side["end"][of].clone();
        let intervals = intervals(&self.sender);
        let received: u64 = self::intervals(&self.receiver)
            .iter()
            .map(|one| one.bytes)
            .sum();
        let sent = end(&self.sender, "sum_sent");
        let datagrams = end(&self.receiver, "sum");
        let largest = |values: [Option<u64>; 2]| values.into_iter().flatten().max();
        let bytes_sent = largest([
            sent["bytes"].as_u64(),
            end(&self.sender, "sum")["bytes"].as_u64(),
        ]);
        let bytes_received = largest([
            end(&self.receiver, "sum_received")["bytes"].as_u64(),
            Some(received),
        ]);
        if intervals.is_empty() && bytes_sent.is_none() && received == 0 {
            return None;
        }
        Some(Iperf3Report {
            bytes_sent,
            bytes_received,
            seconds: sent["seconds"]
                .as_f64()
                .or_else(|| end(&self.sender, "sum")["seconds"].as_f64()),
            retransmits: sent["retransmits"].as_u64(),
            packets: datagrams["packets"].as_u64(),
            lost_packets: datagrams["lost_packets"].as_u64(),
            jitter_s: datagrams["jitter_ms"].as_f64().map(|jitter| jitter / 1e3),
            intervals,
        })
    }
}

fn intervals(side: &Value) -> Vec<Iperf3Interval> {
    let all = side["intervals"].as_array().into_iter().flatten();
    let sums = all.map(|interval| &interval["sum"]);
    sums.filter(|sum| sum["omitted"] != true)
        .filter_map(|sum| {
            Some(Iperf3Interval {
                start_s: sum["start"].as_f64()?,
                end_s: sum["end"].as_f64()?,
                bytes: sum["bytes"].as_u64()?,
            })
        })
        .collect()
}
