//! Finds the IP packet in a frame.

use pcap_file::DataLink;

const ETHERNET_LEN: usize = 14;
const VLAN_LEN: usize = 4;
/// Header lengths of Linux cooked captures, versions 1 and 2 (pcap-linktype). The type is at the
/// end in version 1, at the beginning in version 2.
const COOKED_LEN: usize = 16;
const COOKED_2_LEN: usize = 20;
/// BSD loopback: an address family in the byte order of the capturing machine or of the network.
const LOOPBACK_LEN: usize = 4;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// 802.1Q, 802.1ad, and the predecessor of the latter.
const VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];
/// The most VLAN tags that are skipped.
const MOST_TAGS: usize = 4;

/// Why a frame has no IP packet to analyze.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoIp {
    /// It carries another protocol.
    Other,
    /// Its link type is unknown.
    Link(DataLink),
    /// Too little of it was captured.
    Cut,
}

/// Returns the IP packet in a frame.
pub(super) fn ip_packet(link: DataLink, frame: &[u8]) -> Result<&[u8], NoIp> {
    match link {
        DataLink::RAW | DataLink::IPV4 | DataLink::IPV6 => Ok(frame),
        DataLink::ETHERNET => behind_type(frame, ETHERNET_LEN - 2, ETHERNET_LEN),
        DataLink::LINUX_SLL => behind_type(frame, COOKED_LEN - 2, COOKED_LEN),
        DataLink::LINUX_SLL2 => behind_type(frame, 0, COOKED_2_LEN),
        DataLink::NULL | DataLink::LOOP => frame.get(LOOPBACK_LEN..).ok_or(NoIp::Cut),
        other => Err(NoIp::Link(other)),
    }
}

/// Returns what follows a header of `header_len` bytes and its VLAN tags. The type of the content
/// is at `type_at`.
fn behind_type(frame: &[u8], type_at: usize, header_len: usize) -> Result<&[u8], NoIp> {
    let mut kind = u16_at(frame, type_at)?;
    let mut at = header_len;
    for _ in 0..MOST_TAGS {
        if !VLAN.contains(&kind) {
            break;
        }
        kind = u16_at(frame, at + 2)?;
        at += VLAN_LEN;
    }
    match kind {
        IPV4 | IPV6 => frame.get(at..).ok_or(NoIp::Cut),
        _ => Err(NoIp::Other),
    }
}

fn u16_at(frame: &[u8], at: usize) -> Result<u16, NoIp> {
    let bytes = frame.get(at..).and_then(|rest| rest.first_chunk());
    bytes.copied().map(u16::from_be_bytes).ok_or(NoIp::Cut)
}
