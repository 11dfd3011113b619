//! Calls the table of C functions as packetdrill does.
#![allow(unsafe_code)]

use std::ffi::{CString, c_int, c_void};
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::sync::Arc;
use std::{mem, ptr, thread};

use libc::{sockaddr_in, socklen_t};
use mptcp::payload::Payload;
use mptcp::seq::SeqNr;
use mptcp::wire::{Capable, Ecn, Flags, Hops, MptcpOption, Packet, Segment, TcpOptions};
use mptcplab_packetdrill::host::IPPROTO_MPTCP;
use mptcplab_packetdrill::interface::{Interface, packetdrill_interface_init};

const LOCAL: [u8; 4] = [192, 168, 0, 1];
const REMOTE: [u8; 4] = [192, 0, 2, 1];
const PORT: u16 = 8080;
const PEER_PORT: u16 = 40_000;

/// The table with its host, and the script of the peer.
struct Script(Interface);

// The functions may be called from several threads, as packetdrill does.
unsafe impl Sync for Script {}

impl Drop for Script {
    fn drop(&mut self) {
        unsafe { (self.0.free)(self.0.userdata) };
    }
}

impl Script {
    fn new(flags: &str) -> Self {
        let flags = CString::new(flags).unwrap();
        let mut table = MaybeUninit::uninit();
        unsafe {
            packetdrill_interface_init(flags.as_ptr(), table.as_mut_ptr());
            Self(table.assume_init())
        }
    }

    fn socket(&self, protocol: c_int) -> c_int {
        unsafe { (self.0.socket)(self.0.userdata, libc::AF_INET, libc::SOCK_STREAM, protocol) }
    }

    fn listener(&self, protocol: c_int) -> c_int {
        let fd = self.socket(protocol);
        let (address, len) = address(LOCAL, PORT);
        unsafe {
            let bound = (self.0.bind)(self.0.userdata, fd, ptr::from_ref(&address).cast(), len);
            assert_eq!(bound, 0);
            assert_eq!((self.0.listen)(self.0.userdata, fd, 1), 0);
        }
        fd
    }

    fn accept(&self, fd: c_int) -> c_int {
        unsafe { (self.0.accept)(self.0.userdata, fd, ptr::null_mut(), ptr::null_mut()) }
    }

    /// Connects to the peer. Returns 0, or -1 with the error.
    fn connect(&self, fd: c_int) -> (c_int, Option<c_int>) {
        let (remote, len) = address(REMOTE, PEER_PORT);
        let remote = ptr::from_ref(&remote).cast();
        let connected = unsafe { (self.0.connect)(self.0.userdata, fd, remote, len) };
        (connected, (connected < 0).then(errno))
    }

    fn write(&self, fd: c_int, bytes: &[u8]) -> isize {
        unsafe { (self.0.write)(self.0.userdata, fd, bytes.as_ptr().cast(), bytes.len()) }
    }

    fn read(&self, fd: c_int, most: usize) -> Result<Vec<u8>, c_int> {
        let mut bytes = vec![0; most];
        let read = unsafe { (self.0.read)(self.0.userdata, fd, bytes.as_mut_ptr().cast(), most) };
        match usize::try_from(read) {
            Ok(read) => Ok(bytes[..read].to_vec()),
            Err(_) => Err(errno()),
        }
    }

    fn close(&self, fd: c_int) -> c_int {
        unsafe { (self.0.close)(self.0.userdata, fd) }
    }

    fn inject(&self, segment: Segment) {
        let mut bytes = Vec::new();
        Packet {
            source: IpAddr::from(REMOTE),
            destination: IpAddr::from(LOCAL),
            ecn: Ecn::NotCapable,
            via: Hops::default(),
            segment,
        }
        .emit(&mut bytes);
        let sent =
            unsafe { (self.0.netdev_send)(self.0.userdata, bytes.as_ptr().cast(), bytes.len()) };
        assert_eq!(sent, 0);
    }

    /// Returns the next packet with its time in microseconds. `None` if none follows.
    fn sniff(&self) -> Option<(i64, Segment)> {
        let (mut bytes, mut at) = ([0_u8; 2000], 0);
        let mut len = bytes.len();
        let received = unsafe {
            (self.0.netdev_receive)(
                self.0.userdata,
                bytes.as_mut_ptr().cast(),
                &mut len,
                &mut at,
            )
        };
        assert_eq!(received, 0);
        let packet = (len > 0).then(|| Packet::parse(&Arc::from(&bytes[..len])).unwrap().0);
        packet.map(|packet| (at, packet.segment))
    }

    fn set_timeout_us(&self, fd: c_int, name: c_int, micros: i64) {
        let timeout = [0_i64, micros];
        let (value, len) = (timeout.as_ptr().cast(), mem::size_of_val(&timeout) as _);
        let level = libc::SOL_SOCKET;
        let set = unsafe { (self.0.setsockopt)(self.0.userdata, fd, level, name, value, len) };
        assert_eq!(set, 0);
    }

    fn now_us(&self) -> i64 {
        let mut time = libc::timeval {
            tv_sec: 0,
            tv_usec: 0,
        };
        unsafe { (self.0.gettimeofday)(self.0.userdata, &mut time, ptr::null_mut()) };
        time.tv_sec * 1_000_000 + time.tv_usec
    }

    fn sleep_us(&self, duration: u32) {
        assert_eq!(unsafe { (self.0.usleep)(self.0.userdata, duration) }, 0);
    }

    /// Opens a connection without options from the peer. Returns the acknowledgment number that the
    /// peer uses from then on.
    fn handshake(&self) -> u32 {
        self.inject(segment(0, 0, Flags::SYN, b""));
        let (_, answer) = self.sniff().unwrap();
        assert_eq!(answer.flags, Flags::SYN | Flags::ACK);
        let ack = answer.end().0;
        self.inject(segment(1, ack, Flags::ACK, b""));
        ack
    }
}

fn address(ip: [u8; 4], port: u16) -> (sockaddr_in, socklen_t) {
    let address = sockaddr_in {
        sin_family: libc::AF_INET as _,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from_ne_bytes(ip),
        },
        sin_zero: [0; 8],
    };
    (address, mem::size_of::<sockaddr_in>() as socklen_t)
}

fn segment(seq: u32, ack: u32, flags: Flags, payload: &[u8]) -> Segment {
    Segment {
        source_port: PEER_PORT,
        destination_port: PORT,
        seq: SeqNr(seq),
        ack: SeqNr(ack),
        flags,
        window: 30_000,
        options: TcpOptions::default(),
        payload: Payload::literal(payload),
    }
}

fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap()
}

#[test]
fn a_server_takes_a_connection_reads_writes_and_closes() {
    let script = Script::new("local=192.168.0.1");
    let listener = script.listener(libc::IPPROTO_TCP);
    script.handshake();
    let fd = script.accept(listener);
    assert!(fd > 2);
    assert_eq!(script.write(fd, b"hello"), 5);
    let (_, data) = script.sniff().unwrap();
    assert_eq!(data.payload.to_vec(), b"hello");
    script.inject(segment(1, data.end().0, Flags::ACK, b"and back"));
    assert_eq!(script.read(fd, 3), Ok(b"and".to_vec()));
    assert_eq!(script.read(fd, 100), Ok(b" back".to_vec()));
    assert_eq!((script.close(fd), script.close(fd)), (0, -1));
    assert_eq!(errno(), libc::EBADF);
    let mut rest = std::iter::from_fn(|| script.sniff());
    assert!(rest.any(|(_, segment)| segment.flags.contains(Flags::FIN)));
}

#[test]
fn time_passes_only_as_the_script_lets_it() {
    let script = Script::new("local=192.168.0.1");
    let begun = script.now_us();
    script.sleep_us(5_000_000);
    assert_eq!(script.now_us() - begun, 5_000_001);
    script.listener(libc::IPPROTO_TCP);
    script.inject(segment(0, 0, Flags::SYN, b""));
    let times: Vec<_> = (0..3).map(|_| script.sniff().unwrap().0).collect();
    // An unanswered SYN/ACK is retransmitted after one second, and again after two more.
    assert_eq!(
        [times[1] - times[0], times[2] - times[1]],
        [1_000_000, 2_000_000]
    );
}

#[test]
fn a_connection_starts_from_the_address_of_the_flags() {
    let script = Script::new("local=192.168.0.1,wscale=3,ecn=on");
    let fd = script.socket(IPPROTO_MPTCP);
    let flags = unsafe { (script.0.fcntl)(script.0.userdata, fd, libc::F_GETFL, 0) };
    let nonblocking = (flags | libc::O_NONBLOCK).into();
    unsafe { (script.0.fcntl)(script.0.userdata, fd, libc::F_SETFL, nonblocking) };
    assert_eq!(script.connect(fd), (-1, Some(libc::EINPROGRESS)));
    let (_, syn) = script.sniff().unwrap();
    assert_eq!(syn.options.window_scale, Some(3));
    assert!(syn.flags.contains(Flags::ECE | Flags::CWR));
    let capable = syn.options.mptcp.iter().next();
    assert!(matches!(
        capable,
        Some(MptcpOption::Capable(Capable::Syn { version: 1, .. }))
    ));
    assert_eq!(script.read(fd, 1), Err(libc::ENOTCONN));
}

#[test]
fn a_call_that_blocks_ends_when_what_it_waits_for_comes() {
    let script = Script::new("");
    let listener = script.listener(libc::IPPROTO_TCP);
    let begun = script.now_us();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let fd = script.accept(listener);
            let accepted_at = script.now_us();
            (accepted_at, script.read(fd, 100), script.now_us())
        });
        script.sleep_us(100_000);
        let ack = script.handshake();
        script.sleep_us(200_000);
        script.inject(segment(1, ack, Flags::ACK, b"late"));
        let (accepted_at, bytes, read_at) = waiting.join().unwrap();
        assert!(accepted_at - begun >= 100_000);
        assert_eq!(bytes, Ok(b"late".to_vec()));
        assert!(read_at - begun >= 300_000);
    });
}

#[test]
fn what_the_engine_cannot_do_is_refused() {
    let script = Script::new("");
    let fd = script.listener(libc::IPPROTO_TCP);
    let (one, len) = (1_i32, mem::size_of::<i32>() as socklen_t);
    let value: *const c_void = ptr::from_ref(&one).cast();
    let set = |level, name| unsafe {
        (script.0.setsockopt)(script.0.userdata, fd, level, name, value, len)
    };
    assert_eq!(set(libc::SOL_SOCKET, libc::SO_REUSEADDR), 0);
    assert_eq!(
        (set(libc::IPPROTO_TCP, libc::TCP_CORK), errno()),
        (-1, libc::ENOPROTOOPT)
    );
    let made = unsafe { (script.0.socket)(script.0.userdata, libc::AF_INET, libc::SOCK_DGRAM, 0) };
    assert_eq!((made, errno()), (-1, libc::ESOCKTNOSUPPORT));
    let epoll = unsafe { (script.0.epoll_create)(script.0.userdata, 1) };
    assert_eq!((epoll, errno()), (-1, libc::ENOSYS));
    let missing = unsafe { (script.0.read)(script.0.userdata, fd, ptr::null_mut(), 5) };
    assert_eq!((missing, errno()), (-1, libc::EFAULT));
}

#[test]
fn flags_that_are_not_known_are_named() {
    use mptcplab_packetdrill::options::Options;
    for (flags, named) in [
        ("wscale=15", "0 to 14"),
        ("cc=fast", "congestion control"),
        ("local=here", "IP address"),
        (
            "mss=9000",
            "allowed: local, wscale, cc, ecn, timestamps, mtu",
        ),
        ("ecn", "name=value"),
    ] {
        let error = Options::parse(flags).unwrap_err();
        assert!(error.contains(named), "{error}");
    }
}

#[test]
fn a_second_connect_waits_where_the_socket_blocks() {
    let script = Script::new("local=192.168.0.1,syn_retries=1,syn_linear_timeouts=0");
    let fd = script.socket(libc::IPPROTO_TCP);
    let connect = || script.connect(fd);
    let set_flags = |flags: c_int| unsafe {
        (script.0.fcntl)(script.0.userdata, fd, libc::F_SETFL, flags.into());
    };
    set_flags(libc::O_RDWR | libc::O_NONBLOCK);
    assert_eq!(connect(), (-1, Some(libc::EINPROGRESS)));
    assert_eq!(connect(), (-1, Some(libc::EALREADY)));
    set_flags(libc::O_RDWR);
    let begun = script.now_us();
    assert_eq!(connect(), (-1, Some(libc::ETIMEDOUT)));
    // One second for the first SYN, two for the second.
    assert_eq!((script.now_us() - begun) / 1000, 3000);
}

#[test]
fn a_call_waits_no_longer_than_its_option_says() {
    let script = Script::new("local=192.168.0.1");
    let fd = script.socket(libc::IPPROTO_TCP);
    script.set_timeout_us(fd, libc::SO_SNDTIMEO, 600_000);
    let begun = script.now_us();
    assert_eq!(script.connect(fd), (-1, Some(libc::EINPROGRESS)));
    assert_eq!(script.connect(fd), (-1, Some(libc::EALREADY)));
    assert_eq!((script.now_us() - begun) / 1000, 1200);
}

#[test]
fn a_call_that_waits_lets_time_pass_once_the_script_does_nothing() {
    let script = Script::new("");
    let listener = script.listener(libc::IPPROTO_TCP);
    script.set_timeout_us(listener, libc::SO_RCVTIMEO, 900_000);
    let begun = script.now_us();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| (script.accept(listener), errno()));
        assert_eq!(waiting.join().unwrap(), (-1, libc::EAGAIN));
    });
    assert_eq!((script.now_us() - begun) / 1000, 900);
}
