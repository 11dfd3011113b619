//! Handshakes of which nothing is kept (RFC 4987, section 3.6; RFC 8684, section 3.1).
//!
//! Our sequence number and our key follow from a secret, both ends, the peer's sequence number and the time. The third packet
//! brings them back: the acknowledgment has the one, MP_CAPABLE the other. Then the SYN is worked out again, as far as its
//! options found a place, which is where Linux has them too: a step of the MSS in the lowest bits of our sequence number,
//! window scale, SACK and ECN in those of our timestamp. Without timestamps the handshake goes without the latter.

use std::net::{IpAddr, SocketAddr};

use hmac::{Hmac, KeyInit, Mac};
use rand_core::Rng;
use sha2::Sha256;

use crate::payload::Payload;
use crate::pm::FourTuple;
use crate::seq::SeqNr;
use crate::time::{Nanos, SECOND};
use crate::wire::{Capable, Flags, Key, MptcpOption, Segment, TcpOptions, Timestamps};

/// An answer is good until the end of the period after its own.
const PERIOD: Nanos = 60 * SECOND;

/// How long after the last answer a third packet can still be good.
pub(super) const LIFETIME: Nanos = 2 * PERIOD;

/// MSS options that are told apart, in bytes; the least is what every host takes (RFC 9293, section 3.7.1).
const MSS_STEPS: [u16; 8] = [536, 1220, 1300, 1360, 1400, 1440, 1460, 8940];
/// The bits of our sequence number that say which.
const MSS_BITS: u32 = 7;

/// The bits of our timestamp that say what the SYN offered.
const OFFER_BITS: u32 = 0x3f;
/// Those of the window's shift count.
const SHIFT_BITS: u32 = 0x0f;
/// In place of a shift count: no window scale. The largest is 14 (RFC 7323, section 2.3).
const NO_SHIFT: u32 = 15;
const SACK_BIT: u32 = 0x10;
const ECN_BIT: u32 = 0x20;
/// What a SYN says that offers ECN (RFC 3168, section 6.1.1).
const ECN_OFFER: Flags = Flags(Flags::ECE.0 | Flags::CWR.0);

/// What we choose in a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub key: Key,
    /// Our initial sequence number.
    pub iss: SeqNr,
}

/// What a segment tells of the handshake before it.
pub(super) enum Recalled {
    /// The SYN, and what we chose in answer to it.
    Handshake(Box<Segment>, Choice),
    /// There was one with Multipath TCP, and the segment does not have the keys. It counts as lost, as where the handshake is
    /// kept: the peer repeats them until it has a DSS (RFC 8684, section 3.1).
    WithoutKeys,
}

/// Makes and checks such handshakes.
pub(super) struct SynCookies {
    secret: [u8; 32],
}

impl SynCookies {
    pub fn new(rng: &mut dyn Rng) -> Self {
        let mut secret = [0; 32];
        rng.fill_bytes(&mut secret);
        Self { secret }
    }

    /// What we choose in answer to a SYN.
    pub fn choose(&self, now: Nanos, four: FourTuple, syn: &Segment) -> Choice {
        let step = mss_step(syn.options.mss.unwrap_or(0));
        self.choice(now / PERIOD, four, syn.seq, step)
    }

    /// The handshake before a third packet, or before the first data; nothing if there was none.
    pub fn recall(&self, now: Nanos, four: FourTuple, ack: &Segment) -> Option<Recalled> {
        let iss = ack.ack - 1;
        let step = iss.0 & MSS_BITS;
        let period = now / PERIOD;
        let choices = [period, period.wrapping_sub(1)]
            .map(|period| self.choice(period, four, ack.seq - 1, step));
        let choice = choices.into_iter().find(|choice| choice.iss == iss)?;
        let mut syn = syn_before(ack, step);
        match ack.options.mptcp.first() {
            None => {}
            Some(MptcpOption::Capable(Capable::Ack {
                flags,
                receiver_key,
                ..
            })) if *receiver_key == choice.key => {
                syn.options.mptcp.push(MptcpOption::Capable(Capable::Syn {
                    version: 1,
                    flags: *flags,
                }));
            }
            Some(MptcpOption::Dss(_)) => return Some(Recalled::WithoutKeys),
            Some(_) => return None,
        }
        Some(Recalled::Handshake(Box::new(syn), choice))
    }

    fn choice(&self, period: u64, four: FourTuple, irs: SeqNr, step: u32) -> Choice {
        let mut hmac = Hmac::<Sha256>::new_from_slice(&self.secret).expect("any length will do");
        for end in [four.local, four.remote] {
            hmac.update(&octets(end));
        }
        hmac.update(&period.to_be_bytes());
        hmac.update(&irs.0.to_be_bytes());
        hmac.update(&step.to_be_bytes());
        let hash: [u8; 32] = hmac.finalize().into_bytes().into();
        let [word, high, low] = [0, 4, 8]
            .map(|at| u32::from_be_bytes([hash[at], hash[at + 1], hash[at + 2], hash[at + 3]]));
        Choice {
            key: u64::from(high) << 32 | u64::from(low),
            iss: SeqNr(word & !MSS_BITS | step),
        }
    }
}

fn octets(end: SocketAddr) -> [u8; 18] {
    let mut octets = [0; 18];
    let address = match end.ip() {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    octets[..16].copy_from_slice(&address.octets());
    octets[16..].copy_from_slice(&end.port().to_be_bytes());
    octets
}

/// The largest step that is not above an MSS.
fn mss_step(mss: u16) -> u32 {
    let above = MSS_STEPS.partition_point(|step| *step <= mss);
    above.saturating_sub(1) as u32
}

/// What can be recalled of a SYN, if we echo timestamps or if we do not.
pub(super) fn memorable(syn: &Segment, has_timestamps: bool) -> Segment {
    let mut memorable = syn.clone();
    let options = &mut memorable.options;
    options.mss = Some(MSS_STEPS[mss_step(options.mss.unwrap_or(0)) as usize]);
    if !has_timestamps || options.timestamps.is_none() {
        options.timestamps = None;
        options.window_scale = None;
        options.sack_permitted = false;
        memorable.flags = Flags(syn.flags.0 & !ECN_OFFER.0);
    }
    memorable
}

/// Our timestamp, not later than `value`, that says what a SYN offered.
pub(super) fn timestamp(value: u32, syn: &Segment) -> u32 {
    let options = &syn.options;
    let shift = options
        .window_scale
        .map_or(NO_SHIFT, |shift| u32::from(shift).min(NO_SHIFT - 1));
    let sack = u32::from(options.sack_permitted) * SACK_BIT;
    let ecn = u32::from(syn.flags.contains(ECN_OFFER)) * ECN_BIT;
    let offer = shift | sack | ecn;
    let coded = value & !OFFER_BITS | offer;
    match value & OFFER_BITS < offer {
        true => coded.wrapping_sub(OFFER_BITS + 1),
        false => coded,
    }
}

/// The SYN of which the timestamp that `ack` echoes says what it offered.
fn syn_before(ack: &Segment, step: u32) -> Segment {
    let timestamps = ack.options.timestamps;
    let offer = timestamps.map_or(NO_SHIFT, |timestamps| timestamps.echo & OFFER_BITS);
    let shift = offer & SHIFT_BITS;
    let offers_ecn = offer & ECN_BIT != 0;
    Segment {
        source_port: ack.source_port,
        destination_port: ack.destination_port,
        seq: ack.seq - 1,
        ack: SeqNr(0),
        flags: if offers_ecn {
            Flags::SYN | ECN_OFFER
        } else {
            Flags::SYN
        },
        window: ack.window,
        options: TcpOptions {
            mss: Some(MSS_STEPS[step as usize]),
            window_scale: Some(shift as u8).filter(|_| shift != NO_SHIFT),
            sack_permitted: offer & SACK_BIT != 0,
            timestamps: timestamps.map(|theirs| Timestamps {
                value: theirs.value,
                echo: 0,
            }),
            ..TcpOptions::default()
        },
        payload: Payload::EMPTY,
    }
}
