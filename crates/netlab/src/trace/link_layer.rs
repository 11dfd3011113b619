//! What stands before IP in a frame.

use pcap_file::DataLink;

const ETHERNET_LEN: usize = 14;
const VLAN_LEN: usize = 4;
/// Linux cooked, version 1 and 2 (pcap-linktype): the type stands last in the one, first in the other.
const COOKED_LEN: usize = 16;
const COOKED_2_LEN: usize = 20;
/// BSD loopback: a family in the order of who captured, or of the network.
const LOOPBACK_LEN: usize = 4;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// 802.1Q, 802.1ad, and what came before the latter.
const VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];
/// Tags that are stepped over at most.
const MOST_TAGS: usize = 4;

/// Why a frame holds no IP packet to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoIp {
    /// Another protocol.
    Other,
    /// A kind of link that is not known.
    Link(DataLink),
    /// Too little of it was captured.
    Cut,
}

/// The IP packet in a frame.
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

/// What follows a header of `header_len` bytes with the type of its content at `type_at`, and tags of VLANs behind it.
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
