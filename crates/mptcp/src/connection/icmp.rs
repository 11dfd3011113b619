//! What ICMP says of a path (RFC 9293, section 3.9.2.2).

use super::Connection;
use crate::pm::FourTuple;
use crate::time::Nanos;
use crate::wire::{IcmpError, Problem, TCP_HEADER_LEN, ip_header_len};

/// The least that IPv6 links take (RFC 8200, section 5), and what Linux takes for the least of IPv4 (`min_pmtu`): who forges a message gets no
/// further.
const LEAST_IPV6_MTU_BYTES: u32 = 1280;
const LEAST_IPV4_MTU_BYTES: u32 = 552;

impl Connection {
    /// Takes an error that a packet of one of its subflows met with; one of another is ignored, and so is one that quotes nothing
    /// that is under way (RFC 5927, section 4.1).
    pub fn handle_icmp_error(&mut self, now: Nanos, error: &IcmpError) {
        let four = FourTuple::of_sender(error);
        let Some(which) = self.paths.iter().position(|path| path.four == four) else {
            return;
        };
        if !self.paths[which].subflow.has_under_way(error.seq) {
            return;
        }
        match error.problem {
            Problem::TooBig { mtu_bytes } => self.narrow(which, mtu_bytes),
            Problem::Refused => self.paths[which].subflow.refuse(),
            // It must not end a connection.
            Problem::Unreachable => return,
        }
        self.after_subflow(now, which);
        self.reap_closed(now);
        self.is_schedulable = true;
    }

    /// Packets of a path are to be no longer than that from now on (RFC 1191; RFC 8201).
    fn narrow(&mut self, which: usize, mtu_bytes: u32) {
        let (path, windows) = self.paths.with_windows(which);
        let source = path.four.local.ip();
        let least_bytes = match source.is_ipv4() {
            true => LEAST_IPV4_MTU_BYTES,
            false => LEAST_IPV6_MTU_BYTES,
        };
        let via = path.via.as_deref().cloned().unwrap_or_default();
        let headers = ip_header_len(source, &via) + TCP_HEADER_LEN;
        let mss = mtu_bytes.max(least_bytes) - headers as u32;
        path.subflow.lower_mss(mss, &mut windows[which]);
    }
}
