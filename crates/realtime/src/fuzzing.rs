//! What comes from outside this process in bytes, for the fuzz targets of `fuzz/`: it is read
//! without a panic, and what was understood agrees with itself.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::sync::Arc;

use mptcp::wire::Packet;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_sock_diag::SockDiagMessage;

use crate::applications::traffic::ByteStream;
use crate::kernel::path_manager;
use crate::network::device::VIRTIO_HEADER_BYTES;
use crate::network::netlink::parse;
use crate::network::offload::{SuperPacket, complete_checksum, lacks_checksum};
use crate::proxy::fuzzing::check_convert;
use crate::telemetry;

/// A stream that brings some bytes at a time.
struct Pieces(VecDeque<Vec<u8>>);

impl Pieces {
    /// The first byte says how many at a time.
    fn of(input: &[u8]) -> Self {
        let (size, bytes) = input.split_first().unwrap_or((&0, &[]));
        let size = usize::from(*size).max(1);
        Self(bytes.chunks(size).map(<[u8]>::to_vec).collect())
    }
}

impl ByteStream for Pieces {
    fn send(&mut self, _: &[IoSlice<'_>]) -> io::Result<usize> {
        Err(ErrorKind::WouldBlock.into())
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(first) = self.0.front_mut() else {
            return Err(ErrorKind::WouldBlock.into());
        };
        let count = first.len().min(buffer.len());
        buffer[..count].copy_from_slice(&first[..count]);
        first.drain(..count);
        if first.is_empty() {
            self.0.pop_front();
        }
        Ok(count)
    }

    fn shut_down(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The input as what a client says to a gateway, and a gateway to a client (RFC 8803).
pub fn convert(input: &[u8]) {
    check_convert(&mut Pieces::of(input));
}

/// The input as two packets of a device, each behind the header of that: the first byte says how
/// long the first is.
pub fn offload(input: &[u8]) {
    let (length, rest) = input.split_first().unwrap_or((&0, &[]));
    let (first, second) = rest.split_at(usize::from(*length).min(rest.len()));
    let [first, second] = [first, second].map(|bytes| packet_behind_header(bytes));
    let (Some(first), Some(second)) = (first, second) else {
        return;
    };
    let mut joined = SuperPacket::of(first.clone());
    let payload = first.segment.payload.len();
    let taken = joined.is_of_flow(&second) && joined.append(&second);
    let carried = payload + u32::from(taken) * second.segment.payload.len();
    assert_eq!(joined.packet().segment.payload.len(), carried);
    let emitted = joined.emit(&[0; VIRTIO_HEADER_BYTES]);
    assert_eq!(
        emitted.len(),
        VIRTIO_HEADER_BYTES + joined.packet().wire_len()
    );
    assert_eq!(lacks_checksum(&emitted), taken);
    // Whoever takes it in one piece writes the checksum, and has all of it.
    let mut whole = emitted[VIRTIO_HEADER_BYTES..].to_vec();
    complete_checksum(&mut whole);
    let (read, _) = Packet::parse(&Arc::from(whole)).expect("what we wrote");
    assert_eq!(read.segment.payload, joined.packet().segment.payload);
}

fn packet_behind_header(bytes: &[u8]) -> Option<Packet> {
    let packet = bytes.get(VIRTIO_HEADER_BYTES..)?;
    let mut packet = packet.to_vec();
    if lacks_checksum(bytes) {
        complete_checksum(&mut packet);
    }
    Some(Packet::parse(&Arc::from(packet)).ok()?.0)
}

/// The input as what the kernel answers: the first byte says to whom.
pub fn netlink(input: &[u8]) {
    let (kind, bytes) = input.split_first().unwrap_or((&0, &[]));
    match kind % 4 {
        0 => drop(parse::<RouteNetlinkMessage>(bytes)),
        1 => path_manager::read_events(bytes),
        2 => drop(parse::<SockDiagMessage>(bytes)),
        _ => telemetry::read_infos(bytes),
    }
}
