//! The answer to `TCP_INFO`: the beginning of Linux's `struct tcp_info`, with the values that the
//! engine has for a subflow. All other fields are 0.

use mptcp::connection::SubflowState;

/// Bytes of the structure up to `tcpi_segs_in`.
const LEN: usize = 144;

/// Offsets of fields (`include/uapi/linux/tcp.h`).
const RTT: usize = 68;
const SSTHRESH: usize = 76;
const CWND: usize = 80;
const TOTAL_RETRANS: usize = 100;
const BYTES_ACKED: usize = 120;
const BYTES_RECEIVED: usize = 128;
const SEGS_OUT: usize = 136;
const SEGS_IN: usize = 140;
const SND_MSS: usize = 16;

/// `TCP_INFINITE_SSTHRESH`.
const NO_SSTHRESH: u32 = 0x7fff_ffff;

/// Values of `tcpi_ca_state`: open and recovery.
const CA_OPEN: u8 = 0;
const CA_RECOVERY: u8 = 3;

pub(crate) fn of(subflow: &SubflowState) -> [u8; LEN] {
    let mut info = [0; LEN];
    let (window, counters) = (&subflow.window, &subflow.counters);
    let mss = f64::from(window.mss_bytes);
    info[0] = subflow.state.linux_number();
    info[1] = if window.in_recovery {
        CA_RECOVERY
    } else {
        CA_OPEN
    };
    let ssthresh = match window.ssthresh_bytes.is_finite() {
        true => (window.ssthresh_bytes / mss) as u32,
        false => NO_SSTHRESH,
    };
    let rtt_us = window.srtt.unwrap_or(0) / 1000;
    for (place, value) in [
        (SND_MSS, window.mss_bytes),
        (RTT, rtt_us as u32),
        (SSTHRESH, ssthresh),
        (CWND, window.cwnd_packets() as u32),
        (TOTAL_RETRANS, counters.retransmitted_segments as u32),
        (SEGS_OUT, counters.sent_segments as u32),
        (SEGS_IN, counters.received_segments as u32),
    ] {
        info[place..place + 4].copy_from_slice(&value.to_ne_bytes());
    }
    for (place, value) in [
        (BYTES_ACKED, counters.acked_bytes),
        (BYTES_RECEIVED, counters.received_bytes),
    ] {
        info[place..place + 8].copy_from_slice(&value.to_ne_bytes());
    }
    info
}
