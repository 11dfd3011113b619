//! An endpoint of plain TCP: a subflow with its own congestion control and an application that
//! writes and reads.

use mptcp::cc::{
    Acked, Congestion, CongestionControl, Context, DeliveryRate, Parameters, Window, by_name,
};
use mptcp::payload::Payload;
use mptcp::seq::SeqNr;
use mptcp::subflow::{Arrival, Chunk, CloseReason, Config, Control, NoOptions, State, Subflow};
use mptcp::time::Nanos;
use mptcp::wire::{Ecn, Flags, Segment};

use super::wire::Wire;
use super::{Endpoint, Pair};

/// A congestion control, and the events that it received.
#[derive(Debug)]
pub struct Recorded {
    cc: Box<dyn CongestionControl>,
    pub congestions: Vec<(Nanos, Congestion)>,
    pub undone: u32,
    pub restarted: u32,
    pub rates: Vec<DeliveryRate>,
}

impl Recorded {
    fn new(name: &str) -> Self {
        let constructor = by_name(name).expect("a name of the table");
        Self {
            cc: constructor(&Parameters::default()),
            congestions: Vec::new(),
            undone: 0,
            restarted: 0,
            rates: Vec::new(),
        }
    }
}

impl CongestionControl for Recorded {
    fn subflow_added(&mut self, context: &mut Context<'_>) {
        self.cc.subflow_added(context);
    }

    fn segment_sent(&mut self, context: &mut Context<'_>, bytes: u32) {
        self.cc.segment_sent(context, bytes);
    }

    fn acked(&mut self, context: &mut Context<'_>, acked: &Acked) {
        self.rates.extend(acked.delivery_rate);
        self.cc.acked(context, acked);
    }

    fn congestion(&mut self, context: &mut Context<'_>, congestion: Congestion) {
        self.congestions.push((context.now(), congestion));
        self.cc.congestion(context, congestion);
    }

    fn recovery_exited(&mut self, context: &mut Context<'_>) {
        self.cc.recovery_exited(context);
    }

    fn undone(&mut self, context: &mut Context<'_>) {
        self.undone += 1;
        self.cc.undone(context);
    }

    fn restarted_after_idle(&mut self, context: &mut Context<'_>, idle: Nanos) {
        self.restarted += 1;
        self.cc.restarted_after_idle(context, idle);
    }

    fn owns_window(&self) -> bool {
        self.cc.owns_window()
    }

    fn pacing_rate(&self, context: &Context<'_>) -> Option<f64> {
        self.cc.pacing_rate(context)
    }
}

/// One end of a plain TCP connection.
pub struct Tcp {
    config: Config,
    iss: SeqNr,
    /// `None` while it listens.
    subflow: Option<Subflow>,
    pub window: Window,
    pub cc: Recorded,
    seed: u32,
    written: u64,
    /// The bytes that the application read, in order.
    pub read: Payload,
    /// Whether it reads data that arrives.
    pub reads: bool,
    /// Unread data that it can hold, in bytes.
    pub buffer: u64,
    /// All arrivals that brought something.
    pub arrivals: Vec<Arrival>,
    unread: u64,
}

impl Tcp {
    /// Creates an end that waits for a SYN.
    pub fn listening(config: Config, iss: u32) -> Self {
        let mut end = Self {
            window: Window::new(
                u32::from(config.mss_bytes),
                10 * u32::from(config.mss_bytes),
            ),
            config,
            iss: SeqNr(iss),
            subflow: None,
            cc: Recorded::new("reno"),
            seed: iss,
            written: 0,
            read: Payload::EMPTY,
            reads: true,
            buffer: 1 << 20,
            arrivals: Vec::new(),
            unread: 0,
        };
        end.use_control("reno");
        end
    }

    /// Uses the congestion control of that name instead of Reno. Call it before anything was sent.
    pub fn use_control(&mut self, name: &str) {
        self.cc = Recorded::new(name);
        let windows = std::slice::from_mut(&mut self.window);
        self.cc.subflow_added(&mut Context::new(0, windows, 0));
    }

    /// Creates an end that opens.
    pub fn opening(config: Config, iss: u32) -> Self {
        let mut end = Self::listening(config.clone(), iss);
        end.subflow = Some(Subflow::connect(0, config, 1000, 2000, SeqNr(iss)));
        end
    }

    pub fn subflow(&self) -> &Subflow {
        self.subflow.as_ref().expect("not listening any more")
    }

    pub fn subflow_mut(&mut self) -> &mut Subflow {
        self.subflow.as_mut().expect("not listening any more")
    }

    pub fn state(&self) -> Option<State> {
        self.subflow.as_ref().map(Subflow::state)
    }

    pub fn closed(&self) -> Option<CloseReason> {
        self.subflow.as_ref().and_then(Subflow::closed)
    }

    /// Writes `bytes` bytes.
    pub fn write(&mut self, bytes: u32) {
        let payload = Payload::stream(self.seed, self.written, bytes);
        let offset = self.written;
        self.written += u64::from(bytes);
        self.subflow_mut().push(Chunk { offset, payload });
    }

    pub fn close(&mut self) {
        self.subflow_mut().close();
    }

    /// Returns whether it has read exactly what `other` wrote.
    pub fn has_all_of(&self, other: &Self) -> bool {
        u64::from(self.read.len()) == other.written
            && self.read == Payload::stream(other.seed, 0, other.written as u32)
    }

    /// Reads the data that has arrived, and from now on all data.
    pub fn read_on(&mut self) {
        self.reads = true;
        self.unread = 0;
    }

    /// Reads `bytes` bytes of the data that has arrived.
    pub fn read_some(&mut self, bytes: u64) {
        self.unread = self.unread.saturating_sub(bytes);
    }

    fn read_data(&mut self) {
        let Some(subflow) = &mut self.subflow else {
            return;
        };
        while let Some(payload) = subflow.read() {
            if !self.reads {
                self.unread += u64::from(payload.len());
            }
            self.read.append(payload);
        }
    }

    pub fn available(&self) -> u64 {
        self.buffer.saturating_sub(self.unread)
    }
}

impl Endpoint for Tcp {
    fn handle_segment(&mut self, now: Nanos, segment: &Segment, ecn: Ecn) {
        let Some(subflow) = &mut self.subflow else {
            if segment.flags == Flags::SYN || segment.flags == Flags::SYN | Flags::ECE | Flags::CWR
            {
                let config = self.config.clone();
                self.subflow = Some(Subflow::accept(now, config, segment, self.iss));
            }
            return;
        };
        let windows = std::slice::from_mut(&mut self.window);
        let mut control = Control::new(&mut self.cc, windows, 0);
        let arrival = subflow.handle_segment(now, segment, ecn, &mut control);
        self.arrivals.push(arrival);
        self.read_data();
    }

    fn handle_timeout(&mut self, now: Nanos) {
        let Some(subflow) = &mut self.subflow else {
            return;
        };
        let windows = std::slice::from_mut(&mut self.window);
        subflow.handle_timeout(now, &mut Control::new(&mut self.cc, windows, 0));
    }

    fn poll_transmit(&mut self, now: Nanos) -> Option<(Segment, Ecn)> {
        let available = self.available();
        let subflow = self.subflow.as_mut()?;
        let windows = std::slice::from_mut(&mut self.window);
        let mut control = Control::new(&mut self.cc, windows, 0);
        let segment = subflow.poll_transmit(now, available, &mut control, &mut NoOptions)?;
        Some((segment, subflow.transmit_ecn()))
    }

    fn poll_timeout(&self) -> Option<Nanos> {
        self.subflow.as_ref()?.poll_timeout()
    }
}

/// Returns a pair of which `ends[0]` opens, both with that configuration. Sequence numbers start
/// shortly before they wrap.
pub fn pair(config: Config, wires: [Wire; 2]) -> Pair<Tcp> {
    let opener = Tcp::opening(config.clone(), u32::MAX - 5_000);
    let listener = Tcp::listening(config, u32::MAX - 20_000);
    Pair::new([opener, listener], wires)
}

/// Returns the same pair after the handshake.
pub fn established(config: Config, wires: [Wire; 2]) -> Pair<Tcp> {
    let mut pair = pair(config, wires);
    pair.run_while(Nanos::MAX - 1, |pair| {
        pair.ends[1].state() != Some(State::Established)
    });
    pair
}
