//! Tunnels: packets as UDP datagrams, to and from a device on another machine.
//!
//! A datagram has a header of [`HEADER_BYTES`]: a key of 8 bytes, which tells its tunnel from all
//! else that arrives at the port, the kind of the datagram, three bytes of 0, and a sequence number
//! of 4 bytes, by which the receiver counts lost packets. Numbers are in network byte order. The
//! packet follows, without the header of a device.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use experiment::time::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, recvmsg, sendmsg,
};

use super::VIRTIO_HEADER_BYTES;
use crate::{LiveError, sys};

const HEADER_BYTES: usize = 16;
const ETHERNET_HEADER_BYTES: u32 = 14;
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

/// Packets that did not arrive, and all that were sent.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    lost: AtomicU64,
    expected: AtomicU64,
}

impl Losses {
    /// Returns the numbers of lost and of all packets.
    pub(crate) fn get(&self) -> (u64, u64) {
        let get = |number: &AtomicU64| number.load(Ordering::Relaxed);
        (get(&self.lost), get(&self.expected))
    }
}

/// One end of a tunnel.
#[derive(Debug)]
pub(crate) struct Tunnel {
    socket: UdpSocket,
    key: Key,
    /// Whether the address of the other end is known. An end that is called learns it from the
    /// first datagram.
    is_connected: AtomicBool,
    sent: AtomicU32,
    next: AtomicU32,
    losses: Arc<Losses>,
}

impl Tunnel {
    /// Creates the end that is called, at any address and a port of the system's choice.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn listening(key: Key) -> io::Result<Self> {
        // Takes IPv4 too, unless IPv6 is off.
        let any = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0));
        let socket = any.or_else(|_| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))?;
        Self::new(socket, key, false)
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
        Self::new(socket, key, true)
    }

    fn new(socket: UdpSocket, key: Key, is_connected: bool) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        sys::set_buffers(socket.as_fd(), SOCKET_BUFFER_BYTES)?;
        // A full packet of the experiment and the headers of the tunnel may travel as two fragments.
        let discovery = libc::IP_PMTUDISC_DONT.to_ne_bytes();
        sys::set_socket_option(
            socket.as_fd(),
            libc::SOL_IP,
            libc::IP_MTU_DISCOVER,
            &discovery,
        )?;
        Ok(Self {
            socket,
            key,
            is_connected: AtomicBool::new(is_connected),
            sent: AtomicU32::new(0),
            next: AtomicU32::new(0),
            losses: Arc::default(),
        })
    }

    pub(crate) fn port(&self) -> io::Result<u16> {
        Ok(self.socket.local_addr()?.port())
    }

    pub(crate) fn losses(&self) -> Arc<Losses> {
        Arc::clone(&self.losses)
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
                (Kind::Answer, _) => {}
            }
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
        let parts = [IoSlice::new(&header), IoSlice::new(content)];
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
            let mut header = [0; HEADER_BYTES];
            let mut parts = [IoSliceMut::new(&mut header), IoSliceMut::new(content)];
            let mut nothing = RecvAncillaryBuffer::default();
            let received = recvmsg(&self.socket, &mut parts, &mut nothing, RecvFlags::empty());
            let received = match received {
                // The other end is gone, as the connection to its agent tells too.
                Err(Errno::CONNREFUSED | Errno::HOSTUNREACH | Errno::NETUNREACH) => continue,
                received => received?,
            };
            let is_ours = received.bytes >= HEADER_BYTES && header[..8] == self.key.to_be_bytes();
            let Some(kind) = Kind::of(header[8]).filter(|_| is_ours) else {
                continue;
            };
            if !self.is_connected.load(Ordering::Relaxed)
                && let Some(from) = received
                    .address
                    .and_then(|from| SocketAddr::try_from(from).ok())
            {
                self.socket.connect(from)?;
                self.is_connected.store(true, Ordering::Relaxed);
            }
            if kind == Kind::Packet {
                let number = header[12..].try_into().map_or(0, u32::from_be_bytes);
                self.count(number);
            }
            return Ok((kind, received.bytes - HEADER_BYTES));
        }
    }

    /// Counts the packets that are missing before this one. One that comes late was counted before.
    fn count(&self, number: u32) {
        let missing = number.wrapping_sub(self.next.load(Ordering::Relaxed));
        let Losses { lost, expected } = &*self.losses;
        if missing > u32::MAX / 2 {
            lost.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        lost.fetch_add(u64::from(missing), Ordering::Relaxed);
        expected.fetch_add(u64::from(missing) + 1, Ordering::Relaxed);
        self.next.store(number.wrapping_add(1), Ordering::Relaxed);
    }

    /// Verifies that packets of this size arrive at the other end and return. Returns the shortest
    /// time that took.
    ///
    /// # Errors
    /// None returned; the text says whether smaller ones do.
    pub(crate) fn verify(&self, mtu_bytes: u32) -> Result<Nanos, LiveError> {
        let whole = (mtu_bytes + ETHERNET_HEADER_BYTES) as usize;
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
            None => format!(
                "no UDP datagram comes back from {}: check its address and the firewalls between",
                self.socket
                    .peer_addr()
                    .map_or_else(|_| "it".to_owned(), |peer| peer.to_string())
            ),
        }))
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
        let there = Tunnel::listening(7).expect("a port");
        let to = SocketAddr::from(([127, 0, 0, 1], there.port().expect("a port")));
        (Tunnel::connected(to, 7).expect("a port"), there)
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
        assert_eq!(here.losses().get(), (1, 2));
        assert_eq!(there.losses().get(), (0, 1));
    }

    #[test]
    fn a_datagram_with_another_key_is_no_packet() {
        let (here, there) = pair();
        let to = SocketAddr::from(([127, 0, 0, 1], there.port().expect("a port")));
        let stranger = Tunnel::connected(to, 8).expect("a port");
        stranger.write(&packet(b"other")).expect("there is room");
        here.write(&packet(b"ours")).expect("there is room");
        assert_eq!(next(&there), Some(packet(b"ours")));
        assert_eq!(next(&there), None);
    }
}
