//! The size of a subflow's send buffer: the memory that Linux grants for a congestion window
//! (`tcp_sndbuf_expand`).

use super::{Config, Segmentation};
use crate::cc::Window;

/// Linux's headers before a segment and its record of the pages after it (`MAX_TCP_HEADER`,
/// `skb_shared_info`).
const HEADROOM_BYTES: u32 = 256 + 320;

/// Linux's record of a segment (`sk_buff`).
const RECORD_BYTES: u32 = 256;

/// Windows for which there is memory: one in flight and one that waits.
const WINDOWS: f64 = 2.0;

/// The smallest window, in segments, for which memory is granted (`TCP_INIT_CWND`).
const LEAST_SEGMENTS: f64 = 10.0;

/// The granted memory in bytes. It never shrinks.
#[derive(Clone, Copy, Debug)]
pub(super) struct SendMemory {
    bytes: u32,
    max_bytes: u32,
    segmentation: Segmentation,
}

impl SendMemory {
    pub fn new(config: &Config) -> Self {
        let first = granted_bytes(LEAST_SEGMENTS, u32::from(config.mss_bytes));
        Self {
            bytes: first.min(config.send_buffer_bytes),
            max_bytes: config.send_buffer_bytes,
            segmentation: config.segmentation,
        }
    }

    pub fn bytes(self) -> u32 {
        self.bytes
    }

    /// Returns the bytes of payload that fit into the memory in segments of `segment_bytes`.
    pub fn payload_bytes(self, segment_bytes: u32) -> u32 {
        match self.segmentation {
            Segmentation::Single | Segmentation::Offload => self.bytes,
            Segmentation::InSocketBuffers => {
                let each = segment_bytes + HEADROOM_BYTES + RECORD_BYTES;
                (f64::from(self.bytes) * f64::from(segment_bytes) / f64::from(each)) as u32
            }
        }
    }

    /// Grows the granted memory to the size for the congestion window `window`, up to the
    /// configured limit.
    pub fn grow(&mut self, window: &Window) {
        let wanted = granted_bytes(window.cwnd_packets(), window.mss_bytes);
        self.bytes = self.bytes.max(wanted.min(self.max_bytes));
    }
}

/// Returns the memory for a congestion window of `cwnd_packets` full-sized segments: 2304 bytes for
/// each on an Ethernet, twice. Payload takes up little more of it than its length, so the data of
/// three windows fits.
fn granted_bytes(cwnd_packets: f64, mss_bytes: u32) -> u32 {
    let per_segment = f64::from(segment_memory_bytes(mss_bytes));
    (WINDOWS * cwnd_packets.max(LEAST_SEGMENTS) * per_segment) as u32
}

/// Returns the memory in bytes that Linux counts for a segment with `payload_bytes` of payload
/// (`SKB_TRUESIZE`). The receive buffers of most drivers have the same size.
pub fn segment_memory_bytes(payload_bytes: u32) -> u32 {
    (payload_bytes + HEADROOM_BYTES).next_power_of_two() + RECORD_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_a_socket_of_linux_tells() {
        // `SO_SNDBUF` of a new connection with reno or cubic on Linux 6.18, at MTUs of 1500 and
        // 9000 bytes.
        assert_eq!(granted_bytes(10.0, 1448), 46_080);
        assert_eq!(granted_bytes(10.0, 8948), 332_800);
        assert_eq!(granted_bytes(2.0, 1448), 46_080);
        assert_eq!(granted_bytes(20.0, 1448), 92_160);
    }

    #[test]
    fn a_segment_in_a_socket_buffer_of_its_own_takes_more_than_its_payload() {
        let with = |segmentation| SendMemory {
            bytes: 746_520,
            max_bytes: 4 << 20,
            segmentation,
        };
        // `sk_wmem_queued` was 746,520 bytes on Linux 6.18 with `gso_max_segs` 1 while between
        // 470,728 and 476,520 bytes were not acknowledged.
        let payload = with(Segmentation::InSocketBuffers).payload_bytes(1448);
        assert!((470_728..476_520).contains(&payload), "{payload}");
        assert_eq!(with(Segmentation::Offload).payload_bytes(1448), 746_520);
    }
}
