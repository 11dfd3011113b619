//! Runs a script: carries out events in order, in virtual time, and compares the packets of the
//! stack with the expected ones.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use mptcp::seq::SeqNr;
use mptcp::time::{Nanos, SECOND};
use mptcp::wire::{Ecn, Flags, Hops, IcmpError, Packet, Segment, TcpOptions};

use crate::display;
use crate::host::{self, Host, SERVER_PORT, address};
use crate::options::Context;
use crate::script::{self, Action, Call, End, ErrorText, Event, PacketText, Sender, Time};
use crate::session::{Flow, Session};

/// The port from which clients of scripts connect.
const CLIENT_PORT: u16 = 40_000;

/// Runs a script.
///
/// # Errors
/// The script cannot be read, or the stack does not do what it says. The error names the line, what
/// was expected, and what was found.
pub fn run(text: &str) -> Result<(), String> {
    let events = script::parse(text)?;
    let mut run = Run::new();
    for event in &events {
        let done = run.event(event);
        done.map_err(|why| format!("line {}: {}\n  {why}", event.line, event.text))?;
    }
    run.expect_silence()
}

struct Run {
    now: Nanos,
    /// The time of the last event.
    last: Nanos,
    host: Host,
    session: Session,
    flows: BTreeMap<Ends, Flow>,
    /// The subflow of the last packet.
    ends: Option<Ends>,
    /// Packets of the stack that no line has expected yet.
    sent: VecDeque<(Nanos, Packet)>,
}

/// The stack's address, and the peer's.
type Ends = [IpAddr; 2];

impl Run {
    fn new() -> Self {
        Self {
            now: 0,
            last: 0,
            host: Host::new(),
            session: Session::new(),
            flows: BTreeMap::new(),
            ends: None,
            sent: VecDeque::new(),
        }
    }

    fn event(&mut self, event: &Event) -> Result<(), String> {
        let (earliest, latest) = match event.time {
            Time::At(at) => (at, at),
            Time::After(after) => (self.last + after, self.last + after),
            Time::Within(from, to) => (self.last + from, self.last + to),
        };
        if let Action::Packet(text) = &event.action
            && text.sender == Sender::Ours
        {
            self.last = self.expect(text, earliest, latest)?;
            return Ok(());
        }
        self.advance(earliest);
        self.last = earliest;
        match &event.action {
            Action::Call(call) => self.call(call),
            Action::Command(command) => self.host.command(self.now, command),
            Action::Packet(text) => self.inject(text),
            Action::Error(text) => self.deliver_error(text),
        }?;
        self.collect();
        Ok(())
    }

    fn call(&mut self, call: &Call) -> Result<(), String> {
        let found = self.host.call(self.now, call)?;
        let expected = host::expected(call);
        match found == expected {
            true => Ok(()),
            false => Err(format!("it gave {found}, not {expected}")),
        }
    }

    /// Handles everything that is due before `until`, and advances the time to it.
    fn advance(&mut self, until: Nanos) {
        while self.step(until) {}
        self.now = self.now.max(until);
    }

    /// Advances to the next deadline of the stack. Returns whether there was one.
    fn step(&mut self, until: Nanos) -> bool {
        let Some(at) = self.host.poll_timeout().filter(|at| *at <= until) else {
            return false;
        };
        self.now = self.now.max(at);
        self.host.handle_timeout(self.now);
        self.collect();
        true
    }

    fn collect(&mut self) {
        while let Some(packet) = self.host.poll_transmit(self.now) {
            self.sent.push_back((self.now, packet));
        }
    }

    /// Delivers a packet of the peer.
    fn inject(&mut self, text: &PacketText) -> Result<(), String> {
        let ends = self.ends_of(text)?;
        let is_server = self.host.names()[0][0] == "saddr0";
        let ports = match is_server {
            true => [SERVER_PORT, CLIENT_PORT],
            false => [CLIENT_PORT, SERVER_PORT],
        };
        let flow = self.flows.entry(ends).or_insert_with(|| Flow::new(ports));
        let [ours, peers] = flow.ports;
        let template = template([ends[1], ends[0]], [peers, ours]);
        let packet = self.build(text, ends, &template)?;
        self.host.handle_packet(self.now, &packet);
        Ok(())
    }

    /// Delivers an ICMP error about a packet of the last subflow.
    fn deliver_error(&mut self, text: &ErrorText) -> Result<(), String> {
        let [ours, peers] = self.ends.map_or_else(|| self.initial_ends(), Ok)?;
        let flow = self.flows.get(&[ours, peers]).ok_or("nothing was sent")?;
        let [our_port, peers_port] = flow.ports;
        let error = IcmpError {
            problem: text.problem,
            sender: SocketAddr::new(ours, our_port),
            receiver: SocketAddr::new(peers, peers_port),
            seq: flow.base_of(Sender::Ours) + text.seq,
        };
        self.host.handle_icmp_error(self.now, &error);
        Ok(())
    }

    /// Checks that the next packet of the stack is the expected one, at the expected time. Returns
    /// its time.
    fn expect(
        &mut self,
        text: &PacketText,
        earliest: Nanos,
        latest: Nanos,
    ) -> Result<Nanos, String> {
        while self.sent.is_empty() && self.step(latest) {}
        let Some((at, found)) = self.sent.pop_front() else {
            self.now = self.now.max(latest);
            return Err("nothing was sent".to_owned());
        };
        let ends = [found.source, found.destination];
        let expected_ends = self.ends_of(text)?;
        self.learn(ends, &found);
        let expected = self.build(text, expected_ends, &found)?;
        let describe = |packet: &Packet, ends| {
            display::packet(packet, Sender::Ours, &self.session, &self.flows[&ends])
        };
        if expected != found {
            let (expected, found) = (describe(&expected, expected_ends), describe(&found, ends));
            return Err(format!("expected {expected}\n  sent     {found}"));
        }
        if at < earliest || at > latest {
            let [at, earliest, latest] =
                [at, earliest, latest].map(|time| time as f64 / SECOND as f64);
            return Err(format!(
                "sent at {at} s, expected from {earliest} s to {latest} s"
            ));
        }
        Ok(at)
    }

    /// Checks that no unexpected packet is left.
    fn expect_silence(&mut self) -> Result<(), String> {
        match self.sent.pop_front() {
            None => Ok(()),
            Some((at, packet)) => {
                let ends = [packet.source, packet.destination];
                self.learn(ends, &packet);
                let sent =
                    display::packet(&packet, Sender::Ours, &self.session, &self.flows[&ends]);
                Err(format!(
                    "at the end: sent at {} s, expected by no line: {sent}",
                    at as f64 / SECOND as f64
                ))
            }
        }
    }

    /// Learns what the script cannot know: keys, initial sequence numbers, ports.
    fn learn(&mut self, ends: Ends, sent: &Packet) {
        let segment = &sent.segment;
        let ports = [segment.source_port, segment.destination_port];
        let flow = self.flows.entry(ends).or_insert_with(|| Flow::new(ports));
        if flow.ports != ports {
            *flow = Flow::new(ports);
        }
        self.session.learn(segment);
        flow.learn(segment);
    }

    /// Returns the stack's address and the peer's: those of the line, or else those of the line
    /// before.
    fn ends_of(&mut self, text: &PacketText) -> Result<Ends, String> {
        let ends = match &text.ends {
            Some([from, to]) => {
                let ends = [address(&from.name)?, address(&to.name)?];
                ours_first(text.sender, ends)
            }
            None => self.ends.map_or_else(|| self.initial_ends(), Ok)?,
        };
        self.ends = Some(ends);
        Ok(ends)
    }

    fn initial_ends(&self) -> Result<Ends, String> {
        let [ours, peers] = self.host.names();
        Ok([address(ours[0])?, address(peers[0])?])
    }

    /// Builds the packet of a line. Unspecified fields are those of `template`.
    fn build(
        &mut self,
        text: &PacketText,
        ends: Ends,
        template: &Packet,
    ) -> Result<Packet, String> {
        let known = &template.segment;
        let flow = self
            .flows
            .entry(ends)
            .or_insert_with(|| Flow::new([known.source_port, known.destination_port]));
        let mut context = Context {
            session: &mut self.session,
            flow,
            sender: text.sender,
        };
        let options = context.options(&text.options)?;
        let [source, destination] = ours_first(text.sender, ends);
        let [from, to] = ports_of(text, known);
        let segment = Segment {
            source_port: from,
            destination_port: to,
            seq: flow.base_of(text.sender) + text.seq,
            ack: text
                .ack
                .map_or(SeqNr(0), |ack| flow.base_of(text.sender.other()) + ack),
            flags: text.flags,
            window: text.window.unwrap_or(known.window),
            options,
            payload: flow.payload(text.sender, text.seq, text.len),
        };
        Ok(Packet {
            source,
            destination,
            segment,
            ..template.clone()
        })
    }
}

/// Swaps the ends of a packet of the peer, or swaps them back.
fn ours_first(sender: Sender, [from, to]: Ends) -> Ends {
    match sender {
        Sender::Ours => [from, to],
        Sender::Peer => [to, from],
    }
}

fn ports_of(text: &PacketText, known: &Segment) -> [u16; 2] {
    let said = |index: usize| {
        text.ends
            .as_ref()
            .and_then(|ends: &[End; 2]| ends[index].port)
    };
    [
        said(0).unwrap_or(known.source_port),
        said(1).unwrap_or(known.destination_port),
    ]
}

/// Returns a packet with known ends only. Its window is large unless a line changes it.
fn template(
    [source, destination]: [IpAddr; 2],
    [source_port, destination_port]: [u16; 2],
) -> Packet {
    Packet {
        source,
        destination,
        ecn: Ecn::NotCapable,
        via: Hops::default(),
        segment: Segment {
            source_port,
            destination_port,
            seq: SeqNr(0),
            ack: SeqNr(0),
            flags: Flags::NONE,
            window: u16::MAX,
            options: TcpOptions::default(),
            payload: mptcp::payload::Payload::EMPTY,
        },
    }
}
