//! Opens a TCP connection to a closed port along every path whose entries match TCP: the reset
//! comes back along the path (RFC 9293, section 3.10.7.1).

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use experiment::time::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_error;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};

use super::echo::{ATTEMPTS, milliseconds};
use crate::{LiveError, NetworkNamespace};

/// A connection along one path.
pub(super) struct Knock {
    pub(super) path: String,
    /// The namespace of the host that opens it.
    pub(super) namespace: Arc<NetworkNamespace>,
    pub(super) source: IpAddr,
    pub(super) destination: SocketAddr,
    /// The shortest and the longest time that the description allows.
    pub(super) expected_ns: (Nanos, Nanos),
}

impl Knock {
    /// Knocks until a reset comes back within the described time.
    ///
    /// # Errors
    /// None does.
    pub(super) fn verify(&self) -> Result<(), LiveError> {
        let times = self.namespace.run(|| {
            let mut times = Vec::new();
            for _ in 0..ATTEMPTS {
                let time = self.attempt();
                times.extend(time.map_err(LiveError::while_(self.path.clone()))?);
                if times.last().is_some_and(|last| *last <= self.expected_ns.1) {
                    break;
                }
            }
            Ok(times)
        })?;
        let (shortest, longest) = self.expected_ns;
        let best = times.into_iter().min();
        if best.is_some_and(|best| (shortest..=longest).contains(&best)) {
            return Ok(());
        }
        let found = best.map_or("no answer".to_owned(), milliseconds);
        Err(LiveError::Verification(format!(
            "{}: a reset of TCP from {} should come within {} to {}, found {found}, in {ATTEMPTS} attempts",
            self.path,
            self.destination,
            milliseconds(shortest),
            milliseconds(longest)
        )))
    }

    /// Returns how long the reset took; `None` if none came in time.
    fn attempt(&self) -> Result<Option<Nanos>, Errno> {
        let family = match self.source {
            IpAddr::V4(_) => AddressFamily::INET,
            IpAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket: OwnedFd = socket_with(family, SocketType::STREAM, flags, None)?;
        bind(&socket, &SocketAddr::new(self.source, 0))?;
        let begun = Instant::now();
        match connect(&socket, &self.destination) {
            Err(Errno::INPROGRESS) => {}
            Err(Errno::CONNREFUSED) => return Ok(Some(begun.elapsed().as_nanos() as Nanos)),
            other => return other.map(|()| None),
        }
        let patience = Timespec::try_from(Duration::from_nanos(self.expected_ns.1));
        let patience = patience.map_err(|_| Errno::INVAL)?;
        let mut awaited = [PollFd::new(&socket, PollFlags::OUT)];
        poll(&mut awaited, Some(&patience))?;
        let took_ns = begun.elapsed().as_nanos() as Nanos;
        let is_reset = socket_error(&socket)? == Err(Errno::CONNREFUSED);
        Ok(is_reset.then_some(took_ns))
    }
}
