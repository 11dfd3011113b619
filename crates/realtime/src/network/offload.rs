//! Work that a network card does for a stack: cutting super-packets into segments, and completing
//! checksums.
//!
//! Before each packet of a device comes a `struct virtio_net_hdr` (<linux/virtio_net.h>), which
//! says what remains to be done for it.

use std::net::IpAddr;

use mptcp::wire::checksum::Sum;
use mptcp::wire::{
    DataNumber, Dss, Flags, Ipv4View, Ipv6View, Mapping, MptcpOption, Packet, Segment,
    TCP_PROTOCOL, TcpOptions,
};

use crate::network::device::VIRTIO_HEADER_BYTES;

/// From <linux/virtio_net.h>.
const NEEDS_CHECKSUM: u8 = 1;
const SEGMENTS_OF_TCP_OVER_IPV4: u8 = 1;
const SEGMENTS_OF_TCP_OVER_IPV6: u8 = 4;

const IPV6_HEADER_BYTES: usize = 40;
/// Where the checksum is in a TCP header.
const CHECKSUM: std::ops::Range<usize> = 16..18;
/// The largest length in an IP header.
const LARGEST_PACKET_BYTES: u32 = 65_535;

/// Consecutive segments of a flow as one packet. The receiver or a card that cuts it copies its
/// options into each segment, so all segments have the same options. Their DSS options become one,
/// whose mapping covers them all (RFC 8684, section 3.3.1).
#[derive(Debug)]
pub(crate) struct SuperPacket {
    /// The first segment, with the payload of all.
    whole: Packet,
    payload_bytes: u32,
    /// Payload of each segment except the last.
    segment_bytes: u32,
    largest_bytes: u32,
}

impl SuperPacket {
    /// Creates a super-packet of one segment.
    pub(crate) fn of(first: Packet) -> Self {
        let payload_bytes = first.segment.payload.len();
        let headers = first.wire_len() as u32 - payload_bytes;
        Self {
            payload_bytes,
            segment_bytes: payload_bytes,
            largest_bytes: LARGEST_PACKET_BYTES - headers,
            whole: first,
        }
    }

    /// Returns the packet, whose headers are those of all segments.
    pub(crate) fn packet(&self) -> &Packet {
        &self.whole
    }

    /// Returns whether a packet has the same addresses and ports.
    pub(crate) fn is_of_flow(&self, packet: &Packet) -> bool {
        let (ours, its) = (&self.whole.segment, &packet.segment);
        let ports = |segment: &Segment| (segment.source_port, segment.destination_port);
        (self.whole.source, self.whole.destination) == (packet.source, packet.destination)
            && ports(ours) == ports(its)
    }

    /// Appends the next packet of the flow. Returns whether that was possible.
    pub(crate) fn append(&mut self, next: &Packet) -> bool {
        let bytes = next.segment.payload.len();
        let is_open = self.payload_bytes.is_multiple_of(self.segment_bytes.max(1));
        let fits = bytes <= self.segment_bytes && self.payload_bytes + bytes <= self.largest_bytes;
        if bytes == 0 || !is_open || !fits || !self.is_followed_by(next) {
            return false;
        }
        let Some(options) = self.options_with(bytes) else {
            return false;
        };
        let whole = &mut self.whole.segment;
        whole.options = options;
        // Only the last segment may have PSH.
        whole.flags = next.segment.flags;
        whole.payload.append(next.segment.payload.clone());
        self.payload_bytes += bytes;
        true
    }

    /// Returns whether the next packet differs only by its data.
    fn is_followed_by(&self, next: &Packet) -> bool {
        let (whole, next_segment) = (&self.whole.segment, &next.segment);
        let is_data = |flags: Flags| flags.0 & !Flags::PSH.0 == Flags::ACK.0;
        let fields = |segment: &Segment| (segment.ack, segment.window);
        whole.flags == Flags::ACK
            && is_data(next_segment.flags)
            && next_segment.seq == whole.seq + self.payload_bytes
            && fields(whole) == fields(next_segment)
            && (self.whole.ecn, &self.whole.via) == (next.ecn, &next.via)
            && options_behind(whole, self.payload_bytes, next_segment.payload.len())
                .is_some_and(|expected| expected == next_segment.options)
    }

    /// Returns the options with a mapping that is longer by `bytes`.
    fn options_with(&self, bytes: u32) -> Option<TcpOptions> {
        let options = &self.whole.segment.options;
        with_mapping(options, |mapping| Mapping {
            len: mapping.len.saturating_add(bytes as u16),
            ..mapping
        })
    }

    /// Appends the packet to `header`: the device's header, which is completed here, and that of
    /// the frame if there is one.
    pub(crate) fn emit(&self, header: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(header.len() + self.whole.wire_len());
        bytes.extend_from_slice(header);
        self.whole.emit(&mut bytes);
        if self.payload_bytes > self.segment_bytes {
            let ip_at = header.len();
            let headers = bytes.len() - ip_at - self.payload_bytes as usize;
            self.leave_to_device(&mut bytes, ip_at, headers);
        }
        bytes
    }

    /// Leaves cutting and checksums to the device.
    fn leave_to_device(&self, bytes: &mut [u8], ip_at: usize, headers: usize) {
        let (kind, ip_bytes) = match self.whole.source {
            IpAddr::V4(_) => (
                SEGMENTS_OF_TCP_OVER_IPV4,
                usize::from(bytes[ip_at] & 15) * 4,
            ),
            IpAddr::V6(_) => (SEGMENTS_OF_TCP_OVER_IPV6, IPV6_HEADER_BYTES),
        };
        let (source, destination) = (self.whole.source, self.whole.destination);
        let segment = &mut bytes[ip_at + ip_bytes..];
        let unfinished = unfinished_checksum(source, destination, segment.len());
        segment[CHECKSUM].copy_from_slice(&unfinished);
        let before_ip = ip_at - VIRTIO_HEADER_BYTES;
        bytes[0] = NEEDS_CHECKSUM;
        bytes[1] = kind;
        let numbers = [
            before_ip + headers,
            self.segment_bytes as usize,
            before_ip + ip_bytes,
            CHECKSUM.start,
        ];
        for (place, number) in numbers.into_iter().enumerate() {
            bytes[2 + 2 * place..][..2].copy_from_slice(&(number as u16).to_ne_bytes());
        }
    }
}

/// Returns the options of a segment of `next_bytes` bytes that follows a super-packet; `None` if
/// they cannot be derived.
fn options_behind(whole: &Segment, payload_bytes: u32, next_bytes: u32) -> Option<TcpOptions> {
    let is_covered = |mapping: &Mapping| u32::from(mapping.len) == payload_bytes;
    let is_whole = mapping_of(&whole.options).is_none_or(|mapping| is_covered(&mapping));
    let behind = |mapping: Mapping| Mapping {
        data_seq: match mapping.data_seq {
            DataNumber::Short(low) => DataNumber::Short(low.wrapping_add(payload_bytes)),
            DataNumber::Long(number) => DataNumber::Long(number + u64::from(payload_bytes)),
        },
        subflow_seq: mapping.subflow_seq.wrapping_add(payload_bytes),
        len: next_bytes as u16,
        checksum: None,
    };
    is_whole
        .then(|| with_mapping(&whole.options, behind))
        .flatten()
}

/// Returns the options with another mapping. `None` if there are other MPTCP options, or if the
/// mapping has a checksum of its own or ends the data.
fn with_mapping(
    options: &TcpOptions,
    change: impl FnOnce(Mapping) -> Mapping,
) -> Option<TcpOptions> {
    let mut changed = options.clone();
    match &mut *changed.mptcp {
        // Plain TCP.
        [] => {}
        [MptcpOption::Dss(dss)] => *dss = remapped(dss, change)?,
        _ => return None,
    }
    Some(changed)
}

fn remapped(dss: &Dss, change: impl FnOnce(Mapping) -> Mapping) -> Option<Dss> {
    let mapping = dss.mapping()?;
    let is_plain = mapping.checksum.is_none() && !dss.data_fin();
    is_plain.then(|| dss.with_mapping(Some(change(mapping))))
}

fn mapping_of(options: &TcpOptions) -> Option<Mapping> {
    match &*options.mptcp {
        [MptcpOption::Dss(dss)] => dss.mapping(),
        _ => None,
    }
}

/// Returns whether the header of a device says that its packet lacks the checksum.
pub(crate) fn lacks_checksum(header: &[u8]) -> bool {
    header
        .first()
        .is_some_and(|flags| flags & NEEDS_CHECKSUM != 0)
}

/// Completes the checksum that a device was to complete. Before, the field has the sum of the
/// pseudo-header, as in packets that were never on a physical link and those that the kernel has
/// merged.
pub(crate) fn complete_checksum(packet: &mut [u8]) {
    let Some((source, destination, header_len)) = ends(packet) else {
        return;
    };
    let segment = &mut packet[header_len..];
    let unfinished = unfinished_checksum(source, destination, segment.len());
    if segment.get(CHECKSUM) == Some(&unfinished) {
        let mut sum = Sum::new();
        sum.add_bytes(segment);
        let checksum = sum.checksum();
        segment[CHECKSUM].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// Returns the content of the field before the checksum is completed.
fn unfinished_checksum(source: IpAddr, destination: IpAddr, segment_bytes: usize) -> [u8; 2] {
    let pseudo = Sum::of_pseudo_header(source, destination, TCP_PROTOCOL, segment_bytes);
    (!pseudo.checksum()).to_be_bytes()
}

/// Returns source and destination of a packet, and the bytes of its IP header.
fn ends(packet: &[u8]) -> Option<(IpAddr, IpAddr, usize)> {
    match packet.first()? >> 4 {
        4 => {
            let view = Ipv4View::new(packet).ok()?;
            Some((
                view.source().into(),
                view.destination().into(),
                view.header_len(),
            ))
        }
        _ => {
            let view = Ipv6View::new(packet).ok()?;
            Some((
                view.source().into(),
                view.destination().into(),
                IPV6_HEADER_BYTES,
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mptcp::payload::Payload;
    use mptcp::seq::{DataSeq, SeqNr};
    use mptcp::wire::Ecn;

    use super::*;

    const MSS: u32 = 1000;
    /// The headers of a device and of an Ethernet frame.
    const HEADER: [u8; VIRTIO_HEADER_BYTES + 14] = [0; VIRTIO_HEADER_BYTES + 14];

    fn mapping(number: u32, len: u32) -> Mapping {
        Mapping {
            data_seq: DataNumber::Long(DataSeq(7_000_000 + u64::from(number))),
            subflow_seq: 1 + number,
            len: len as u16,
            checksum: None,
        }
    }

    /// Returns a packet with `len` bytes of a stream from `number` on.
    fn packet(number: u32, len: u32) -> Packet {
        let dss = Dss::default()
            .with_data_ack(Some(DataNumber::Long(DataSeq(5))))
            .with_mapping(Some(mapping(number, len)));
        let options = TcpOptions {
            mptcp: [MptcpOption::Dss(dss)].into_iter().collect(),
            ..TcpOptions::default()
        };
        Packet {
            source: IpAddr::from([10, 0, 0, 1]),
            destination: IpAddr::from([10, 0, 0, 2]),
            ecn: Ecn::NotCapable,
            via: Default::default(),
            segment: Segment {
                source_port: 1,
                destination_port: 2,
                seq: SeqNr(u32::MAX - 1500) + number,
                ack: SeqNr(9),
                flags: Flags::ACK,
                window: 100,
                options,
                payload: Payload::stream(3, u64::from(number), len),
            },
        }
    }

    fn change(number: u32, change: impl FnOnce(&mut Packet)) -> Packet {
        let mut packet = packet(number, MSS);
        change(&mut packet);
        packet
    }

    /// Cuts a packet as a card does: each segment has the headers of the first.
    fn cut(bytes: &[u8]) -> Vec<Packet> {
        let number =
            |place: usize| usize::from(u16::from_ne_bytes([bytes[place], bytes[place + 1]]));
        let frame = &bytes[VIRTIO_HEADER_BYTES..];
        let (headers, payload) = frame.split_at(number(2));
        assert_eq!((bytes[0], number(8)), (NEEDS_CHECKSUM, 16));
        let (ip, tcp) = (14, number(6));
        let pieces = payload.chunks(number(4)).enumerate().map(|(place, piece)| {
            let mut segment = [&headers[ip..], piece].concat();
            let ip_bytes = segment.len() as u16;
            segment[2..4].copy_from_slice(&ip_bytes.to_be_bytes());
            segment[10..12].fill(0);
            let mut sum = Sum::new();
            sum.add_bytes(&segment[..20]);
            let checksum = sum.checksum().to_be_bytes();
            segment[10..12].copy_from_slice(&checksum);
            let tcp = tcp - ip;
            let seq = &segment[tcp + 4..tcp + 8];
            let seq = u32::from_be_bytes(seq.try_into().expect("four bytes"));
            let seq = seq.wrapping_add((place * number(4)) as u32);
            segment[tcp + 4..tcp + 8].copy_from_slice(&seq.to_be_bytes());
            let (source, destination) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
            let open = unfinished_checksum(source, destination, segment.len() - tcp);
            segment[tcp..][CHECKSUM].copy_from_slice(&open);
            complete_checksum(&mut segment);
            Packet::parse(&Arc::from(segment)).expect("a packet").0
        });
        pieces.collect()
    }

    #[test]
    fn cut_again_they_are_the_segments_that_were_put_in_with_one_mapping_over_all() {
        let mut gathered = SuperPacket::of(packet(0, MSS));
        let last = Packet {
            segment: Segment {
                flags: Flags::ACK | Flags::PSH,
                ..packet(2 * MSS, 400).segment
            },
            ..packet(0, MSS)
        };
        assert!(gathered.append(&packet(MSS, MSS)));
        assert!(gathered.append(&last));
        let segments = cut(&gathered.emit(&HEADER));
        assert_eq!(segments.len(), 3);
        for (cut, number) in segments.iter().zip([0, MSS, 2 * MSS]) {
            let len = if number == 2 * MSS { 400 } else { MSS };
            let whole = packet(number, len).segment;
            assert_eq!(
                (cut.segment.seq, &cut.segment.payload),
                (whole.seq, &whole.payload)
            );
            assert_eq!(
                mapping_of(&cut.segment.options),
                Some(mapping(0, 2 * MSS + 400))
            );
        }
    }

    #[test]
    fn one_alone_is_left_as_it_was() {
        let alone = packet(0, MSS);
        let bytes = SuperPacket::of(alone.clone()).emit(&HEADER);
        assert_eq!(bytes[..HEADER.len()], HEADER);
        let read =
            Packet::parse(&Arc::from(&bytes[HEADER.len()..])).expect("its checksum is right");
        assert_eq!(read.0, alone);
    }

    #[test]
    fn what_does_not_follow_or_says_something_else_is_not_taken_in() {
        let with =
            |options: fn(&mut TcpOptions)| change(MSS, |it| options(&mut it.segment.options));
        let refused = [
            packet(2 * MSS, MSS),
            packet(MSS, MSS + 1),
            packet(MSS, 0),
            change(MSS, |it| it.segment.ack = SeqNr(10)),
            change(MSS, |it| it.segment.window = 99),
            change(MSS, |it| it.segment.flags |= Flags::FIN),
            change(MSS, |it| it.ecn = Ecn::Capable0),
            with(|options| options.mptcp.push(MptcpOption::Priority { backup: true })),
            with(|options| options.mptcp = Default::default()),
            with(|options| options.mptcp = packet(0, MSS).segment.options.mptcp),
        ];
        for next in refused {
            let mut gathered = SuperPacket::of(packet(0, MSS));
            assert!(!gathered.append(&next), "{next:?}");
            assert_eq!(*gathered.packet(), packet(0, MSS));
        }
    }

    #[test]
    fn nothing_comes_behind_a_shorter_or_pushed_segment_or_beyond_what_ip_counts() {
        let mut short = SuperPacket::of(packet(0, MSS));
        assert!(short.append(&packet(MSS, 10)));
        assert!(!short.append(&packet(MSS + 10, MSS)));
        let mut pushed = SuperPacket::of(change(0, |it| it.segment.flags |= Flags::PSH));
        assert!(!pushed.append(&packet(MSS, MSS)));
        let mut full = SuperPacket::of(packet(0, MSS));
        let taken = (1..).take_while(|place| full.append(&packet(place * MSS, MSS)));
        assert_eq!(taken.count(), 64);
        assert!(full.emit(&[0; VIRTIO_HEADER_BYTES]).len() <= VIRTIO_HEADER_BYTES + 65_535);
    }

    #[test]
    fn data_with_checksums_of_their_own_stay_alone() {
        let checked = |number| {
            change(number, |it| {
                let mapping = Mapping {
                    checksum: Some(1),
                    ..mapping(number, MSS)
                };
                let dss = Dss::default().with_mapping(Some(mapping));
                it.segment.options.mptcp = [MptcpOption::Dss(dss)].into_iter().collect();
            })
        };
        assert!(!SuperPacket::of(checked(0)).append(&checked(MSS)));
    }
}
