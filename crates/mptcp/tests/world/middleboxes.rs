//! Middleboxes on paths.

use std::sync::Arc;

use mptcp::time::Nanos;
use mptcp::wire::{MptcpOption, Packet};

/// Where and when a packet passes.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub now: Nanos,
    pub path: usize,
    /// The side that sent it.
    pub from: usize,
}

/// Takes every packet and returns what is forwarded in its place: the same packet, another one, or
/// nothing.
pub type Middlebox = Box<dyn FnMut(Place, Packet) -> Vec<Packet>>;

/// Drops the first `count` packets that match.
pub fn lose(count: usize, mut matches: impl FnMut(Place, &Packet) -> bool + 'static) -> Middlebox {
    let mut left = count;
    Box::new(move |place, packet| {
        let is_lost = left > 0 && matches(place, &packet);
        left -= usize::from(is_lost);
        if is_lost { Vec::new() } else { vec![packet] }
    })
}

/// Removes the MPTCP options that match.
pub fn strip(matches: impl Fn(Place, &Packet, &MptcpOption) -> bool + 'static) -> Middlebox {
    Box::new(move |place, mut packet| {
        let options = packet.segment.options.mptcp.iter();
        let kept = options.filter(|option| !matches(place, &packet, option));
        packet.segment.options.mptcp = kept.cloned().collect();
        vec![packet]
    })
}

/// Changes packets.
pub fn rewrite(mut change: impl FnMut(Place, &mut Packet) + 'static) -> Middlebox {
    Box::new(move |place, mut packet| {
        change(place, &mut packet);
        vec![packet]
    })
}

/// Converts every packet to bytes and back, which must not change it.
pub fn as_bytes() -> Middlebox {
    Box::new(|_, packet| {
        let mut bytes = Vec::new();
        packet.emit(&mut bytes);
        assert_eq!(bytes.len(), packet.wire_len());
        let (read, ignored) = Packet::parse(&Arc::from(bytes)).expect("it can be read");
        assert!(ignored.is_none(), "{ignored:?} in {packet:?}");
        assert_eq!(read, packet);
        vec![read]
    })
}
