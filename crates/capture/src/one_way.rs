//! Compares captures of the same traffic at both ends: one-way delays and losses.
//!
//! Packets are recognized by fields that routers do not change. The files are read side by side,
//! aligned by their first common packet, so that only packets in flight are kept in memory. The
//! clocks of the two places differ. Their offset is estimated from the fastest packets each way,
//! assuming that both ways take the same time.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::net::SocketAddr;
use std::path::Path;

use experiment::time::{NANOS_PER_SECOND, Nanos, seconds};
use rustc_hash::FxHasher;
use serde::Serialize;
use thiserror::Error;

use crate::distribution::{Distribution, Durations};
use crate::merged::MergedCaptures;
use crate::reader::{Frame, ReadError};
use crate::tcp_packet::TcpPacket;

/// The number of frames of each file among which a common packet is searched.
const FIRST_FRAMES: usize = 20_000;
/// A packet that did not appear at the other end within this time was lost.
const LONGEST: Nanos = 20 * NANOS_PER_SECOND;

/// Why two captures cannot be compared.
#[derive(Debug, Error)]
pub enum OneWayError {
    /// A capture cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The captures have no packet in common.
    #[error(
        "{here} and {there} have no TCP packet in common among their first {FIRST_FRAMES}; allowed are captures of the same traffic at two hosts"
    )]
    Strangers {
        /// The first capture.
        here: String,
        /// The other capture.
        there: String,
    },
}

/// The comparison of two captures of the same traffic.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct OneWaySummary {
    /// How far the clock of the other end is ahead, if packets went both ways.
    pub clock_offset_s: Option<f64>,
    /// The largest possible error of the offset: half of the shortest round trip.
    pub uncertainty_s: Option<f64>,
    /// Each direction between two endpoints that both captures contain.
    pub ways: Vec<Way>,
}

/// One direction between two endpoints.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct Way {
    /// The sender.
    pub source: String,
    /// The receiver.
    pub destination: String,
    /// Packets captured at the sender while both captures were running.
    pub sent_packets: u64,
    /// Packets captured at the receiver.
    pub arrived_packets: u64,
    /// Payload bytes at the sender.
    pub sent_bytes: u64,
    /// Payload bytes at the receiver.
    pub arrived_bytes: u64,
    /// Share of the payload that did not arrive.
    pub loss: Option<f64>,
    /// One-way delay, after correction of the clocks.
    pub delay: Option<Durations>,
}

type Ends = (SocketAddr, SocketAddr);

/// A packet as seen in one capture.
struct Sight {
    ends: Ends,
    fingerprint: u64,
    at: Nanos,
    payload_bytes: u64,
}

/// Where a packet was captured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Here,
    There,
}

/// Compares the captures of one end with the capture of the other.
///
/// # Errors
/// Fails if a file cannot be read, or if the captures have no traffic in common.
pub fn one_way(here: &[&Path], there: &Path) -> Result<OneWaySummary, OneWayError> {
    let ahead = first_common(here, there)?;
    let mut clocks = Clocks::default();
    let span = walk(here, there, ahead, |event| {
        if let Event::Matched { ends, here, there } = event {
            clocks.note(ends, difference(there, here));
        }
    })?;
    let offset = clocks.offset();
    let mut ways: BTreeMap<Ends, WayCounts> = BTreeMap::new();
    walk(here, there, ahead, |event| match event {
        Event::Seen { place, sight, at } if span.0 <= at && at <= span.1 => {
            let counts = ways.entry(sight.ends).or_default();
            counts.note(place, sight.payload_bytes);
        }
        Event::Matched { ends, here, there } => {
            let way = ways.entry(ends).or_default();
            let taken = difference(there, here) - offset.map_or(0, |offset| offset.ahead);
            way.delay.add(taken.unsigned_abs());
        }
        Event::Seen { .. } => {}
    })?;
    let way = |(ends, counts): (&Ends, &WayCounts)| {
        counts.way(*ends, clocks.are_sent_here(*ends, offset), offset.is_some())
    };
    Ok(OneWaySummary {
        clock_offset_s: offset.map(|offset| offset.ahead as f64 / NANOS_PER_SECOND as f64),
        uncertainty_s: offset.map(|offset| seconds(offset.uncertainty)),
        ways: ways.iter().map(way).collect(),
    })
}

/// Returns how far the clock there is ahead of the clock here, by the first packet found in both
/// captures. The path delay is included.
fn first_common(here: &[&Path], there: &Path) -> Result<i64, OneWayError> {
    let mut seen: HashMap<u64, Nanos> = HashMap::new();
    let mut captures = MergedCaptures::open(here)?;
    for _ in 0..FIRST_FRAMES {
        match captures.read(|frame| sight(&frame))? {
            None => break,
            Some(None) => {}
            Some(Some(sight)) => {
                seen.entry(sight.fingerprint).or_insert(sight.at);
            }
        }
    }
    let mut captures = MergedCaptures::open(&[there])?;
    for _ in 0..FIRST_FRAMES {
        match captures.read(|frame| sight(&frame))? {
            None => break,
            Some(None) => {}
            Some(Some(sight)) => {
                if let Some(at) = seen.get(&sight.fingerprint) {
                    return Ok(difference(sight.at, *at));
                }
            }
        }
    }
    Err(OneWayError::Strangers {
        here: here
            .first()
            .map_or(String::new(), |path| path.display().to_string()),
        there: there.display().to_string(),
    })
}

/// An event while both captures are read side by side.
enum Event {
    /// A packet in one capture. `at` is by the clock there.
    Seen {
        place: Place,
        sight: Sight,
        at: Nanos,
    },
    /// A packet in both captures, with its time by either clock.
    Matched {
        ends: Ends,
        here: Nanos,
        there: Nanos,
    },
}

/// Reads both captures in order of time. Returns the time span, by the clock there, that both
/// cover.
fn walk(
    here: &[&Path],
    there: &Path,
    ahead: i64,
    mut tell: impl FnMut(Event),
) -> Result<(Nanos, Nanos), OneWayError> {
    let mut files = [MergedCaptures::open(here)?, MergedCaptures::open(&[there])?];
    let mut next = [next_sight(&mut files[0])?, next_sight(&mut files[1])?];
    let aligned = |place: Place, at: Nanos| match place {
        Place::Here => at.saturating_add_signed(ahead),
        Place::There => at,
    };
    let mut spans: [Option<(Nanos, Nanos)>; 2] = [None; 2];
    let mut waiting = [Waiting::default(), Waiting::default()];
    loop {
        let times = [(0, Place::Here), (1, Place::There)].map(|(index, place)| {
            let at = next[index]
                .as_ref()
                .map(|sight: &Sight| aligned(place, sight.at));
            (at.unwrap_or(Nanos::MAX), index, place)
        });
        let (at, index, place) = if times[0].0 <= times[1].0 {
            times[0]
        } else {
            times[1]
        };
        let Some(sight) = next[index].take() else {
            break;
        };
        next[index] = next_sight(&mut files[index])?;
        let span = spans[index].get_or_insert((at, at));
        span.1 = at;
        waiting[1 - index].forget_before(at.saturating_sub(LONGEST));
        let (fingerprint, ends, own) = (sight.fingerprint, sight.ends, sight.at);
        match waiting[1 - index].take(fingerprint) {
            Some(other) => tell(match place {
                Place::Here => Event::Matched {
                    ends,
                    here: own,
                    there: other,
                },
                Place::There => Event::Matched {
                    ends,
                    here: other,
                    there: own,
                },
            }),
            None => waiting[index].add(fingerprint, own, at),
        }
        tell(Event::Seen { place, sight, at });
    }
    let [here, there] = spans.map(Option::unwrap_or_default);
    Ok((here.0.max(there.0), here.1.min(there.1)))
}

/// Packets seen at only one place so far.
#[derive(Default)]
struct Waiting {
    times: HashMap<u64, VecDeque<Nanos>>,
    /// In order of the aligned times.
    order: VecDeque<(Nanos, u64)>,
}

impl Waiting {
    fn add(&mut self, fingerprint: u64, at: Nanos, aligned: Nanos) {
        self.times.entry(fingerprint).or_default().push_back(at);
        self.order.push_back((aligned, fingerprint));
    }

    fn take(&mut self, fingerprint: u64) -> Option<Nanos> {
        let times = self.times.get_mut(&fingerprint)?;
        let at = times.pop_front();
        if times.is_empty() {
            self.times.remove(&fingerprint);
        }
        at
    }

    fn forget_before(&mut self, aligned: Nanos) {
        while self.order.front().is_some_and(|(at, _)| *at < aligned) {
            let (_, fingerprint) = self.order.pop_front().expect("there is a front");
            self.take(fingerprint);
        }
    }
}

/// Estimates the clock offset from the fastest packets each way.
#[derive(Default)]
struct Clocks {
    /// How much later packets were seen there than here, each by its own clock: the smallest and
    /// the largest difference.
    later: BTreeMap<Ends, (i64, i64)>,
}

/// The offset of the clock there.
#[derive(Clone, Copy)]
struct Offset {
    ahead: i64,
    uncertainty: Nanos,
}

impl Clocks {
    fn note(&mut self, ends: Ends, later: i64) {
        let (least, most) = self.later.entry(ends).or_insert((later, later));
        *least = later.min(*least);
        *most = later.max(*most);
    }

    /// Returns the offset according to the two endpoints with the shortest round trip. The fastest
    /// packets from here have the smallest difference, the fastest packets from there the largest.
    fn offset(&self) -> Option<Offset> {
        let round_trips = self
            .later
            .iter()
            .filter_map(|((source, destination), (least, _))| {
                let (_, most_back) = self.later.get(&(*destination, *source))?;
                let round_trip = least - most_back;
                (round_trip >= 0).then_some((round_trip, most_back + round_trip / 2))
            });
        let (round_trip, ahead) = round_trips.min()?;
        Some(Offset {
            ahead,
            uncertainty: round_trip.unsigned_abs() / 2,
        })
    }

    /// Returns whether packets between these endpoints go from here to there. If the clocks do not
    /// decide, the first capture is the sender's.
    fn are_sent_here(&self, ends: Ends, offset: Option<Offset>) -> bool {
        let later = self.later.get(&ends);
        match (later, offset) {
            (Some((least, _)), Some(offset)) => *least >= offset.ahead,
            _ => self
                .later
                .get(&(ends.1, ends.0))
                .is_none_or(|(_, most)| offset.is_none_or(|offset| *most < offset.ahead)),
        }
    }
}

/// Counters of one direction at both places.
#[derive(Default)]
struct WayCounts {
    packets: [u64; 2],
    bytes: [u64; 2],
    delay: Distribution,
}

impl WayCounts {
    fn note(&mut self, place: Place, payload_bytes: u64) {
        self.packets[place as usize] += 1;
        self.bytes[place as usize] += payload_bytes;
    }

    fn way(&self, (source, destination): Ends, are_sent_here: bool, is_offset_known: bool) -> Way {
        let (sent, arrived) = if are_sent_here { (0, 1) } else { (1, 0) };
        let (sent_bytes, arrived_bytes) = (self.bytes[sent], self.bytes[arrived]);
        let lost = sent_bytes.saturating_sub(arrived_bytes);
        Way {
            source: source.to_string(),
            destination: destination.to_string(),
            sent_packets: self.packets[sent],
            arrived_packets: self.packets[arrived],
            sent_bytes,
            arrived_bytes,
            loss: (sent_bytes > 0).then(|| lost as f64 / sent_bytes as f64),
            delay: self.delay.durations().filter(|_| is_offset_known),
        }
    }
}

/// Returns the next TCP packet.
fn next_sight(captures: &mut MergedCaptures) -> Result<Option<Sight>, ReadError> {
    loop {
        match captures.read(|frame| sight(&frame))? {
            None => return Ok(None),
            Some(None) => {}
            Some(Some(sight)) => return Ok(Some(sight)),
        }
    }
}

/// Fingerprints a packet by what stays the same from end to end, even if segments are coalesced on
/// the way. Data is identified by the number after its last byte, a packet without data by
/// acknowledgment and window. Both include the options, which carry timestamps.
fn sight(frame: &Frame<'_>) -> Option<Sight> {
    let packet = TcpPacket::of(frame.link, frame.bytes).ok()?;
    let ends = (packet.source, packet.destination);
    let mut hasher = FxHasher::default();
    ends.hash(&mut hasher);
    (
        packet.seq.0.wrapping_add(packet.payload_len),
        packet.flags.0,
    )
        .hash(&mut hasher);
    if packet.payload_len == 0 {
        (packet.ack.0, packet.window).hash(&mut hasher);
    }
    for (kind, content) in packet.options.clone() {
        (kind, content).hash(&mut hasher);
    }
    Some(Sight {
        ends,
        fingerprint: hasher.finish(),
        at: frame.at,
        payload_bytes: u64::from(packet.payload_len),
    })
}

fn difference(later: Nanos, earlier: Nanos) -> i64 {
    later.wrapping_sub(earlier) as i64
}
