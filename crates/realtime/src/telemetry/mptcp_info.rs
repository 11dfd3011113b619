//! `struct mptcp_info` and related structures of linux/mptcp.h, read by offsets.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::BorrowedFd;

use serde::{Deserialize, Serialize};

use super::tcp_info::{Fields, TcpInfo};
use crate::sys::{self, Elements};

/// Level of the socket options of MPTCP.
const SOL_MPTCP: i32 = 284;
const MPTCP_INFO: i32 = 1;
const MPTCP_TCPINFO: i32 = 2;
const MPTCP_SUBFLOW_ADDRS: i32 = 3;

/// Bytes of `struct mptcp_full_info` before its `mptcp_info`.
const FULL_INFO_HEADER: usize = 40;
/// `struct mptcp_subflow_data`, which precedes the elements of the options of Linux 5.16.
const SUBFLOW_DATA: usize = 16;
/// More than `struct mptcp_info` and `struct tcp_info` have in any kernel so far. The kernel
/// returns how much it fills.
const INFO_ROOM: usize = 256;
const TCP_INFO_ROOM: usize = 512;
/// `struct sockaddr_storage`.
const ADDRESS: usize = 128;
/// `struct mptcp_subflow_addrs`.
const ADDRESS_PAIR: usize = 2 * ADDRESS;
/// `struct mptcp_subflow_info`: the id, a gap, and the addresses.
const SUBFLOW_INFO: usize = 8 + ADDRESS_PAIR;
/// Subflows that fit at first: one more than the in-kernel path manager creates.
const SUBFLOWS_AT_FIRST: usize = 9;

/// What the kernel reports about an MPTCP connection. Fields that this kernel lacks are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MptcpInfo {
    pub(super) flags: u32,
    pub(super) token: u32,
    /// Data sequence number of the next byte that the application will write.
    pub(super) write_sequence: u64,
    /// Data sequence number up to which the peer has acknowledged.
    pub(super) acknowledged_sequence: u64,
    /// Data sequence number of the next byte expected.
    pub(super) expected_sequence: u64,
    pub(super) retransmits: Option<u32>,
    pub(super) bytes_retransmitted: Option<u64>,
    /// Without retransmissions.
    pub(super) bytes_sent: Option<u64>,
    pub(super) bytes_received: Option<u64>,
}

/// `MPTCP_INFO_FLAG_FALLBACK`.
const HAS_FALLEN_BACK: u32 = 1;

impl MptcpInfo {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let fields = Fields(bytes);
        Some(Self {
            flags: fields.u32(8)?,
            token: fields.u32(12)?,
            write_sequence: fields.u64(16)?,
            acknowledged_sequence: fields.u64(24)?,
            expected_sequence: fields.u64(32)?,
            retransmits: fields.u32(44),
            bytes_retransmitted: fields.u64(48),
            bytes_sent: fields.u64(56),
            bytes_received: fields.u64(64),
        })
    }

    pub(super) fn has_fallen_back(&self) -> bool {
        self.flags & HAS_FALLEN_BACK != 0
    }
}

/// A subflow as its socket reports it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SubflowInfo {
    /// Assigned by the kernel in order of creation; `None` before Linux 6.5.
    pub(super) id: Option<u32>,
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    /// Whether it has backup priority; `None` for a kernel's socket, which does not report it.
    pub(super) is_backup: Option<bool>,
    pub(super) tcp: TcpInfo,
}

/// Reads connections, always into the same memory.
pub(super) struct MptcpReader {
    has_full_info: bool,
    full: Vec<u8>,
    addresses: Vec<u8>,
    tcp: Vec<u8>,
    room: usize,
}

impl MptcpReader {
    pub(super) fn new() -> Self {
        let mut reader = Self {
            has_full_info: true,
            full: vec![0; FULL_INFO_HEADER + INFO_ROOM],
            addresses: Vec::new(),
            tcp: Vec::new(),
            room: 0,
        };
        reader.make_room(SUBFLOWS_AT_FIRST);
        reader
    }

    fn make_room(&mut self, subflows: usize) {
        self.room = subflows;
        self.addresses
            .resize(SUBFLOW_DATA + subflows * SUBFLOW_INFO, 0);
        self.tcp.resize(SUBFLOW_DATA + subflows * TCP_INFO_ROOM, 0);
    }

    /// Reads a connection and its subflows, in order of creation.
    ///
    /// # Errors
    /// `EOPNOTSUPP` if the connection has fallen back to TCP, or another error of the socket.
    pub(super) fn read(
        &mut self,
        socket: BorrowedFd<'_>,
    ) -> io::Result<(MptcpInfo, Vec<SubflowInfo>)> {
        if self.has_full_info {
            match self.read_full(socket) {
                Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {}
                result => return result,
            }
        }
        // Either this kernel is older than 6.5, or the connection has fallen back. In the second
        // case this fails too.
        let read = self.read_in_parts(socket)?;
        self.has_full_info = false;
        Ok(read)
    }

    fn read_full(&mut self, socket: BorrowedFd<'_>) -> io::Result<(MptcpInfo, Vec<SubflowInfo>)> {
        loop {
            let filled = sys::mptcp_full_info(
                socket,
                &mut self.full,
                Elements::new(&mut self.addresses, SUBFLOW_INFO),
                Elements::new(&mut self.tcp, TCP_INFO_ROOM),
            )?;
            if filled.subflows > self.room {
                self.make_room(filled.subflows + SUBFLOWS_AT_FIRST);
                continue;
            }
            let info = &self.full[FULL_INFO_HEADER..filled.full_length.max(FULL_INFO_HEADER)];
            let info = MptcpInfo::parse(info).ok_or_else(too_short)?;
            let addresses = self.addresses.chunks_exact(filled.first_size.max(1));
            let tcp = self.tcp.chunks_exact(filled.second_size.max(1));
            let subflows = addresses.zip(tcp).take(filled.subflows);
            let subflows: Option<_> = subflows
                .map(|(subflow, tcp)| {
                    let id = Fields(subflow).u32(0)?;
                    subflow_info(Some(id), subflow.get(8..)?, tcp)
                })
                .collect();
            return Ok((info, in_order(subflows.ok_or_else(too_short)?)));
        }
    }

    /// Reads with the options of Linux 5.16. A subflow may be added or removed between the calls;
    /// then they are repeated.
    fn read_in_parts(
        &mut self,
        socket: BorrowedFd<'_>,
    ) -> io::Result<(MptcpInfo, Vec<SubflowInfo>)> {
        loop {
            self.full.fill(0);
            let length = sys::socket_option(socket, SOL_MPTCP, MPTCP_INFO, &mut self.full)?;
            let info = MptcpInfo::parse(&self.full[..length.min(self.full.len())]);
            let info = info.ok_or_else(too_short)?;
            let pairs = elements(
                socket,
                MPTCP_SUBFLOW_ADDRS,
                &mut self.addresses,
                ADDRESS_PAIR,
            )?;
            let tcp = elements(socket, MPTCP_TCPINFO, &mut self.tcp, TCP_INFO_ROOM)?;
            let most = pairs.count.max(tcp.count);
            if most > self.room {
                self.make_room(most + SUBFLOWS_AT_FIRST);
                continue;
            }
            if pairs.count != tcp.count {
                continue;
            }
            let subflows = pairs.of(&self.addresses).zip(tcp.of(&self.tcp));
            let subflows: Option<Vec<_>> = subflows
                .map(|(pair, tcp)| subflow_info(None, pair, tcp))
                .collect();
            return Ok((info, subflows.ok_or_else(too_short)?));
        }
    }
}

/// The number of elements that the kernel has after a `struct mptcp_subflow_data`, and the size of
/// each.
struct Written {
    count: usize,
    size: usize,
}

impl Written {
    fn of(self, buffer: &[u8]) -> impl Iterator<Item = &[u8]> {
        buffer[SUBFLOW_DATA..]
            .chunks_exact(self.size.max(1))
            .take(self.count)
    }
}

fn elements(
    socket: BorrowedFd<'_>,
    option: i32,
    buffer: &mut [u8],
    size: usize,
) -> io::Result<Written> {
    let header = [SUBFLOW_DATA as u32, 0, 0, size as u32];
    for (place, value) in header.into_iter().enumerate() {
        buffer[4 * place..][..4].copy_from_slice(&value.to_ne_bytes());
    }
    sys::socket_option(socket, SOL_MPTCP, option, buffer)?;
    let header = Fields(buffer);
    Ok(Written {
        count: header.u32(4).ok_or_else(too_short)? as usize,
        size: header.u32(12).ok_or_else(too_short)? as usize,
    })
}

/// Sorts subflows by their number, because the kernel's list keeps the place of subflows that were
/// closed and opened again.
fn in_order(mut subflows: Vec<SubflowInfo>) -> Vec<SubflowInfo> {
    subflows.sort_by_key(|subflow| subflow.id);
    subflows
}

fn subflow_info(id: Option<u32>, addresses: &[u8], tcp: &[u8]) -> Option<SubflowInfo> {
    Some(SubflowInfo {
        id,
        local: address(addresses)?,
        remote: address(addresses.get(ADDRESS..)?)?,
        is_backup: None,
        tcp: TcpInfo::parse(tcp)?,
    })
}

/// Parses a `struct sockaddr_in` or `sockaddr_in6`. IPv4 in IPv6 is IPv4. A subflow that is being
/// removed has no address.
fn address(bytes: &[u8]) -> Option<SocketAddr> {
    let ip: IpAddr = match i32::from(Fields(bytes).u16(0)?) {
        libc::AF_INET => <[u8; 4]>::try_from(bytes.get(4..8)?).ok()?.into(),
        libc::AF_INET6 => {
            let ip: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
            Ipv6Addr::from(ip).to_canonical()
        }
        _ => Ipv4Addr::UNSPECIFIED.into(),
    };
    let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
    Some(SocketAddr::new(ip, port))
}

/// Reads what a kernel may have said of a connection, its subflows, and their addresses.
#[cfg(feature = "fuzzing")]
pub(crate) fn read_infos(bytes: &[u8]) {
    let info = MptcpInfo::parse(bytes);
    assert_eq!(info.is_some(), bytes.len() >= 40);
    let (addresses, tcp) = bytes.split_at(bytes.len() / 2);
    if let Some(subflow) = subflow_info(None, addresses, tcp) {
        subflow.tcp.in_flight_segments();
    }
}

fn too_short() -> io::Error {
    io::Error::other("the kernel gave less than any kernel with Multipath TCP should")
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd, OwnedFd};
    use std::process::Command;

    use rustix::net::{
        AddressFamily, Protocol, RawProtocol, SocketType, accept, bind, connect, getsockname,
        listen, send, socket,
    };

    use super::*;
    use crate::NetworkNamespace;

    fn connection() -> (OwnedFd, OwnedFd) {
        let mptcp = RawProtocol::new(262).map(Protocol::from_raw);
        let made = || socket(AddressFamily::INET, SocketType::STREAM, mptcp).unwrap();
        let host = NetworkNamespace::new().unwrap();
        let ends = host.run(|| {
            let up = Command::new("ip")
                .args(["link", "set", "lo", "up"])
                .status();
            assert!(up.unwrap().success());
            let listener = made();
            bind(&listener, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
            listen(&listener, 1).unwrap();
            let client = made();
            connect(&client, &getsockname(&listener).unwrap()).unwrap();
            Ok((client, accept(&listener).unwrap()))
        });
        ends.unwrap()
    }

    #[test]
    #[ignore = "needs root"]
    fn the_older_calls_say_the_same() {
        let (client, server) = connection();
        send(&client, &[1; 5000], rustix::net::SendFlags::empty()).unwrap();
        let mut reader = MptcpReader::new();
        for end in [&client, &server] {
            let (info, subflows) = reader.read_full(end.as_fd()).unwrap();
            let (same_info, same_subflows) = reader.read_in_parts(end.as_fd()).unwrap();
            assert_eq!(info.token, same_info.token);
            assert_eq!(info.write_sequence, same_info.write_sequence);
            assert_eq!((subflows.len(), same_subflows.len()), (1, 1));
            assert_eq!(subflows[0].local, same_subflows[0].local);
            assert_eq!(subflows[0].remote, same_subflows[0].remote);
            assert_eq!(subflows[0].tcp.bytes_sent, same_subflows[0].tcp.bytes_sent);
            assert_eq!(same_subflows[0].id, None);
        }
    }

    #[test]
    #[ignore = "needs root"]
    fn there_is_room_for_more_subflows_than_expected() {
        let (client, _server) = connection();
        let mut reader = MptcpReader::new();
        reader.make_room(0);
        let (_, subflows) = reader.read_full(client.as_fd()).unwrap();
        assert_eq!(subflows.len(), 1);
        reader.make_room(0);
        let (_, subflows) = reader.read_in_parts(client.as_fd()).unwrap();
        assert_eq!(subflows.len(), 1);
    }
}
