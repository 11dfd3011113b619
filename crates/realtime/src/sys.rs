//! The only file with unsafe code: system calls that no safe library offers, each as a safe
//! function.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::Pid;

fn checked(status: libc::c_int) -> io::Result<libc::c_int> {
    if status < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(status)
}

/// Moves the calling thread into a new network namespace.
pub(crate) fn unshare_network() -> io::Result<()> {
    unshare(libc::CLONE_NEWNET)
}

/// Creates a PID namespace for later children of the calling thread; the first child is its init.
/// The thread cannot start threads afterwards.
pub(crate) fn unshare_pids_of_children() -> io::Result<()> {
    unshare(libc::CLONE_NEWPID)
}

/// Moves the process, which must have one thread, into a new user namespace.
pub(crate) fn unshare_user() -> io::Result<()> {
    unshare(libc::CLONE_NEWUSER)
}

/// Gives the calling thread a mount table of its own.
pub(crate) fn unshare_mounts() -> io::Result<()> {
    unshare(libc::CLONE_NEWNS)
}

fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: none of the flags used here separates the descriptors of threads from each other.
    checked(unsafe { libc::unshare(flags) }).map(drop)
}

/// Starts a process that runs `action` and ends. `action` must not allocate, lock or panic, because
/// another thread of this process may hold a lock.
pub(crate) fn fork(action: impl FnOnce()) -> io::Result<Pid> {
    // SAFETY: the child makes only the system calls of the action.
    let process = checked(unsafe { libc::fork() })?;
    if process == 0 {
        action();
        // SAFETY: it ends the process without running any more of its code.
        unsafe { libc::_exit(0) };
    }
    Pid::from_raw(process).ok_or_else(|| io::Error::other("fork returned no process"))
}

/// Closes all descriptors of this process except for these, which are in ascending order. Only for a
/// process that ends without using others.
pub(crate) fn close_all_but(kept: &[RawFd]) {
    let mut from = 0;
    for next in kept.iter().copied().chain([RawFd::MAX]) {
        if from < next {
            // SAFETY: the process uses none of these descriptors any more.
            unsafe { libc::close_range(from as u32, (next - 1) as u32, 0) };
        }
        from = next.saturating_add(1);
    }
}

/// Runs `action` in the child between fork and exec. It must not allocate, lock or panic.
pub(crate) fn before_exec<F>(command: &mut Command, action: F)
where
    F: FnMut() -> io::Result<()> + Send + Sync + 'static,
{
    // SAFETY: the callers pass only system calls.
    unsafe { command.pre_exec(action) };
}

/// Makes the kernel kill the calling process when the thread that started it ends.
pub(crate) fn die_with_parent() -> io::Result<()> {
    // SAFETY: no pointers are passed.
    checked(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) }).map(drop)
}

/// Runs the calling thread before all ordinary threads (SCHED_FIFO, lowest real-time priority).
pub(crate) fn run_before_ordinary_threads() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: the pointer is to a live value of the right type.
    checked(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) })
        .map(drop)
}

/// Returns an ifreq with a device's name.
fn request_about(device: &str) -> io::Result<[u8; size_of::<libc::ifreq>()]> {
    let mut request = [0; size_of::<libc::ifreq>()];
    if device.len() >= libc::IFNAMSIZ {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    request[..device.len()].copy_from_slice(device.as_bytes());
    Ok(request)
}

/// Creates a TUN or TAP device from an open /dev/net/tun, in the namespace in which that was
/// opened.
pub(crate) fn attach_tun(tun: BorrowedFd<'_>, name: &str, flags: u16) -> io::Result<()> {
    let mut request = request_about(name)?;
    request[libc::IFNAMSIZ..libc::IFNAMSIZ + 2].copy_from_slice(&flags.to_ne_bytes());
    // SAFETY: TUNSETIFF reads and writes an ifreq, and the buffer has its size.
    checked(unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETIFF, request.as_mut_ptr()) })
        .map(drop)
}

/// Returns whether a device is up in the namespace of a socket.
pub(crate) fn is_device_up(socket: BorrowedFd<'_>, device: &str) -> io::Result<bool> {
    let mut request = request_about(device)?;
    // SAFETY: SIOCGIFFLAGS reads and writes an ifreq, and the buffer has its size.
    checked(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS, request.as_mut_ptr()) })?;
    let flags = [request[libc::IFNAMSIZ], request[libc::IFNAMSIZ + 1]];
    Ok(i32::from(u16::from_ne_bytes(flags)) & libc::IFF_UP != 0)
}

/// Makes a device in the namespace of a socket send packets as on a physical link: with checksums,
/// cut to size, and one by one.
pub(crate) fn turn_offloads_off(socket: BorrowedFd<'_>, device: &str) -> io::Result<()> {
    // From <linux/ethtool.h>: checksums of received and sent packets, scatter-gather, segmentation
    // of TCP and in general, receive offload.
    const TURN_ON_OR_OFF: [u32; 6] = [0x15, 0x17, 0x19, 0x1f, 0x24, 0x2c];
    const SIOCETHTOOL: libc::c_ulong = 0x8946;
    for command in TURN_ON_OR_OFF {
        let mut value = [command, 0];
        let mut request = request_about(device)?;
        let pointer = value.as_mut_ptr().expose_provenance().to_ne_bytes();
        request[libc::IFNAMSIZ..libc::IFNAMSIZ + pointer.len()].copy_from_slice(&pointer);
        // SAFETY: the buffer is an ifreq that points to an ethtool_value, which lives until the
        // call has ended.
        checked(unsafe {
            libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, request.as_mut_ptr())
        })?;
    }
    Ok(())
}

/// Binds a packet socket to all packets of a device, named by its index.
pub(crate) fn bind_to_device(socket: BorrowedFd<'_>, device: u32) -> io::Result<()> {
    // SAFETY: all fields are numbers, for which 0 is valid.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = device as i32;
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the pointer is to a live value of the length given.
    checked(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) })
        .map(drop)
}

/// Sets which super-packets (`TUN_F_*`) the reader of a TUN device takes; 0 is none.
pub(crate) fn set_tun_offload(tun: BorrowedFd<'_>, flags: u32) -> io::Result<()> {
    let flags = libc::c_ulong::from(flags);
    // SAFETY: the argument is a number.
    checked(unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETOFFLOAD, flags) }).map(drop)
}

/// Reads a socket option into `value`, whose content is passed to the kernel too. Returns the
/// length that the kernel reports.
pub(crate) fn socket_option(
    socket: BorrowedFd<'_>,
    level: i32,
    name: i32,
    value: &mut [u8],
) -> io::Result<usize> {
    let mut length = value.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to the buffer.
    checked(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            value.as_mut_ptr().cast(),
            &raw mut length,
        )
    })?;
    Ok(length as usize)
}

/// Gives a socket buffers of `bytes` for receiving and for sending. In a user namespace, the limits
/// of the machine hold (net.core.rmem_max, wmem_max).
pub(crate) fn set_buffers(socket: BorrowedFd<'_>, bytes: i32) -> io::Result<()> {
    let set = |name| set_socket_option(socket, libc::SOL_SOCKET, name, &bytes.to_ne_bytes());
    for (forced, limited) in [
        (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
        (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
    ] {
        set(forced).or_else(|_| set(limited))?;
    }
    Ok(())
}

/// Sets a socket option.
pub(crate) fn set_socket_option(
    socket: BorrowedFd<'_>,
    level: i32,
    name: i32,
    value: &[u8],
) -> io::Result<()> {
    // SAFETY: the kernel reads as many bytes as there are.
    checked(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            value.as_ptr().cast(),
            value.len() as libc::socklen_t,
        )
    })
    .map(drop)
}

/// Attaches a classic BPF program that selects a socket's packets (socket(7), SO_ATTACH_FILTER), in
/// place of the previous one.
pub(crate) fn attach_filter(
    socket: BorrowedFd<'_>,
    program: &[libc::sock_filter],
) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: the kernel reads a sock_fprog and the instructions that it points to, and writes
    // nothing.
    checked(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    })
    .map(drop)
}

/// Returns the MTU of a device in the namespace of a socket, in bytes.
pub(crate) fn mtu_bytes(socket: BorrowedFd<'_>, device: &str) -> io::Result<u32> {
    let mut request = request_about(device)?;
    // SAFETY: SIOCGIFMTU reads and writes an ifreq, and the buffer has its size.
    checked(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU, request.as_mut_ptr()) })?;
    let value = &request[libc::IFNAMSIZ..][..4];
    Ok(u32::from_ne_bytes([value[0], value[1], value[2], value[3]]))
}

/// Memory that the kernel fills with elements, and the size of each.
pub(crate) struct Elements<'a> {
    memory: &'a mut [u8],
    size: usize,
}

impl<'a> Elements<'a> {
    pub(crate) fn new(memory: &'a mut [u8], size: usize) -> Self {
        Self { memory, size }
    }

    fn count(&self) -> usize {
        self.memory.len() / self.size
    }
}

/// The lengths that the kernel returned.
pub(crate) struct FullInfo {
    /// Bytes of `struct mptcp_full_info`.
    pub(crate) full_length: usize,
    /// The number of subflows. Elements beyond the memory were not written.
    pub(crate) subflows: usize,
    /// Size of an element of the first kind, which is also the distance between elements.
    pub(crate) first_size: usize,
    /// The same for the second kind.
    pub(crate) second_size: usize,
}

/// Reads `MPTCP_FULL_INFO`: the connection into `full`, and for each subflow an element with its
/// addresses and one with its `tcp_info`.
pub(crate) fn mptcp_full_info(
    socket: BorrowedFd<'_>,
    full: &mut [u8],
    addresses: Elements<'_>,
    tcp: Elements<'_>,
) -> io::Result<FullInfo> {
    const SOL_MPTCP: libc::c_int = 284;
    const MPTCP_FULL_INFO: libc::c_int = 4;
    const HEADER: usize = 40;
    if full.len() < HEADER {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let count = addresses.count().min(tcp.count());
    let sizes = [0, tcp.size, 0, addresses.size, 0, count];
    for (place, size) in sizes.into_iter().enumerate() {
        full[4 * place..][..4].copy_from_slice(&(size as u32).to_ne_bytes());
    }
    let pointers = [addresses.memory.as_mut_ptr(), tcp.memory.as_mut_ptr()];
    for (place, pointer) in pointers.into_iter().enumerate() {
        full[24 + 8 * place..][..8]
            .copy_from_slice(&(pointer.expose_provenance() as u64).to_ne_bytes());
    }
    let mut length = full.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `full`. To each of the two memories whose
    // addresses are in it, the kernel writes at most `count` elements of the sizes that are in it.
    // They hold as many, and live until after the call.
    checked(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            SOL_MPTCP,
            MPTCP_FULL_INFO,
            full.as_mut_ptr().cast(),
            &raw mut length,
        )
    })?;
    let number = |place: usize| {
        let bytes = &full[4 * place..][..4];
        u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize
    };
    Ok(FullInfo {
        full_length: (length as usize).min(full.len()),
        subflows: number(4),
        first_size: number(3),
        second_size: number(1),
    })
}
