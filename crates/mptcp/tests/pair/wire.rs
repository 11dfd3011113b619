//! One direction of a wire: a rate, a queue, a delay, and lost, late or duplicated segments.

use std::collections::BTreeMap;

use mptcp::time::{MILLISECOND, Nanos, SECOND};
use mptcp::wire::{Ecn, Segment};

/// Bytes of an IPv4 header.
const IP_HEADER_LEN: u64 = 20;

/// The fate of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Delivered,
    Lost,
    /// It is late by this time, and later segments overtake it.
    Late(Nanos),
    /// It arrives twice.
    Doubled,
    /// A router marks it, if it is ECN-capable.
    Marked,
}

/// A segment as it was sent.
#[derive(Clone, Debug)]
pub struct Sent {
    pub at: Nanos,
    pub segment: Segment,
    pub ecn: Ecn,
    pub fate: Fate,
}

/// Decides by the number of the segment (0 is the first) and the segment itself.
type Decide = Box<dyn FnMut(usize, &Segment) -> Fate>;

/// One direction.
pub struct Wire {
    pub delay: Nanos,
    /// Bytes per second, if limited.
    pub rate: Option<u64>,
    /// The most packets that wait.
    pub queue_packets: usize,
    decide: Decide,
    /// All segments that were sent.
    pub log: Vec<Sent>,
    /// Segments in flight, in the order of their arrival times.
    under_way: BTreeMap<(Nanos, usize), (Segment, Ecn)>,
    departures: Vec<Nanos>,
}

impl Wire {
    /// Creates a wire without losses and without a limit of its rate.
    pub fn new(delay: Nanos) -> Self {
        Self {
            delay,
            rate: None,
            queue_packets: usize::MAX,
            decide: Box::new(|_, _| Fate::Delivered),
            log: Vec::new(),
            under_way: BTreeMap::new(),
            departures: Vec::new(),
        }
    }

    pub fn with_rate(mut self, bytes_per_second: u64, queue_packets: usize) -> Self {
        (self.rate, self.queue_packets) = (Some(bytes_per_second), queue_packets);
        self
    }

    pub fn with_fates(mut self, decide: impl FnMut(usize, &Segment) -> Fate + 'static) -> Self {
        self.set_fates(decide);
        self
    }

    pub fn set_fates(&mut self, decide: impl FnMut(usize, &Segment) -> Fate + 'static) {
        self.decide = Box::new(decide);
    }

    /// Returns the segments with data, in the order in which they were sent.
    pub fn data(&self) -> impl Iterator<Item = &Sent> {
        self.log
            .iter()
            .filter(|sent| !sent.segment.payload.is_empty())
    }

    pub fn send(&mut self, now: Nanos, segment: Segment, ecn: Ecn) {
        let number = self.log.len();
        let mut fate = (self.decide)(number, &segment);
        let departure = self.departure(now, &segment);
        if departure.is_none() {
            fate = Fate::Lost;
        }
        self.log.push(Sent {
            at: now,
            segment: segment.clone(),
            ecn,
            fate,
        });
        let Some(departure) = departure else { return };
        let arrival = departure + self.delay;
        let marked = match ecn {
            Ecn::NotCapable => ecn,
            _ => Ecn::CongestionExperienced,
        };
        match fate {
            Fate::Lost => {}
            Fate::Delivered => self.put(arrival, number, segment, ecn),
            Fate::Late(by) => self.put(arrival + by, number, segment, ecn),
            Fate::Marked => self.put(arrival, number, segment, marked),
            Fate::Doubled => {
                self.put(arrival, number, segment.clone(), ecn);
                self.put(arrival + MILLISECOND, number, segment, ecn);
            }
        }
    }

    fn departure(&mut self, now: Nanos, segment: &Segment) -> Option<Nanos> {
        let bytes = IP_HEADER_LEN + segment.wire_len() as u64;
        let Some(rate) = self.rate else {
            return Some(now);
        };
        self.departures.retain(|departure| *departure > now);
        if self.departures.len() > self.queue_packets {
            return None;
        }
        let start = self.departures.last().copied().unwrap_or(now);
        let departure = start + bytes * SECOND / rate;
        self.departures.push(departure);
        Some(departure)
    }

    fn put(&mut self, at: Nanos, number: usize, segment: Segment, ecn: Ecn) {
        self.under_way.insert((at, number), (segment, ecn));
    }

    pub fn next_arrival(&self) -> Option<Nanos> {
        self.under_way.keys().next().map(|(at, _)| *at)
    }

    pub fn take_arrived(&mut self, now: Nanos) -> Option<(Segment, Ecn)> {
        let first = self.under_way.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }
}
