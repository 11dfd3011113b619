//! The table of functions for packetdrill (`packetdrill.h`) and their implementations.
//!
//! All functions receive the `userdata` created by [`packetdrill_interface_init`]. They return like
//! system calls: -1 with `errno` on failure. Functions that the engine does not support fail with
//! ENOSYS.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_long, c_longlong, c_uint, c_ulong, c_void};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{FromRawFd, OwnedFd};
use std::{mem, process, ptr, slice};

use libc::{
    EINVAL, ENOSYS, epoll_event, iovec, loff_t, msghdr, nfds_t, pollfd, size_t, sockaddr,
    sockaddr_in, sockaddr_in6, socklen_t, ssize_t, timeval, useconds_t,
};

use crate::host::{Errno, Host, Shutdown, Waiting};
use crate::options::Options;
use crate::turns::Turns;

const NANOS_PER_MICRO: u64 = 1000;

/// `struct packetdrill_interface`.
#[repr(C)]
#[allow(missing_docs)]
pub struct Interface {
    pub userdata: *mut c_void,
    pub free: unsafe extern "C" fn(*mut c_void),
    pub socket: unsafe extern "C" fn(*mut c_void, c_int, c_int, c_int) -> c_int,
    pub bind: unsafe extern "C" fn(*mut c_void, c_int, *const sockaddr, socklen_t) -> c_int,
    pub listen: unsafe extern "C" fn(*mut c_void, c_int, c_int) -> c_int,
    pub accept: unsafe extern "C" fn(*mut c_void, c_int, *mut sockaddr, *mut socklen_t) -> c_int,
    pub connect: unsafe extern "C" fn(*mut c_void, c_int, *const sockaddr, socklen_t) -> c_int,
    pub read: unsafe extern "C" fn(*mut c_void, c_int, *mut c_void, size_t) -> ssize_t,
    pub readv: unsafe extern "C" fn(*mut c_void, c_int, *const iovec, c_int) -> ssize_t,
    pub recv: unsafe extern "C" fn(*mut c_void, c_int, *mut c_void, size_t, c_int) -> ssize_t,
    pub recvfrom: unsafe extern "C" fn(
        *mut c_void,
        c_int,
        *mut c_void,
        size_t,
        c_int,
        *mut sockaddr,
        *mut socklen_t,
    ) -> ssize_t,
    pub recvmsg: unsafe extern "C" fn(*mut c_void, c_int, *mut msghdr, c_int) -> ssize_t,
    pub write: unsafe extern "C" fn(*mut c_void, c_int, *const c_void, size_t) -> ssize_t,
    pub writev: unsafe extern "C" fn(*mut c_void, c_int, *const iovec, c_int) -> ssize_t,
    pub send: unsafe extern "C" fn(*mut c_void, c_int, *const c_void, size_t, c_int) -> ssize_t,
    pub sendto: unsafe extern "C" fn(
        *mut c_void,
        c_int,
        *const c_void,
        size_t,
        c_int,
        *const sockaddr,
        socklen_t,
    ) -> ssize_t,
    pub sendmsg: unsafe extern "C" fn(*mut c_void, c_int, *const msghdr, c_int) -> ssize_t,
    /// Variadic in C. The third argument is passed as a fixed one would be.
    pub fcntl: unsafe extern "C" fn(*mut c_void, c_int, c_int, c_long) -> c_int,
    /// Variadic in C, too.
    pub ioctl: unsafe extern "C" fn(*mut c_void, c_int, c_ulong, *mut c_int) -> c_int,
    pub close: unsafe extern "C" fn(*mut c_void, c_int) -> c_int,
    pub shutdown: unsafe extern "C" fn(*mut c_void, c_int, c_int) -> c_int,
    pub getsockopt: unsafe extern "C" fn(
        *mut c_void,
        c_int,
        c_int,
        c_int,
        *mut c_void,
        *mut socklen_t,
    ) -> c_int,
    pub setsockopt:
        unsafe extern "C" fn(*mut c_void, c_int, c_int, c_int, *const c_void, socklen_t) -> c_int,
    pub poll: unsafe extern "C" fn(*mut c_void, *mut pollfd, nfds_t, c_int) -> c_int,
    pub netdev_send: unsafe extern "C" fn(*mut c_void, *const c_void, size_t) -> c_int,
    pub netdev_receive:
        unsafe extern "C" fn(*mut c_void, *mut c_void, *mut size_t, *mut c_longlong) -> c_int,
    pub usleep: unsafe extern "C" fn(*mut c_void, useconds_t) -> c_int,
    pub gettimeofday: unsafe extern "C" fn(*mut c_void, *mut timeval, *mut c_void) -> c_int,
    pub epoll_create: unsafe extern "C" fn(*mut c_void, c_int) -> c_int,
    pub epoll_ctl:
        unsafe extern "C" fn(*mut c_void, c_int, c_int, c_int, *mut epoll_event) -> c_int,
    pub epoll_wait:
        unsafe extern "C" fn(*mut c_void, c_int, *mut epoll_event, c_int, c_int) -> c_int,
    pub pipe: unsafe extern "C" fn(*mut c_void, *mut c_int) -> c_int,
    pub splice: unsafe extern "C" fn(
        *mut c_void,
        c_int,
        *mut loff_t,
        c_int,
        *mut loff_t,
        size_t,
        c_uint,
    ) -> c_int,
}

/// Fills the table for a new host. `flags` is the value of `--so_flags`, see [`Options`]. Invalid
/// flags end the process with status 2.
///
/// # Safety
/// `flags` is null or points to a C string, and `interface` points to the table.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn packetdrill_interface_init(
    flags: *const c_char,
    interface: *mut Interface,
) {
    let flags = match flags.is_null() {
        true => String::new(),
        // SAFETY: the caller guarantees it.
        false => unsafe { CStr::from_ptr(flags) }
            .to_string_lossy()
            .into_owned(),
    };
    let options = Options::parse(&flags).unwrap_or_else(|error| {
        eprintln!("--so_flags: {error}");
        process::exit(2);
    });
    let turns = Box::new(Turns::new(Host::new(options)));
    // SAFETY: the caller guarantees it.
    unsafe { interface.write(table(turns)) };
}

fn table(turns: Box<Turns>) -> Interface {
    Interface {
        userdata: Box::into_raw(turns).cast(),
        free,
        socket,
        bind,
        listen,
        accept,
        connect,
        read,
        readv,
        recv,
        recvfrom,
        recvmsg,
        write,
        writev,
        send,
        sendto,
        sendmsg,
        fcntl,
        ioctl,
        close,
        shutdown,
        getsockopt,
        setsockopt,
        poll,
        netdev_send,
        netdev_receive,
        usleep,
        gettimeofday,
        epoll_create,
        epoll_ctl,
        epoll_wait,
        pipe,
        splice,
    }
}

/// # Safety
/// `userdata` was created by [`table`] and is not freed. This holds for all functions below. Their
/// other pointers are as for the system calls of the same names.
unsafe fn turns<'a>(userdata: *mut c_void) -> &'a Turns {
    // SAFETY: the caller guarantees it.
    unsafe { &*userdata.cast::<Turns>() }
}

/// Sets `errno` and returns -1.
fn failed(error: Errno) -> c_int {
    // SAFETY: it points to the errno of this thread.
    unsafe { *libc::__errno_location() = error };
    -1
}

fn status(answer: Result<(), Errno>) -> c_int {
    answer.map_or_else(failed, |()| 0)
}

fn count(answer: Result<usize, Errno>) -> ssize_t {
    match answer {
        Ok(bytes) => bytes as ssize_t,
        Err(error) => failed(error) as ssize_t,
    }
}

unsafe extern "C" fn free(userdata: *mut c_void) {
    // SAFETY: it is not used afterwards.
    drop(unsafe { Box::from_raw(userdata.cast::<Turns>()) });
}

unsafe extern "C" fn socket(
    userdata: *mut c_void,
    domain: c_int,
    kind: c_int,
    protocol: c_int,
) -> c_int {
    let turns = unsafe { turns(userdata) };
    let made = turns.call(|host| host.socket(domain, kind, protocol));
    made.unwrap_or_else(failed)
}

unsafe extern "C" fn bind(
    userdata: *mut c_void,
    fd: c_int,
    address: *const sockaddr,
    len: socklen_t,
) -> c_int {
    let (turns, local) = unsafe { (turns(userdata), address_of(address, len)) };
    status(local.and_then(|local| turns.call(|host| host.bind(fd, local))))
}

unsafe extern "C" fn listen(userdata: *mut c_void, fd: c_int, backlog: c_int) -> c_int {
    let turns = unsafe { turns(userdata) };
    status(turns.call(|host| host.listen(fd, backlog)))
}

unsafe extern "C" fn accept(
    userdata: *mut c_void,
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    let turns = unsafe { turns(userdata) };
    match turns.wait(fd, Waiting::ToRead, |host| host.accept(fd)) {
        Ok((accepted, peer)) => {
            unsafe { tell_address(peer, address, len) };
            accepted
        }
        Err(error) => failed(error),
    }
}

unsafe extern "C" fn connect(
    userdata: *mut c_void,
    fd: c_int,
    address: *const sockaddr,
    len: socklen_t,
) -> c_int {
    let (turns, remote) = unsafe { (turns(userdata), address_of(address, len)) };
    if unsafe { says_unspecified(address, len) } {
        return status(turns.call(|host| host.disconnect(fd)));
    }
    let begun = remote.and_then(|remote| turns.call(|host| host.connect(fd, remote)));
    let is_under_way = matches!(begun, Err(libc::EINPROGRESS | libc::EALREADY));
    if !is_under_way || !turns.call(|host| host.blocks(fd)) {
        return status(begun);
    }
    match turns.wait(fd, Waiting::ToWrite, |host| host.outcome(fd)) {
        // The answer takes longer than the program waits.
        Err(libc::EAGAIN) => status(begun),
        outcome => status(outcome),
    }
}

/// The buffers of a call, one after another.
type Pieces<'a> = &'a [iovec];

fn one_piece(base: *const c_void, len: size_t) -> [iovec; 1] {
    [iovec {
        iov_base: base.cast_mut(),
        iov_len: len,
    }]
}

unsafe fn pieces<'a>(first: *const iovec, count: usize) -> Pieces<'a> {
    if count == 0 || first.is_null() {
        return &[];
    }
    unsafe { slice::from_raw_parts(first, count) }
}

/// Fails if a non-empty buffer is null. Another invalid address ends the process, as in any
/// program.
fn must_be_there(pieces: Pieces<'_>) -> Result<(), Errno> {
    let is_missing = |piece: &iovec| piece.iov_base.is_null() && piece.iov_len > 0;
    match pieces.iter().any(is_missing) {
        true => Err(libc::EFAULT),
        false => Ok(()),
    }
}

unsafe fn read_to(
    userdata: *mut c_void,
    fd: c_int,
    pieces: Pieces<'_>,
    flags: c_int,
) -> Result<usize, Errno> {
    if flags & !(libc::MSG_PEEK | libc::MSG_DONTWAIT | libc::MSG_WAITALL) != 0 {
        return Err(EINVAL);
    }
    must_be_there(pieces)?;
    let turns = unsafe { turns(userdata) };
    let most = pieces.iter().map(|piece| piece.iov_len).sum();
    let read = |host: &mut Host| host.read(fd, most, flags & libc::MSG_PEEK != 0);
    let bytes = match flags & libc::MSG_DONTWAIT {
        0 => turns.wait(fd, Waiting::ToRead, read)?,
        _ => turns.call(read)?,
    };
    let mut left = &bytes[..];
    for piece in pieces {
        let (here, rest) = left.split_at(left.len().min(piece.iov_len));
        unsafe { ptr::copy_nonoverlapping(here.as_ptr(), piece.iov_base.cast(), here.len()) };
        left = rest;
    }
    Ok(bytes.len())
}

unsafe fn write_from(
    userdata: *mut c_void,
    fd: c_int,
    pieces: Pieces<'_>,
    flags: c_int,
) -> Result<usize, Errno> {
    if flags & !(libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) != 0 {
        return Err(EINVAL);
    }
    must_be_there(pieces)?;
    let turns = unsafe { turns(userdata) };
    let mut bytes = Vec::new();
    for piece in pieces {
        if piece.iov_len > 0 {
            bytes.extend_from_slice(unsafe {
                slice::from_raw_parts(piece.iov_base.cast::<u8>(), piece.iov_len)
            });
        }
    }
    if flags & libc::MSG_DONTWAIT != 0 {
        return turns.call(|host| host.write(fd, &bytes));
    }
    // A blocking socket writes all bytes.
    let mut written = 0;
    turns.wait(fd, Waiting::ToWrite, |host| {
        written += host.write(fd, &bytes[written..])?;
        match written < bytes.len() && host.blocks(fd) {
            true => Err(libc::EAGAIN),
            false => Ok(written),
        }
    })
}

unsafe extern "C" fn read(
    userdata: *mut c_void,
    fd: c_int,
    to: *mut c_void,
    len: size_t,
) -> ssize_t {
    count(unsafe { read_to(userdata, fd, &one_piece(to, len), 0) })
}

unsafe extern "C" fn readv(
    userdata: *mut c_void,
    fd: c_int,
    to: *const iovec,
    len: c_int,
) -> ssize_t {
    count(unsafe { read_to(userdata, fd, pieces(to, len as usize), 0) })
}

unsafe extern "C" fn recv(
    userdata: *mut c_void,
    fd: c_int,
    to: *mut c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    count(unsafe { read_to(userdata, fd, &one_piece(to, len), flags) })
}

unsafe extern "C" fn recvfrom(
    userdata: *mut c_void,
    fd: c_int,
    to: *mut c_void,
    len: size_t,
    flags: c_int,
    _from: *mut sockaddr,
    _from_len: *mut socklen_t,
) -> ssize_t {
    // A stream does not report the sender of its bytes.
    count(unsafe { read_to(userdata, fd, &one_piece(to, len), flags) })
}

unsafe extern "C" fn recvmsg(
    userdata: *mut c_void,
    fd: c_int,
    message: *mut msghdr,
    flags: c_int,
) -> ssize_t {
    let message = unsafe { &mut *message };
    message.msg_controllen = 0;
    message.msg_flags = 0;
    count(unsafe {
        let to = pieces(message.msg_iov, message.msg_iovlen);
        read_to(userdata, fd, to, flags)
    })
}

unsafe extern "C" fn write(
    userdata: *mut c_void,
    fd: c_int,
    from: *const c_void,
    len: size_t,
) -> ssize_t {
    count(unsafe { write_from(userdata, fd, &one_piece(from, len), 0) })
}

unsafe extern "C" fn writev(
    userdata: *mut c_void,
    fd: c_int,
    from: *const iovec,
    len: c_int,
) -> ssize_t {
    count(unsafe { write_from(userdata, fd, pieces(from, len as usize), 0) })
}

unsafe extern "C" fn send(
    userdata: *mut c_void,
    fd: c_int,
    from: *const c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    count(unsafe { write_from(userdata, fd, &one_piece(from, len), flags) })
}

unsafe extern "C" fn sendto(
    userdata: *mut c_void,
    fd: c_int,
    from: *const c_void,
    len: size_t,
    flags: c_int,
    _to: *const sockaddr,
    _to_len: socklen_t,
) -> ssize_t {
    // A stream knows the receiver of its bytes. MSG_FASTOPEN, which would open a connection, is
    // refused.
    count(unsafe { write_from(userdata, fd, &one_piece(from, len), flags) })
}

unsafe extern "C" fn sendmsg(
    userdata: *mut c_void,
    fd: c_int,
    message: *const msghdr,
    flags: c_int,
) -> ssize_t {
    let message = unsafe { &*message };
    if message.msg_controllen > 0 {
        return failed(EINVAL) as ssize_t;
    }
    count(unsafe {
        let from = pieces(message.msg_iov, message.msg_iovlen);
        write_from(userdata, fd, from, flags)
    })
}

unsafe extern "C" fn fcntl(
    userdata: *mut c_void,
    fd: c_int,
    command: c_int,
    argument: c_long,
) -> c_int {
    let turns = unsafe { turns(userdata) };
    match command {
        libc::F_GETFL => match turns.call(|host| host.blocks(fd)) {
            true => libc::O_RDWR,
            false => libc::O_RDWR | libc::O_NONBLOCK,
        },
        libc::F_SETFL => {
            let blocks = argument & c_long::from(libc::O_NONBLOCK) == 0;
            status(turns.call(|host| host.set_blocking(fd, blocks)))
        }
        _ => failed(EINVAL),
    }
}

unsafe extern "C" fn ioctl(
    userdata: *mut c_void,
    fd: c_int,
    request: c_ulong,
    value: *mut c_int,
) -> c_int {
    let turns = unsafe { turns(userdata) };
    let answer = turns.call(|host| match request {
        libc::FIONREAD => host.unread_bytes(fd),
        libc::TIOCOUTQ => host.unacked_bytes(fd),
        _ => Err(libc::ENOTTY),
    });
    status(answer.map(|bytes| unsafe { value.write(bytes as c_int) }))
}

unsafe extern "C" fn close(userdata: *mut c_void, fd: c_int) -> c_int {
    let turns = unsafe { turns(userdata) };
    let closed = turns.call(|host| host.close(fd));
    // SAFETY: the host created the descriptor and has forgotten it now.
    status(closed.map(|()| drop(unsafe { OwnedFd::from_raw_fd(fd) })))
}

unsafe extern "C" fn shutdown(userdata: *mut c_void, fd: c_int, how: c_int) -> c_int {
    let turns = unsafe { turns(userdata) };
    let how = match how {
        libc::SHUT_RD => Shutdown::Read,
        libc::SHUT_WR => Shutdown::Write,
        libc::SHUT_RDWR => Shutdown::Both,
        _ => return failed(EINVAL),
    };
    status(turns.call(|host| host.shutdown(fd, how)))
}

unsafe extern "C" fn getsockopt(
    userdata: *mut c_void,
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    let turns = unsafe { turns(userdata) };
    let found = turns.call(|host| host.option(fd, level, name));
    status(found.map(|bytes| unsafe {
        let told = bytes.len().min(*len as usize);
        ptr::copy_nonoverlapping(bytes.as_ptr(), value.cast(), told);
        *len = told as socklen_t;
    }))
}

unsafe extern "C" fn setsockopt(
    userdata: *mut c_void,
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    let turns = unsafe { turns(userdata) };
    let value = match len {
        0 => &[],
        _ => unsafe { slice::from_raw_parts(value.cast::<u8>(), len as usize) },
    };
    status(turns.call(|host| host.set_option(fd, level, name, value)))
}

unsafe extern "C" fn poll(
    userdata: *mut c_void,
    asked: *mut pollfd,
    len: nfds_t,
    timeout_ms: c_int,
) -> c_int {
    let turns = unsafe { turns(userdata) };
    let asked = match len {
        0 => &mut [],
        _ => unsafe { slice::from_raw_parts_mut(asked, len as usize) },
    };
    let timeout = u64::try_from(timeout_ms).ok();
    turns.poll(timeout.map(|ms| ms * NANOS_PER_MICRO * 1000), |host| {
        for one in asked.iter_mut() {
            one.revents = host.events(one.fd, one.events);
        }
        asked.iter().filter(|one| one.revents != 0).count() as c_int
    })
}

unsafe extern "C" fn netdev_send(
    userdata: *mut c_void,
    packet: *const c_void,
    len: size_t,
) -> c_int {
    let turns = unsafe { turns(userdata) };
    let bytes = unsafe { slice::from_raw_parts(packet.cast::<u8>(), len) };
    turns.call(|host| host.receive(bytes));
    0
}

unsafe extern "C" fn netdev_receive(
    userdata: *mut c_void,
    packet: *mut c_void,
    len: *mut size_t,
    time_us: *mut c_longlong,
) -> c_int {
    let turns = unsafe { turns(userdata) };
    let (at, bytes) = turns.next_packet().unwrap_or_default();
    unsafe {
        let told = bytes.len().min(*len);
        ptr::copy_nonoverlapping(bytes.as_ptr(), packet.cast(), told);
        *len = told;
        time_us.write((at / NANOS_PER_MICRO) as c_longlong);
    }
    0
}

unsafe extern "C" fn usleep(userdata: *mut c_void, duration_us: useconds_t) -> c_int {
    let turns = unsafe { turns(userdata) };
    turns.sleep(u64::from(duration_us) * NANOS_PER_MICRO);
    0
}

unsafe extern "C" fn gettimeofday(
    userdata: *mut c_void,
    time: *mut timeval,
    _zone: *mut c_void,
) -> c_int {
    let us = unsafe { turns(userdata) }.now() / NANOS_PER_MICRO;
    let told = timeval {
        tv_sec: (us / 1_000_000) as _,
        tv_usec: (us % 1_000_000) as _,
    };
    unsafe { time.write(told) };
    0
}

unsafe extern "C" fn epoll_create(_userdata: *mut c_void, _size: c_int) -> c_int {
    failed(ENOSYS)
}

unsafe extern "C" fn epoll_ctl(
    _userdata: *mut c_void,
    _epoll: c_int,
    _operation: c_int,
    _fd: c_int,
    _event: *mut epoll_event,
) -> c_int {
    failed(ENOSYS)
}

unsafe extern "C" fn epoll_wait(
    _userdata: *mut c_void,
    _epoll: c_int,
    _events: *mut epoll_event,
    _most: c_int,
    _timeout_ms: c_int,
) -> c_int {
    failed(ENOSYS)
}

unsafe extern "C" fn pipe(_userdata: *mut c_void, _ends: *mut c_int) -> c_int {
    failed(ENOSYS)
}

unsafe extern "C" fn splice(
    _userdata: *mut c_void,
    _from: c_int,
    _from_offset: *mut loff_t,
    _to: c_int,
    _to_offset: *mut loff_t,
    _len: size_t,
    _flags: c_uint,
) -> c_int {
    failed(ENOSYS)
}

/// Returns whether an address has the family AF_UNSPEC.
unsafe fn says_unspecified(address: *const sockaddr, len: socklen_t) -> bool {
    let is_there = !address.is_null() && len as usize >= mem::size_of::<sockaddr>();
    is_there && c_int::from(unsafe { (*address).sa_family }) == libc::AF_UNSPEC
}

unsafe fn address_of(address: *const sockaddr, len: socklen_t) -> Result<SocketAddr, Errno> {
    let len = len as usize;
    if address.is_null() || len < mem::size_of::<sockaddr>() {
        return Err(EINVAL);
    }
    match c_int::from(unsafe { (*address).sa_family }) {
        libc::AF_INET => {
            let found = unsafe { address.cast::<sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from(u32::from_be(found.sin_addr.s_addr));
            Ok((ip, u16::from_be(found.sin_port)).into())
        }
        libc::AF_INET6 if len >= mem::size_of::<sockaddr_in6>() => {
            let found = unsafe { address.cast::<sockaddr_in6>().read_unaligned() };
            let ip = Ipv6Addr::from(found.sin6_addr.s6_addr);
            Ok((ip, u16::from_be(found.sin6_port)).into())
        }
        _ => Err(libc::EAFNOSUPPORT),
    }
}

unsafe fn tell_address(address: SocketAddr, to: *mut sockaddr, len: *mut socklen_t) {
    if to.is_null() || len.is_null() {
        return;
    }
    let mut bytes = [0; mem::size_of::<sockaddr_in6>()];
    let used = match address {
        SocketAddr::V4(_) => mem::size_of::<sockaddr_in>(),
        SocketAddr::V6(_) => bytes.len(),
    };
    let family = match address {
        SocketAddr::V4(_) => libc::AF_INET,
        SocketAddr::V6(_) => libc::AF_INET6,
    };
    bytes[..2].copy_from_slice(&(family as u16).to_ne_bytes());
    bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
    match address {
        SocketAddr::V4(v4) => bytes[4..8].copy_from_slice(&v4.ip().octets()),
        SocketAddr::V6(v6) => bytes[8..24].copy_from_slice(&v6.ip().octets()),
    }
    unsafe {
        let told = used.min(*len as usize);
        ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast(), told);
        *len = used as socklen_t;
    }
}
