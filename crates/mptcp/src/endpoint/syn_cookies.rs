//! SYN cookies: handshakes without kept state (RFC 4987, section 3.6; RFC 8684, section 3.1).
//!
//! The local initial sequence number and the local key are an HMAC of a secret, both addresses and
//! ports, the peer's sequence number and the time. The third packet returns them: the number in its
//! acknowledgment, the key in MP_CAPABLE. The options of the SYN are recovered from where Linux
//! also stores them: a step of the MSS in the lowest bits of the local sequence number; window
//! scale, SACK and ECN in the lowest bits of the local timestamp. Without timestamps, the
//! connection has no window scale, SACK or ECN.

use std::net::{IpAddr, SocketAddr};

use hmac::{Hmac, KeyInit, Mac};
use rand_core::Rng;
use sha2::Sha256;

use crate::payload::Payload;
use crate::pm::FourTuple;
use crate::seq::SeqNr;
use crate::time::{Nanos, SECOND};
use crate::wire::{Capable, Flags, Key, MptcpOption, Segment, TcpOptions, Timestamps};

/// A cookie is valid until the end of the period after the one in which it was sent.
const PERIOD: Nanos = 60 * SECOND;

/// How long after the last cookie a third packet can be valid.
pub(super) const LIFETIME: Nanos = 2 * PERIOD;

/// MSS values that a cookie can store, in bytes. The smallest is the one that every host accepts
/// (RFC 9293, section 3.7.1).
const MSS_STEPS: [u16; 8] = [536, 1220, 1300, 1360, 1400, 1440, 1460, 8940];
/// The bits of the local sequence number that hold the index into `MSS_STEPS`.
const MSS_BITS: u32 = 7;

/// The bits of the local timestamp that hold the options of the SYN.
const OFFER_BITS: u32 = 0x3f;
/// The bits of the window's shift count.
const SHIFT_BITS: u32 = 0x0f;
/// The shift count that stands for "no window scale". The largest valid one is 14 (RFC 7323,
/// section 2.3).
const NO_SHIFT: u32 = 15;
const SACK_BIT: u32 = 0x10;
const ECN_BIT: u32 = 0x20;
/// The flags of a SYN that offers ECN (RFC 3168, section 6.1.1).
const ECN_OFFER: Flags = Flags(Flags::ECE.0 | Flags::CWR.0);

/// The key and the initial sequence number with which the local host answers a SYN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub key: Key,
    /// The local initial sequence number.
    pub iss: SeqNr,
}

/// The result of [`SynCookies::recall`]: the handshake to which a segment belongs.
pub(super) enum Recalled {
    /// The reconstructed SYN, and the numbers chosen in answer to it.
    Handshake(Box<Segment>, Choice),
    /// The handshake negotiated MPTCP, and the segment does not carry the keys. The segment is
    /// treated as lost, as in a handshake with kept state: the peer repeats the keys until it
    /// receives a DSS (RFC 8684, section 3.1).
    WithoutKeys,
}

/// Creates and checks SYN cookies.
pub(super) struct SynCookies {
    secret: [u8; 32],
}

impl SynCookies {
    pub fn new(rng: &mut dyn Rng) -> Self {
        let mut secret = [0; 32];
        rng.fill_bytes(&mut secret);
        Self { secret }
    }

    /// Returns the key and the initial sequence number with which to answer `syn`, received at
    /// `now` between the addresses and ports `four`. They are a function of these arguments, so no
    /// state is kept.
    pub fn choose(&self, now: Nanos, four: FourTuple, syn: &Segment) -> Choice {
        let step = mss_step(syn.options.mss.unwrap_or(0));
        self.choice(now / PERIOD, four, syn.seq, step)
    }

    /// Reconstructs the handshake from `ack`, the third packet or the first data, received at `now`
    /// between the addresses and ports `four`. Returns `None` if `ack` acknowledges no valid
    /// cookie.
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

/// Returns the index of the largest MSS step that is at most `mss`, or 0.
fn mss_step(mss: u16) -> u32 {
    let above = MSS_STEPS.partition_point(|step| *step <= mss);
    above.saturating_sub(1) as u32
}

/// Returns a copy of `syn` reduced to the options that a cookie can store. `has_timestamps` is
/// whether the local host uses timestamps.
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

/// Returns the largest timestamp that is at most `value` and whose lowest six bits hold the options
/// of `syn`.
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

/// Reconstructs the SYN from the third packet: options from the timestamp that `ack` echoes, MSS
/// from `step`.
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
