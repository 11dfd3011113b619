//! State that middleboxes keep of the TCP connections that pass them.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use mptcp::seq::SeqNr;
use mptcp::wire::{Flags, Packet};

use super::Heading;

/// The two endpoints of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ends {
    /// The sender of packets that leave the interface.
    near: SocketAddr,
    far: SocketAddr,
}

impl Ends {
    pub(super) fn of(heading: Heading, packet: &Packet) -> Self {
        let [source, destination] = addresses(packet);
        match heading {
            Heading::Leaving => Self {
                near: source,
                far: destination,
            },
            Heading::Arriving => Self {
                near: destination,
                far: source,
            },
        }
    }
}

/// Returns source and destination of a packet.
pub(super) fn addresses(packet: &Packet) -> [SocketAddr; 2] {
    let segment = &packet.segment;
    [
        SocketAddr::new(packet.source, segment.source_port),
        SocketAddr::new(packet.destination, segment.destination_port),
    ]
}

/// State of each connection. A SYN with a new sequence number begins another connection between the
/// same endpoints.
pub(super) struct Connections<T> {
    by_ends: BTreeMap<Ends, Known<T>>,
}

struct Known<T> {
    /// The sequence number of the SYN.
    begins: Option<SeqNr>,
    state: T,
}

impl<T> Connections<T> {
    pub(super) fn new() -> Self {
        Self {
            by_ends: BTreeMap::new(),
        }
    }

    /// Returns the state of the connection of a packet, created by `made` if the connection is new.
    pub(super) fn of(
        &mut self,
        heading: Heading,
        packet: &Packet,
        made: impl FnOnce() -> T,
    ) -> &mut T {
        let flags = packet.segment.flags;
        let is_first = flags.contains(Flags::SYN) && !flags.contains(Flags::ACK);
        let begins = is_first.then_some(packet.segment.seq);
        let ends = Ends::of(heading, packet);
        let is_known = |known: &Known<T>| begins.is_none() || known.begins == begins;
        if !self.by_ends.get(&ends).is_some_and(is_known) {
            let state = made();
            self.by_ends.insert(ends, Known { begins, state });
        }
        let known = self.by_ends.get_mut(&ends);
        &mut known.expect("it is known, or was made").state
    }

    /// Returns the states of all connections.
    pub(super) fn all(&mut self) -> impl Iterator<Item = &mut T> {
        self.by_ends.values_mut().map(|known| &mut known.state)
    }
}

/// The byte streams of both directions of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Streams([Option<Stream>; 2]);

impl Streams {
    /// Records a segment and returns the stream to which its data belongs. `None` if the SYN of the
    /// stream was not seen.
    pub(super) fn record(&mut self, heading: Heading, packet: &Packet) -> Option<Stream> {
        let segment = &packet.segment;
        let stream = &mut self.0[heading as usize];
        if segment.flags.contains(Flags::SYN) {
            stream.get_or_insert(Stream {
                first: segment.seq + 1,
                end: 0,
            });
            return None;
        }
        let stream = stream.as_mut()?;
        let end = stream.offset(segment.seq + segment.payload.len());
        stream.end = stream.end.max(end);
        Some(*stream)
    }

    /// Returns the stream that packets with this heading acknowledge.
    pub(super) fn acknowledged_by(&self, heading: Heading) -> Option<Stream> {
        self.0[heading.back() as usize]
    }

    /// Returns the bytes carried by the direction that carried most.
    pub(super) fn carried(&self) -> u64 {
        let ends = self.0.iter().flatten().map(|stream| stream.end);
        ends.max().unwrap_or(0)
    }
}

/// The byte stream of one direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    /// Sequence number of the first byte.
    first: SeqNr,
    /// Bytes seen so far.
    end: u64,
}

impl Stream {
    /// Returns the offset of `seq` in the stream, from 0. Of the offsets with this number, it is
    /// the one closest to `end`.
    pub(super) fn offset(&self, seq: SeqNr) -> u64 {
        let distance = seq.distance_from(self.number(self.end));
        self.end.saturating_add_signed(i64::from(distance))
    }

    /// Returns the sequence number at an offset.
    pub(super) fn number(&self, offset: u64) -> SeqNr {
        self.first + offset as u32
    }
}
