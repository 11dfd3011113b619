//! A video player that adapts its bit rate, and the server of its segments. The segments are the
//! data of the flow. Each is a unit.
//!
//! The player requests one segment after another while its buffer has room for a whole one. The bit
//! rate of each follows from the playing time in the buffer: BBA-0 of Huang et al., "A buffer-based
//! approach to rate adaptation" (SIGCOMM 2014, algorithm 1), with reservoir and cushion in
//! proportion to the buffer.

use std::collections::VecDeque;

use experiment::resolved::Video;
use experiment::samples::metrics;
use experiment::time::{NANOS_PER_SECOND, Nanos};

use super::{Session, Streams, Turn, read, write};

/// Bytes of a request.
const REQUEST_BYTES: u64 = 300;
/// The part of the buffer up to which the lowest bit rate is requested: 90 of 240 s in the paper.
const RESERVOIR: f64 = 0.375;
/// The part of the buffer from which the highest bit rate is requested: 216 of 240 s.
const UPPER: f64 = 0.9;

/// The state of a video that both ends share.
#[derive(Default)]
pub(crate) struct VideoRecord {
    /// Bytes of the segments requested and not yet begun. They stand for the content of the
    /// requests.
    asked: VecDeque<u64>,
    playback: Playback,
}

impl VideoRecord {
    /// Returns the values of [`metrics::VIDEO`] at `now`. The startup time is `None` until the video
    /// plays.
    pub(crate) fn values(&self, now: Nanos) -> [Option<f64>; metrics::VIDEO.len()] {
        let seconds = |time: Nanos| time as f64 / NANOS_PER_SECOND as f64;
        let playback = self.playback.at(now);
        [
            Some(seconds(playback.buffered)),
            Some(playback.stalls as f64),
            Some(seconds(playback.stalled)),
            playback.startup.map(seconds),
        ]
    }
}

/// The state of the playback at `now`.
#[derive(Clone, Default)]
struct Playback {
    now: Nanos,
    /// Playing time in the buffer.
    buffered: Nanos,
    is_playing: bool,
    /// Time from the start of the flow until it played.
    startup: Option<Nanos>,
    stalls: u64,
    /// How long it stalled after its start.
    stalled: Nanos,
    /// Whether the last segment is in the buffer. The video is over when that buffer is empty.
    has_all: bool,
}

impl Playback {
    /// Returns the state at a later time. Playback stops if the buffer runs empty.
    fn at(&self, now: Nanos) -> Self {
        let mut later = self.clone();
        let passed = now.saturating_sub(self.now);
        later.now = now;
        if !self.is_playing {
            if self.startup.is_some() && !(self.has_all && self.buffered == 0) {
                later.stalled += passed;
            }
            return later;
        }
        later.buffered = self.buffered.saturating_sub(passed);
        if later.buffered == 0 {
            later.is_playing = false;
            if !self.has_all {
                later.stalls += 1;
                later.stalled += passed - self.buffered;
            }
        }
        later
    }

    /// Starts the playback if it is stopped and the buffer holds at least `enough`.
    fn play_from(&mut self, enough: Nanos, start: Nanos) {
        if !self.is_playing && (self.buffered >= enough || self.has_all) {
            self.is_playing = true;
            self.startup.get_or_insert(self.now.saturating_sub(start));
        }
    }
}

/// Requests segments and plays them.
pub(super) struct Player {
    streams: Streams,
    video: Video,
    /// Number of segments. `None` is without end.
    count: Option<u64>,
    asked: u64,
    asked_at: Nanos,
    /// Index of the last bit rate.
    rate: usize,
    /// Bytes of all segments requested.
    expected: u64,
    received: u64,
    sent: u64,
    is_over: bool,
}

impl Player {
    pub(super) fn new(streams: Streams, video: &Video) -> Self {
        Self {
            streams,
            count: video.length_ns.map(|it| it.div_ceil(video.segment_ns)),
            video: video.clone(),
            asked: 0,
            asked_at: 0,
            rate: 0,
            expected: 0,
            received: 0,
            sent: 0,
            is_over: false,
        }
    }

    fn segment_bytes(&self) -> u64 {
        let bits =
            u128::from(self.video.bitrates_bps[self.rate]) * u128::from(self.video.segment_ns);
        bits.div_ceil(8 * u128::from(NANOS_PER_SECOND)) as u64
    }

    /// Handles the arrival of the last segment requested.
    fn handle_segment(&mut self, turn: &mut Turn<'_>) {
        let (number, bytes) = (self.asked - 1, self.segment_bytes());
        turn.record
            .record_unit(number, bytes, self.asked_at, turn.now, turn.notes);
        let start = turn.record.start();
        let playback = &mut turn.record.video.playback;
        playback.buffered += self.video.segment_ns;
        playback.has_all = self.count == Some(self.asked);
        playback.play_from(self.video.startup_ns, start);
        if playback.has_all {
            turn.record.complete(turn.now);
            turn.connection.close();
            self.is_over = true;
        }
    }

    /// Requests the next segment, or returns when the buffer will have room for it.
    fn ask(&mut self, turn: &mut Turn<'_>) -> Option<Nanos> {
        let video = &mut turn.record.video;
        let room = self.video.buffer_ns - self.video.segment_ns;
        if video.playback.buffered > room {
            return Some(turn.now + video.playback.buffered - room);
        }
        if self.asked > 0 {
            self.rate = next_rate(&self.video, self.rate, video.playback.buffered);
        }
        let bytes = self.segment_bytes();
        video.asked.push_back(bytes);
        self.expected += bytes;
        self.asked += 1;
        self.asked_at = turn.now;
        None
    }
}

impl Session for Player {
    fn advance(&mut self, turn: &mut Turn<'_>) -> Option<Nanos> {
        turn.record.video.playback = turn.record.video.playback.at(turn.now);
        let read = read(turn, self.streams.data, self.received);
        self.received += read;
        turn.record.bytes_received += read;
        if read > 0 && self.received == self.expected {
            self.handle_segment(turn);
        }
        if turn.connection.peer_has_ended() && !self.is_over {
            let why = "the connection was closed by the other side".to_owned();
            turn.record.fail(why);
            self.is_over = true;
        }
        let is_idle = self.received == self.expected && !self.is_over;
        let wakes_at = if is_idle { self.ask(turn) } else { None };
        let left = self.asked * REQUEST_BYTES - self.sent;
        self.sent += write(turn.connection, self.streams.requests, self.sent, left);
        wakes_at
    }
}

/// Returns the index of the next bit rate. It is the last one, unless the rate that follows from
/// the buffer reaches a neighbouring one.
fn next_rate(video: &Video, last: usize, buffered: Nanos) -> usize {
    let rates = &video.bitrates_bps;
    let highest = rates.len() - 1;
    let part = buffered as f64 / video.buffer_ns as f64;
    if part <= RESERVOIR {
        return 0;
    }
    if part >= UPPER {
        return highest;
    }
    let range = rates[highest] as f64 - rates[0] as f64;
    let wanted = rates[0] as f64 + range * (part - RESERVOIR) / (UPPER - RESERVOIR);
    let below = rates.iter().filter(|rate| (**rate as f64) < wanted).count();
    if wanted >= rates[(last + 1).min(highest)] as f64 {
        below.saturating_sub(1)
    } else if wanted <= rates[last.saturating_sub(1)] as f64 {
        let up_to = rates.iter().filter(|rate| **rate as f64 <= wanted).count();
        up_to.min(highest)
    } else {
        last
    }
}

/// Sends the segments requested.
pub(super) struct Server {
    streams: Streams,
    /// Bytes of requests read. `begun` counts the requests whose segments are included in
    /// `promised`.
    received: u64,
    begun: u64,
    /// Bytes of all segments requested.
    promised: u64,
    sent: u64,
}

impl Server {
    pub(super) fn new(streams: Streams) -> Self {
        Self {
            streams,
            received: 0,
            begun: 0,
            promised: 0,
            sent: 0,
        }
    }
}

impl Session for Server {
    fn advance(&mut self, turn: &mut Turn<'_>) -> Option<Nanos> {
        self.received += read(turn, self.streams.requests, self.received);
        while self.begun < self.received / REQUEST_BYTES {
            self.begun += 1;
            self.promised += turn.record.video.asked.pop_front().unwrap_or(0);
        }
        let left = self.promised - self.sent;
        let sent = write(turn.connection, self.streams.data, self.sent, left);
        self.sent += sent;
        turn.record.bytes_sent += sent;
        if turn.connection.peer_has_ended() && self.sent == self.promised {
            turn.connection.close();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = NANOS_PER_SECOND;

    /// Returns a video with four bit rates and 240 s of buffer, as in the paper.
    fn video() -> Video {
        Video {
            bitrates_bps: vec![1_000_000, 2_000_000, 3_000_000, 4_000_000],
            segment_ns: 4 * SECOND,
            buffer_ns: 240 * SECOND,
            startup_ns: 4 * SECOND,
            length_ns: None,
        }
    }

    #[test]
    fn the_bit_rate_follows_the_buffer_with_hysteresis() {
        let next = |last, seconds| next_rate(&video(), last, seconds * SECOND);
        // Up to 90 s the lowest, from 216 s the highest.
        assert_eq!([next(3, 90), next(0, 216)], [0, 3]);
        // At 153 s the rate that follows from the buffer is 2.5 Mbit/s, between 2 and 3 Mbit/s.
        assert_eq!([0, 1, 2, 3].map(|last| next(last, 153)), [1, 1, 2, 2]);
    }

    #[test]
    fn an_empty_buffer_is_a_stall_until_there_is_enough_again() {
        let mut playback = Playback {
            buffered: 4 * SECOND,
            ..Playback::default()
        };
        playback.play_from(4 * SECOND, 0);
        let mut later = playback.at(10 * SECOND);
        assert_eq!((later.stalls, later.stalled), (1, 6 * SECOND));
        later.buffered += 2 * SECOND;
        later.play_from(4 * SECOND, 0);
        assert_eq!(later.at(11 * SECOND).stalled, 7 * SECOND);
    }
}
