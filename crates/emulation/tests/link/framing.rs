//! The bytes of packets on lines with cells or 64/65 encoding.

use emulation::link::Enqueued;
use experiment::resolved::{Direction, Framing, Loss};

use crate::driver::{Link, plain};

/// Returns the bytes on the wire of an IP packet. The loss keeps a link from being computed in
/// advance.
fn wire_bytes(framing: Framing, overhead_bytes: u32, ip_bytes: u32, loss: Loss) -> u64 {
    let mut link = Link::new(&Direction {
        overhead_bytes,
        framing,
        loss,
        ..plain(Some(8_000_000_000))
    });
    assert_eq!(link.offer(0, ip_bytes), Enqueued::Queued);
    link.run_to_end();
    let bytes = link.counters().wire_bytes;
    assert_eq!(link.arrivals(), [bytes], "a byte takes a nanosecond");
    bytes
}

#[test]
fn sizes_are_exact_whether_computed_in_advance_or_step_by_step() {
    let cases = [
        // IP over Ethernet over ATM adds 32 bytes: 16 bytes fill a cell, 17 begin the next.
        (Framing::Atm, 32, 16, 53),
        (Framing::Atm, 32, 17, 106),
        (Framing::Atm, 32, 40, 106),
        (Framing::Atm, 32, 1500, 32 * 53),
        (Framing::Atm, 32, 1504, 32 * 53),
        (Framing::Atm, 32, 1505, 33 * 53),
        // PTM adds 22 bytes, and one for each 64 that begin.
        (Framing::Ptm, 22, 42, 65),
        (Framing::Ptm, 22, 43, 67),
        (Framing::Ptm, 22, 1500, 1522 + 24),
        (Framing::Plain, 14, 1500, 1514),
    ];
    for (framing, overhead, ip_bytes, expected) in cases {
        for loss in [Loss::None {}, Loss::List { packets: vec![9] }] {
            let found = wire_bytes(framing, overhead, ip_bytes, loss);
            assert_eq!(found, expected, "{framing:?} {ip_bytes}");
        }
    }
}
