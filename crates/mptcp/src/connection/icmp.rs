//! Handling of ICMP errors (RFC 9293, section 3.9.2.2).

use super::Connection;
use crate::pm::FourTuple;
use crate::time::Nanos;
use crate::wire::{IcmpError, Problem, TCP_HEADER_LEN, ip_header_len};

/// Smallest MTU of IPv6 links (RFC 8200, section 5), and Linux's lower limit for IPv4 (`min_pmtu`).
/// A forged message cannot set a smaller one.
const LEAST_IPV6_MTU_BYTES: u32 = 1280;
const LEAST_IPV4_MTU_BYTES: u32 = 552;

impl Connection {
    /// Handles `error`, an ICMP error about a packet of this connection, at `now`. Ignores errors
    /// about packets of other connections, and errors whose quoted sequence number is not in flight
    /// (RFC 5927, section 4.1).
    ///
    /// A smaller MTU lowers the segment size of the subflow. An error that refuses a SYN closes its
    /// subflow. An unreachable destination changes nothing.
    pub fn handle_icmp_error(&mut self, now: Nanos, error: &IcmpError) {
        let four = FourTuple::of_sender(error);
        let Some(subflow) = self
            .subflows
            .iter()
            .position(|context| context.four == four)
        else {
            return;
        };
        if !self.subflows[subflow].tcp.is_outstanding(error.seq) {
            return;
        }
        match error.problem {
            Problem::TooBig { mtu_bytes } => self.narrow(subflow, mtu_bytes),
            Problem::Refused => self.subflows[subflow].tcp.refuse(),
            // An unreachable destination must not close a connection.
            Problem::Unreachable => return,
        }
        self.after_subflow(now, subflow);
        self.reap_closed(now);
        self.is_schedulable = true;
    }

    /// Limits the packets of a subflow to `mtu_bytes` (RFC 1191; RFC 8201).
    fn narrow(&mut self, subflow: usize, mtu_bytes: u32) {
        let (context, windows) = self.subflows.with_windows(subflow);
        let source = context.four.local.ip();
        let least_bytes = match source.is_ipv4() {
            true => LEAST_IPV4_MTU_BYTES,
            false => LEAST_IPV6_MTU_BYTES,
        };
        let via = context.via.as_deref().cloned().unwrap_or_default();
        let headers = ip_header_len(source, &via) + TCP_HEADER_LEN;
        let mss = mtu_bytes.max(least_bytes) - headers as u32;
        context.tcp.lower_mss(mss, &mut windows[subflow]);
    }
}
