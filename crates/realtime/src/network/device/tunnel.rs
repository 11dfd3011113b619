//! Tunnels: packets as datagrams, to and from a device on another machine.
//!
//! A datagram has a header of [`HEADER_BYTES`]: a key of 8 bytes, which tells its tunnel from all
//! else that arrives at the port, the kind of the datagram, three bytes of 0, and a sequence number
//! of 4 bytes, by which the receiver counts lost packets. Numbers are in network byte order. The
//! packet follows, without the header of a device.
//!
//! UDP carries the datagrams to a machine with an address. To a guest without one, each datagram
//! travels as an Ethernet frame, between a network device of the guest and a socket here.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use experiment::time::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, connect, getpeername, recvmsg,
    sendmsg,
};

use super::veth::packet_socket;
use super::{ETHERNET_HEADER_BYTES, VIRTIO_HEADER_BYTES};
use crate::clock::monotonic_ns;
use crate::network::netlink::{Connection, Link};
use crate::{LiveError, sys};

const HEADER_BYTES: usize = 16;
/// What precedes the header in a frame: the destination, which is all stations, a source, and the
/// first type that IEEE 802 leaves to local experiments. Both ends use the same addresses, because
/// there are no other stations.
const FRAME_HEADER: [u8; ETHERNET_HEADER_BYTES] = [
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02, 0x02, 0, 0, 0, 3, 0x88, 0xb5,
];
/// Room for as many full packets as the queue of a TUN device has.
const SOCKET_BUFFER_BYTES: i32 = 1 << 25;
/// Attempts to send a datagram of the largest size and back, and the wait for each answer.
const ATTEMPTS: u32 = 20;
const PATIENCE: Duration = Duration::from_millis(100);
/// The content of the smaller datagrams that find out whether any size arrives.
const SMALL_BYTES: usize = 64;

/// Identifies the datagrams of a run.
pub(crate) type Key = u64;

/// The kind of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    Packet = 0,
    /// Asks for an answer of the same size.
    Probe = 1,
    Answer = 2,
}

/// One end of a tunnel.
#[derive(Debug)]
pub(crate) struct Tunnel {
    socket: OwnedFd,
    /// What precedes the header of each datagram: nothing, or [`FRAME_HEADER`].
    before: &'static [u8],
    key: Key,
    /// Whether the address of the other end is known. An end that is called learns it from the
    /// first datagram.
    is_connected: AtomicBool,
    sent: AtomicU32,
    next: AtomicU32,
    /// Packets that did not arrive, and all that were sent.
    lost: AtomicU64,
    expected: AtomicU64,
    round_trips_ns: Mutex<Vec<Nanos>>,
}

impl Tunnel {
    /// Creates the end that is called, at any address and a port of the system's choice. Returns it
    /// and the port.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn listening(key: Key) -> io::Result<(Self, u16)> {
        // Takes IPv4 too, unless IPv6 is off.
        let any = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0));
        let socket = any.or_else(|_| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))?;
        let port = socket.local_addr()?.port();
        Ok((Self::by_udp(socket, key, false)?, port))
    }

    /// Creates the end that calls the other one.
    ///
    /// # Errors
    /// There is no route to the other end, or the system refuses.
    pub(crate) fn connected(to: SocketAddr, key: Key) -> io::Result<Self> {
        let own: IpAddr = match to {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((own, 0))?;
        socket.connect(to)?;
        Self::by_udp(socket, key, true)
    }

    /// Creates the end in a guest, at a network device that has no other use, for packets of this
    /// size.
    ///
    /// # Errors
    /// There is no such device, or the system refuses.
    pub(crate) fn at_device(name: &str, mtu_bytes: u32, key: Key) -> Result<Self, LiveError> {
        let doing = format!("preparing the network device {name}");
        // The device needs no address. A kernel without IPv6 has no such file.
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
        let mut connection = Connection::open(name)?;
        let device = connection.index_of(name)?;
        let mtu_bytes = mtu_bytes + (ETHERNET_HEADER_BYTES + HEADER_BYTES) as u32;
        connection.commit(&[Link::new(device).mtu_bytes(mtu_bytes).up(true).request()])?;
        let opened =
            packet_socket(device).and_then(|socket| Self::new(socket, &FRAME_HEADER, key, true));
        opened.map_err(LiveError::while_(doing))
    }

    /// Creates the end here of a tunnel to a guest. The socket carries the frames of its network
    /// device.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn to_device(socket: UdpSocket, key: Key) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Self::new(socket.into(), &FRAME_HEADER, key, true)
    }

    fn by_udp(socket: UdpSocket, key: Key, is_connected: bool) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        // A full packet of the experiment and the headers of the tunnel may travel as two fragments.
        let discovery = libc::IP_PMTUDISC_DONT.to_ne_bytes();
        sys::set_socket_option(
            socket.as_fd(),
            libc::SOL_IP,
            libc::IP_MTU_DISCOVER,
            &discovery,
        )?;
        Self::new(socket.into(), &[], key, is_connected)
    }

    fn new(
        socket: OwnedFd,
        before: &'static [u8],
        key: Key,
        is_connected: bool,
    ) -> io::Result<Self> {
        sys::set_buffers(socket.as_fd(), SOCKET_BUFFER_BYTES)?;
        Ok(Self {
            socket,
            before,
            key,
            is_connected: AtomicBool::new(is_connected),
            sent: AtomicU32::new(0),
            next: AtomicU32::new(0),
            lost: AtomicU64::new(0),
            expected: AtomicU64::new(0),
            round_trips_ns: Mutex::default(),
        })
    }

    /// Returns the numbers of packets that did not arrive here, and of all that were sent.
    pub(crate) fn losses(&self) -> (u64, u64) {
        let get = |number: &AtomicU64| number.load(Ordering::Relaxed);
        (get(&self.lost), get(&self.expected))
    }

    /// Asks the other end for an answer. [`Self::read`] notes how long it takes.
    pub(crate) fn probe(&self) {
        // A probe that is lost has no answer.
        let _ = self.send(Kind::Probe, 0, &monotonic_ns().to_ne_bytes());
    }

    /// Returns how long the answers to the probes took.
    pub(crate) fn round_trips_ns(&self) -> Vec<Nanos> {
        let round_trips_ns = self.round_trips_ns.lock();
        round_trips_ns
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Reads the next packet, with an empty header of a device before it, and answers probes.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let (before, content) = buffer.split_at_mut(VIRTIO_HEADER_BYTES);
        before.fill(0);
        loop {
            match self.receive(content)? {
                (Kind::Packet, bytes) => return Ok(VIRTIO_HEADER_BYTES + bytes),
                // A probe whose answer is lost is sent again.
                (Kind::Probe, bytes) => {
                    let _ = self.send(Kind::Answer, 0, &content[..bytes]);
                }
                (Kind::Answer, bytes) => self.note_answer(&content[..bytes]),
            }
        }
    }

    /// Notes how long the answer to a probe took. A late answer to [`Self::verify`] is larger than
    /// those.
    fn note_answer(&self, content: &[u8]) {
        if let Ok(sent_ns) = content.try_into().map(Nanos::from_ne_bytes) {
            let took_ns = monotonic_ns().saturating_sub(sent_ns);
            let mut round_trips_ns = self
                .round_trips_ns
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            round_trips_ns.push(took_ns);
        }
    }

    /// Sends a packet that has the header of a device before it. A packet that the system has no
    /// room for is lost, as the other end notices.
    pub(crate) fn write(&self, packet: &[u8]) -> io::Result<()> {
        let number = self.sent.fetch_add(1, Ordering::Relaxed);
        match self.send(Kind::Packet, number, &packet[VIRTIO_HEADER_BYTES..]) {
            Err(error) if is_passing(&error) => Ok(()),
            sent => sent,
        }
    }

    fn send(&self, kind: Kind, number: u32, content: &[u8]) -> io::Result<()> {
        if !self.is_connected.load(Ordering::Relaxed) {
            return Ok(());
        }
        let header = self.header(kind, number);
        let parts = [self.before, &header, content].map(IoSlice::new);
        let mut nothing = SendAncillaryBuffer::default();
        sendmsg(&self.socket, &parts, &mut nothing, SendFlags::empty())?;
        Ok(())
    }

    fn header(&self, kind: Kind, number: u32) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(&self.key.to_be_bytes());
        header[8] = kind as u8;
        header[12..].copy_from_slice(&number.to_be_bytes());
        header
    }

    /// Returns the kind of the next datagram of this tunnel, and the bytes of its content.
    fn receive(&self, content: &mut [u8]) -> io::Result<(Kind, usize)> {
        loop {
            let mut before = [0; ETHERNET_HEADER_BYTES];
            let before = &mut before[..self.before.len()];
            let mut header = [0; HEADER_BYTES];
            let mut parts = [&mut *before, &mut header, &mut *content].map(IoSliceMut::new);
            let mut nothing = RecvAncillaryBuffer::default();
            let received = recvmsg(&self.socket, &mut parts, &mut nothing, RecvFlags::empty());
            let received = match received {
                // The other end is gone, as the connection to its agent tells too.
                Err(Errno::CONNREFUSED | Errno::HOSTUNREACH | Errno::NETUNREACH) => continue,
                received => received?,
            };
            let is_whole = received.bytes >= before.len() + HEADER_BYTES;
            let is_ours =
                is_whole && *before == *self.before && header[..8] == self.key.to_be_bytes();
            let Some(kind) = Kind::of(header[8]).filter(|_| is_ours) else {
                continue;
            };
            if !self.is_connected.load(Ordering::Relaxed)
                && let Some(from) = received
                    .address
                    .and_then(|from| SocketAddr::try_from(from).ok())
            {
                connect(&self.socket, &from)?;
                self.is_connected.store(true, Ordering::Relaxed);
            }
            if kind == Kind::Packet {
                let number = header[12..].try_into().map_or(0, u32::from_be_bytes);
                self.count(number);
            }
            return Ok((kind, received.bytes - before.len() - HEADER_BYTES));
        }
    }

    /// Counts the packets that are missing before this one. One that comes late was counted before.
    fn count(&self, number: u32) {
        let missing = number.wrapping_sub(self.next.load(Ordering::Relaxed));
        if missing > u32::MAX / 2 {
            self.lost.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        self.lost.fetch_add(u64::from(missing), Ordering::Relaxed);
        self.expected
            .fetch_add(u64::from(missing) + 1, Ordering::Relaxed);
        self.next.store(number.wrapping_add(1), Ordering::Relaxed);
    }

    /// Verifies that packets of this size arrive at the other end and return. Returns the shortest
    /// time that took.
    ///
    /// # Errors
    /// None returned; the text says whether smaller ones do.
    pub(crate) fn verify(&self, mtu_bytes: u32) -> Result<Nanos, LiveError> {
        let whole = mtu_bytes as usize + ETHERNET_HEADER_BYTES;
        let failed = LiveError::while_::<io::Error>("sending datagrams to it");
        if let Some(rtt_ns) = self.shortest_round_trip(whole).map_err(failed)? {
            return Ok(rtt_ns);
        }
        let failed = LiveError::while_::<io::Error>("sending datagrams to it");
        let size = whole + HEADER_BYTES;
        let small = self.shortest_round_trip(SMALL_BYTES).map_err(failed)?;
        Err(LiveError::Failed(match small {
            Some(_) => format!(
                "smaller datagrams arrive, but not those of {size} bytes, which carry packets of {mtu_bytes} bytes: give the link a smaller mtu"
            ),
            None => self.silence(),
        }))
    }

    /// Returns why there is no answer.
    fn silence(&self) -> String {
        if !self.before.is_empty() {
            return "no frame comes back from its network device".to_owned();
        }
        let peer = getpeername(&self.socket).ok().flatten();
        let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
        let peer = peer.map_or_else(|| "it".to_owned(), |peer| peer.to_string());
        format!(
            "no UDP datagram comes back from {peer}: check its address and the firewalls between"
        )
    }

    fn shortest_round_trip(&self, bytes: usize) -> io::Result<Option<Nanos>> {
        let content = vec![0; bytes];
        let mut shortest = None;
        let mut unanswered = 0;
        for number in 0..ATTEMPTS {
            let begun = Instant::now();
            match self.send(Kind::Probe, number, &content) {
                Err(error) if !is_passing(&error) => return Err(error),
                _ => {}
            }
            match self.wait_for_answer(begun)? {
                Some(took_ns) => {
                    shortest = Some(shortest.map_or(took_ns, |least: Nanos| least.min(took_ns)))
                }
                None => unanswered += 1,
            }
            if unanswered > ATTEMPTS / 2 {
                break;
            }
        }
        Ok(shortest)
    }

    fn is_readable_within(&self, wait: Duration) -> io::Result<bool> {
        let wait = Timespec::try_from(wait).map_err(io::Error::other)?;
        let mut awaited = [PollFd::new(&self.socket, PollFlags::IN)];
        Ok(poll(&mut awaited, Some(&wait))? > 0)
    }

    fn wait_for_answer(&self, begun: Instant) -> io::Result<Option<Nanos>> {
        let mut content = vec![0; 1 << 16];
        loop {
            match self.receive(&mut content) {
                Ok((Kind::Answer, _)) => return Ok(Some(begun.elapsed().as_nanos() as Nanos)),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let left = PATIENCE.saturating_sub(begun.elapsed());
                    if left.is_zero() || !self.is_readable_within(left)? {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl Kind {
    fn of(byte: u8) -> Option<Self> {
        [Self::Packet, Self::Probe, Self::Answer]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }
}

/// Returns whether an error of sending concerns one datagram, which is lost.
fn is_passing(error: &io::Error) -> bool {
    let passing = [
        Errno::AGAIN,
        Errno::NOBUFS,
        Errno::CONNREFUSED,
        Errno::HOSTUNREACH,
        Errno::NETUNREACH,
        Errno::INTR,
    ];
    Errno::from_io_error(error).is_some_and(|errno| passing.contains(&errno))
}

impl AsFd for Tunnel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Tunnel, Tunnel) {
        let (there, port) = Tunnel::listening(7).expect("a port");
        (Tunnel::connected(at(port), 7).expect("a port"), there)
    }

    fn at(port: u16) -> SocketAddr {
        ([127, 0, 0, 1], port).into()
    }

    fn packet(content: &[u8]) -> Vec<u8> {
        [&[0; VIRTIO_HEADER_BYTES], content].concat()
    }

    fn next(tunnel: &Tunnel) -> Option<Vec<u8>> {
        let mut buffer = vec![1; 100];
        let bytes = tunnel.read(&mut buffer).ok()?;
        Some(buffer[..bytes].to_vec())
    }

    #[test]
    fn packets_pass_both_ways_once_the_called_end_has_been_called() {
        let (here, there) = pair();
        there.write(&packet(b"too early")).expect("it is lost");
        here.write(&packet(b"one")).expect("there is room");
        assert_eq!(next(&there), Some(packet(b"one")));
        there.write(&packet(b"two")).expect("there is room");
        assert_eq!(next(&here), Some(packet(b"two")));
        assert_eq!(next(&here), None);
        assert_eq!(here.losses(), (1, 2));
        assert_eq!(there.losses(), (0, 1));
    }

    #[test]
    fn the_time_that_the_answer_to_a_probe_takes_is_noted() {
        let (here, there) = pair();
        here.probe();
        assert_eq!(next(&there), None);
        let waited = Duration::from_millis(2);
        std::thread::sleep(waited);
        assert_eq!(next(&here), None);
        let [took_ns] = here.round_trips_ns()[..] else {
            panic!("{:?}", here.round_trips_ns());
        };
        assert!(took_ns >= waited.as_nanos() as Nanos);
    }

    #[test]
    fn frames_of_other_types_are_no_packets() {
        let ends = [(); 2].map(|()| UdpSocket::bind(at(0)).expect("a port"));
        let addresses = [0, 1].map(|end| ends[end].local_addr().expect("an address"));
        ends[0].connect(addresses[1]).expect("a route");
        ends[1].connect(addresses[0]).expect("a route");
        let wild = ends[0].try_clone().expect("a descriptor");
        let [here, there] = ends.map(|end| Tunnel::to_device(end, 7).expect("buffers"));
        let mut solicitation = FRAME_HEADER.to_vec();
        solicitation[12..].copy_from_slice(&[0x86, 0xdd]);
        solicitation.extend(here.header(Kind::Packet, 0));
        wild.send(&solicitation).expect("there is room");
        here.write(&packet(b"ours")).expect("there is room");
        assert_eq!(next(&there), Some(packet(b"ours")));
        assert_eq!(next(&there), None);
    }

    #[test]
    fn a_datagram_with_another_key_is_no_packet() {
        let (there, port) = Tunnel::listening(7).expect("a port");
        let here = Tunnel::connected(at(port), 7).expect("a port");
        let stranger = Tunnel::connected(at(port), 8).expect("a port");
        stranger.write(&packet(b"other")).expect("there is room");
        here.write(&packet(b"ours")).expect("there is room");
        assert_eq!(next(&there), Some(packet(b"ours")));
        assert_eq!(next(&there), None);
    }
}
